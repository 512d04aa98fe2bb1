"""Confluent's framing: a 0 byte, the schema's id in four bytes (big-endian), the Avro body."""

from __future__ import annotations

import struct

from services.codec.errors import DecodeError, EncodeError, Malformed

MAGIC = 0
FRAME_BYTES = 5
_HEAD = struct.Struct(">bI")
ID_MAX = 2**32 - 1


def frame(schema_id: int, body: bytes) -> bytes:
    """The message's value."""
    return frame_head(schema_id) + body


def frame_head(schema_id: int) -> bytes:
    if not 0 <= schema_id <= ID_MAX:
        raise EncodeError(f"a schema id is a whole number from 0 to {ID_MAX}, not {schema_id}")
    return _HEAD.pack(MAGIC, schema_id)


def unframe(value: bytes | memoryview | None) -> tuple[int, memoryview]:
    """The schema's id and the body, which is not copied."""
    if value is None or len(value) < FRAME_BYTES:
        raise DecodeError(Malformed.BAD_FRAME, 0, f"{0 if value is None else len(value)} bytes")
    magic, schema_id = _HEAD.unpack_from(value)
    if magic != MAGIC:
        raise DecodeError(Malformed.BAD_FRAME, 0, f"first byte {value[0]}")
    return schema_id, memoryview(value)[FRAME_BYTES:]
