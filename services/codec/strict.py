"""The codec's rules in plain Python, for every Avro type: what bytes are a valid value of a schema.

The slow path checks with it before fastavro reads (which accepts overlong varints, wrong booleans and trailing bytes, and
allocates without bound); tests and `millrace verify codec` hold the compiled kernels against it, reason and offset alike.
"""

from __future__ import annotations

from typing import Any

from services.codec.errors import DecodeError, Malformed
from services.codec.plan import EMPTY_ITEMS_MAX

_SIZES = {"float": 4, "double": 8}


def check(tree: dict[str, Any], body: bytes) -> None:
    """Raises DecodeError unless `body` is exactly one value of the expanded schema."""
    walker = _Walker(body)
    walker.value(tree)
    if walker.position != len(body):
        raise DecodeError(Malformed.TRAILING_BYTES, walker.position)


def bytes_min(node: dict[str, Any]) -> int:
    """The fewest bytes a value can take."""
    kind = node["type"]
    if kind == "null":
        return 0
    if kind == "record":
        return sum(bytes_min(field["type"]) for field in node["fields"])
    if kind == "union":
        return 1 + min((bytes_min(branch) for branch in node["branches"]), default=0)
    if kind == "array" and "length" in node:
        return 2 + int(node["length"]) * bytes_min(node["items"])
    return int(node["size"]) if kind == "fixed" else _SIZES.get(kind, 1)


class _Walker:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.position = 0

    def value(self, node: dict[str, Any]) -> None:
        kind, start = node["type"], self.position
        if kind in ("int", "long"):
            number = self.number()
            if kind == "int" and not -(2**31) <= number < 2**31:
                raise DecodeError(Malformed.NUMBER_OUT_OF_RANGE, start)
        elif kind == "boolean":
            self.skip(1, start)
            if self.body[start] > 1:
                raise DecodeError(Malformed.BAD_BOOLEAN, start)
        elif kind in _SIZES or kind == "fixed":
            self.skip(_SIZES.get(kind) or node["size"], start)
        elif kind in ("string", "bytes"):
            self.text(kind, start)
        elif kind == "record":
            for field in node["fields"]:
                self.value(field["type"])
        elif kind in ("union", "enum"):
            number = self.number()
            choices = node["branches"] if kind == "union" else node["symbols"]
            if not 0 <= number < len(choices):
                raise DecodeError(Malformed.BAD_BRANCH, start)
            if kind == "union":
                self.value(choices[number])
        elif kind in ("array", "map"):
            self.blocks(node, start)

    def text(self, kind: str, start: int) -> None:
        size = self.number()
        if size < 0:
            raise DecodeError(Malformed.NEGATIVE_LENGTH, start)
        begin = self.position
        self.skip(size, start)
        if kind == "string":
            try:
                self.body[begin : self.position].decode("utf-8")
            except UnicodeDecodeError:
                raise DecodeError(Malformed.BAD_UTF8, start) from None

    def blocks(self, node: dict[str, Any], start: int) -> None:
        total = 0
        while (count := self.block_count(node, total)) is not None:
            number, limit, block = count
            for _ in range(number):
                if node["type"] == "map":
                    self.text("string", self.position)
                self.value(node["items"] if node["type"] == "array" else node["values"])
            if limit is not None and self.position != limit:
                raise DecodeError(Malformed.BAD_BLOCK_SIZE, block)
            total += number
        if node.get("length", total) != total:
            raise DecodeError(Malformed.WRONG_VECTOR_LENGTH, start)

    def block_count(self, node: dict[str, Any], total: int) -> tuple[int, int | None, int] | None:
        block, limit = self.position, None
        count = self.number()
        if count == 0:
            return None
        if count < 0:
            start = self.position
            size = self.number()
            if size < 0:
                raise DecodeError(Malformed.NEGATIVE_LENGTH, start)
            if size > len(self.body) - self.position:
                raise DecodeError(Malformed.TRUNCATED, start)
            limit, count = self.position + size, -count
        least = bytes_min(node["items"]) if node["type"] == "array" else 1 + bytes_min(node["values"])
        most = (len(self.body) - self.position) // least if least else EMPTY_ITEMS_MAX - total
        if count > most:
            raise DecodeError(Malformed.ABSURD_COUNT, block)
        return count, limit, block

    def number(self) -> int:
        start, bits = self.position, 0
        for place in range(10):
            if start + place >= len(self.body):
                raise DecodeError(Malformed.TRUNCATED, start)
            byte = self.body[start + place]
            bits |= (byte & 127) << 7 * place
            if byte < 128:
                if byte == 0 and place:
                    raise DecodeError(Malformed.OVERLONG_VARINT, start)
                if bits >> 64:
                    raise DecodeError(Malformed.NUMBER_OUT_OF_RANGE, start)
                self.position = start + place + 1
                return (bits >> 1) ^ -(bits & 1)
        raise DecodeError(Malformed.OVERLONG_VARINT, start)

    def skip(self, size: int, start: int) -> None:
        if size > len(self.body) - self.position:
            raise DecodeError(Malformed.TRUNCATED, start)
        self.position += size
