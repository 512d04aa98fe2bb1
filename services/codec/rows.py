"""One record a message: bodies to columns and back, many messages in one call.

>>> codec = RowCodec(plan)
>>> columns = codec.decode([body, body])
>>> codec.encode(columns, rows=2).tolist()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.codec.columns import BytesColumn, Column, arrays_of, column_of, empty_arrays
from services.codec.compiled import compile_kernels
from services.codec.decoder_source import decoder_source
from services.codec.encoder_source import encoder_source
from services.codec.errors import DecodeError, EncodeError, Malformed
from services.codec.layout import RecordLayout, array_type, layout_of
from services.codec.plan import BYTES_MAX, RecordPlan

_BYTES = array_type(np.uint8, readonly=True)
_NUMBERS = array_type(np.int64, readonly=True)
_COUNTS = array_type(np.int64)


class RowCodec:
    """The compiled codec of one record type. Kernels are compiled (or loaded) when first needed; thread-safe."""

    def __init__(self, plan: RecordPlan) -> None:
        self.plan = plan
        self._layout = layout_of(plan)

    @cached_property
    def _decoder(self) -> dict[str, Any]:
        return compile_kernels(
            f"the decoder of {self.plan.name}",
            decoder_source(self.plan, self._layout),
            {
                "check": (_BYTES, _NUMBERS, _COUNTS, _COUNTS),
                "fill": (_BYTES, _NUMBERS, *self._layout.array_types(readonly=False)),
            },
        )

    @cached_property
    def _encoder(self) -> dict[str, Any]:
        return compile_kernels(
            f"the encoder of {self.plan.name}",
            encoder_source(self.plan, self._layout),
            {"write": (array_type(np.uint8), _COUNTS, *self._layout.array_types(readonly=True))},
        )

    def decode(self, bodies: Sequence[bytes] | BytesColumn) -> dict[str, Column]:
        """The columns of these messages, one row each. A DecodeError names the first that is malformed in `message`."""
        given = bodies if isinstance(bodies, BytesColumn) else BytesColumn.from_items(bodies)
        return self.decode_buffer(given.data, given.offsets)

    def decode_buffer(self, buffer: NDArray[np.uint8], bounds: NDArray[np.int64]) -> dict[str, Column]:
        """The same of bodies laid end to end."""
        counts, where = np.zeros(self._layout.slots, np.int64), np.zeros(2, np.int64)
        code = self._decoder["check"](buffer, bounds, counts, where)
        if code:
            message = int(where[1])
            error = DecodeError(Malformed(code), int(where[0] - bounds[message]))
            error.message = message
            raise error
        record = self._layout.records[0]
        arrays = [empty_arrays(each, counts, bounds.size - 1) for each in record.leaves]
        self._decoder["fill"](buffer, bounds, *(array for group in arrays for array in group))
        return columns_of(record, arrays)

    def malformed(self, bodies: Sequence[bytes]) -> list[DecodeError]:
        """Every message that is malformed, each looked at once."""
        given = BytesColumn.from_items(bodies)
        found: list[DecodeError] = []
        first = 0
        while first < len(bodies):
            counts, where = np.zeros(self._layout.slots, np.int64), np.zeros(2, np.int64)
            code = self._decoder["check"](given.data, given.offsets[first:], counts, where)
            if not code:
                break
            message = first + int(where[1])
            error = DecodeError(Malformed(code), int(where[0] - given.offsets[message]))
            error.message = message
            found.append(error)
            first = message + 1
        return found

    def encode(self, columns: Mapping[str, Any], rows: int | None = None) -> BytesColumn:
        """One body a row. `rows` is needed only where there is no column to count."""
        record = self._layout.records[0]
        if rows is None:
            rows = row_count(record, columns)
        arrays = checked_arrays(record, columns, rows)
        out, bounds = np.empty(room_for(record, arrays, rows), np.uint8), np.zeros(rows + 1, np.int64)
        size = self._encoder["write"](out, bounds, *(array for group in arrays for array in group))
        return BytesColumn(out[:size].copy(), bounds)


def columns_of(record: RecordLayout, arrays: list[list[NDArray[Any]]]) -> dict[str, Column]:
    pairs = zip(record.leaves, arrays, strict=True)
    return {each.leaf.name: column_of(each, group) for each, group in pairs if each.leaf.kind != "null"}


def row_count(record: RecordLayout, columns: Mapping[str, Any]) -> int:
    for each in record.leaves:
        if each.leaf.kind != "null" and each.leaf.name in columns:
            return len(columns[each.leaf.name])
    raise EncodeError(f"{record.plan.name}: no column given; say how many rows there are")


def checked_arrays(record: RecordLayout, columns: Mapping[str, Any], rows: int) -> list[list[NDArray[Any]]]:
    """Every column of a record as the arrays that its kernel trusts."""
    known = record.field_names
    if not columns.keys() <= known:
        unknown = columns.keys() - known
        raise EncodeError(f"{record.plan.name} has no field {', '.join(sorted(map(repr, unknown)))}")
    try:
        return [arrays_of(each, columns.get(each.leaf.name), rows) for each in record.leaves]
    except EncodeError as error:
        raise EncodeError(f"{record.plan.name}: {error}") from error


def room_for(record: RecordLayout, arrays: list[list[NDArray[Any]]], rows: int) -> int:
    """Bytes that these rows take at most."""
    room = rows * record.plan.bytes_max
    for number in record.varying:
        each, group = record.leaves[number], arrays[number]
        given = dict(zip(each.roles, group, strict=True))
        if each.leaf.is_array:
            items = given["offsets"].size - 1 if each.leaf.is_text else given["values"].size
            room += int(items) * BYTES_MAX[each.leaf.kind]
        if each.leaf.is_text:
            room += int(given["data"].size)
    return room
