# mypy: ignore-errors
"""Kernels that build coarse scheduling units (section 5.2): a key's chain, chains in a dependency cycle merged.

A chain holds the operations on one key, cut where a fence writes the table. Cycles are exact: strongly connected components
of the graph among chains, so a diamond is none. Units are numbered so that every edge points to a higher number.
"""

import numpy as np
from numba import njit

from engine.execution.layout import COMPUTED, KEY, WINDOW

READ = 0


@njit(nogil=True, cache=True)
def assign_chains(program, tables, operations, begin, end, chain):
    """A chain number for each operation; gives the number of chains."""
    chains = 0
    fences = np.zeros(tables.has_fences.size, np.int64)
    segment = np.zeros(end - begin, np.int64)
    for operation in range(begin, end):
        local = operation - begin
        statement = operations.statement[operation]
        target = program.target[statement]
        table = program.table[statement]
        chain[local] = -1
        if target == KEY or target == WINDOW:
            segment[local] = fences[table]
            write = operations.link[operation]
            if write >= begin and segment[write - begin] == fences[table]:
                chain[local] = chain[write - begin]
        elif target == COMPUTED and program.kind[statement] != READ:
            fences[table] += 1
        if chain[local] < 0:
            chain[local] = chains
            chains += 1
    return chains


@njit(nogil=True, cache=True)
def merge_cycles(successor_begin, successor, unit):
    """Tarjan's strongly connected components without recursion; unit[v] in topological order.

    Gives the number of units and how many of them merge several chains.
    """
    count = successor_begin.size - 1
    index = np.full(count, -1, np.int64)
    low = np.zeros(count, np.int64)
    on_stack = np.zeros(count, np.bool_)
    stack = np.empty(count, np.int64)
    path = np.empty(count, np.int64)
    edge = np.empty(count, np.int64)
    stacked = 0
    visited = 0
    units = 0
    merged = 0
    for start in range(count):
        if index[start] >= 0:
            continue
        depth = 0
        path[0] = start
        edge[0] = successor_begin[start]
        index[start] = low[start] = visited
        visited += 1
        stack[stacked] = start
        stacked += 1
        on_stack[start] = True
        while depth >= 0:
            vertex = path[depth]
            if edge[depth] < successor_begin[vertex + 1]:
                following = successor[edge[depth]]
                edge[depth] += 1
                if index[following] < 0:
                    index[following] = low[following] = visited
                    visited += 1
                    stack[stacked] = following
                    stacked += 1
                    on_stack[following] = True
                    depth += 1
                    path[depth] = following
                    edge[depth] = successor_begin[following]
                elif on_stack[following]:
                    low[vertex] = min(low[vertex], index[following])
                continue
            if low[vertex] == index[vertex]:
                size = 0
                while True:
                    stacked -= 1
                    member = stack[stacked]
                    on_stack[member] = False
                    unit[member] = units
                    size += 1
                    if member == vertex:
                        break
                if size > 1:
                    merged += 1
                units += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[vertex])
    for vertex in range(count):
        unit[vertex] = units - 1 - unit[vertex]
    return units, merged


@njit(nogil=True, cache=True)
def edges_between(group_of, predecessor_begin, predecessor, count, target_begin, source, dry):
    """Edges among groups of vertices (one for each pair of vertices, none inside a group), by target group."""
    if dry:
        target_begin[:] = 0
        for vertex in range(group_of.size):
            for edge in range(predecessor_begin[vertex], predecessor_begin[vertex + 1]):
                if group_of[predecessor[edge]] != group_of[vertex]:
                    target_begin[group_of[vertex] + 1] += 1
        for group in range(count):
            target_begin[group + 1] += target_begin[group]
        return
    fill = target_begin[:count].copy()
    for vertex in range(group_of.size):
        group = group_of[vertex]
        for edge in range(predecessor_begin[vertex], predecessor_begin[vertex + 1]):
            if group_of[predecessor[edge]] != group:
                source[fill[group]] = group_of[predecessor[edge]]
                fill[group] += 1


@njit(nogil=True, cache=True)
def list_members(group_of, base, member_begin, member):
    """The vertices of each group, in order."""
    member_begin[:] = 0
    for vertex in range(group_of.size):
        member_begin[group_of[vertex] + 1] += 1
    for group in range(member_begin.size - 1):
        member_begin[group + 1] += member_begin[group]
    fill = member_begin[: member_begin.size - 1].copy()
    for vertex in range(group_of.size):
        member[fill[group_of[vertex]]] = vertex + base
        fill[group_of[vertex]] += 1
