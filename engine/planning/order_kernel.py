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
def merge_batches(ts_at, source_at, seq_at, sizes, batch, row):
    """Merges batches that are each in order into the total order."""
    heads = np.zeros(sizes.size, np.int64)
    for position in range(batch.size):
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
        batch[position] = best
        row[position] = heads[best]
        heads[best] += 1


@njit(nogil=True, cache=True)
def merge_two(ts, source, seq, other_ts, other_source, other_seq, batch, row):
    """The same for two batches, without a branch on which comes next: nothing could predict it."""
    one, two = np.int64(0), np.int64(0)
    while one < ts.size and two < other_ts.size:
        first = np.int64(ts[one] < other_ts[two])
        if ts[one] == other_ts[two]:
            first = np.int64(
                source[one] < other_source[two] or (source[one] == other_source[two] and seq[one] < other_seq[two])
            )
        batch[one + two] = 1 - first
        row[one + two] = two + first * (one - two)
        one += first
        two += 1 - first
    while one < ts.size:
        batch[one + two] = 0
        row[one + two] = one
        one += 1
    while two < other_ts.size:
        batch[one + two] = 1
        row[one + two] = two
        two += 1
