# mypy: ignore-errors
"""Kernels of the serial mode: transactions one after another in the total order, nothing to roll back; and of installing.

The serial mode needs the version links only, no graph. A failed transaction's later operations are not run.
"""

from numba import njit, types

from engine.execution.atomics import address_of, copy_bytes, cycle_counter, load_word, store_word
from engine.execution.layout import (
    ABT,
    CANCELLED,
    COMPUTED,
    DONE,
    EXE,
    FAILED,
    KEY,
    OPERATIONS,
    T4,
    TOTAL_CYCLES,
    USEFUL_CYCLES,
)
from engine.execution.operation_kernel import DELETE, WRITE, run_operation
from engine.functions.memory import pointer_at

INSTALLED = -2  # in a row's last-writer cell while installing
NO_TRANSACTION = -1


@njit(nogil=True, cache=True)
def run_serially(program, tables, operations, marks, scratch, begin, end):
    """Runs transactions begin … end - 1."""
    started = cycle_counter()
    for transaction in range(begin, end):
        last = operations.first[transaction + 1]
        for operation in range(operations.first[transaction], last):
            result = run_operation(program, tables, operations, marks, scratch, operation)
            scratch.counters[OPERATIONS] += 1
            if result == FAILED:
                marks.aborted[transaction] = 1
                marks.first_failed[transaction] = operation
                for rest in range(operation + 1, last):
                    marks.result[rest] = CANCELLED
                for member in range(operations.first[transaction], last):
                    marks.state[member] = ABT
                    scratch.counters[T4] += 1
                break
            marks.state[operation] = EXE
    elapsed = cycle_counter() - started
    scratch.counters[USEFUL_CYCLES] += elapsed
    scratch.counters[TOTAL_CYCLES] += elapsed


@njit(nogil=True, cache=True)
def install_versions(program, tables, operations, marks, count, table, windowed, rows, history):
    """Makes the newest visible version of each row of `table` its record, and lists what changed.

    Fills `rows` with the changed rows and, for a table with windows, `history` with the operations whose versions windows
    may need (newest first). Gives both counts.
    """
    changed = 0
    kept = 0
    size = tables.record_bytes[table]
    for operation in range(count - 1, -1, -1):
        statement = operations.statement[operation]
        kind = program.kind[statement]
        target = program.target[statement]
        if program.table[statement] != table or (kind != WRITE and kind != DELETE):
            continue
        if (target != KEY and target != COMPUTED) or marks.result[operation] != DONE:
            continue
        transaction = operations.transaction[operation]
        if marks.aborted[transaction] != 0:
            continue
        row = operations.row[operation]
        newest = tables.last_write[table] + 8 * row
        if load_word(newest) != INSTALLED:
            store_word(newest, INSTALLED)
            pointer_at(tables.live[table], types.uint8)[row] = marks.live[operation]
            source = tables.default[table]
            if marks.live[operation] != 0:
                source = address_of(marks.slots) + 8 * operations.slot[operation]
            copy_bytes(tables.records[table] + row * tables.row_bytes[table], source, size)
            rows[changed] = row
            changed += 1
        if windowed:
            # While installing, a row's computed-write cell holds the transaction seen last, as -2 - number.
            seen = tables.fence_head[table] + 8 * row
            if load_word(seen) != -2 - transaction:
                store_word(seen, -2 - transaction)
                if marks.live[operation] != 0:
                    history[kept] = operation
                    kept += 1
    return changed, kept


@njit(nogil=True, cache=True)
def restore_rows(tables, table, rows):
    """Empties the planning cells of the rows after `install_versions`."""
    for row in rows:
        store_word(tables.last_write[table] + 8 * row, -1)
        store_word(tables.fence_head[table] + 8 * row, -1)
