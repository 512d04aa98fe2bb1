# mypy: ignore-errors
"""Kernels of the transaction phase (section 4.2): one pass in order finds every dependency from the links of the stream phase.

An edge always points to a higher number. Kinds of edges:

TD  to an operation from the nearest earlier write of its own key in another transaction
PD  to an operation from the nearest earlier write, in another transaction, of each other key that it reads
SD  between operations of one transaction: a second write of a key, or a function that reads what a statement gave
FD  a fence: an operation whose key is not known yet (or that reads a whole table) follows all writes of the table before
    it, and, if it writes, all later accesses of the table follow it
"""

import numpy as np
from numba import njit

from engine.execution.atomics import store_word
from engine.execution.layout import COMPUTED, HANDLE, KEY, WHOLE_TABLE, WINDOW

TD, PD, SD, FD = 1, 2, 3, 4
READ, WRITE, DELETE = 0, 1, 2


@njit(nogil=True, cache=True)
def forget_links(program, tables, operations, begin, end):
    """Empties the last-writer and computed-write lists of every row an epoch touched."""
    for operation in range(begin, end):
        statement = operations.statement[operation]
        target = program.target[statement]
        row = operations.row[operation]
        if program.kind[statement] != READ and row >= 0 and (target == KEY or target == COMPUTED):
            store_word(tables.last_write[program.table[statement]] + 8 * row, -1)
            store_word(tables.fence_head[program.table[statement]] + 8 * row, -1)


@njit(nogil=True, cache=True)
def _other_write(operations, write, first):
    """The newest write at or below `write` that is not of the transaction whose first operation is `first`."""
    while write >= first:
        write = operations.link[write]
    return write


@njit(nogil=True, cache=True)
def _add_edge(sources, kinds, count, begin, base, source, kind):
    """Appends an edge unless the operation has this one already as its last, or it comes from an earlier stage."""
    if source < base:
        return count
    if count > begin and sources[count - 1] == source - base and kinds[count - 1] == kind:
        return count
    sources[count] = source - base
    kinds[count] = kind
    return count + 1


@njit(nogil=True, cache=True)
def find_edges(program, tables, operations, begin, end, predecessor_begin, sources, kinds):
    """Fills the predecessors of each operation (numbers minus `begin`); gives the number of edges."""
    count = 0
    number_of_tables = tables.has_fences.size
    last_fence = np.full(number_of_tables, -1, np.int64)
    last_writing_fence = np.full(number_of_tables, -1, np.int64)
    open_write = np.full(number_of_tables, -1, np.int64)  # the newest write since the table's last fence …
    earlier_open_write = np.full(end - begin, -1, np.int64)  # … and the one before each
    for operation in range(begin, end):
        edges_begin = count
        predecessor_begin[operation - begin] = count
        statement = operations.statement[operation]
        kind = program.kind[statement]
        target = program.target[statement]
        table = program.table[statement]
        first = operations.first[operations.transaction[operation]]
        entry = operations.entry_begin[operation]
        argument = program.argument_begin[statement]
        arguments = (
            program.when_arguments[statement] + program.key_arguments[statement] + program.function_arguments[statement]
        )
        if target == KEY or target == WINDOW:
            write = operations.link[operation]
            if kind != READ and write >= first:
                count = _add_edge(sources, kinds, count, edges_begin, begin, write, SD)
            else:
                count = _add_edge(sources, kinds, count, edges_begin, begin, _other_write(operations, write, first), TD)
            if last_writing_fence[table] >= 0:
                count = _add_edge(sources, kinds, count, edges_begin, begin, last_writing_fence[table], FD)
        function_first = argument + arguments - program.function_arguments[statement]
        for position in range(argument, argument + arguments):
            if position == function_first and program.has_candidates[statement] != 0:
                entry += 1 + operations.entry_row[entry]
            argument_table = program.argument_table[position]
            number = np.int64(1)
            if program.argument_many[position] != 0:
                number = operations.entry_row[entry]
                entry += 1
            for _ in range(number):
                if argument_table == HANDLE:
                    count = _add_edge(sources, kinds, count, edges_begin, begin, operations.entry_link[entry], SD)
                else:
                    write = _other_write(operations, operations.entry_link[entry], first)
                    count = _add_edge(sources, kinds, count, edges_begin, begin, write, PD)
                entry += 1
            if argument_table != HANDLE and last_writing_fence[argument_table] >= 0:
                count = _add_edge(sources, kinds, count, edges_begin, begin, last_writing_fence[argument_table], FD)
        if target == COMPUTED or target == WHOLE_TABLE:
            write = open_write[table]
            while write >= 0:
                count = _add_edge(sources, kinds, count, edges_begin, begin, write, FD)
                write = earlier_open_write[write - begin]
            open_write[table] = -1
            if last_fence[table] >= 0:
                count = _add_edge(sources, kinds, count, edges_begin, begin, last_fence[table], FD)
            last_fence[table] = operation
            if kind != READ:
                last_writing_fence[table] = operation
        elif target == KEY and kind != READ and tables.has_fences[table] != 0:
            earlier_open_write[operation - begin] = open_write[table]
            open_write[table] = operation
    predecessor_begin[end - begin] = count
    return count


@njit(nogil=True, cache=True)
def reverse_edges(predecessor_begin, predecessor, successor_begin, successor):
    """The same edges by source."""
    count = predecessor_begin.size - 1
    successor_begin[:] = 0
    for edge in range(predecessor.size):
        successor_begin[predecessor[edge] + 1] += 1
    for source in range(count):
        successor_begin[source + 1] += successor_begin[source]
    fill = successor_begin[:count].copy()
    for target in range(count):
        for edge in range(predecessor_begin[target], predecessor_begin[target + 1]):
            successor[fill[predecessor[edge]]] = target
            fill[predecessor[edge]] += 1


@njit(nogil=True, cache=True)
def rank_strata(predecessor_begin, predecessor, stratum):
    """Longest-path rank of each vertex of a graph whose edges point to higher numbers; gives the number of strata."""
    strata = 0
    for vertex in range(stratum.size):
        rank = 0
        for edge in range(predecessor_begin[vertex], predecessor_begin[vertex + 1]):
            rank = max(rank, stratum[predecessor[edge]] + 1)
        stratum[vertex] = rank
        strata = max(strata, rank + 1)
    return strata


@njit(nogil=True, cache=True)
def _root(parent, vertex):
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@njit(nogil=True, cache=True)
def connect_transactions(operations, begin, end, first_transaction, predecessor_begin, predecessor, component):
    """Connected components of transactions: component[t] is the lowest transaction of t's component."""
    for transaction in range(component.size):
        component[transaction] = transaction
    for operation in range(begin, end):
        target = operations.transaction[operation] - first_transaction
        for edge in range(predecessor_begin[operation - begin], predecessor_begin[operation - begin + 1]):
            source = operations.transaction[predecessor[edge] + begin] - first_transaction
            low, high = _root(component, source), _root(component, target)
            if low > high:
                low, high = high, low
            component[high] = low
    for transaction in range(component.size):
        component[transaction] = _root(component, transaction)
