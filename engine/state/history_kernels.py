# mypy: ignore-errors
"""Kernels of the window history: a chain of versions per row (`chain_kernels`), the newest at the row's head.

An entry of the arena is a record and its node; entry i's node is number `i * entry_words + record_words`.
"""

from numba import njit

from engine.state.chain_kernels import END, link_node


@njit(nogil=True, cache=True)
def _link_entry(base, entry, entry_words, record_words, before, ts, kinds, offsets, places):
    """Puts the entry before entry `before` (-1: none) of its row."""
    node = entry * entry_words + record_words
    previous = before * entry_words + record_words if before >= 0 else END
    link_node(base, node, previous, ts, base + 8 * entry * entry_words, kinds, offsets, places, 0, kinds.size)


@njit(nogil=True, cache=True)
def append_entries(
    rows, ts, records, before_ts, entry_row, entry_ts, arena, base, record_words, kinds, offsets, places, used, head, count
):  # fmt: skip
    """Add entries in order from `used`, leaving out those that no window needs any more; returns the new `used`."""
    for i in range(rows.size):
        if ts[i] < before_ts:
            continue
        row = rows[i]
        entry_row[used] = row
        entry_ts[used] = ts[i]
        for word in range(record_words):
            arena[used, word] = records[i, word]
        _link_entry(base, used, arena.shape[1], record_words, head[row], ts[i], kinds, offsets, places)
        head[row] = used
        count[row] += 1
        used += 1
    return used


@njit(nogil=True, cache=True)
def retire_entries(start, end, old_before_ts, before_ts, entry_row, entry_ts, head, count, emptied):
    """Count off the entries that fall out now; a row without entries loses its head and is noted in `emptied`.

    Returns how many entries fell out and how many rows are in `emptied`.
    """
    retired = 0
    emptied_count = 0
    for i in range(start, end):
        if old_before_ts <= entry_ts[i] < before_ts:
            row = entry_row[i]
            count[row] -= 1
            if count[row] == 0:
                head[row] = -1
                emptied[emptied_count] = row
                emptied_count += 1
            retired += 1
    return retired, emptied_count


@njit(nogil=True, cache=True)
def smallest_kept(start, end, before_ts, entry_ts, default):
    """The smallest ts of the entries that stay, or `default` if none does."""
    smallest = default
    for i in range(start, end):
        if entry_ts[i] >= before_ts:
            smallest = min(smallest, entry_ts[i])
    return smallest


@njit(nogil=True, cache=True)
def compact_entries(
    used, before_ts, entry_row, entry_ts, arena, base, record_words, kinds, offsets, places, head, moved
):  # fmt: skip
    """Move the entries that stay together, in order, in place; moved[i] is how many of the first i stay.

    Returns the new `used`. Chains are linked again from nothing, since a dead entry may lie anywhere in one.
    """
    for i in range(used):
        if entry_ts[i] >= before_ts:
            head[entry_row[i]] = -1
    kept = 0
    for i in range(used):
        moved[i] = kept
        if entry_ts[i] >= before_ts:
            row = entry_row[i]
            entry_row[kept] = row
            entry_ts[kept] = entry_ts[i]
            for word in range(record_words):
                arena[kept, word] = arena[i, word]
            _link_entry(base, kept, arena.shape[1], record_words, head[row], entry_ts[i], kinds, offsets, places)
            head[row] = kept
            kept += 1
    moved[used] = kept
    return kept
