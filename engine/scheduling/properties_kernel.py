# mypy: ignore-errors
"""Kernels that measure a stage's graph (Table 2), for several groups of transactions at once. One pass each.

The counts are columns of `counts`, a row a group. Invariant: every cost is linear in operations, entries and edges.
"""

from numba import njit

from engine.execution.layout import HANDLE, KEY, NO_TARGET, WINDOW

READ = 0
PD, TD = 2, 1

# Columns of counts; TD, PD, SD and FD are the edges' kinds.
OPERATIONS, LD, COLUMNS = 0, 5, 6


@njit(nogil=True, cache=True)
def measure_edges(program, operations, begin, end, first_transaction, group, predecessor_begin, kinds, counts):
    """Counts operations and dependencies by kind.

    A read by an operation without a key of its own (an output, a derived record) counts as temporal: in the paper's model
    it is a READ of its own, on that key's list.
    """
    for operation in range(begin, end):
        transaction = operations.transaction[operation]
        mine = group[transaction - first_transaction]
        counts[mine, OPERATIONS] += 1
        if operation > operations.first[transaction]:
            counts[mine, LD] += 1
        keyless = program.target[operations.statement[operation]] == NO_TARGET
        for edge in range(predecessor_begin[operation - begin], predecessor_begin[operation - begin + 1]):
            kind = kinds[edge]
            if keyless and kind == PD:
                kind = TD
            counts[mine, kind] += 1


@njit(nogil=True, cache=True)
def count_accesses(program, operations, begin, end, head, accesses):
    """How often each written state is accessed, counted at its first write (`head`): by writes, and by reads after one.

    A state that no earlier transaction has written makes no dependency, so reading it counts nothing (unless a list of keys
    or a later statement of the transaction itself wrote it). Computed keys are not known yet.
    """
    for operation in range(begin, end):
        statement = operations.statement[operation]
        target = program.target[statement]
        if target == KEY or target == WINDOW:
            write = operations.link[operation]
            first = head[write - begin] if write >= begin else operation - begin
            if program.kind[statement] != READ:
                head[operation - begin] = first
                accesses[first] += 1
            elif write >= begin:
                accesses[first] += 1
        entry = operations.entry_begin[operation]
        argument = program.argument_begin[statement]
        last = argument + program.when_arguments[statement] + program.key_arguments[statement]
        function_first = last
        last += program.function_arguments[statement]
        for position in range(argument, last):
            if position == function_first and program.has_candidates[statement] != 0:
                entry += 1 + operations.entry_row[entry]
            number = 1
            if program.argument_many[position] != 0:
                number = operations.entry_row[entry]
                entry += 1
            if program.argument_table[position] != HANDLE:
                for each in range(entry, entry + number):
                    if operations.entry_link[each] >= begin:
                        accesses[head[operations.entry_link[each] - begin]] += 1
            entry += number


@njit(nogil=True, cache=True)
def measure_units(member_begin, predecessor_begin, predecessor, stratum, group, path, edges, span, weight, heaviest):
    """For each group its edges among units and its longest path in operations; for each group and stratum the operations
    and the largest unit. Units are numbered so that edges point to higher numbers."""
    for unit in range(stratum.size):
        mine = group[unit]
        size = member_begin[unit + 1] - member_begin[unit]
        longest = 0
        for edge in range(predecessor_begin[unit], predecessor_begin[unit + 1]):
            longest = max(longest, path[predecessor[edge]])
        path[unit] = longest + size
        edges[mine] += predecessor_begin[unit + 1] - predecessor_begin[unit]
        span[mine] = max(span[mine], path[unit])
        weight[mine, stratum[unit]] += size
        heaviest[mine, stratum[unit]] = max(heaviest[mine, stratum[unit]], size)
