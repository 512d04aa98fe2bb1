"""Working memory that an engine uses again in every epoch, so that it is not asked of the system, and cleared by it, anew.

A buffer belongs to whoever took it until the same name is taken again; nothing that outlives an epoch may point into one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KEPT_FACTOR = 8  # a buffer that is larger than this times what was wanted is given back


class Buffers:
    """Arrays by name; they hold whatever was left in them."""

    def __init__(self) -> None:
        self._words: dict[str, NDArray[np.int64]] = {}

    def words(self, name: str, size: int) -> NDArray[np.int64]:
        """`size` words."""
        found = self._words.get(name)
        if found is None or not size <= found.size <= max(1024, KEPT_FACTOR * size):
            found = self._words[name] = np.empty(size + size // 8, np.int64)
        return found[:size]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._words.values())
