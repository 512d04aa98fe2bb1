# mypy: ignore-errors
"""Kernels of the stream phase (section 4.2): each transaction's operations, and their links to earlier writes of their rows.

Operations are numbered in the total order, so a last-writer cell per row replaces the paper's sorted lists: one pass finds every
link, and the cost follows the operations, not the tables. `columns` says where each batch's rows and lists lie (by address, 0
where there is none); a list is flat, cut by its offsets.
"""

import numpy as np
from numba import njit, types

from engine.execution.layout import HANDLE, KEY, WINDOW
from engine.functions.memory import pointer_at

READ = 0
WORD = types.int64


@njit(nogil=True, cache=True)
def _length(offsets_at, row):
    """Elements of an event's list; 1 where there is no list."""
    if offsets_at == 0:
        return np.int64(1)
    offsets = pointer_at(offsets_at, WORD)
    return offsets[row + 1] - offsets[row]


@njit(nogil=True, cache=True)
def count_transaction(program, columns, batch, row):
    """How many operations and entries an event's transaction has, and how many bytes its versions take."""
    begin = columns.statement_begin[batch]
    arguments = columns.argument_begin[batch] - program.argument_begin[columns.first_statement[batch]]
    operations = entries = slot_bytes = np.int64(0)
    for local in range(columns.statement_begin[batch + 1] - begin):
        statement = columns.first_statement[batch] + local
        size = _length(columns.offsets_at[begin + local], row)
        operations += size
        slot_bytes += size * program.slot_bytes[statement]
        each = np.int64(0)
        for argument in range(program.argument_begin[statement], program.argument_begin[statement + 1]):
            offsets = columns.argument_offsets_at[arguments + argument]
            each += 1 if offsets == 0 else 1 + _length(offsets, row)
        if program.has_candidates[statement] != 0:
            each += 1 + _length(columns.candidate_offsets_at[begin + local], row)
        entries += size * each
    return operations, entries, slot_bytes


@njit(nogil=True, cache=True)
def count_stage(program, columns, order_batch, order_row, outcome, is_fixed, totals):
    """Adds up a stage: transactions, operations, entries, slot bytes. Batches without lists are counted once."""
    fixed = np.full((is_fixed.size, 3), -1, np.int64)
    for position in range(order_row.size):
        if outcome[position] != 0:
            continue
        batch = order_batch[position]
        if is_fixed[batch] == 0 or fixed[batch, 0] < 0:
            fixed[batch, 0], fixed[batch, 1], fixed[batch, 2] = count_transaction(
                program, columns, batch, order_row[position]
            )
        totals[0] += 1
        totals[1] += fixed[batch, 0]
        totals[2] += fixed[batch, 1]
        totals[3] += fixed[batch, 2]


@njit(nogil=True, cache=True)
def decompose(program, tables, columns, plan, order_batch, order_row, outcome, transaction_of, starts, cursors):
    """Fills a stage's operations in the total order and links them; `cursors` are the numbers to begin with.

    cursors: operation, transaction, entry, slot word.
    """
    operation, transaction, entry, slot = cursors[0], cursors[1], cursors[2], cursors[3]
    first_operation, first_transaction, first_entry = operation, transaction, entry
    for position in range(order_row.size):
        if outcome[position] != 0:
            continue
        batch = order_batch[position]
        row = order_row[position]
        transaction_of[position] = transaction
        local_transaction = transaction - first_transaction
        plan.first[local_transaction] = operation
        plan.event[local_transaction] = columns.events_at[batch] + row * columns.event_bytes[batch]
        plan.ts[local_transaction] = pointer_at(columns.ts_at[batch], WORD)[row]
        begin = columns.statement_begin[batch]
        first_statement = columns.first_statement[batch]
        arguments = columns.argument_begin[batch] - program.argument_begin[first_statement]
        for local in range(columns.statement_begin[batch + 1] - begin):
            statement = first_statement + local
            starts[local] = operation
            table = program.table[statement]
            target = program.target[statement]
            rows_at = columns.rows_at[begin + local]
            offsets_at = columns.offsets_at[begin + local]
            flat = row
            size = np.int64(1)
            if offsets_at != 0:
                flat = pointer_at(offsets_at, WORD)[row]
                size = _length(offsets_at, row)
            for element in range(size):
                place = operation - first_operation
                plan.transaction[place] = transaction
                plan.statement[place] = statement
                plan.slot[place] = slot
                slot += program.slot_bytes[statement] // 8
                if columns.each_at[begin + local] != 0:
                    plan.each[place] = (
                        columns.each_at[begin + local] + (flat + element) * columns.each_bytes[begin + local]
                    )
                plan.entry_begin[place] = entry
                entry = _fill_entries(
                    program, tables, columns, plan, statement, begin + local, arguments, row, entry, first_entry, starts
                )
                link = np.int64(-1)
                own = np.int64(-1)
                if rows_at != 0:
                    own = pointer_at(rows_at, WORD)[flat + element]
                    newest = pointer_at(tables.last_write[table], WORD)
                    if target == KEY or target == WINDOW:
                        link = newest[own]
                        if program.kind[statement] != READ:
                            newest[own] = operation
                plan.row[place] = own
                plan.link[place] = link
                operation += 1
        transaction += 1
    plan.first[transaction - first_transaction] = operation
    plan.entry_begin[operation - first_operation] = entry
    return slot


@njit(nogil=True, cache=True)
def _fill_entries(program, tables, columns, plan, statement, place, arguments, row, entry, first_entry, starts):
    """An operation's entries: a record each, for a list first its length; candidates before the function's reads."""
    begin, end = program.argument_begin[statement], program.argument_begin[statement + 1]
    function_first = end - program.function_arguments[statement]
    for argument in range(begin, end + 1):
        if argument == function_first and program.has_candidates[statement] != 0:
            offsets_at = columns.candidate_offsets_at[place]
            number = _length(offsets_at, row)
            flat = row if offsets_at == 0 else pointer_at(offsets_at, WORD)[row]
            plan.entry_row[entry - first_entry] = number
            entry += 1
            for element in range(number):
                plan.entry_row[entry - first_entry] = pointer_at(columns.candidate_rows_at[place], WORD)[flat + element]
                entry += 1
        if argument == end:
            break
        offsets_at = columns.argument_offsets_at[arguments + argument]
        number = np.int64(1)
        flat = row
        if offsets_at != 0:
            number = _length(offsets_at, row)
            flat = pointer_at(offsets_at, WORD)[row]
            plan.entry_row[entry - first_entry] = number
            entry += 1
        table = program.argument_table[argument]
        if table == HANDLE:
            source = starts[program.argument_statement[argument]]
            for element in range(number):
                plan.entry_row[entry - first_entry] = 0
                plan.entry_link[entry - first_entry] = source + element
                entry += 1
            continue
        rows = pointer_at(columns.argument_rows_at[arguments + argument], WORD)
        newest = pointer_at(tables.last_write[table], WORD)
        for element in range(number):
            other = rows[flat + element]
            plan.entry_row[entry - first_entry] = other
            plan.entry_link[entry - first_entry] = newest[other]
            entry += 1
    return entry
