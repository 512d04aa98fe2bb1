# mypy: ignore-errors
"""Kernels that answer windows from runs of versions instead of walking them: the paper's open problem of section 8.2.4.

Versions of the running epoch are chained as their writes run, each to the newest version that the write sees of another
transaction; behind them lies the history's chain. A chain stays right without locks for the reason that versions do: a write
runs after all earlier writes of its key, and if one of them comes or goes (a verdict changes), it is rolled back and chained
anew when it runs again. So from the newest version that a reader sees, the chain holds exactly the versions that it may see.

A deleted version is in no window: its node holds only where the chain goes on.
"""

import math

import numpy as np
from numba import njit

from engine.execution.atomics import address_of, load_word, store_float, store_word
from engine.state.chain_kernels import (
    END,
    FLOAT_GREATEST,
    FLOAT_LEAST,
    FLOAT_TOTAL,
    INT_GREATEST,
    INT_LEAST,
    INT_TOTAL,
    PREVIOUS,
    add_magnitudes,
    after_node,
    after_run,
    depth_of,
    first_in_range,
    float_at,
    limit_of,
    link_node,
    own_total,
    pick_float,
    pick_int,
    run_in_range,
    word_at,
    wrapped_sum,
)

USER, SUM, COUNT, MIN, MAX, MEAN = range(6)
LEAST_INT, LARGEST_INT = np.int64(-0x8000000000000000), np.int64(0x7FFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def newest_node(operations, marks, base, found, record_words):
    """The node of version `found`; of a deletion the one before it; END where the epoch has none."""
    if found < 0:
        return np.int64(END)
    node = np.int64(operations.slot[found]) + record_words
    return node if marks.live[found] != 0 else word_at(base, node + PREVIOUS)


@njit(nogil=True, cache=True)
def history_chain(program, tables, table, row, record_words):
    """The base of the history's nodes and the node of the row's newest version there."""
    entry = load_word(tables.history_head[table] + 8 * row)
    words = record_words + program.node_words[table]
    return tables.history_arena[table], entry * words + record_words if entry >= 0 else np.int64(END)


@njit(nogil=True, cache=True)
def chain_version(program, tables, operations, marks, operation, found):
    """Links the version that a write just made, or a deletion, to the newest one of another transaction (from `found` on)."""
    table = program.table[operations.statement[operation]]
    transaction = operations.transaction[operation]
    record_words = tables.record_bytes[table] // 8
    base = address_of(marks.slots)
    node = np.int64(operations.slot[operation]) + record_words
    previous = newest_node(operations, marks, base, found, record_words)
    if found >= 0 and operations.transaction[found] == transaction:  # one version a transaction: this one replaces it
        previous = word_at(base, np.int64(operations.slot[found]) + record_words + PREVIOUS)
    if marks.live[operation] == 0:
        store_word(base + 8 * (node + PREVIOUS), previous)
        return
    link_node(
        base, node, previous, operations.ts[transaction], base + 8 * (node - record_words), program.measure_kind,
        program.measure_offset, program.measure_word, program.measure_begin[table], program.measure_begin[table + 1],
    )  # fmt: skip


@njit(nogil=True, cache=True)
def fold_runs(program, statement, base, node, old_base, old_node, oldest_ts, record_words, slot):
    """Folds the window from both chains into the slot: (False where it has to be walked, nodes visited)."""
    fold = program.fold[statement]
    place = program.measure[statement]
    offset = program.fold_offset[statement]
    is_float = program.fold_is_float[statement] != 0
    if fold == COUNT:
        count, visited = count_in_range(base, node, oldest_ts)
        more, passed = count_in_range(old_base, old_node, oldest_ts)
        store_word(slot, count + more)
        return True, visited + passed
    if place < 0:
        return False, np.int64(0)
    if fold == SUM or fold == MEAN:
        kind = FLOAT_TOTAL if is_float else INT_TOTAL
        count, total, magnitude, visited = total_in_range(
            kind, base, node, oldest_ts, record_words, place, offset, np.int64(0), np.int64(0), np.int64(0)
        )
        if magnitude >= 0:
            count, total, magnitude, passed = total_in_range(
                kind, old_base, old_node, oldest_ts, record_words, place, offset, count, total, magnitude
            )
            visited += passed
        if magnitude < 0:
            return False, visited
        if fold == MEAN:
            store_float(slot, total / count if count > 0 else 0.0)
        elif is_float:
            store_float(slot, np.float64(total))
        else:
            store_word(slot, total)
        return True, visited
    if is_float:
        kind = FLOAT_LEAST if fold == MIN else FLOAT_GREATEST
        number = math.inf if fold == MIN else -math.inf
        number, visited = float_extreme_in_range(kind, base, node, oldest_ts, record_words, place, offset, number)
        number, passed = float_extreme_in_range(
            kind, old_base, old_node, oldest_ts, record_words, place, offset, number
        )
        store_float(slot, number)
        return not math.isnan(number), visited + passed
    kind = INT_LEAST if fold == MIN else INT_GREATEST
    value = LARGEST_INT if fold == MIN else LEAST_INT
    value, visited = int_extreme_in_range(kind, base, node, oldest_ts, record_words, place, offset, value)
    value, passed = int_extreme_in_range(kind, old_base, old_node, oldest_ts, record_words, place, offset, value)
    store_word(slot, value)
    return True, visited + passed


@njit(nogil=True, cache=True)
def count_in_range(base, node, oldest_ts):
    count = np.int64(0)
    node, visited = first_in_range(base, node, oldest_ts)
    while node >= 0:
        visited += 1
        following = after_node(base, node)
        if run_in_range(base, node, oldest_ts):
            following = after_run(base, node)
        count += depth_of(base, node) - depth_of(base, following)
        node, passed = first_in_range(base, following, oldest_ts)
        visited += passed
    return count, visited


@njit(nogil=True, cache=True)
def total_in_range(kind, base, node, oldest_ts, record_words, place, offset, count, total, magnitude):
    """Adds the versions in range to the count, the total and its magnitude (UNKNOWN ends it)."""
    limit = limit_of(kind)
    node, visited = first_in_range(base, node, oldest_ts)
    while node >= 0 and magnitude >= 0:
        visited += 1
        if run_in_range(base, node, oldest_ts):
            following = after_run(base, node)
            total = wrapped_sum(total, word_at(base, node + place))
            magnitude = add_magnitudes(magnitude, word_at(base, node + place + 1), limit)
        else:
            following = after_node(base, node)
            value, size = own_total(kind, base + 8 * (node - record_words) + offset)
            total = wrapped_sum(total, value)
            magnitude = add_magnitudes(magnitude, size, limit)
        count += depth_of(base, node) - depth_of(base, following)
        node, passed = first_in_range(base, following, oldest_ts)
        visited += passed
    return count, total, magnitude, visited


@njit(nogil=True, cache=True)
def int_extreme_in_range(kind, base, node, oldest_ts, record_words, place, offset, value):
    node, visited = first_in_range(base, node, oldest_ts)
    while node >= 0:
        visited += 1
        if run_in_range(base, node, oldest_ts):
            following = after_run(base, node)
            value = pick_int(kind, word_at(base, node + place), value)
        else:
            following = after_node(base, node)
            value = pick_int(kind, load_word(base + 8 * (node - record_words) + offset), value)
        node, passed = first_in_range(base, following, oldest_ts)
        visited += passed
    return value, visited


@njit(nogil=True, cache=True)
def float_extreme_in_range(kind, base, node, oldest_ts, record_words, place, offset, value):
    """Goes from newer to older, so what is found so far is the newer one of each pick."""
    node, visited = first_in_range(base, node, oldest_ts)
    while node >= 0:
        visited += 1
        if run_in_range(base, node, oldest_ts):
            following = after_run(base, node)
            value = pick_float(kind, float_at(base, node + place), value)
        else:
            following = after_node(base, node)
            value = pick_float(kind, float_at(base + 8 * (node - record_words) + offset, 0), value)
        node, passed = first_in_range(base, following, oldest_ts)
        visited += passed
    return value, visited
