"""What a table's records were before the running epoch changed them in place.

The inlined serial mode writes into the table itself. The first time it touches a row it saves the record here, then marks
the row, then writes. So a reader beside the epoch finds every record as of the last finished epoch (`read_rows`), and an
epoch that cannot be finished is taken back (`roll_back`).

Invariants: `mark[row] >= base` means that entry `mark[row] - base` holds the row's old record; marks of finished epochs, and
the zero of a new row, lie below `base`, so nothing needs clearing. The arrays have room before the epoch runs and do not move
while it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_CAPACITY = 64


class UndoLog:
    """One table's saved records. `count` is written by kernels; everything else only between runs, under the store's lock."""

    def __init__(self, record_bytes: int) -> None:
        self.record_bytes = record_bytes
        self.base = 1
        self.count: NDArray[np.int64] = np.zeros(1, np.int64)
        self._allocate(SMALLEST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        used = int(self.count[0])
        rows, live = np.empty(capacity, np.int64), np.empty(capacity, np.uint8)
        records = np.empty((capacity, self.record_bytes), np.uint8)
        if used:
            rows[:used], live[:used], records[:used] = self.rows[:used], self.live[:used], self.records[:used]
        self.rows: NDArray[np.int64] = rows
        self.live: NDArray[np.uint8] = live
        self.records: NDArray[np.uint8] = records

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.live.nbytes + self.records.nbytes

    @property
    def touched(self) -> NDArray[np.int64]:
        """The rows that the running epoch has changed, in order of first touch."""
        return self.rows[: int(self.count[0])]

    def make_room(self, writes: int) -> None:
        """Room for `writes` more first touches."""
        needed = int(self.count[0]) + writes
        if needed > self.rows.size:
            self._allocate(max(needed, 2 * self.rows.size))

    def finish(self, writes_kept: int = 0) -> None:
        """Forgets the saved records: what is in the table is the state now. Memory follows the last epoch's size."""
        self.base += int(self.count[0])
        self.count[0] = 0
        if self.rows.size > max(SMALLEST_CAPACITY, 8 * writes_kept):
            self._allocate(max(SMALLEST_CAPACITY, 2 * writes_kept))
