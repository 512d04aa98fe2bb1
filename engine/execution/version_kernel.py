# mypy: ignore-errors
"""Kernels that find versions: which write of a row a reader at a place in the order sees.

A row's writes form a list from newest to oldest along `Operations.link`; writes by computed keys form a second one along
`Marks.fence_previous`. A write is visible if it is done and its transaction is not aborted (or is the reader's own).
"""

from numba import njit

from engine.execution.atomics import address_of, load_byte, load_word
from engine.execution.layout import DONE


@njit(nogil=True, cache=True)
def is_visible(operations, marks, write, transaction):
    if marks.result[write] != DONE:
        return False
    owner = operations.transaction[write]
    return owner == transaction or marks.aborted[owner] == 0


@njit(nogil=True, cache=True)
def visible_write(tables, operations, marks, table, row, link, bound, transaction):
    """The newest visible write of the row below operation `bound`, searching from `link`; -1: the table's own record."""
    write = link
    while write >= 0 and (write >= bound or not is_visible(operations, marks, write, transaction)):
        write = operations.link[write]
    if tables.has_fences[table] != 0:
        fence = load_word(tables.fence_head[table] + 8 * row)
        while fence >= 0 and (fence >= bound or not is_visible(operations, marks, fence, transaction)):
            fence = marks.fence_previous[fence]
        write = max(write, fence)
    return write


@njit(nogil=True, cache=True)
def is_live(tables, marks, table, row, write):
    """Whether the key of the row is known in that version."""
    if write >= 0:
        return marks.live[write] != 0
    return load_byte(tables.live[table] + row) != 0


@njit(nogil=True, cache=True)
def record_address(tables, operations, marks, table, row, write):
    """Where that version's record is; the default record where the key is unknown."""
    if write >= 0:
        if marks.live[write] != 0:
            return address_of(marks.slots) + 8 * operations.slot[write]
        return tables.default[table]
    if load_byte(tables.live[table] + row) != 0:
        return tables.records[table] + row * tables.row_bytes[table]
    return tables.default[table]
