# mypy: ignore-errors
"""Open addressing with linear probing for keys that are byte strings.

The slots hold the key's 64-bit hash and its row; the bytes lie in an arena at row_start[row], row_length[row] long.
As with int keys a slot is empty while its row is negative, and removal leaves no tombstones.

Tables are larger than caches, so a key looked up alone waits for memory three times: its slot, its row, its bytes. Many keys
are taken in blocks, in which each step is asked for ahead of the next (`_fetch`): one key's waiting is all keys' waiting.
Bytes are read, compared and copied eight at a time; what is left is read as the last eight, some of them a second time.
"""

import numpy as np
from numba import njit, types

from engine.functions.memory import pointer_at, prefetch, store_unaligned, unaligned_word
from engine.state.rows import allocate_row

BYTE = types.uint8
BLOCK = 32  # keys whose memory is asked for at once; 16 and 64 took the same time (1 M keys of 8 and of 16 bytes)
SLOT_BYTES, PLACE_BYTES = 16, 16


@njit(nogil=True, cache=True, inline="always")
def _few_bytes(address, length):
    """Up to seven bytes as one word."""
    bytes_ = pointer_at(address, BYTE)
    word = np.uint64(0)
    for j in range(length):
        word |= np.uint64(bytes_[j]) << np.uint64(8 * j)
    return word


@njit(nogil=True, cache=True)
def hash_bytes(address, length):
    """Multiply and fold eight bytes at a time; the length goes in first, so zero padding cannot collide."""
    h = np.uint64(length) * np.uint64(0x9E3779B97F4A7C15)
    position = np.int64(0)
    while position < length:
        if position + 8 <= length:
            word = unaligned_word(address + position)
        elif length >= 8:
            word = unaligned_word(address + length - 8)
        else:
            word = _few_bytes(address, length)
        h ^= word
        h *= np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
        position += 8
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h)


@njit(nogil=True, cache=True)
def same_bytes(address, other, length):
    if length < 8:
        return _few_bytes(address, length) == _few_bytes(other, length)
    position = np.int64(0)
    while position + 8 < length:
        if unaligned_word(address + position) != unaligned_word(other + position):
            return False
        position += 8
    return unaligned_word(address + length - 8) == unaligned_word(other + length - 8)


@njit(nogil=True, cache=True)
def copy_bytes(target, source, length):
    if length < 8:
        to, of = pointer_at(target, BYTE), pointer_at(source, BYTE)
        for j in range(length):
            to[j] = of[j]
        return
    position = np.int64(0)
    while position + 8 < length:
        store_unaligned(target + position, unaligned_word(source + position))
        position += 8
    store_unaligned(target + length - 8, unaligned_word(source + length - 8))


@njit(nogil=True, cache=True)
def find_bytes(slots_hash, slots_row, mask, arena_at, row_start, row_length, key_at, length, key_hash):
    """The slot that holds the key, or the empty slot where it belongs."""
    slot = key_hash & mask
    while True:
        row = slots_row[slot]
        if row < 0:
            return slot
        if (
            slots_hash[slot] == key_hash
            and row_length[row] == length
            and same_bytes(arena_at + row_start[row], key_at, length)
        ):
            return slot
        slot = (slot + 1) & mask


@njit(nogil=True, cache=True)
def _fetch(slots_hash, slots_row, mask, arena_at, row_start, data_at, offsets, first, hashes):
    """Hashes a block of keys from `first`; asks for their slots, then the rows found there, then those rows' bytes."""
    count = min(hashes.size, offsets.size - 1 - first)
    slots_at, places_at = slots_hash.ctypes.data, row_start.ctypes.data
    for i in range(count):
        start = offsets[first + i]
        hashes[i] = hash_bytes(data_at + start, offsets[first + i + 1] - start)
        prefetch(slots_at + SLOT_BYTES * (hashes[i] & mask))
    for i in range(count):
        slot = hashes[i] & mask
        if slots_hash[slot] == hashes[i] and slots_row[slot] >= 0:
            prefetch(places_at + PLACE_BYTES * slots_row[slot])
    for i in range(count):
        slot = hashes[i] & mask
        if slots_hash[slot] == hashes[i] and slots_row[slot] >= 0:
            prefetch(arena_at + row_start[slots_row[slot]])


@njit(nogil=True, cache=True)
def lookup_bytes(slots_hash, slots_row, mask, arena, row_start, row_length, data, offsets, rows):
    arena_at, data_at = arena.ctypes.data, data.ctypes.data
    hashes = np.empty(BLOCK, np.int64)
    for i in range(offsets.size - 1):
        if i % BLOCK == 0:
            _fetch(slots_hash, slots_row, mask, arena_at, row_start, data_at, offsets, i, hashes)
        start = offsets[i]
        slot = find_bytes(
            slots_hash, slots_row, mask, arena_at, row_start, row_length, data_at + start, offsets[i + 1] - start,
            hashes[i % BLOCK],
        )  # fmt: skip
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
    arena_at, data_at = arena.ctypes.data, data.ctypes.data
    hashes = np.empty(BLOCK, np.int64)
    for i in range(first, offsets.size - 1):
        if (i - first) % BLOCK == 0:
            _fetch(slots_hash, slots_row, mask, arena_at, row_start, data_at, offsets, i, hashes)
        key_hash = hashes[(i - first) % BLOCK]
        start = offsets[i]
        length = offsets[i + 1] - start
        slot = find_bytes(
            slots_hash, slots_row, mask, arena_at, row_start, row_length, data_at + start, length, key_hash
        )
        row = slots_row[slot]
        if row < 0:
            if added == room or arena_used + length > arena.size:
                return i, added, arena_used
            row = allocate_row(free_rows, state, row_start.size)
            if row < 0:
                return i, added, arena_used
            copy_bytes(arena_at + arena_used, data_at + start, length)
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
    arena_at = arena.ctypes.data
    for i in range(rows.size):
        row = rows[i]
        hole = hash_bytes(arena_at + row_start[row], row_length[row]) & mask
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
    slots_at = slots_hash.ctypes.data
    for i in range(old_row.size):
        ahead = min(i + BLOCK, old_row.size - 1)
        prefetch(slots_at + SLOT_BYTES * (old_hash[ahead] & mask))
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
    arena_at, target_at = arena.ctypes.data, target.ctypes.data
    for i in range(rows.size):
        row = rows[i]
        length = row_length[row]
        copy_bytes(target_at + used, arena_at + row_start[row], length)
        row_start[row] = used
        used += length
    return used


@njit(nogil=True, cache=True)
def gather_bytes(arena, row_start, row_length, rows, offsets, data):
    """Copy the keys of `rows` to data[offsets[i]:]; the offsets are made from row_length by the caller."""
    arena_at, data_at = arena.ctypes.data, data.ctypes.data
    for i in range(rows.size):
        row = rows[i]
        copy_bytes(data_at + offsets[i], arena_at + row_start[row], row_length[row])
