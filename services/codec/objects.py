"""The slow path: one body to one Python value and back through fastavro, under the same strict rules.

For rare types (maps, enums, fixed, unions of many types, arrays of records) and for topics with few messages: punctuations,
dead letters, epoch markers. Also where schema resolution follows the reference library: `reader` differs from `schema`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import fastavro

from services.codec.errors import DecodeError, EncodeError, Malformed
from services.codec.strict import check
from services.codec.tree import Schema, expand, parse


class ObjectCodec:
    """Values of any schema that is not recursive, as fastavro shapes them (records are dicts)."""

    def __init__(self, schema: Schema, reader: Schema | None = None) -> None:
        self.tree = expand(schema)
        self._parsed = parse(schema)
        self._reader = parse(reader) if reader is not None else None

    def decode(self, body: bytes | memoryview) -> Any:
        """The value in these bytes (framing not included), or DecodeError."""
        body = bytes(body)
        check(self.tree, body)
        try:
            return fastavro.schemaless_reader(io.BytesIO(body), self._parsed, self._reader, return_record_name=True)
        except Exception as error:  # what the walk accepted and resolution refuses: a SchemaResolutionError and its kin
            raise DecodeError(Malformed.NOT_READ, 0, f"{type(error).__name__}: {error}") from error

    def decode_all(self, bodies: Sequence[bytes]) -> list[Any]:
        return [self.decode(body) for body in bodies]

    def encode(self, value: Any) -> bytes:
        """The body of a value, or EncodeError naming what does not fit."""
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parsed, value, strict=True)
        except (
            Exception
        ) as error:  # ValueError, TypeError, OverflowError, KeyError, ... by the value's kind of wrongness
            raise EncodeError(f"{self.tree.get('label', 'value')}: {type(error).__name__}: {error}") from error
        body = out.getvalue()
        try:
            check(
                self.tree, body
            )  # fastavro writes what our readers refuse: an int above 32 bits, a vector's wrong length
        except DecodeError as error:
            raise EncodeError(f"{self.tree.get('label', 'value')}: {error}") from error
        return body


def same(left: Any, right: Any) -> bool:
    """Equality of decoded values, NaN equal to NaN and -0.0 unequal to 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return (left == right and math.copysign(1, left) == math.copysign(1, right)) or (
            left != left and right != right
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(type(left) is type(right) and left == right)
