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
def save(place, live, undo_rows, undo_live, undo_records, base, count, row, size, record):
    """Saves the record at `place` the first time an epoch touches its row; gives the number of rows saved."""
    mark = place - 8
    if pointer_at(mark, WORD)[0] >= base:
        return count
    pointer_at(undo_rows, WORD)[count] = row
    pointer_at(undo_live, BYTE)[count] = pointer_at(live, BYTE)[row]
    copy_at(undo_records + count * size, record_at(place, record))
    release_at(mark, base + count)
    return count + 1
