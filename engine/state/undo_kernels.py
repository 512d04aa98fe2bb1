# mypy: ignore-errors
"""Kernels of the undo log: reading records as of the last finished epoch, and taking a running epoch back."""

from numba import njit

from engine.state.atomics import load_acquire


@njit(nogil=True, cache=True)
def read_stable(rows, mark, base, records, live, old_records, old_live, found_records, found_live):
    """Copies the rows' records and liveness from before the running epoch, while it may be changing them."""
    for i in range(rows.size):
        row = rows[i]
        entry = load_acquire(mark, row) - base
        if entry < 0:
            found_live[i] = live[row]
            for byte in range(records.shape[1]):
                found_records[i, byte] = records[row, byte]
            # The row may have been touched meanwhile; its old record was saved before it changed.
            entry = load_acquire(mark, row) - base
        if entry >= 0:
            found_live[i] = old_live[entry]
            for byte in range(records.shape[1]):
                found_records[i, byte] = old_records[entry, byte]


@njit(nogil=True, cache=True)
def copy_rows(memory, rows, copied):
    """Copies the records of rows, word by word; a row's first word is its mark."""
    for i in range(rows.size):
        for word in range(copied.shape[1]):
            copied[i, word] = memory[rows[i], word + 1]


@njit(nogil=True, cache=True)
def roll_back(rows, old_live, old_records, live, records):
    """Puts saved records back."""
    for i in range(rows.size):
        live[rows[i]] = old_live[i]
        records[rows[i]] = old_records[i]
