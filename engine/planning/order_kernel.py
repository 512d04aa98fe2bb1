# mypy: ignore-errors
"""Kernels that check event identities and put events into the total order (ts, source, seq), batch by batch.

Batches are given by the addresses of their ts, source and seq columns. Batches that are in order already, the usual case,
are merged; nothing is sorted.
"""

import numpy as np
from numba import njit, types

from engine.functions.memory import pointer_at

WORD = types.int64
IN_ORDER, UNORDERED = 1, 0
NOBODY = 65535  # a place in the order that no batch has taken
MOST_IN_TURN = NOBODY  # batches that an order of two bytes a place can tell apart


@njit(nogil=True, cache=True)
def _comes_before(ts, source, seq, other_ts, other_source, other_seq):
    if ts != other_ts:
        return ts < other_ts
    if source != other_source:
        return source < other_source
    return seq < other_seq


@njit(nogil=True, cache=True)
def is_in_order(ts, source, seq):
    """Whether the rows rise strictly."""
    for row in range(1, ts.size):
        if not _comes_before(ts[row - 1], source[row - 1], seq[row - 1], ts[row], source[row], seq[row]):
            return False
    return True


@njit(nogil=True, cache=True)
def is_numbered_in_order(source, seq, total):
    """Whether all are of source 0 and their numbers rise, within [0, total)."""
    if seq[0] < 0 or seq[seq.size - 1] >= total:
        return False
    wrong = np.int64(0)
    for row in range(source.size):
        wrong |= source[row]
    falls = False
    for row in range(1, seq.size):
        falls |= seq[row] <= seq[row - 1]
    return wrong == 0 and not falls


@njit(nogil=True, cache=True)
def place_by_number(ts, seq, batch, times, turns):
    """Puts each event's time and its batch at the place that its number says."""
    for row in range(seq.size):
        place = np.uint64(seq[row])
        times[place] = ts[row]
        turns[place] = batch


@njit(nogil=True, cache=True)
def rises(times, turns):
    """Whether every place is taken and times never fall."""
    falls = turns[0] == NOBODY
    for place in range(1, times.size):
        falls |= times[place] < times[place - 1]
    for place in range(1, turns.size):
        falls |= turns[place] == NOBODY
    return not falls


@njit(nogil=True, cache=True)
def rows_in_turn(turns, heads, row):
    """The row of each place: its batch's next one."""
    for place in range(turns.size):
        batch = turns[place]
        row[place] = heads[batch]
        heads[batch] += 1


@njit(nogil=True, cache=True)
def check_one_source(ts, source, seq, seen, bounds):
    """For events all of source 0, in one pass: their ids are new and below `seen.size`; notes the bounds of ts.

    Gives UNORDERED or IN_ORDER, or -1 where another source or a wrong id is met: then nothing is known.
    """
    order = IN_ORDER
    lowest, highest = bounds[0], bounds[1]
    before_ts = before_seq = np.int64(0)
    for row in range(ts.size):
        if source[row] != 0 or np.uint64(seq[row]) >= np.uint64(seen.size) or seen[seq[row]] != 0:
            return np.int64(-1)
        seen[seq[row]] = 1
        lowest, highest = min(lowest, ts[row]), max(highest, ts[row])
        if row > 0 and (ts[row] < before_ts or (ts[row] == before_ts and seq[row] < before_seq)):
            order = UNORDERED
        before_ts, before_seq = ts[row], seq[row]
    bounds[0], bounds[1] = lowest, highest
    return np.int64(order)


@njit(nogil=True, cache=True)
def count_sources(source, seq, ts, counts, bounds):
    """Adds up the events of each source; bounds: lowest and highest ts. False if a source or seq is out of range."""
    for row in range(ts.size):
        if source[row] < 0 or source[row] >= counts.size or seq[row] < 0:
            return False
        counts[source[row]] += 1
        bounds[0] = min(bounds[0], ts[row])
        bounds[1] = max(bounds[1], ts[row])
    return True


@njit(nogil=True, cache=True)
def mark_identities(source, seq, begin, seen):
    """Marks each (source, seq) once; begin[s] is where source s starts. False if one is out of range or twice."""
    for row in range(source.size):
        place = begin[source[row]] + seq[row]
        if seq[row] >= begin[source[row] + 1] - begin[source[row]] or seen[place] != 0:
            return False
        seen[place] = 1
    return True


@njit(nogil=True, cache=True)
def merge_batches(ts_at, source_at, seq_at, sizes, turns):
    """Merges batches that are each in order into the total order."""
    heads = np.zeros(sizes.size, np.int64)
    for position in range(turns.size):
        best = np.int64(-1)
        best_ts = best_source = best_seq = np.int64(0)
        for number in range(sizes.size):
            head = heads[number]
            if head == sizes[number]:
                continue
            ts = pointer_at(ts_at[number], WORD)[head]
            if best >= 0 and ts > best_ts:
                continue
            source = pointer_at(source_at[number], WORD)[head]
            seq = pointer_at(seq_at[number], WORD)[head]
            if best < 0 or _comes_before(ts, source, seq, best_ts, best_source, best_seq):
                best, best_ts, best_source, best_seq = number, ts, source, seq
        turns[position] = best
        heads[best] += 1


@njit(nogil=True, cache=True)
def merge_two(ts, source, seq, other_ts, other_source, other_seq, turns):
    """The same for two batches, without a branch on which comes next: nothing could predict it."""
    one, two = np.int64(0), np.int64(0)
    while one < ts.size and two < other_ts.size:
        first = np.int64(ts[one] < other_ts[two])
        if ts[one] == other_ts[two]:
            first = np.int64(
                source[one] < other_source[two] or (source[one] == other_source[two] and seq[one] < other_seq[two])
            )
        turns[one + two] = 1 - first
        one += first
        two += 1 - first
    while one < ts.size:
        turns[one + two] = 0
        one += 1
    while two < other_ts.size:
        turns[one + two] = 1
        two += 1
