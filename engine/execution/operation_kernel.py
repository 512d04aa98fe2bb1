# mypy: ignore-errors
"""Kernels that run one operation: find the versions it reads, call its functions, leave its own version in its slot.

Invariants: nothing but the operation's own slot and marks is written (a computed write also enters the list of its row).
What is visible depends only on `Marks.result` and `Marks.aborted` of earlier operations; the schedulers see to it that
those are settled or will be rolled back. The order of checks within an operation is part of the contract.
"""

import numpy as np
from numba import njit

from engine.execution.atomics import address_of, call_entry, copy_bytes, load_word, store_word, words_at
from engine.execution.fold_kernel import fold_table, fold_window
from engine.execution.layout import (
    CANCELLED,
    COMPUTED,
    COMPUTED_AGAIN,
    DONE,
    FAILED,
    HANDLE,
    KEY,
    OUT_OF_ROWS,
    SKIPPED,
    WHOLE_TABLE,
    WINDOW,
)
from engine.execution.version_kernel import is_live, record_address, visible_write
from engine.execution.window_kernel import chain_version
from engine.state.int_kernels import int_index_find, int_index_insert

READ, WRITE, DELETE, OUTPUT, EMIT = range(5)
REFUSED, CONSTRAINT, UNKNOWN_KEY, NOT_A_CANDIDATE = 1, 2, 7, 8
POISONED = 100  # it reads from an operation that failed: whatever it does has no effect
NO_ENTRY = -1


@njit(nogil=True, cache=True)
def run_operation(program, tables, operations, marks, scratch, operation):
    """Runs one operation and leaves its result in the marks; gives the result."""
    marks.runs[operation] += 1
    reason = _run(program, tables, operations, marks, scratch, operation)
    if reason == 0:
        result = DONE
    elif reason == -1:
        result = SKIPPED
    elif reason == POISONED:
        result = CANCELLED
    else:
        marks.reason[operation] = reason
        result = FAILED
    marks.result[operation] = result
    return result


@njit(nogil=True, cache=True)
def _run(program, tables, operations, marks, scratch, operation):
    """0: done, -1: left out by `when`, otherwise the reason it failed."""
    statement = operations.statement[operation]
    kind = program.kind[statement]
    transaction = operations.transaction[operation]
    event = operations.event[transaction]
    entry = operations.entry_begin[operation]
    argument = program.argument_begin[statement]
    arguments = address_of(scratch.arguments)
    slot = address_of(marks.slots) + 8 * operations.slot[operation]
    table = program.table[statement]
    marks.failed_entry[operation] = NO_ENTRY
    marks.key_known[operation] = 0

    if program.when_function[statement] != 0:
        count = program.when_arguments[statement]
        reason, entry = _gather(program, tables, operations, marks, scratch, operation, entry, argument, count)
        if reason != 0:
            return reason
        argument += count
        verdict = call_entry(program.when_function[statement], 0, event, 0, arguments)
        if verdict < 0:
            return -verdict
        if verdict == 0:
            if kind == WRITE and program.target[statement] == KEY:
                row = operations.row[operation]
                found = visible_write(
                    tables, operations, marks, table, row, operations.link[operation], operation, transaction
                )
                copy_bytes(
                    slot, record_address(tables, operations, marks, table, row, found), tables.record_bytes[table]
                )
            elif kind == WRITE:
                copy_bytes(slot, tables.default[table], tables.record_bytes[table])
            return -1

    row = operations.row[operation]
    target = program.target[statement]
    if target == COMPUTED:
        count = program.key_arguments[statement]
        reason, entry = _gather(program, tables, operations, marks, scratch, operation, entry, argument, count)
        if reason != 0:
            return reason
        argument += count
        verdict = call_entry(program.key_function[statement], slot, event, 0, arguments)
        if verdict < 0:
            return -verdict
        if marks.runs[operation] > 1:
            scratch.counters[COMPUTED_AGAIN] += 1
        reason, row, entry = _find_computed(
            program, tables, operations, marks, scratch, operation, load_word(slot), entry
        )
        if reason != 0:
            return reason

    found = np.int64(-1)
    known = False
    if target != WHOLE_TABLE and table >= 0:
        # A write continues its own transaction's writes; everything else sees the state before them.
        link = operations.link[operation]
        bound = operations.first[transaction]
        if target == COMPUTED and row >= 0:
            link = load_word(tables.last_write[table] + 8 * row)
        if kind == WRITE or kind == DELETE:
            bound = operation
        if row >= 0:
            found = visible_write(tables, operations, marks, table, row, link, bound, transaction)
            known = is_live(tables, marks, table, row, found)
        if not known and tables.creates[table] == 0:
            return UNKNOWN_KEY

    if kind == READ:
        if target == WINDOW:
            return fold_window(program, tables, operations, marks, scratch, operation, found, slot)
        if target == WHOLE_TABLE:
            return fold_table(program, tables, operations, marks, operation, slot)
        if known:
            copy_bytes(slot, record_address(tables, operations, marks, table, row, found), tables.record_bytes[table])
        else:
            copy_bytes(slot, tables.default[table], tables.record_bytes[table])
        return 0

    if kind == DELETE:
        if not known:
            return -1
        marks.live[operation] = 0
        if program.node_words[table] != 0:
            chain_version(program, tables, operations, marks, operation, found)
        if target == COMPUTED:
            _enter_row(tables, marks, table, row, operation)
        return 0

    count = program.function_arguments[statement]
    reason, entry = _gather(program, tables, operations, marks, scratch, operation, entry, argument, count)
    if reason != 0:
        return reason
    if kind == WRITE:
        if known:
            copy_bytes(slot, record_address(tables, operations, marks, table, row, found), tables.record_bytes[table])
        else:
            copy_bytes(slot, tables.default[table], tables.record_bytes[table])
    else:
        for word in range(program.slot_bytes[statement] // 8):
            store_word(slot + 8 * word, 0)
    each = operations.each[operation] if operations.each.size > 0 else 0
    verdict = call_entry(program.function[statement], slot, event, each, arguments)
    if verdict < 0:
        return -verdict
    if verdict == 0:
        return REFUSED
    if kind == WRITE:
        if tables.constraint[table] != 0:
            verdict = call_entry(tables.constraint[table], slot, event, 0, arguments)
            if verdict < 0:
                return -verdict
            if verdict == 0:
                return CONSTRAINT
        marks.live[operation] = 1
        if program.node_words[table] != 0:
            chain_version(program, tables, operations, marks, operation, found)
        if target == COMPUTED:
            _enter_row(tables, marks, table, row, operation)
    return 0


@njit(nogil=True, cache=True)
def _gather(program, tables, operations, marks, scratch, operation, entry, argument, count):
    """Points the thread's argument list to what the next `count` arguments read; gives a reason and the next entry."""
    transaction = operations.transaction[operation]
    bound = operations.first[transaction]
    free = address_of(scratch.lists)
    for position in range(count):
        table = program.argument_table[argument + position]
        size = program.argument_bytes[argument + position]
        number = np.int64(1)
        many = program.argument_many[argument + position] != 0
        if many:
            number = operations.entry_row[entry]
            entry += 1
            scratch.arguments[2 * position] = free
        scratch.arguments[2 * position + 1] = number
        for _ in range(number):
            if table == HANDLE:
                source = operations.entry_link[entry]
                if marks.result[source] != DONE and marks.result[source] != SKIPPED:
                    return POISONED, entry
                address = address_of(marks.slots) + 8 * operations.slot[source]
            else:
                row = operations.entry_row[entry]
                found = visible_write(
                    tables, operations, marks, table, row, operations.entry_link[entry], bound, transaction
                )
                if is_live(tables, marks, table, row, found):
                    address = record_address(tables, operations, marks, table, row, found)
                elif tables.creates[table] != 0:
                    address = tables.default[table]
                else:
                    marks.failed_entry[operation] = entry
                    return UNKNOWN_KEY, entry
            if many:
                copy_bytes(free, address, size)
                free += size
            else:
                scratch.arguments[2 * position] = address
            entry += 1
    return 0, entry


@njit(nogil=True, cache=True)
def _find_computed(program, tables, operations, marks, scratch, operation, key, entry):
    """The row of a computed key, checked against the candidates; a write to a creating table makes a new row."""
    statement = operations.statement[operation]
    table = program.table[statement]
    mask = tables.index_mask[table]
    slots = words_at(tables.index_slots[table], 2 * (mask + 1))  # key and row of each slot side by side
    keys, rows = slots[0::2], slots[1::2]
    marks.key[operation] = key
    marks.key_known[operation] = 1
    row = int_index_find(keys, rows, mask, key)
    if program.has_candidates[statement] != 0:
        number = operations.entry_row[entry]
        entry += 1
        inside = False
        for _ in range(number):
            inside = inside or operations.entry_row[entry] == row
            entry += 1
        if not inside:
            operations.row[operation] = -1
            return NOT_A_CANDIDATE, np.int64(-1), entry
    if row < 0 and program.kind[statement] == WRITE and tables.creates[table] != 0:
        if tables.spare_used[table] >= tables.spare_count[table]:
            scratch.counters[OUT_OF_ROWS] += 1
            return UNKNOWN_KEY, np.int64(-1), entry
        row = load_word(tables.spare_rows[table] + 8 * tables.spare_used[table])
        tables.spare_used[table] += 1
        row_keys = words_at(tables.row_keys[table], tables.row_capacity[table])
        int_index_insert(keys, rows, mask, row_keys, key, row)
    operations.row[operation] = row
    return 0, row, entry


@njit(nogil=True, cache=True)
def _enter_row(tables, marks, table, row, operation):
    """Puts a computed write at the head of its row's list; fences on one table run one after another, in order."""
    head = tables.fence_head[table] + 8 * row
    marks.fence_previous[operation] = load_word(head)
    store_word(head, operation)


@njit(nogil=True, cache=True)
def leave_row(tables, marks, table, row, operation):
    """Takes a rolled back computed write out of its row's list."""
    head = tables.fence_head[table] + 8 * row
    at = load_word(head)
    if at == operation:
        store_word(head, marks.fence_previous[operation])
        return
    while at >= 0:
        following = marks.fence_previous[at]
        if following == operation:
            marks.fence_previous[at] = marks.fence_previous[operation]
            return
        at = following


@njit(nogil=True, cache=True)
def leave_rows(program, tables, operations, marks, begin, end):
    """Takes all computed writes of a stage out of their rows' lists."""
    for operation in range(begin, end):
        statement = operations.statement[operation]
        writes = program.kind[statement] == WRITE or program.kind[statement] == DELETE
        if writes and program.target[statement] == COMPUTED and marks.result[operation] == DONE:
            leave_row(tables, marks, program.table[statement], operations.row[operation], operation)


@njit(nogil=True, cache=True)
def run_preparation(entries, filter_entry, events, event_bytes, count, value_offsets, outcome, reason):
    """Derives the columns of each event row in place and filters: outcome 0 goes on, 1 failed (reason), 2 filtered."""
    for i in range(count):
        event = events + i * event_bytes
        for d in range(entries.size):
            verdict = call_entry(entries[d], event + value_offsets[d], event, 0, 0)
            if verdict < 0:
                outcome[i] = 1
                reason[i] = -verdict
                break
        if outcome[i] == 0 and filter_entry != 0:
            verdict = call_entry(filter_entry, 0, event, 0, 0)
            if verdict < 0:
                outcome[i] = 1
                reason[i] = -verdict
            elif verdict == 0:
                outcome[i] = 2
