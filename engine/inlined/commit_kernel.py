# mypy: ignore-errors
"""Kernels that the generated serial kernels share: saving a row before its first change, and changing it."""

from numba import njit, types

from engine.functions.memory import copy_at, pointer_at, record_at, release_at

OPTIONS = {"nogil": True, "error_model": "numpy"}
WORD, BYTE = types.int64, types.uint8


@njit(**OPTIONS)
def is_live(live, row):
    return pointer_at(live, BYTE)[row] != 0


@njit(**OPTIONS)
def save(records, live, mark, undo_rows, undo_live, undo_records, base, count, row, size, record):
    """Saves a row the first time an epoch touches it; gives the number of rows saved."""
    if pointer_at(mark, WORD)[row] >= base:
        return count
    pointer_at(undo_rows, WORD)[count] = row
    pointer_at(undo_live, BYTE)[count] = pointer_at(live, BYTE)[row]
    copy_at(undo_records + count * size, record_at(records + row * size, record))
    release_at(mark + 8 * row, base + count)
    return count + 1
