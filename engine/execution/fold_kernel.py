# mypy: ignore-errors
"""Kernels that fold many versions into one value: a key's window, or all records of a table (sections 4.3 and 6.5.1).

A window is answered from the runs of its key's chain where the fold allows it (`window_kernel`), and else by walking the
versions in range: user folds, sums of floats that are not whole numbers, sums that might overflow on the way. Versions are
taken oldest first, records in key order, so that sums of floats have one answer. A window has one version for each
transaction and key: the last one, and none if the transaction left the key deleted.
"""

import math

import numpy as np
from numba import njit

from engine.execution.atomics import address_of, call_entry, load_float, load_word, store_float, store_word
from engine.execution.layout import VERSIONS_FOLDED
from engine.execution.version_kernel import is_live, record_address, visible_write
from engine.execution.window_kernel import fold_runs, history_chain, newest_node
from engine.functions.memory import add_with_overflow
from engine.state.chain_kernels import after_node, first_in_range

USER, SUM, COUNT, MIN, MAX, MEAN = range(6)
REFUSED, OVERFLOW, NOT_A_NUMBER = 1, 3, 5


@njit(nogil=True, cache=True)
def _append(addresses, count, address):
    if count == addresses.size:
        grown = np.empty(2 * count, np.int64)
        grown[:count] = addresses
        addresses = grown
    addresses[count] = address
    return addresses, count + 1


@njit(nogil=True, cache=True)
def fold_window(program, tables, operations, marks, scratch, operation, found, slot):
    """Folds the window of the operation's key into its slot, from `found`, the newest version it sees; gives 0 or a reason."""
    statement = operations.statement[operation]
    table = program.table[statement]
    oldest_ts = operations.ts[operations.transaction[operation]] - program.window_size[statement]
    record_words = tables.record_bytes[table] // 8
    base = address_of(marks.slots)
    node = newest_node(operations, marks, base, found, record_words)
    old_base, old_node = history_chain(program, tables, table, operations.row[operation], record_words)
    answered, visited = fold_runs(program, statement, base, node, old_base, old_node, oldest_ts, record_words, slot)
    if not answered:
        addresses = np.empty(16, np.int64)
        addresses, count, more = _walk(addresses, 0, base, node, oldest_ts, record_words)
        visited += more
        addresses, count, more = _walk(addresses, count, old_base, old_node, oldest_ts, record_words)
        visited += more
        scratch.counters[VERSIONS_FOLDED] += visited
        return _fold(program, statement, addresses[:count][::-1], slot)
    scratch.counters[VERSIONS_FOLDED] += visited
    return 0


@njit(nogil=True, cache=True)
def _walk(addresses, count, base, node, oldest_ts, record_words):
    """Appends the records of all versions in range, newest first; gives them and how many nodes were visited."""
    node, visited = first_in_range(base, node, oldest_ts)
    while node >= 0:
        addresses, count = _append(addresses, count, base + 8 * (node - record_words))
        node, passed = first_in_range(base, after_node(base, node), oldest_ts)
        visited += passed + 1
    return addresses, count, visited


@njit(nogil=True, cache=True)
def fold_table(program, tables, operations, marks, operation, slot):
    """Folds all records of the table into the operation's slot; gives 0 or a reason."""
    statement = operations.statement[operation]
    table = program.table[statement]
    transaction = operations.transaction[operation]
    bound = operations.first[transaction]
    addresses = np.empty(16, np.int64)
    count = 0
    for position in range(tables.fold_count[table]):
        row = load_word(tables.fold_rows[table] + 8 * position)
        link = load_word(tables.last_write[table] + 8 * row)
        found = visible_write(tables, operations, marks, table, row, link, bound, transaction)
        if is_live(tables, marks, table, row, found):
            addresses, count = _append(addresses, count, record_address(tables, operations, marks, table, row, found))
    return _fold(program, statement, addresses[:count], slot)


@njit(nogil=True, cache=True)
def _fold(program, statement, addresses, slot):
    fold = program.fold[statement]
    if fold == USER:
        for word in range(program.slot_bytes[statement] // 8):
            store_word(slot + 8 * word, 0)
        argument = np.ones(2, np.int64)
        for address in addresses:
            argument[0] = address
            verdict = call_entry(program.fold_function[statement], slot, 0, 0, address_of(argument))
            if verdict < 0:
                return -verdict
            if verdict == 0:
                return REFUSED
        return 0
    if fold == COUNT:
        store_word(slot, addresses.size)
        return 0
    if program.fold_is_float[statement] != 0:
        return _fold_floats(fold, program.fold_offset[statement], addresses, slot)
    return _fold_ints(fold, program.fold_offset[statement], addresses, slot)


@njit(nogil=True, cache=True)
def _fold_ints(fold, offset, addresses, slot):
    total = np.int64(0)
    if fold == MIN:
        total = np.int64(0x7FFFFFFFFFFFFFFF)
    elif fold == MAX:
        total = np.int64(-0x8000000000000000)
    for address in addresses:
        value = load_word(address + offset)
        if fold == MIN:
            total = min(total, value)
        elif fold == MAX:
            total = max(total, value)
        else:
            total, overflowed = add_with_overflow(total, value)
            if overflowed:
                return OVERFLOW
    if fold == MEAN:
        store_float(slot, total / addresses.size if addresses.size > 0 else 0.0)
    else:
        store_word(slot, total)
    return 0


@njit(nogil=True, cache=True)
def _fold_floats(fold, offset, addresses, slot):
    total = 0.0
    if fold == MIN:
        total = math.inf
    elif fold == MAX:
        total = -math.inf
    for address in addresses:
        value = load_float(address + offset)
        if fold == MIN:
            total = min(total, value)
        elif fold == MAX:
            total = max(total, value)
        else:
            total += value
            if math.isnan(total):
                return NOT_A_NUMBER
            if math.isinf(total):
                return OVERFLOW
    if fold == MEAN and addresses.size > 0:
        total = total / addresses.size
    store_float(slot, total)
    return 0
