"""What a commit adds to the service's memory: how far each partition is handled, and which chunks each closed epoch had."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from services.engine.facts import Cursor, Identity, Memory, Place, Tally


def remember_messages(
    memory: Memory, seen: dict[int, int], open_places: Set[Place], handled: Set[Place], tally: Tally
) -> Memory:
    """Each partition up to its first message that is still open (`seen` has the newest of all); beyond it, those handled."""
    cursors = dict(memory.cursors)
    for partition, newest in seen.items():
        before = memory.cursors.get(partition, Cursor())
        waiting = [place.offset for place in open_places if place.partition == partition]
        low = max(before.low, min(waiting, default=newest + 1))
        done = before.handled | {place.offset for place in handled if place.partition == partition}
        cursors[partition] = Cursor(low, frozenset(offset for offset in done if offset >= low))
    return replace(memory, cursors=cursors, tally=memory.tally + tally)


def remember_epoch(memory: Memory, number: int, ts: int, chunks: frozenset[Identity], tally: Tally) -> Memory:
    """The epoch is committed; the chunks it had are known from now on."""
    known = memory.closed.get(number, frozenset()) | chunks  # late ones may have been committed before it
    closed = {**memory.closed, number: known}
    return replace(memory, epoch=number, punctuation_ts=ts, closed=closed, tally=memory.tally + tally)


def remember_chunks(memory: Memory, late: dict[int, frozenset[Identity]], epochs: int) -> Memory:
    """Chunks that came late are known too; those of epochs long past are forgotten."""
    closed = {epoch: chunks for epoch, chunks in memory.closed.items() if epoch > memory.epoch - epochs}
    for epoch, chunks in late.items():
        if epoch > memory.epoch - epochs:
            closed[epoch] = closed.get(epoch, frozenset()) | chunks
    return replace(memory, closed=closed)
