"""Storage of string and tuple keys for `KeyIndex`: slots of (hash, row), the keys' bytes in an arena.

Bytes of removed keys stay in the arena until more than half of it is unused; then it is copied together.
"""

import numpy as np
from numpy.typing import NDArray

from engine.state.byte_kernels import (
    gather_bytes,
    lookup_bytes,
    lookup_or_insert_bytes,
    move_bytes,
    rebuild_bytes,
    remove_bytes,
)
from engine.state.key_encoding import EncodedKeys
from engine.state.rows import RowAllocator
from engine.state.slots import SHRINK_BELOW, SMALLEST_CAPACITY, Slots, capacity_for
from engine.state.sort_kernels import sort_rows_by_bytes

SMALLEST_ARENA_BYTES = 4096


class ByteKeys:
    """See `KeyIndex` for what the methods promise."""

    def __init__(self) -> None:
        self.slots = Slots(SMALLEST_CAPACITY)
        self.arena: NDArray[np.uint8] = np.empty(SMALLEST_ARENA_BYTES, dtype=np.uint8)
        self.arena_used = 0
        self.arena_unused = 0  # bytes below arena_used that belong to removed keys
        self._places: NDArray[np.int64] = np.empty(
            (0, 2), dtype=np.int64
        )  # where a row's key is, and how long: one cache line
        self.count = 0

    @property
    def row_start(self) -> NDArray[np.int64]:
        return self._places[:, 0]

    @property
    def row_length(self) -> NDArray[np.int64]:
        return self._places[:, 1]

    @property
    def row_capacity(self) -> int:
        return int(self._places.shape[0])

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.arena.nbytes + self._places.nbytes

    def lookup(self, keys: EncodedKeys) -> NDArray[np.int64]:
        rows = np.empty(len(keys), dtype=np.int64)
        slots = self.slots
        lookup_bytes(
            slots.tags,
            slots.rows,
            slots.mask,
            self.arena,
            self.row_start,
            self.row_length,
            keys.data,
            keys.offsets,
            rows,
        )
        return rows

    def lookup_or_insert(self, keys: EncodedKeys, allocator: RowAllocator) -> NDArray[np.int64]:
        rows = np.empty(len(keys), dtype=np.int64)
        position = 0
        while position < len(keys):
            slots = self.slots
            position, added, self.arena_used = lookup_or_insert_bytes(
                slots.tags,
                slots.rows,
                slots.mask,
                self.arena,
                self.arena_used,
                self.row_start,
                self.row_length,
                slots.most_keys - self.count,
                allocator.free_rows,
                allocator.state,
                keys.data,
                keys.offsets,
                position,
                rows,
            )
            self.count += added
            if position < len(keys):
                self._make_room(allocator, int(keys.offsets[position + 1] - keys.offsets[position]))
        return rows

    def _make_room(self, allocator: RowAllocator, key_length: int) -> None:
        """After the kernel stopped: grow whichever of slots, rows and arena is full."""
        if self.count >= self.slots.most_keys:
            self._rebuild(2 * self.slots.capacity)
        if allocator.free_count == 0 and allocator.high_water >= self.row_capacity:
            self.resize_rows(max(64, 2 * self.row_capacity))
        if self.arena_used + key_length > self.arena.size:
            self._move_arena(max(2 * self.arena.size, self.arena_used + key_length))

    def reserve(self, count: int) -> None:
        if self.count + count > self.slots.most_keys:
            self._rebuild(capacity_for(self.count + count))

    def resize_rows(self, row_capacity: int) -> None:
        kept = min(row_capacity, self.row_capacity)
        resized = np.zeros((row_capacity, 2), dtype=np.int64)
        resized[:kept] = self._places[:kept]
        self._places = resized

    def remove(self, rows: NDArray[np.int64]) -> int:
        slots = self.slots
        removed, unused = remove_bytes(
            slots.tags, slots.rows, slots.mask, self.arena, self.row_start, self.row_length, rows
        )
        self.count -= removed
        self.arena_unused += unused
        if slots.capacity > SMALLEST_CAPACITY and self.count < SHRINK_BELOW * slots.capacity:
            self._rebuild(capacity_for(2 * self.count))
        if self.arena_used > SMALLEST_ARENA_BYTES and 2 * self.arena_unused > self.arena_used:
            self._move_arena(max(SMALLEST_ARENA_BYTES, 2 * (self.arena_used - self.arena_unused)))
        return int(removed)

    def _rebuild(self, capacity: int) -> None:
        slots = Slots(capacity)
        rebuild_bytes(self.slots.tags, self.slots.rows, slots.tags, slots.rows, slots.mask)
        self.slots = slots

    def _move_arena(self, size: int) -> None:
        """Copy the keys in use together into an arena of `size` bytes."""
        arena = np.empty(size, dtype=np.uint8)
        rows = self.slots.used_rows()
        self.arena_used = move_bytes(self.arena, self.row_start, self.row_length, rows, arena)
        self.arena_unused = 0
        self.arena = arena

    def keys_of(self, rows: NDArray[np.int64]) -> EncodedKeys:
        offsets = np.zeros(rows.size + 1, dtype=np.int64)
        np.cumsum(self.row_length[rows], out=offsets[1:])
        data = np.empty(offsets[-1], dtype=np.uint8)
        gather_bytes(self.arena, self.row_start, self.row_length, rows, offsets, data)
        return EncodedKeys.of_bytes(data, offsets)

    def sorted_rows(self) -> NDArray[np.int64]:
        rows = self.slots.used_rows()
        sort_rows_by_bytes(self.arena, self.row_start, self.row_length, rows)
        return rows
