# mypy: ignore-errors
"""Open addressing with linear probing for keys that are byte strings.

The slots hold the key's 64-bit hash and its row; the bytes lie in an arena at row_start[row], row_length[row] long.
As with int keys a slot is empty while its row is negative, and removal leaves no tombstones.
"""

import numpy as np
from numba import njit

from engine.state.rows import allocate_row


@njit(nogil=True, cache=True)
def hash_bytes(data, start, length):
    """Multiply and fold eight bytes at a time; the length goes in first, so zero padding cannot collide."""
    h = np.uint64(length) * np.uint64(0x9E3779B97F4A7C15)
    position = start
    end = start + length
    while position < end:
        word = np.uint64(0)
        for j in range(min(8, end - position)):
            word |= np.uint64(data[position + j]) << np.uint64(8 * j)
        h ^= word
        h *= np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
        position += 8
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h)


@njit(nogil=True, cache=True)
def same_bytes(a, a_start, b, b_start, length):
    for i in range(length):
        if a[a_start + i] != b[b_start + i]:
            return False
    return True


@njit(nogil=True, cache=True)
def find_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, data, start, length, key_hash):
    """The slot that holds the key, or the empty slot where it belongs."""
    slot = key_hash & mask
    while True:
        row = slots_row[slot]
        if row < 0:
            return slot
        if (
            slots_hash[slot] == key_hash
            and row_length[row] == length
            and same_bytes(arena, row_start[row], data, start, length)
        ):
            return slot
        slot = (slot + 1) & mask


@njit(nogil=True, cache=True)
def lookup_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, data, offsets, rows):
    for i in range(offsets.size - 1):
        start = offsets[i]
        length = offsets[i + 1] - start
        key_hash = hash_bytes(data, start, length)
        slot = find_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, data, start, length, key_hash)
        rows[i] = slots_row[slot]


@njit(nogil=True, cache=True)
def lookup_or_insert_bytes(
    slots_hash,
    slots_row,
    mask,
    arena,
    arena_used,
    row_start,
    row_length,
    room,
    free_rows,
    state,
    data,
    offsets,
    first,
    rows,
):
    """Look up keys from `first`, adding unknown ones; stops before the first that finds no slot, arena or row.

    Returns the position reached, the number of keys added and the arena bytes in use.
    """
    added = 0
    for i in range(first, offsets.size - 1):
        start = offsets[i]
        length = offsets[i + 1] - start
        key_hash = hash_bytes(data, start, length)
        slot = find_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, data, start, length, key_hash)
        row = slots_row[slot]
        if row < 0:
            if added == room or arena_used + length > arena.size:
                return i, added, arena_used
            row = allocate_row(free_rows, state, row_start.size)
            if row < 0:
                return i, added, arena_used
            arena[arena_used : arena_used + length] = data[start : start + length]
            row_start[row] = arena_used
            row_length[row] = length
            arena_used += length
            slots_hash[slot] = key_hash
            slots_row[slot] = row
            added += 1
        rows[i] = row
    return offsets.size - 1, added, arena_used


@njit(nogil=True, cache=True)
def remove_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, rows):
    """Remove the keys of `rows`; returns how many were there and how many arena bytes they leave unused."""
    removed = 0
    unused = 0
    for i in range(rows.size):
        row = rows[i]
        hole = hash_bytes(arena, row_start[row], row_length[row]) & mask
        while slots_row[hole] >= 0 and slots_row[hole] != row:
            hole = (hole + 1) & mask
        if slots_row[hole] < 0:
            continue
        removed += 1
        unused += row_length[row]
        row_length[row] = 0  # a row without a key must not read from an arena that may shrink
        slot = (hole + 1) & mask
        while slots_row[slot] >= 0:
            home = slots_hash[slot] & mask
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                slots_hash[hole] = slots_hash[slot]
                slots_row[hole] = slots_row[slot]
                hole = slot
            slot = (slot + 1) & mask
        slots_row[hole] = -1
    return removed, unused


@njit(nogil=True, cache=True)
def rebuild_bytes(old_hash, old_row, slots_hash, slots_row, mask):
    for i in range(old_row.size):
        if old_row[i] >= 0:
            slot = old_hash[i] & mask
            while slots_row[slot] >= 0:
                slot = (slot + 1) & mask
            slots_hash[slot] = old_hash[i]
            slots_row[slot] = old_row[i]


@njit(nogil=True, cache=True)
def move_bytes(arena, row_start, row_length, rows, target):
    """Copy the keys of `rows` end to end into `target` and point the rows there."""
    used = 0
    for i in range(rows.size):
        row = rows[i]
        start = row_start[row]
        length = row_length[row]
        target[used : used + length] = arena[start : start + length]
        row_start[row] = used
        used += length
    return used


@njit(nogil=True, cache=True)
def gather_bytes(arena, row_start, row_length, rows, offsets, data):
    """Copy the keys of `rows` to data[offsets[i]:]; the offsets are made from row_length by the caller."""
    for i in range(rows.size):
        start = row_start[rows[i]]
        length = row_length[rows[i]]
        data[offsets[i] : offsets[i] + length] = arena[start : start + length]
