"""Chunks: a header and many events of several record types, as one payload; the hot path between broker and engine.

Decoding walks the bytes twice (`decoder_source.py`) and allocates at most `MEMORY_FACTOR` bytes for each byte of payload, plus
a constant for each column: a value of one byte becomes at most an int64, or an offset, with a mark for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.codec.columns import Column, NullableColumn, column_items, empty_arrays
from services.codec.compiled import compile_kernels
from services.codec.decoder_source import decoder_source
from services.codec.encoder_source import encoder_source
from services.codec.errors import DecodeError, EncodeError, Malformed
from services.codec.layout import RecordLayout, array_type, layout_of
from services.codec.plan import ChunkPlan
from services.codec.rows import checked_arrays, columns_of, room_for

MEMORY_FACTOR = 16
_BYTES = array_type(np.uint8, readonly=True)
_KINDS = array_type(np.uint8)
_COUNTS = array_type(np.int64)


@dataclass(frozen=True)
class Decoded:
    """A chunk as columns. `kinds` has the record type of each item, a position among `columns`, in the order they came."""

    header: dict[str, Any]
    columns: dict[str, dict[str, Column]]
    rows: dict[str, int]
    kinds: NDArray[np.uint8]


class ChunkCodec:
    """The compiled codec of a chunk. Kernels are compiled (or loaded) when first needed; thread-safe."""

    def __init__(self, plan: ChunkPlan) -> None:
        self.plan = plan
        self._layout = layout_of(plan)

    @cached_property
    def _decoder(self) -> dict[str, Any]:
        return compile_kernels(
            f"the decoder of {self.plan.name}",
            decoder_source(self.plan, self._layout),
            {
                "check": (_BYTES, _COUNTS, _COUNTS),
                "fill": (_BYTES, _KINDS, *self._layout.array_types(readonly=False)),
            },
        )

    @cached_property
    def _encoder(self) -> dict[str, Any]:
        return compile_kernels(
            f"the encoder of {self.plan.name}",
            encoder_source(self.plan, self._layout),
            {"write": (_KINDS, array_type(np.uint8, readonly=True), *self._layout.array_types(readonly=True))},
        )

    def decode(self, body: bytes | bytearray | memoryview) -> Decoded:
        """The chunk in these bytes (framing not included), or DecodeError."""
        header, found = self.decode_columns(body)
        found.header.update(header_values(header))
        return found

    def decode_columns(self, body: bytes | bytearray | memoryview) -> tuple[dict[str, Column], Decoded]:
        """The header as columns of one row, and the rest."""
        buffer = np.frombuffer(body, np.uint8)
        counts, where = np.zeros(self._layout.slots, np.int64), np.zeros(2, np.int64)
        code = self._decoder["check"](buffer, counts, where)
        if code:
            raise DecodeError(Malformed(code), int(where[0]))
        rows = [int(counts[record.rows_slot]) for record in self._layout.records]
        kinds = np.empty(sum(rows[1:]), np.uint8)
        arrays = [
            [empty_arrays(each, counts, count) for each in record.leaves]
            for record, count in zip(self._layout.records, rows, strict=True)
        ]
        self._decoder["fill"](buffer, kinds, *(array for group in arrays for leaf in group for array in leaf))
        header, *columns = [
            columns_of(record, group) for record, group in zip(self._layout.records, arrays, strict=True)
        ]
        names = [record.name for record in self.plan.records]
        by_name, counted = dict(zip(names, columns, strict=True)), dict(zip(names, rows[1:], strict=True))
        return header, Decoded({}, by_name, counted, kinds)

    def encode(
        self,
        header: Mapping[str, Any],
        columns: Mapping[str, Mapping[str, Any]],
        kinds: NDArray[np.integer[Any]] | None = None,
    ) -> bytes:
        """The body of a chunk. `kinds` gives the record type of each item, a position among the schema's record types
        (ChunkPlan.records), in the order in which they are to be written; without it types follow each other whole."""
        first, *records = self._layout.records
        unknown = set(columns) - {record.plan.name for record in records}
        if unknown:
            known = ", ".join(record.plan.name for record in records)
            raise EncodeError(f"{self.plan.name} has no record type {', '.join(sorted(unknown))}; it has {known}")
        given = [columns.get(record.plan.name, {}) for record in records]
        rows = self._row_counts(given, kinds)
        if kinds is None:
            kinds = np.repeat(np.arange(len(records), dtype=np.uint8), rows)
        one = {name: _one(value) for name, value in header.items()}
        groups = [checked_arrays(first, one, 1)]
        for record, each, count in zip(records, given, rows, strict=True):
            groups.append(_none(record) if not each and not count else checked_arrays(record, each, count))
        room = 16 + len(kinds) + sum(
            room_for(record, group, count)
            for record, group, count in zip(self._layout.records, groups, [1, *rows], strict=True)
        )  # fmt: skip
        out = np.empty(room, np.uint8)
        order = np.ascontiguousarray(kinds, np.uint8)
        size = self._encoder["write"](out, order, *(array for group in groups for leaf in group for array in leaf))
        return out[:size].tobytes()

    def _row_counts(self, given: list[Mapping[str, Any]], kinds: NDArray[Any] | None) -> list[int]:
        counts = [len(next(iter(columns.values()))) if columns else 0 for columns in given]
        if kinds is None:
            return counts
        if kinds.size and (kinds.min() < 0 or kinds.max() >= len(given)):
            raise EncodeError(f"kinds are from 0 to {len(given) - 1}, found {kinds.min()} to {kinds.max()}")
        wanted = np.bincount(kinds, minlength=len(given)).tolist() if kinds.size else [0] * len(given)
        for record, columns, count, want in zip(self.plan.records, given, counts, wanted, strict=True):
            if columns and count != want:
                raise EncodeError(f"kinds has {want} rows of {record.name}, its columns have {count}")
        return [int(want) for want in wanted]


def header_values(columns: Mapping[str, Column]) -> dict[str, Any]:
    """A header's values, of its columns of one row."""
    return {name: column_items(column)[0] for name, column in columns.items()}


def _one(value: Any) -> Any:
    """A header's value as a column of one row."""
    if value is None:
        return NullableColumn(np.zeros(1, np.int64), np.zeros(1, np.bool_))  # of whatever type: see arrays_of
    if isinstance(value, str | bytes):
        return [value]
    return np.array([value])


def _none(record: RecordLayout) -> list[list[NDArray[Any]]]:
    """No rows of a record type."""
    counts = np.zeros(1 + max((max(each.items_slot, each.bytes_slot) for each in record.leaves), default=0), np.int64)
    return [empty_arrays(each, counts, 0) for each in record.leaves]
