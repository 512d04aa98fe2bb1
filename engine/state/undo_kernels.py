# mypy: ignore-errors
"""Kernels of the undo log: reading records as of the last finished epoch, and taking a running epoch back.

A table's memory is given as words: each row's mark, then its record. So is the log: each entry's head, then a record.
"""

from numba import njit

from engine.state.atomics import load_acquire


@njit(nogil=True, cache=True)
def read_stable(rows, marks, base, memory, live, entries, found, found_live):
    """Copies the rows' records and liveness from before the running epoch, while it may be changing them."""
    words = found.shape[1]
    for i in range(rows.size):
        row = rows[i]
        entry = load_acquire(marks, row) - base
        if entry < 0:
            found_live[i] = live[row]
            for word in range(words):
                found[i, word] = memory[row, word + 1]
            # The row may have been touched meanwhile; its old record was saved before it changed.
            entry = load_acquire(marks, row) - base
        if entry >= 0:
            saved = entry // (8 * (words + 1))
            found_live[i] = entries[saved, 0] & 1
            for word in range(words):
                found[i, word] = entries[saved, word + 1]


@njit(nogil=True, cache=True)
def copy_rows(memory, rows, copied):
    """Copies the records of rows, word by word; a row's first word is its mark."""
    for i in range(rows.size):
        for word in range(copied.shape[1]):
            copied[i, word] = memory[rows[i], word + 1]


@njit(nogil=True, cache=True)
def move_entries(entries, begin, count, to, base, memory):
    """Moves entries down the log, and their rows' marks with them."""
    for i in range(count):
        for word in range(entries.shape[1]):
            entries[to + i, word] = entries[begin + i, word]
        memory[entries[to + i, 0] >> 1, 0] = base + 8 * entries.shape[1] * (to + i)


@njit(nogil=True, cache=True)
def roll_back(entries, live, memory):
    """Puts saved records back."""
    for i in range(entries.shape[0]):
        row = entries[i, 0] >> 1
        live[row] = entries[i, 0] & 1
        for word in range(1, entries.shape[1]):
            memory[row, word] = entries[i, word]


@njit(nogil=True, cache=True)
def copy_touched(entries, memory, live, rows, found_live, found):
    """The rows that the log has entries for, with their liveness and records as they are now."""
    for i in range(entries.shape[0]):
        row = entries[i, 0] >> 1
        rows[i] = row
        found_live[i] = live[row]
        for word in range(found.shape[1]):
            found[i, word] = memory[row, word + 1]
