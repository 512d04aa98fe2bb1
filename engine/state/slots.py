"""The hash slots both kinds of key share: pairs (key or hash, row) side by side, one cache line a probe.

Invariants: the capacity is a power of two and at least twice the number of keys; a slot is empty while its row is -1.
"""

import numpy as np
from numpy.typing import NDArray

SMALLEST_CAPACITY = 64
# Rebuilt smaller below this share of the capacity; growing leaves it at 1/4 or more, so the two never alternate.
SHRINK_BELOW = 1 / 16


class Slots:
    """The arrays; `tags` and `rows` are views of the two halves of each pair."""

    def __init__(self, capacity: int) -> None:
        pairs = np.full((capacity, 2), -1, dtype=np.int64)
        self.tags: NDArray[np.int64] = pairs[:, 0]
        self.rows: NDArray[np.int64] = pairs[:, 1]
        self.mask = np.int64(capacity - 1)

    @property
    def capacity(self) -> int:
        return int(self.rows.size)

    @property
    def most_keys(self) -> int:
        return self.capacity // 2

    @property
    def nbytes(self) -> int:
        return 16 * self.capacity

    def used_rows(self) -> NDArray[np.int64]:
        return self.rows[self.rows >= 0]


def capacity_for(key_count: int) -> int:
    """The smallest capacity at which `key_count` keys load the slots by one half or less."""
    return max(SMALLEST_CAPACITY, 1 << (2 * key_count - 1).bit_length()) if key_count > 0 else SMALLEST_CAPACITY
