"""Valid payloads, and what is done to them: the inputs of `millrace verify codec`.

All randomness comes from one generator, drawn in blocks, so that a seed gives the same inputs and a million take seconds.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import numpy as np

from schemas import load
from services.codec.tree import expand, parse

PAYLOADS = 256  # valid ones of each schema, to be broken again and again
BLOCK = 4096  # inputs drawn at once
DRAWS = 8  # random numbers an input may use

_LONGS = ("a", "b", "c", "d")


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_HEADER = {"source": "long", "epoch": "long", "chunk": "long"}
_NUMBERS = _record("Numbers", {"seq": "long", "ts": "long"} | dict.fromkeys(_LONGS, "long"))
_MIXED = _record(
    "Mixed",
    {
        "seq": "long", "flag": "boolean", "small": "int", "ratio": "float", "share": "double", "name": "string",
        "blob": "bytes", "nothing": "null", "maybe": ["null", "long"], "perhaps": ["string", "null"],
        "unsure": ["null", "boolean"], "longs": _array("long"), "names": _array("string"), "flags": _array("boolean"),
        "blobs": _array("bytes"), "inner": _record("Inner", {"x": "int", "deeper": _record("Deeper", {"y": ["null", "double"]})}),
        "place": {"type": "array", "items": "double", "millrace.length": 3},
    },
)  # fmt: skip
_RARE = _record(
    "Rare",
    {
        "weights": {"type": "map", "values": "double"}, "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
        "digest": {"type": "fixed", "name": "Digest", "size": 4},
        "either": ["null", "long", "string", _record("One", {"x": "int"})],
        "table": _array(_array("int")), "nulls": _array("null"), "empties": _array(_record("Empty", {})),
    },
)  # fmt: skip

SCHEMAS: dict[str, Any] = {
    "numbers": _record("NumberChunk", _HEADER | {"events": _array(_NUMBERS)}),
    "mixed": _record("MixedChunk", _HEADER | {"events": _array([_NUMBERS, _MIXED, _record("Empty", {})])}),
    "failed": load("failed"),
    "rare": _RARE,
    "epoch-marker": load("epoch-marker"),
}


def random_value(node: dict[str, Any], draw: np.random.Generator) -> Any:
    """A value of an expanded schema, small and large numbers alike."""
    kind = node["type"]
    if kind == "record":
        return {field["name"]: random_value(field["type"], draw) for field in node["fields"]}
    if kind == "union":
        branch = node["branches"][draw.integers(len(node["branches"]))]
        value = random_value(branch, draw)
        return (branch["name"], value) if branch["type"] == "record" else value
    if kind in ("array", "map"):
        count = node.get("length", int(draw.integers(0, 4)))
        if kind == "map":
            return {_text(draw): random_value(node["values"], draw) for _ in range(count)}
        return [random_value(node["items"], draw) for _ in range(count)]
    if kind in ("int", "long"):
        bits = int(draw.integers(0, 32 if kind == "int" else 64))
        return int(draw.integers(-(2**bits) if bits else 0, 2**bits, endpoint=False)) if bits < 63 else int(
            draw.integers(-(2**63), 2**63, endpoint=False)
        )  # fmt: skip
    if kind in ("float", "double"):
        value = float(draw.choice([0.0, -0.0, 1.5, float("inf"), float("nan"), draw.normal()]))
        return float(np.float32(value)) if kind == "float" else value
    if kind == "enum":
        return node["symbols"][draw.integers(len(node["symbols"]))]
    simple: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "boolean": lambda: bool(draw.integers(2)),
        "string": lambda: _text(draw),
        "bytes": lambda: draw.bytes(int(draw.integers(0, 6))),
        "fixed": lambda: draw.bytes(node["size"]),
    }
    return simple[kind]()


def _text(draw: np.random.Generator) -> str:
    return "".join(draw.choice(list("ab\0é漢😀"), draw.integers(0, 5)))


def valid_payloads(name: str, draw: np.random.Generator) -> list[bytes]:
    """Bodies as fastavro writes them."""
    tree, parsed, made = expand(SCHEMAS[name]), parse(SCHEMAS[name]), []
    for _ in range(PAYLOADS):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, random_value(tree, draw))
        made.append(out.getvalue())
    return made


def mutated(payloads: list[bytes], count: int, draw: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """`count` inputs and what was done to each; one to three mutations, one in 64 left as it is."""
    while count > 0:
        rows = draw.integers(0, 1 << 32, (min(BLOCK, count), 4, DRAWS), np.uint64)
        yield from _block(payloads, rows.tolist())
        count -= len(rows)


def _block(payloads: list[bytes], rows: Any) -> Iterator[tuple[str, bytes]]:
    for choice, *draws in rows:
        body, name = payloads[choice[0] % len(payloads)], "none"
        if choice[1] % 64:
            for draws_of_one in draws[: 1 + (choice[2] % 8 == 0) + (choice[3] % 16 == 0)]:
                name, mutate = MUTATIONS[draws_of_one[0] % len(MUTATIONS)]
                body = mutate(body, draws_of_one, payloads)
        yield name, body


def _flip(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    if not body:
        return body
    changed = bytearray(body)
    for number in draws[2 : 3 + draws[1] % 4]:
        changed[number // 8 % len(body)] ^= 1 << number % 8
    return bytes(changed)


def _truncate(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    return body[: draws[1] % (len(body) + 1)]


def _splice(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    other = payloads[draws[1] % len(payloads)]
    return body[: draws[2] % (len(body) + 1)] + other[draws[3] % (len(other) + 1) :]


def _insert(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    at = draws[1] % (len(body) + 1)
    return body[:at] + draws[2].to_bytes(4, "little")[: 1 + draws[3] % 4] + body[at:]


def _delete(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    at = draws[1] % (len(body) + 1)
    return body[:at] + body[at + 1 + draws[2] % 4 :]


def _blow_up(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    """A number becomes a huge one: a length, a count or an index."""
    at = draws[1] % (len(body) + 1)
    return body[:at] + _HUGE[draws[2] % len(_HUGE)] + body[at + 1 :]


def _overlong(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    """A byte that ends a number is made to go on, into zeros."""
    if not body:
        return body
    at = draws[1] % len(body)
    return body[:at] + bytes([body[at] | 128]) + b"\x80" * (draws[2] % 10) + b"\0" + body[at + 1 :]


def _block_of_size(body: bytes, draws: list[int], payloads: list[bytes]) -> bytes:
    """A count becomes its negative with a byte size after it, often the wrong one."""
    if not body:
        return body
    at = draws[1] % len(body)
    return body[:at] + bytes([body[at] | 1, 2 * (draws[2] % 64)]) + body[at + 1 :]


def _varint(number: int) -> bytes:
    bits, made = (number << 1) ^ (number >> 63), b""
    bits &= 2**64 - 1
    while bits >= 128:
        made, bits = made + bytes([bits & 127 | 128]), bits >> 7
    return made + bytes([bits])


_HUGE = [_varint(number) for number in (1000, 2**20, 2**31, 2**40, 2**62, 2**63 - 1, -1, -3, -(2**31), -(2**63))]
_HUGE += [b"\xff" * 9 + b"\x02", b"\xff" * 10, b"\xff" * 12]
Mutate = Callable[[bytes, list[int], list[bytes]], bytes]
MUTATIONS: list[tuple[str, Mutate]] = [
    ("flip", _flip), ("truncate", _truncate), ("splice", _splice), ("insert", _insert), ("delete", _delete),
    ("blow up", _blow_up), ("overlong", _overlong), ("block size", _block_of_size),
]  # fmt: skip
