# mypy: ignore-errors
"""Kernels of version chains: the versions of one key, newest first, with shortcuts that know what they pass over.

A version's node lies in the words behind its record, in an operation's slot or in the history; a node's number is the word
where it begins, counted from the base of that memory, and -1 is the end. `JUMP` leads back over a run of versions (this
node's own included), as in a skew-binary list: the runs of a chain of n versions let any place be reached in O(log n)
steps, and a new node finds its jump from the node before it in O(1). Each node holds the lowest and highest event time of
its run and, for every measure of the table, the run folded. So a window takes whole runs that lie inside its range.

Invariants:
- Event times need not rise along a chain (a later stage starts again from the epoch's beginning): a run is taken only if all
  its times are in range, passed over only if none is. `HIGHEST_BEFORE` is the highest time from the chain's end up to here.
- A total is exact or says that it is not: next to it lies the sum of the absolute values, and UNKNOWN where that exceeds
  what any order of additions can reach without overflow (ints) or rounding (floats that are whole numbers).
- Where a run has a NaN its least or greatest value is NaN: no answer.
"""

import math

import numpy as np
from numba import njit, types

from engine.functions.memory import add_with_overflow, pointer_at

WORD, FLOAT = types.int64, types.float64
PREVIOUS, JUMP, DEPTH, TS, LOWEST_TS, HIGHEST_TS, HIGHEST_BEFORE = range(7)
HEADER_WORDS = 7
INT_TOTAL, FLOAT_TOTAL, INT_LEAST, FLOAT_LEAST, INT_GREATEST, FLOAT_GREATEST = range(6)
END = -1
UNKNOWN = -1
LARGEST_INT = 0x7FFFFFFFFFFFFFFF
LARGEST_WHOLE_FLOAT = 1 << 53  # up to here a float64 holds every whole number, so sums of them have no rounding


@njit(nogil=True, cache=True)
def depth_of(base, node):
    """How many versions the chain has from its end up to the node."""
    return pointer_at(base, WORD)[node + DEPTH] if node >= 0 else 0


@njit(nogil=True, cache=True)
def add_magnitudes(one, other, limit):
    """The sum of two sums of absolute values; UNKNOWN once it is above the limit."""
    if one < 0 or other < 0 or one > limit - other:
        return UNKNOWN
    return one + other


@njit(nogil=True, cache=True)
def wrapped_sum(one, other):
    """The sum modulo 2^64: the magnitudes say whether it is the true one."""
    total, _ = add_with_overflow(one, other)
    return total


@njit(nogil=True, cache=True)
def limit_of(kind):
    return LARGEST_INT if kind == INT_TOTAL else LARGEST_WHOLE_FLOAT


@njit(nogil=True, cache=True)
def own_total(kind, address):
    """One version's value as a total and its magnitude."""
    if kind == INT_TOTAL:
        value = pointer_at(address, WORD)[0]
        return value, (abs(value) if value >= -LARGEST_INT else UNKNOWN)
    number = pointer_at(address, FLOAT)[0]
    if not abs(number) <= LARGEST_WHOLE_FLOAT or number != math.floor(number):
        return 0, UNKNOWN
    return np.int64(number), np.int64(abs(number))


@njit(nogil=True, cache=True)
def pick_float(kind, older, newer):
    """The least or greatest of the two; of equal ones as the walk picks; NaN if one is."""
    if math.isnan(older):
        return older
    if math.isnan(newer):
        return newer
    return min(older, newer) if kind == FLOAT_LEAST else max(older, newer)


@njit(nogil=True, cache=True)
def pick_int(kind, older, newer):
    return min(older, newer) if kind == INT_LEAST else max(older, newer)


@njit(nogil=True, cache=True)
def link_node(base, node, previous, ts, record, kinds, offsets, places, first, last):
    """Puts a version before `previous`: fills its node, with measures first … last - 1 of the table."""
    words = pointer_at(base, WORD)
    far = words[previous + JUMP] if previous >= 0 else END
    farther = words[far + JUMP] if far >= 0 else END
    far_depth = depth_of(base, far)
    # Two runs of one length become one, with the new version; then there is a run behind the one before, so `far` is a node.
    joins = previous >= 0 and words[previous + DEPTH] - far_depth == far_depth - depth_of(base, farther)
    words[node + PREVIOUS] = previous
    words[node + JUMP] = farther if joins else previous
    words[node + DEPTH] = depth_of(base, previous) + 1
    words[node + TS] = ts
    words[node + LOWEST_TS] = ts
    words[node + HIGHEST_TS] = ts
    words[node + HIGHEST_BEFORE] = ts if previous < 0 else max(ts, words[previous + HIGHEST_BEFORE])
    if joins:
        words[node + LOWEST_TS] = min(ts, words[previous + LOWEST_TS], words[far + LOWEST_TS])
        words[node + HIGHEST_TS] = max(ts, words[previous + HIGHEST_TS], words[far + HIGHEST_TS])
    for measure in range(first, last):
        kind = kinds[measure]
        place = places[measure]
        address = record + offsets[measure]
        if kind == INT_TOTAL or kind == FLOAT_TOTAL:
            _measure_total(words, node, previous, far, joins, kind, place, address)
        elif kind == INT_LEAST or kind == INT_GREATEST:
            value = pointer_at(address, WORD)[0]
            if joins:
                value = pick_int(kind, words[far + place], pick_int(kind, words[previous + place], value))
            words[node + place] = value
        else:
            floats = pointer_at(base, FLOAT)
            number = pointer_at(address, FLOAT)[0]
            if joins:
                number = pick_float(kind, floats[far + place], pick_float(kind, floats[previous + place], number))
            floats[node + place] = number


@njit(nogil=True, cache=True)
def _measure_total(words, node, previous, far, joins, kind, place, address):
    total, magnitude = own_total(kind, address)
    limit = limit_of(kind)
    if joins:
        total = wrapped_sum(words[far + place], wrapped_sum(words[previous + place], total))
        magnitude = add_magnitudes(words[previous + place + 1], magnitude, limit)
        magnitude = add_magnitudes(words[far + place + 1], magnitude, limit)
    words[node + place] = total
    words[node + place + 1] = magnitude


@njit(nogil=True, cache=True)
def first_in_range(base, node, oldest_ts):
    """The newest version at or before the node with ts >= oldest_ts (END: none), and how many nodes were passed."""
    words = pointer_at(base, WORD)
    passed = 0
    while node >= 0:
        if words[node + TS] >= oldest_ts:
            return node, passed
        passed += 1
        if words[node + HIGHEST_BEFORE] < oldest_ts:
            return END, passed
        node = words[node + JUMP] if words[node + HIGHEST_TS] < oldest_ts else words[node + PREVIOUS]
    return END, passed


@njit(nogil=True, cache=True)
def run_in_range(base, node, oldest_ts):
    """Whether the whole run of the node is in range."""
    return pointer_at(base, WORD)[node + LOWEST_TS] >= oldest_ts


@njit(nogil=True, cache=True)
def after_run(base, node):
    return pointer_at(base, WORD)[node + JUMP]


@njit(nogil=True, cache=True)
def after_node(base, node):
    return pointer_at(base, WORD)[node + PREVIOUS]


@njit(nogil=True, cache=True)
def word_at(base, place):
    return pointer_at(base, WORD)[place]


@njit(nogil=True, cache=True)
def float_at(base, place):
    return pointer_at(base, FLOAT)[place]
