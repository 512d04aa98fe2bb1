# mypy: ignore-errors
"""Kernels that find what a stage's transactions touch, before any of them runs: the determined read and write sets that all
schemes rest on (TStream, section II-C). One pass over the operations, by their numbers, costs no sort.
"""

import numpy as np
from numba import njit

from engine.baselines.layout import ALL_ROWS, TABLE_SHIFT
from engine.execution.layout import COMPUTED, HANDLE, NO_TARGET, WHOLE_TABLE
from engine.execution.operation_kernel import DELETE, WRITE
from engine.state.int_kernels import hash_int


@njit(nogil=True, cache=True)
def number_states(program, operations, states, begin, end):
    """Numbers the states that operations begin … end - 1 touch; gives how many there are."""
    for operation in range(begin, end):
        statement = operations.statement[operation]
        target = program.target[statement]
        if target == COMPUTED or target == WHOLE_TABLE:
            states.whole[program.table[statement]] = 1
    count = 0
    base = operations.entry_begin[begin]
    for operation in range(begin, end):
        statement = operations.statement[operation]
        table = program.table[statement]
        states.own[operation - begin] = -1
        if program.target[statement] != NO_TARGET and table >= 0:
            number, count = _number(states, table, operations.row[operation], count)
            states.own[operation - begin] = number
        first = operations.first[operations.transaction[operation]]
        entry = operations.entry_begin[operation]
        argument = program.argument_begin[statement]
        function_first = argument + program.when_arguments[statement] + program.key_arguments[statement]
        for position in range(argument, function_first + program.function_arguments[statement]):
            if position == function_first and program.has_candidates[statement] != 0:
                entry += 1 + operations.entry_row[entry]
            table = program.argument_table[position]
            length = np.int64(1)
            if program.argument_many[position] != 0:
                length = operations.entry_row[entry]
                entry += 1
            for _ in range(length):
                if table == HANDLE:
                    source = operations.entry_link[entry]
                    states.entry_state[entry - base] = states.own[source - begin]
                    states.entry_below[entry - base] = source + 1
                else:
                    number, count = _number(states, table, operations.entry_row[entry], count)
                    states.entry_state[entry - base] = number
                    states.entry_below[entry - base] = first
                entry += 1
    return count


@njit(nogil=True, cache=True)
def _number(states, table, row, count):
    """The number of a row's state and how many states there are now."""
    key = (table << TABLE_SHIFT) | (ALL_ROWS if states.whole[table] != 0 else row)
    mask = states.cells.size - 1
    cell = hash_int(key) & mask
    while states.cells[cell] >= 0:
        if states.cells[cell] == key:
            return states.numbers[cell], count
        cell = (cell + 1) & mask
    states.cells[cell] = key
    states.numbers[cell] = count
    states.key[count] = key
    return np.int64(count), count + 1


@njit(nogil=True, cache=True)
def list_accesses(program, operations, states, accesses, place_of_state, places, first_transaction, last_transaction):
    """The places of each transaction and whether it writes there; gives how many accesses there are."""
    seen_by = np.full(places, -1, np.int64)
    seen_at = np.empty(places, np.int64)
    begin = operations.first[first_transaction]
    base = operations.entry_begin[begin]
    count = 0
    for transaction in range(first_transaction, last_transaction):
        accesses.begin[transaction - first_transaction] = count
        for operation in range(operations.first[transaction], operations.first[transaction + 1]):
            kind = program.kind[operations.statement[operation]]
            writes = kind == WRITE or kind == DELETE
            state = states.own[operation - begin]
            if state >= 0:
                count = _add(accesses, place_of_state[state], writes, transaction, seen_by, seen_at, count)
            for entry in range(operations.entry_begin[operation], operations.entry_begin[operation + 1]):
                state = states.entry_state[entry - base]
                if state >= 0:
                    count = _add(accesses, place_of_state[state], False, transaction, seen_by, seen_at, count)
    accesses.begin[last_transaction - first_transaction] = count
    return count


@njit(nogil=True, cache=True)
def _add(accesses, place, writes, transaction, seen_by, seen_at, count):
    """Adds a place, or all of them where `place` is negative, unless the transaction has it already."""
    first, last = (place, place + 1) if place >= 0 else (np.int64(0), np.int64(seen_by.size))
    for each in range(first, last):
        if seen_by[each] != transaction:
            seen_by[each] = transaction
            seen_at[each] = count
            accesses.place[count] = each
            accesses.writes[count] = 0
            count += 1
        if writes:
            accesses.writes[seen_at[each]] = 1
    return count


@njit(nogil=True, cache=True)
def number_turns(accesses, count, places):
    """Each access's turn at its place: how many transactions come before it there."""
    turns = np.zeros(places, np.int64)
    for access in range(count):
        accesses.ticket[access] = turns[accesses.place[access]]
        turns[accesses.place[access]] += 1
