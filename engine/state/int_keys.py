"""Storage of single int64 keys for `KeyIndex`: slots of (key, row) and the key of each row."""

import numpy as np
from numpy.typing import NDArray

from engine.state.int_kernels import lookup_ints, lookup_or_insert_ints, rebuild_ints, remove_ints
from engine.state.key_encoding import EncodedKeys
from engine.state.rows import RowAllocator
from engine.state.slots import SHRINK_BELOW, SMALLEST_CAPACITY, Slots, capacity_for


class IntKeys:
    """See `KeyIndex` for what the methods promise."""

    def __init__(self) -> None:
        self.slots = Slots(SMALLEST_CAPACITY)
        self.row_keys: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.count = 0

    @property
    def row_capacity(self) -> int:
        return int(self.row_keys.size)

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.row_keys.nbytes

    def lookup(self, keys: EncodedKeys) -> NDArray[np.int64]:
        integers = _integers(keys)
        rows = np.empty(integers.size, dtype=np.int64)
        lookup_ints(self.slots.tags, self.slots.rows, self.slots.mask, integers, rows)
        return rows

    def lookup_or_insert(self, keys: EncodedKeys, allocator: RowAllocator) -> NDArray[np.int64]:
        integers = _integers(keys)
        rows = np.empty(integers.size, dtype=np.int64)
        position = 0
        while position < integers.size:
            slots = self.slots
            position, added = lookup_or_insert_ints(
                slots.tags,
                slots.rows,
                slots.mask,
                self.row_keys,
                slots.most_keys - self.count,
                allocator.free_rows,
                allocator.state,
                integers,
                position,
                rows,
            )
            self.count += added
            if position < integers.size:
                self._make_room(allocator)
        return rows

    def _make_room(self, allocator: RowAllocator) -> None:
        """After the kernel stopped: grow whichever of slots and rows is full."""
        if self.count >= self.slots.most_keys:
            self._rebuild(2 * self.slots.capacity)
        if allocator.free_count == 0 and allocator.high_water >= self.row_capacity:
            self.resize_rows(max(64, 2 * self.row_capacity))

    def reserve(self, count: int) -> None:
        if self.count + count > self.slots.most_keys:
            self._rebuild(capacity_for(self.count + count))

    def resize_rows(self, row_capacity: int) -> None:
        resized = np.zeros(row_capacity, dtype=np.int64)
        kept = min(row_capacity, self.row_keys.size)
        resized[:kept] = self.row_keys[:kept]
        self.row_keys = resized

    def remove(self, rows: NDArray[np.int64]) -> int:
        removed: int = remove_ints(self.slots.tags, self.slots.rows, self.slots.mask, self.row_keys, rows)
        self.count -= removed
        if self.slots.capacity > SMALLEST_CAPACITY and self.count < SHRINK_BELOW * self.slots.capacity:
            self._rebuild(capacity_for(2 * self.count))
        return removed

    def _rebuild(self, capacity: int) -> None:
        slots = Slots(capacity)
        rebuild_ints(self.slots.tags, self.slots.rows, slots.tags, slots.rows, slots.mask)
        self.slots = slots

    def keys_of(self, rows: NDArray[np.int64]) -> EncodedKeys:
        return EncodedKeys.of_integers(self.row_keys[rows])

    def sorted_rows(self) -> NDArray[np.int64]:
        rows = self.slots.used_rows()
        return rows[np.argsort(self.row_keys[rows])]


def _integers(keys: EncodedKeys) -> NDArray[np.int64]:
    assert keys.integers is not None, "int keys looked up with byte keys"
    return keys.integers
