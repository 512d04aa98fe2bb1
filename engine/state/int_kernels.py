# mypy: ignore-errors
"""Open addressing with linear probing for int64 keys.

A slot is empty while its row is negative. One writer may insert while others look up: the key is stored first, the row
is released last, and a reader takes the row first. Removal shifts later keys back and leaves no tombstones, so it must
run alone. Callers keep the load at one half or less, so every probe meets an empty slot.
"""

import numpy as np
from numba import njit

from engine.functions.memory import prefetch
from engine.state.atomics import load_acquire, store_release
from engine.state.rows import allocate_row

SLOT_BYTES = 16
AHEAD = 16  # keys whose slots are asked for before they are looked at: tables are larger than caches


@njit(nogil=True, cache=True)
def hash_int(key):
    """The 64-bit finalizer of MurmurHash3: every bit of the key moves every bit of the slot."""
    x = np.uint64(key)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    x ^= x >> np.uint64(33)
    return np.int64(x)


@njit(nogil=True, cache=True)
def int_index_find(slots_key, slots_row, mask, key):
    """The row of `key`, or -1. Safe beside one thread that inserts."""
    slot = hash_int(key) & mask
    while True:
        row = load_acquire(slots_row, slot)
        if row < 0:
            return np.int64(-1)
        if slots_key[slot] == key:
            return row
        slot = (slot + 1) & mask


@njit(nogil=True, cache=True)
def int_index_insert(slots_key, slots_row, mask, row_keys, key, row):
    """Add an unknown `key` as `row`. One writer at a time, after `KeyIndex.reserve`."""
    slot = hash_int(key) & mask
    while slots_row[slot] >= 0:
        slot = (slot + 1) & mask
    row_keys[row] = key
    slots_key[slot] = key
    store_release(slots_row, slot, row)


@njit(nogil=True, cache=True)
def _fetch(slots_at, mask, keys, i):
    """Asks for the slot of a key further on."""
    if i + AHEAD < keys.size:
        prefetch(slots_at + SLOT_BYTES * (hash_int(keys[i + AHEAD]) & mask))


@njit(nogil=True, cache=True)
def lookup_ints(slots_key, slots_row, mask, keys, rows):
    slots_at = slots_key.ctypes.data
    for i in range(keys.size):
        _fetch(slots_at, mask, keys, i)
        rows[i] = int_index_find(slots_key, slots_row, mask, keys[i])


@njit(nogil=True, cache=True)
def lookup_or_insert_ints(slots_key, slots_row, mask, row_keys, room, free_rows, state, keys, start, rows):
    """Look up keys[start:], adding unknown ones; stops before the first that finds no slot (`room`) or no row.

    Returns the position reached and the number of keys added.
    """
    added = 0
    slots_at = slots_key.ctypes.data
    for i in range(start, keys.size):
        _fetch(slots_at, mask, keys, i)
        row = int_index_find(slots_key, slots_row, mask, keys[i])
        if row < 0:
            if added == room:
                return i, added
            row = allocate_row(free_rows, state, row_keys.size)
            if row < 0:
                return i, added
            int_index_insert(slots_key, slots_row, mask, row_keys, keys[i], row)
            added += 1
        rows[i] = row
    return keys.size, added


@njit(nogil=True, cache=True)
def remove_ints(slots_key, slots_row, mask, row_keys, rows):
    """Remove the keys of `rows`; returns how many were there."""
    removed = 0
    for i in range(rows.size):
        hole = hash_int(row_keys[rows[i]]) & mask
        while slots_row[hole] >= 0 and slots_row[hole] != rows[i]:
            hole = (hole + 1) & mask
        if slots_row[hole] < 0:
            continue
        removed += 1
        slot = (hole + 1) & mask
        while slots_row[slot] >= 0:
            home = hash_int(slots_key[slot]) & mask
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                slots_key[hole] = slots_key[slot]
                slots_row[hole] = slots_row[slot]
                hole = slot
            slot = (slot + 1) & mask
        slots_row[hole] = -1
    return removed


@njit(nogil=True, cache=True)
def rebuild_ints(old_key, old_row, slots_key, slots_row, mask):
    """Put all keys of the old slots into empty new ones."""
    for i in range(old_row.size):
        if old_row[i] >= 0:
            slot = hash_int(old_key[i]) & mask
            while slots_row[slot] >= 0:
                slot = (slot + 1) & mask
            slots_key[slot] = old_key[i]
            slots_row[slot] = old_row[i]


@njit(nogil=True, cache=True)
def within(keys, end):
    """Whether all keys lie in [0, end): as unsigned numbers, negative ones lie above."""
    highest = np.uint64(0)
    for i in range(keys.size):
        highest = max(highest, np.uint64(keys[i]))
    return keys.size == 0 or highest < np.uint64(end)


@njit(nogil=True, cache=True)
def dense_prefix(row_keys, live, start, end):
    """The first row from `start` that is not live or not its own key."""
    row = start
    while row < end and live[row] != 0 and row_keys[row] == row:
        row += 1
    return row


@njit(nogil=True, cache=True)
def live_prefix(live, start, end):
    """The first row from `start` that is not live."""
    row = start
    while row < end and live[row] != 0:
        row += 1
    return row
