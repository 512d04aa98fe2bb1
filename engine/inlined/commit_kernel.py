# mypy: ignore-errors
"""Kernels that the generated serial kernels share: saving a row before its first change."""

from numba import njit, types

from engine.functions.memory import copy_at, pointer_at, record_at, release_at

OPTIONS = {"nogil": True, "error_model": "numpy"}
WORD, BYTE = types.int64, types.uint8
COPIED_ANYWAY = 32  # bytes up to which saving a record again is cheaper than a branch that nothing could predict


@njit(**OPTIONS)
def is_live(live, row):
    return pointer_at(live, BYTE)[row] != 0


@njit(**OPTIONS)
def save(place, log, base, cursor, head, size, record):
    """Saves the record at `place` the first time an epoch touches its row; gives the mark of the next entry.

    A small record is written to the log's end in any case, and counts only if the row's mark is an old one.
    """
    mark_at = place - 8
    mark = pointer_at(mark_at, WORD)[0]
    if size > COPIED_ANYWAY and mark >= base:
        return cursor
    entry = cursor + log
    pointer_at(entry, WORD)[0] = head
    copy_at(entry + 8, record_at(place, record))
    if size > COPIED_ANYWAY:
        release_at(mark_at, cursor)
        return cursor + size + 8
    first = -types.int64(mark < base)
    release_at(mark_at, mark ^ ((mark ^ cursor) & first))
    return cursor + ((size + 8) & first)
