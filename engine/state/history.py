"""The versions of a table's keys that windows of later epochs may still need.

Entries lie in an arena in the order they were appended, each a record and behind it the node that chains it to the row's
entry before (`chain_kernels`); `head[row]` is the row's newest entry or -1. What nodes hold is made from the records and
event times alone, so snapshots leave it out. Versions of a deleted key still count, so a row with entries must not be given
to another key: `rows_in_use` tells the table.

Invariants:
- An entry is dead once its ts is below `before_ts`. Dead entries may still be in a chain, so whoever walks one looks at
  the ts; a row with only dead entries has no head. Event times need not rise along a chain.
- `count[row]` is the number of entries of the row that are not dead.
- At most half of the arena is dead after `prune`: memory and the length of chains follow what windows need, and linking
  the rest anew when the arena is copied together costs O(1) for each entry that died.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvariantError
from engine.state.chain_kernels import PREVIOUS
from engine.state.history_kernels import append_entries, compact_entries, retire_entries, smallest_kept
from engine.state.measures import Measures, lay_out

LOWEST_TS = int(np.iinfo(np.int64).min)
HIGHEST_TS = int(np.iinfo(np.int64).max)
SMALLEST_CAPACITY = 64
# Entries that `prune` scans together: few enough that a batch half dead is cheap to scan again, enough to keep the
# Python loop over batches short.
BATCH_ENTRIES = 16_384


@dataclass
class _Batch:
    """A stretch of the arena: `prune` looks only into batches that reach below the new bound."""

    start: int
    end: int
    lowest_ts: int  # of the entries that are not dead


class History:
    """See the module's docstring."""

    def __init__(self, table_record_size: int, window_size: int, measures: Measures | None = None) -> None:
        assert table_record_size % 8 == 0, "records are whole words"
        self.record_size = table_record_size
        self.record_words = table_record_size // 8
        self.measures = measures or lay_out([])
        self.window_size = window_size
        self.before_ts = LOWEST_TS
        self.used = 0  # entries in the arena, dead ones too
        self.dead = 0
        self.head: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.count: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._batches: list[_Batch] = []
        self._allocate(SMALLEST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        """New arena arrays, with the entries in use copied over."""
        used = self.used
        rows, ts = np.empty(capacity, dtype=np.int64), np.empty(capacity, dtype=np.int64)
        arena = np.empty((capacity, self.record_words + self.measures.node_words), dtype=np.int64)
        if used:
            rows[:used], ts[:used], arena[:used] = self.entry_row[:used], self.entry_ts[:used], self.arena[:used]
        self.entry_row: NDArray[np.int64] = rows
        self.entry_ts: NDArray[np.int64] = ts
        self.arena: NDArray[np.int64] = arena

    def __len__(self) -> int:
        """Entries that are not dead."""
        return self.used - self.dead

    @property
    def capacity(self) -> int:
        return int(self.entry_row.size)

    @property
    def nbytes(self) -> int:
        entries = 2 * self.entry_row.nbytes + self.arena.nbytes
        return entries + self.head.nbytes + self.count.nbytes

    @property
    def addresses(self) -> tuple[int, int]:
        """Of head and the arena; they move whenever the history changes."""
        return int(self.head.ctypes.data), int(self.arena.ctypes.data)

    @property
    def _linking(self) -> tuple[NDArray[np.int64], int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What kernels need to link entries."""
        measures = self.measures
        return (
            self.arena, int(self.arena.ctypes.data), self.record_words, measures.kind, measures.offset, measures.word
        )  # fmt: skip

    def ensure_rows(self, row_count: int) -> None:
        """Heads for rows below `row_count` (the table's row capacity), before kernels read them."""
        old = self.head.size
        if row_count > old:
            size = max(row_count, 2 * old)
            self.head = np.concatenate([self.head, np.full(size - old, -1, dtype=np.int64)])
            self.count = np.concatenate([self.count, np.zeros(size - old, dtype=np.int64)])

    def append(self, rows: NDArray[np.int64], ts: NDArray[np.int64], records: NDArray[np.uint8]) -> None:
        """Add versions in the order they were committed; `records` is one row of bytes each."""
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        ts = np.ascontiguousarray(ts, dtype=np.int64)
        if records.shape != (rows.size, self.record_size) or ts.size != rows.size:
            raise InvariantError(f"history of {self.record_size}-byte records was given {records.shape}")
        if rows.size == 0:
            return
        if rows.min() < 0:
            raise InvariantError(f"history was given row {rows.min()}")
        self.ensure_rows(int(rows.max()) + 1)
        if self.used + rows.size > self.capacity:
            self._allocate(max(2 * self.capacity, self.used + rows.size))
        start = self.used
        self.used = append_entries(
            rows,
            ts,
            np.ascontiguousarray(records).view(np.int64),
            self.before_ts,
            self.entry_row,
            self.entry_ts,
            *self._linking,
            start,
            self.head,
            self.count,
        )
        self._add_to_batches(start)

    def _add_to_batches(self, start: int) -> None:
        while start < self.used:
            last = self._batches[-1] if self._batches else None
            if last is None or last.end - last.start >= BATCH_ENTRIES:
                last = _Batch(start, start, HIGHEST_TS)
                self._batches.append(last)
            last.end = min(self.used, last.start + BATCH_ENTRIES)
            last.lowest_ts = min(last.lowest_ts, int(self.entry_ts[start : last.end].min()))
            start = last.end

    def prune(self, before_ts: int) -> NDArray[np.int64]:
        """Drop the entries with ts < `before_ts`; returns the rows that have no entry left, for `Table.release_rows`.

        The arena is copied together only when more than half of it is dead.
        """
        emptied_rows: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        if before_ts <= self.before_ts:
            return emptied_rows[0]
        for batch in self._batches:
            if batch.lowest_ts < before_ts:
                emptied = np.empty(batch.end - batch.start, dtype=np.int64)
                retired, emptied_count = retire_entries(
                    batch.start,
                    batch.end,
                    self.before_ts,
                    before_ts,
                    self.entry_row,
                    self.entry_ts,
                    self.head,
                    self.count,
                    emptied,
                )
                self.dead += retired
                emptied_rows.append(emptied[:emptied_count])
                batch.lowest_ts = smallest_kept(batch.start, batch.end, before_ts, self.entry_ts, HIGHEST_TS)
        self.before_ts = before_ts
        if 2 * self.dead > self.used:
            self._compact()
        return np.concatenate(emptied_rows)

    def _compact(self) -> None:
        moved = np.empty(self.used + 1, dtype=np.int64)
        self.used = compact_entries(
            self.used,
            self.before_ts,
            self.entry_row,
            self.entry_ts,
            *self._linking,
            self.head,
            moved,
        )
        self.dead = 0
        batches = [_Batch(int(moved[b.start]), int(moved[b.end]), b.lowest_ts) for b in self._batches]
        self._batches = [batch for batch in batches if batch.end > batch.start]
        if self.capacity > SMALLEST_CAPACITY and 8 * self.used < self.capacity:
            self._allocate(max(SMALLEST_CAPACITY, 2 * self.used))

    def rows_in_use(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of `rows` have versions that a window may still need, and so may not be reused."""
        in_use: NDArray[np.bool_] = np.zeros(rows.size, dtype=np.bool_)
        known = rows < self.count.size
        in_use[known] = self.count[rows[known]] > 0
        return in_use

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
        """Rows, event times and records of all entries that are not dead, in append order."""
        kept = np.flatnonzero(self.entry_ts[: self.used] >= self.before_ts)
        return self.entry_row[kept], self.entry_ts[kept], self.arena[kept, : self.record_words].view(np.uint8)

    def entries_of(self, row: int) -> list[tuple[int, bytes]]:
        """The versions of one row that are not dead, oldest first."""
        found = []
        entry = int(self.head[row]) if row < self.head.size else -1
        while entry >= 0:
            if self.entry_ts[entry] >= self.before_ts:
                found.append((int(self.entry_ts[entry]), self.arena[entry, : self.record_words].tobytes()))
            node = int(self.arena[entry, self.record_words + PREVIOUS])
            entry = node // self.arena.shape[1] if node >= 0 else -1
        return found[::-1]
