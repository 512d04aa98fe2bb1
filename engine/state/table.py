"""A table: keys, their fixed-size records, and which rows are live.

Invariants:
- A row that is not live holds the default record (kernels may break this inside an epoch for rows that they hand to
  `drop_rows` at its end).
- A key may be in the index without being live: planned but not committed yet, or deleted while the window history still
  holds versions of it. Only live keys count.
- A row's memory is its undo mark (eight bytes) and its record, side by side: whoever changes a record in place has both in
  one cache line. `records` and `marks` are views of it.
- `records`, `live` and the row columns all have `row_capacity` rows. Growing and dropping replace them: fetch arrays
  and addresses after `reserve_rows`, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from engine.errors import DeclarationError, InputError, InvariantError
from engine.state.columns import StringColumn
from engine.state.history import History
from engine.state.int_kernels import live_prefix, within
from engine.state.key_encoding import EncodedKeys, KeyTypes, encode_keys, encode_python_keys
from engine.state.key_index import KeyIndex
from engine.state.record_fields import field_columns, field_lists
from engine.state.rows import RowAllocator
from engine.state.undo import UndoLog
from engine.state.undo_kernels import copy_rows, copy_touched, move_entries, read_stable, roll_back

SMALLEST_ROW_CAPACITY = 64
MARK_BYTES = 8
# Memory is given back once the rows in use would fit into this share of the capacity; growth doubles, so a table that
# stays around one size neither grows nor shrinks.
SHRINK_BELOW = 1 / 8
# Rows that the end of an epoch looks at, at most, to let `dense` and `live_until` reach further: were the lowest key deleted
# and made again in every epoch, they would all be looked at every time.
EXTENDED_AN_EPOCH = 1 << 16


class Table:
    """See the module's docstring; rows are what planning and execution use, keys are for the outside."""

    def __init__(
        self, name: str, key_types: KeyTypes, record_dtype: np.dtype[Any], default: np.void | bytes, create: bool
    ) -> None:
        default_bytes = default if isinstance(default, bytes) else default.tobytes()
        if record_dtype.itemsize % 8 or len(default_bytes) != record_dtype.itemsize:
            raise DeclarationError(
                f"table {name!r}: a record's size is a multiple of 8 and the default's too, "
                f"found {record_dtype.itemsize} and {len(default_bytes)} bytes"
            )
        self.name = name
        self.key_types = key_types
        self.record_dtype = record_dtype
        self.create = create
        self.index = KeyIndex(key_types)
        self.allocator = RowAllocator()
        self._memory: NDArray[np.uint8] = np.zeros((0, MARK_BYTES + record_dtype.itemsize), dtype=np.uint8)
        self.live: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self._default: NDArray[np.uint8] = np.frombuffer(default_bytes, dtype=np.uint8)
        self._row_columns: dict[str, NDArray[Any]] = {}
        self._row_fills: dict[str, Any] = {}
        self._held: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)  # 1: deleted, kept for the history's sake
        self.undo = UndoLog(record_dtype.itemsize)
        self.dense = 0  # every integer key below is live and its row is the key itself
        self.live_until = 0  # every row below is live
        self.deletes = True  # whether transactions may delete from it
        self._resize(SMALLEST_ROW_CAPACITY)

    def __len__(self) -> int:
        """How many keys are live."""
        return int(np.count_nonzero(self.live[: self.allocator.high_water]))

    @property
    def row_capacity(self) -> int:
        return int(self.live.size)

    @property
    def default(self) -> NDArray[np.uint8]:
        return self._default

    @property
    def records(self) -> NDArray[np.uint8]:
        """The records' bytes, one row each; a view."""
        return self._memory[:, MARK_BYTES:]

    @property
    def marks(self) -> NDArray[np.int64]:
        """The rows' undo marks; a view."""
        return self._memory[:, :MARK_BYTES].view(np.int64)[:, 0]

    @property
    def row_bytes(self) -> int:
        """From one row's record to the next one's."""
        return int(self._memory.shape[1])

    @property
    def address(self) -> int:
        """Of the first record."""
        return int(self._memory.ctypes.data) + MARK_BYTES

    @property
    def live_address(self) -> int:
        return int(self.live.ctypes.data)

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self._row_columns.values())
        rows = self._memory.nbytes + self.live.nbytes + columns + self.allocator.free_rows.nbytes
        return self.index.nbytes + rows + self.undo.nbytes

    # Rows

    def reserve_rows(self, count: int) -> None:
        """Room for `count` new keys in every array and in the index, so that a kernel can add them."""
        needed = self.allocator.high_water + max(0, count - self.allocator.free_count)
        self._grow_to(max(needed, self.index.row_capacity))
        self.index.reserve(count)

    def lookup_or_insert(self, keys: EncodedKeys) -> NDArray[np.int64]:
        """The row of each key; an unknown key gets a row that is not live yet and holds the default record."""
        rows = self.index.lookup_or_insert(keys, self.allocator)
        self._grow_to(self.index.row_capacity)
        return rows

    def drop_rows(self, rows: NDArray[np.int64], history: History | None = None) -> None:
        """Make `rows` not live, forget their keys and free the rows.

        A row whose versions `history` still holds keeps its key and its number until `release_rows`.
        """
        rows = np.unique(np.asarray(rows, dtype=np.int64))
        if rows.size and (rows[0] < 0 or rows[-1] >= self.allocator.high_water):
            raise InvariantError(f"table {self.name!r}: dropped row {rows[0]} or {rows[-1]} was never handed out")
        if (self.index.lookup(self.index.encoded_keys_of(rows)) != rows).any():
            raise InvariantError(f"table {self.name!r}: a row was dropped twice")
        self.live[rows] = 0
        self.records[rows] = self._default
        if rows.size:
            self.dense = min(self.dense, int(rows[0]))
            self.live_until = min(self.live_until, int(rows[0]))
        for name, column in self._row_columns.items():
            column[rows] = self._row_fills[name]
        if history is not None:
            held = history.rows_in_use(rows)
            self._held[rows[held]] = 1
            rows = rows[~held]
        self._free(rows)

    def release_rows(self, rows: NDArray[np.int64]) -> None:
        """Free the deleted ones among `rows`, which the history let go: what `History.prune` returned."""
        held = rows[self._held[rows] != 0]
        self._held[held] = 0
        self._free(held[self.live[held] == 0])  # a live one was created again meanwhile

    def _free(self, rows: NDArray[np.int64]) -> None:
        self._held[rows] = 0
        self.index.remove(rows)
        self.allocator.free(rows)
        used = self.allocator.high_water - self.allocator.free_count
        if self.row_capacity > SMALLEST_ROW_CAPACITY and used < SHRINK_BELOW * self.row_capacity:
            self._return_memory()

    def _return_memory(self) -> None:
        """Shrink the arrays as far as the highest row in use allows: rows never move."""
        self.allocator.trim()
        capacity = max(SMALLEST_ROW_CAPACITY, 2 * self.allocator.high_water)
        if 2 * capacity <= self.row_capacity:
            self._resize(capacity)

    def _grow_to(self, row_count: int) -> None:
        if row_count > self.row_capacity:
            self._resize(max(row_count, 2 * self.row_capacity))

    def _resize(self, capacity: int) -> None:
        kept = min(capacity, self.row_capacity)
        memory = np.zeros((capacity, self.row_bytes), dtype=np.uint8)
        memory[:kept] = self._memory[:kept]
        if self._default.any():  # otherwise the fresh pages are right as they are, and cost nothing until touched
            memory[kept:, MARK_BYTES:] = self._default
        live, held = np.zeros(capacity, dtype=np.uint8), np.zeros(capacity, dtype=np.uint8)
        live[:kept], held[:kept] = self.live[:kept], self._held[:kept]
        self._memory, self.live, self._held = memory, live, held
        for name, old in self._row_columns.items():
            column = np.full(capacity, self._row_fills[name], dtype=old.dtype)
            column[:kept] = old[:kept]
            self._row_columns[name] = column
        self.index.resize_rows(capacity)

    def add_row_column(self, name: str, dtype: DTypeLike, fill: int) -> None:
        """One more number per row (a planner's last writer, say); it grows with the table and starts as `fill`."""
        self._row_fills[name] = fill
        self._row_columns[name] = np.full(self.row_capacity, fill, dtype=dtype)

    def row_column(self, name: str) -> NDArray[Any]:
        return self._row_columns[name]

    # Keys and values

    def encode(self, keys: EncodedKeys | Sequence[Any] | NDArray[Any] | StringColumn) -> EncodedKeys:
        """Python keys, a column (single keys) or a tuple of columns (tuple keys), checked."""
        if isinstance(keys, EncodedKeys):
            return keys
        if isinstance(keys, np.ndarray | StringColumn):
            return encode_keys(self.key_types, [keys])
        if isinstance(keys, tuple) and keys and all(isinstance(part, np.ndarray | StringColumn) for part in keys):
            return encode_keys(self.key_types, keys)
        return encode_python_keys(self.key_types, keys)

    def load(
        self, keys: EncodedKeys | Sequence[Any] | NDArray[Any] | StringColumn, values: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Add many keys with their values; a field that is not given takes the default. Nothing changes on an error."""
        encoded = self.encode(keys)
        columns = field_columns(self.name, self.record_dtype, values, len(encoded))
        known = self.index.lookup(encoded)
        if (self.live[known[known >= 0]] != 0).any():
            existing = encoded.take(np.flatnonzero((known >= 0) & (self.live[known] != 0))[:1])
            raise self._duplicate(int(self.index.lookup(existing)[0]), "is in the table already")
        rows = self.lookup_or_insert(encoded)
        ordered = np.sort(rows)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            error = self._duplicate(int(repeated[0]), "appears more than once")
            self._free(np.unique(rows[known < 0]))
            raise error
        view = self.record_view()
        for name, column in columns.items():
            view[name][rows] = column
        self.live[rows] = 1
        self.extend_dense()
        return rows

    def _duplicate(self, row: int, what: str) -> InputError:
        return InputError(f"table {self.name!r}: key {self.index.key_of(row)!r} {what}; load each key once")

    def record_view(self) -> NDArray[Any]:
        """All records as one structured array over the same memory."""
        return self.records.view(self.record_dtype)[:, 0]

    def get_records(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of the records of `rows` as a structured array."""
        copied = np.empty((rows.size, self.row_bytes - MARK_BYTES), np.uint8)
        copy_rows(self._memory.view(np.int64), np.ascontiguousarray(rows, np.int64), copied.view(np.int64))
        return copied.view(self.record_dtype).reshape(-1)

    def keys_of(self, rows: NDArray[np.int64]) -> EncodedKeys:
        """The keys of `rows`; dense keys are their rows."""
        if self.dense and within(rows, self.dense):
            return EncodedKeys.of_integers(rows)
        return self.index.encoded_keys_of(rows)

    def read_rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """Liveness and records of `rows` as of the last finished epoch, also while one changes the table in place."""
        live, records = np.empty(rows.size, np.uint8), np.empty((rows.size, self.row_bytes - MARK_BYTES), np.uint8)
        undo = self.undo
        read_stable(
            np.ascontiguousarray(rows, np.int64), self.marks, undo.base, self._memory.view(np.int64), self.live,
            undo.entries, records.view(np.int64), live,
        )  # fmt: skip
        return live, records.view(self.record_dtype).reshape(-1)

    def roll_back(self) -> None:
        """Takes back what the running epoch changed in place."""
        undo = self.undo
        roll_back(undo.entries[: undo.count], self.live, self._memory.view(np.int64))
        undo.finish()

    def move_saved(self, begin: int, count: int, to: int) -> None:
        """Moves entries of the undo log down, where threads have left a gap; under the store's lock, as readers look them up."""
        if to < begin and count:
            move_entries(self.undo.entries, begin, count, to, self.undo.base, self._memory.view(np.int64))

    def copy_touched(self, entries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[Any]]:
        """Rows of the undo log's entries, with liveness and records as they are now."""
        count = entries.shape[0]
        rows, live = np.empty(count, np.int64), np.empty(count, np.uint8)
        records = np.empty((count, self.row_bytes - MARK_BYTES), np.uint8)
        copy_touched(entries, self._memory.view(np.int64), self.live, rows, live, records.view(np.int64))
        return rows, live, records.view(self.record_dtype).reshape(-1)

    def extend_dense(self, rows: int | None = None) -> None:
        """Lets `dense` and `live_until` reach as far as they do, or as far as looking at so many rows finds."""
        high_water = self.allocator.high_water

        def end(start: int) -> int:
            return high_water if rows is None else min(high_water, start + rows)

        if self.live_until < high_water:
            self.live_until = int(live_prefix(self.live, self.live_until, end(self.live_until)))
        if self.key_types == ("int",) and self.dense < self.live_until:
            self.dense = self.index.dense_until(self.dense, end(self.dense), self.live)

    def get(self, keys: EncodedKeys | Sequence[Any] | NDArray[Any] | StringColumn) -> list[dict[str, Any] | None]:
        """The value of each key as a dict, None where the key is not live."""
        rows = self.index.lookup(self.encode(keys))
        known = rows >= 0
        live, records = self.read_rows(rows[known])
        known[known] = live != 0
        values = iter(field_lists(records[live != 0]))
        return [next(values) if found else None for found in known.tolist()]

    def restore(self, keys: EncodedKeys, live: NDArray[np.uint8], records: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Fill this empty table from a snapshot; returns the row of each key. Keys that are not live are held."""
        if len(self.index):
            raise InvariantError(f"table {self.name!r} must be empty to be restored, it has {len(self.index)} keys")
        rows = self.lookup_or_insert(keys)
        alive = live != 0
        self.records[rows[alive]] = records[alive]
        self.live[rows[alive]] = 1
        self._held[rows[~alive]] = 1
        self.extend_dense()
        return rows

    def sorted_live_rows(self) -> NDArray[np.int64]:
        """The live rows in key order."""
        rows = self.index.sorted_rows()
        alive: NDArray[np.bool_] = self.read_rows(rows)[0] != 0
        return rows[alive]
