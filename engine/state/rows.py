"""Row numbers of a table: handed out densely from 0, reused after they are freed (last freed first).

Invariant: every row below `high_water` is either handed out or on the free stack, never both.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Positions in `RowAllocator.state`, which kernels read and write.
FREE_COUNT = 0
HIGH_WATER = 1


@njit(nogil=True, cache=True)
def allocate_row(free_rows, state, row_capacity):  # type: ignore[no-untyped-def]
    """A row for a new key, or -1 if all rows below `row_capacity` are taken."""
    if state[FREE_COUNT] > 0:
        state[FREE_COUNT] -= 1
        return free_rows[state[FREE_COUNT]]
    row = state[HIGH_WATER]
    if row >= row_capacity:
        return np.int64(-1)
    state[HIGH_WATER] = row + 1
    return row


class RowAllocator:
    """Hands out row numbers; `free_rows` and `state` are open to kernels through `allocate_row`."""

    def __init__(self) -> None:
        self.free_rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.state: NDArray[np.int64] = np.zeros(2, dtype=np.int64)

    @property
    def high_water(self) -> int:
        """One above the largest row ever handed out since the last trim."""
        return int(self.state[HIGH_WATER])

    @property
    def free_count(self) -> int:
        return int(self.state[FREE_COUNT])

    def allocate(self, count: int) -> NDArray[np.int64]:
        reused = min(count, self.free_count)
        first_reused = self.free_count - reused
        rows = np.empty(count, dtype=np.int64)
        rows[:reused] = self.free_rows[first_reused : self.free_count][::-1]
        rows[reused:] = np.arange(self.high_water, self.high_water + count - reused)
        self.state[FREE_COUNT] = first_reused
        self.state[HIGH_WATER] += count - reused
        return rows

    def free(self, rows: NDArray[np.int64]) -> None:
        count = self.free_count
        if count + rows.size > self.free_rows.size:
            grown = np.empty(max(2 * self.free_rows.size, count + rows.size), dtype=np.int64)
            grown[:count] = self.free_rows[:count]
            self.free_rows = grown
        self.free_rows[count : count + rows.size] = rows
        self.state[FREE_COUNT] = count + rows.size

    def trim(self) -> None:
        """Give back the free rows at the top; afterwards the lowest free row is taken first."""
        taken = np.ones(self.high_water, dtype=np.bool_)
        taken[self.free_rows[: self.free_count]] = False
        used = np.flatnonzero(taken)
        high_water = int(used[-1]) + 1 if used.size else 0
        self.free_rows = np.flatnonzero(~taken[:high_water])[::-1].astype(np.int64)
        self.state[FREE_COUNT] = self.free_rows.size
        self.state[HIGH_WATER] = high_water
