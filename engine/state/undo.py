"""What a table's records were before the running epoch changed them in place.

The inlined serial mode writes into the table itself. The first time it touches a row it saves the record here, then marks
the row, then writes. So a reader beside the epoch finds every record as of the last finished epoch (`read_rows`), and an
epoch that cannot be finished is taken back (`roll_back`).

An entry is one word, the row doubled with its liveness in the lowest bit, and the record. A mark is where the row's entry
lies in the log, in bytes, counted on from epoch to epoch.

Invariants: `mark[row] >= base` means that the entry at byte `mark[row] - base` holds the row's old record; marks of finished
epochs, and the zero of a new row, lie below `base`, so nothing needs clearing. The log has room before the epoch runs, and
for one entry more (kernels write an entry before they know whether it counts), and does not move while it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_CAPACITY = 64
WORD_BYTES = 8


class UndoLog:
    """One table's saved records. `used` is set after each run of a kernel; all is changed under the store's lock only."""

    def __init__(self, record_bytes: int) -> None:
        self.entry_bytes = WORD_BYTES + record_bytes
        self.base = 1
        self.used = 0  # bytes
        self._allocate(SMALLEST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        entries = np.empty((capacity + 1, self.entry_bytes // WORD_BYTES), np.int64)
        count = self.count
        if count:
            entries[:count] = self.entries[:count]
        self.entries: NDArray[np.int64] = entries
        self.address = int(entries.ctypes.data)

    @property
    def count(self) -> int:
        """How many rows the running epoch has changed."""
        return self.used // self.entry_bytes

    @property
    def capacity(self) -> int:
        return int(self.entries.shape[0]) - 1

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    @property
    def touched(self) -> NDArray[np.int64]:
        """The rows that the running epoch has changed, in order of first touch."""
        rows: NDArray[np.int64] = self.entries[: self.count, 0] >> 1
        return rows

    def make_room(self, writes: int) -> None:
        """Room for `writes` more first touches."""
        needed = self.count + writes
        if needed > self.capacity:
            self._allocate(max(needed, 2 * self.capacity))

    def finish(self) -> None:
        """Forgets the saved records: what is in the table is the state now. Memory follows the last epoch's size."""
        count = self.count
        self.base += self.used
        self.used = 0
        if self.capacity > max(SMALLEST_CAPACITY, 8 * count):
            self._allocate(max(SMALLEST_CAPACITY, 2 * count))
