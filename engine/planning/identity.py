"""Checks who the events of an epoch are: ids dense from 0 for each source, times inside the epoch. And finds their order.

The usual epoch has one source that numbered its events in the order of their times. Then each event's `seq` is its place in
the total order: putting the batches' numbers there checks the ids and merges the batches at once. All else goes a longer way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.buffers import Buffers
from engine.errors import InputError
from engine.planning.batch import Batch
from engine.planning.order_kernel import (
    IN_ORDER,
    MOST_IN_TURN,
    NOBODY,
    check_one_source,
    count_sources,
    is_numbered_in_order,
    mark_identities,
    place_by_number,
    rises,
)

LOWEST_TS, HIGHEST_TS = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
SOURCES_COUNTED = 1024  # sources below this are checked by counting; with more, or any mistake, by sorting

# For each place in the total order the batch whose next row is there. Batches are in order themselves.
Turns = NDArray[np.uint16]


def check_identities(
    number: int, punctuation_ts: int, batches: list[Batch], last_punctuation_ts: int | None, buffers: Buffers
) -> Turns | None:
    """Refuses wrong ids and times; gives the order where it was found on the way."""
    turns = _numbered_in_order(batches, punctuation_ts, last_punctuation_ts, buffers)
    if turns is not None:
        return turns
    if _check_one_source(batches, punctuation_ts, last_punctuation_ts):
        return None
    sources = np.zeros(SOURCES_COUNTED, np.int64)
    bounds = np.array([HIGHEST_TS, LOWEST_TS])
    fine = all(count_sources(batch.source, batch.seq, batch.ts, sources, bounds) for batch in batches)
    if fine and _inside(int(bounds[0]), int(bounds[1]), punctuation_ts, last_punctuation_ts):
        begin = np.zeros(SOURCES_COUNTED + 1, np.int64)
        np.cumsum(sources, out=begin[1:])
        seen = np.zeros(int(begin[-1]), np.uint8)
        if all(mark_identities(batch.source, batch.seq, begin, seen) for batch in batches):
            return None
    _find_wrong_identity(number, punctuation_ts, batches, last_punctuation_ts)
    return None


def _inside(lowest: int, highest: int, punctuation_ts: int, last_punctuation_ts: int | None) -> bool:
    return highest <= punctuation_ts and (last_punctuation_ts is None or lowest > last_punctuation_ts)


def _numbered_in_order(
    batches: list[Batch], punctuation_ts: int, last_punctuation_ts: int | None, buffers: Buffers
) -> Turns | None:
    """The order, if all events are of source 0 and numbered in the order of their times; None: not known."""
    total = sum(batch.ts.size for batch in batches)
    if len(batches) > MOST_IN_TURN or not all(is_numbered_in_order(b.source, b.seq, total) for b in batches):
        return None
    if len(batches) == 1:
        times, turns = batches[0].ts, np.zeros(total, np.uint16)
    else:
        times, turns = buffers.words("times", total), np.full(total, NOBODY, np.uint16)
        for number, batch in enumerate(batches):
            place_by_number(batch.ts, batch.seq, number, times, turns)
    # As many numbers as places, and nobody's place is left: each number is there once.
    if not rises(times, turns) or not _inside(int(times[0]), int(times[-1]), punctuation_ts, last_punctuation_ts):
        return None
    for batch in batches:
        batch.in_order = True
    return turns


def _check_one_source(batches: list[Batch], punctuation_ts: int, last_punctuation_ts: int | None) -> bool:
    """One source whose events come in any order, in one pass. False: to be looked at more closely."""
    seen = np.zeros(sum(batch.ts.size for batch in batches), np.uint8)
    bounds = np.array([HIGHEST_TS, LOWEST_TS])
    for batch in batches:
        order = check_one_source(batch.ts, batch.source, batch.seq, seen, bounds)
        if order < 0:
            return False
        batch.in_order = order == IN_ORDER
    return _inside(int(bounds[0]), int(bounds[1]), punctuation_ts, last_punctuation_ts)


def _find_wrong_identity(
    number: int, punctuation_ts: int, batches: list[Batch], last_punctuation_ts: int | None
) -> None:
    """Names the first event that is wrong; slower, and also right for sources too many to be counted."""
    ts = np.concatenate([batch.ts for batch in batches])
    source = np.concatenate([batch.source for batch in batches])
    seq = np.concatenate([batch.seq for batch in batches])
    if ts.max() > punctuation_ts:
        raise InputError(f"epoch {number} is punctuated at {punctuation_ts} but has an event at {ts.max()}")
    if last_punctuation_ts is not None and ts.min() <= last_punctuation_ts:
        raise InputError(
            f"epoch {number} has an event at {ts.min()}, not after the last punctuation at {last_punctuation_ts}"
        )
    if source.min() < 0:
        raise InputError(f"epoch {number} has an event of source {source.min()}; sources count from 0")
    order = np.lexsort((seq, source))
    source, seq = source[order], seq[order]
    starts = np.flatnonzero(np.concatenate([[True], source[1:] != source[:-1]]))
    lengths = np.diff(np.append(starts, seq.size))
    expected = np.arange(seq.size) - np.repeat(starts, lengths)
    wrong = np.flatnonzero(seq != expected)
    if wrong.size:
        at = wrong[0]
        twice = at > 0 and source[at - 1] == source[at] and seq[at - 1] == seq[at]
        what = f"has event {seq[at]} twice" if twice else f"misses event {expected[at]} (next is {seq[at]})"
        raise InputError(f"epoch {number}: source {source[at]} {what}; seq is dense from 0 for each source and epoch")
