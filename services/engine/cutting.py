"""Single records while they wait for their epoch, and where the epochs among them end: the progress controller's arithmetic.

A partition's **watermark** is its newest event time less the disorder allowed, less one: no event at or before it is still on
its way. The least of all partitions' watermarks is the service's; what is at or before it is final. Epochs end, by time, at the
first multiple of the interval with an event before it; by count, at the time of the N-th event in order (and of its equals).

An event is **late** if its own partition had said before that its epoch is complete: by time, if the watermark had reached
the end of its interval; by count, if it had reached the event. So which events an epoch has follows from what the partitions
hold, however their messages interleave, and a replay cuts the same epochs. One exception is made of the clock: a partition that
is read to its end and stays empty for a while (idle) holds nothing up; where all are, everything that waits is cut. What then
comes too late for an epoch that is closed is late too.

Invariant: below a cursor's `read`, the records that are dealt with are those with times up to the last committed punctuation,
so two numbers say what many offsets would have to. Late records therefore wait, as dead letters, for the commit that passes
their time; and after a recovery no epoch is cut before all that had been read is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.facts import NOTHING, Cursor, Memory, Offsets, Place, RecordsArrived, Tally
from services.engine.rules import Cutting

FIRST_TS = -(2**62)  # event times are within these bounds, so that sums of times are numbers of 64 bits
LAST_TS = 2**62
BEFORE_ALL = FIRST_TS - 1  # the time of nothing

Ints = NDArray[np.int64]
_WAITS, _LATE, _LETTERED = 0, 1, 2  # an event of its epoch; late; late and on its way to the dead letters


@dataclass(frozen=True)
class Cut:
    """One epoch's records. It looks like an `Assembly` to the machine; the records stay with `PendingRecords`."""

    number: int
    ts: int
    records: Offsets
    places: Set[Place] = frozenset()
    identities: frozenset[tuple[int, int, int]] = frozenset()
    size_bytes: int = 0
    repeated: Tally = NOTHING

    @property
    def messages(self) -> list[Place]:
        return [Place(partition, offset) for partition, offsets in self.records.items() for offset in offsets.tolist()]

    def given_up(self) -> Tally:
        return Tally(dead_lettered=sum(offsets.size for offsets in self.records.values()))


class _Lane:
    """The records of one partition that are not dealt with, by offset."""

    def __init__(self, cursor: Cursor) -> None:
        self.newest = (
            BEFORE_ALL  # from the cursor on: what is below it cannot make later records late, it was committed
        )
        self.at = cursor.low  # the offset after the last message that was read, whatever it was
        self.read = max(cursor.low, cursor.read)  # the same of before a recovery, where that was further
        self.rows: Ints = np.empty((4, 0), np.int64)  # columns: offset, time, bytes, what it is
        self._fresh: list[Ints] = []
        self._fresh_bytes = self._bytes = 0

    @property
    def is_caught_up(self) -> bool:
        return self.at >= self.read

    def add(self, rows: Ints) -> None:
        self._fresh.append(rows)
        self._fresh_bytes += int(rows[2].sum())

    def table(self) -> Ints:
        if self._fresh:
            self.rows = np.concatenate([self.rows, *self._fresh], axis=1)
            self._bytes, self._fresh_bytes, self._fresh = self._bytes + self._fresh_bytes, 0, []
        return self.rows

    def keep(self, chosen: NDArray[np.bool_]) -> Ints:
        """Drops all others; gives their offsets."""
        rows = self.table()
        gone: Ints = rows[0, ~chosen]
        self.rows = rows[:, chosen]
        self._bytes = int(self.rows[2].sum())
        return gone

    @property
    def size_bytes(self) -> int:
        return self._bytes + self._fresh_bytes


class PendingRecords:
    """All partitions' records that are not dealt with."""

    def __init__(self, cutting: Cutting, partitions: int, memory: Memory, now_s: float) -> None:
        self.cutting = cutting
        self.lanes = [_Lane(memory.cursors.get(partition, Cursor())) for partition in range(partitions)]
        self._cursors = memory.cursors
        self._committed_ts = _time(memory.punctuation_ts)
        self._closed_ts = self._committed_ts  # of the last epoch cut
        self._active_s = [now_s] * partitions
        self._late = 0  # late records that are not on their way to the dead letters

    # --- arrival --------------------------------------------------------------------------------------------------

    def add(self, fact: RecordsArrived, now_s: float) -> Ints:
        """Takes records that were not seen before. Gives the offsets of those that were dealt with long ago."""
        lane = self.lanes[fact.partition]
        self._active_s[fact.partition] = now_s
        offsets, ts = fact.offsets, fact.ts
        lane.at = max([lane.at, *(offsets[-1:] + 1).tolist(), *(offset + 1 for offset, _ in fact.undecodable)])
        if offsets.size == 0:
            return offsets
        newest = np.maximum.accumulate(np.append(lane.newest, ts))
        lane.newest = int(newest[-1])
        known = self._cursors.get(fact.partition, Cursor())
        done = (offsets < known.low) | ((offsets < known.read) & (ts <= self._committed_ts))
        late = (self._epoch_end(ts) <= newest[:-1] - self.cutting.disorder - 1) | (ts <= self._closed_ts)
        fresh = ~done
        self._late += int((late & fresh).sum())
        lane.add(np.stack([offsets, ts, fact.sizes, np.where(late, _LATE, _WAITS)])[:, fresh])
        return offsets[done]

    def _epoch_end(self, ts: Ints) -> Ints:
        """The time that must have passed before an event of this time is late."""
        if self.cutting.count is not None:
            return ts
        ends: Ints = -(-ts // self.cutting.interval) * self.cutting.interval
        return ends

    # --- epochs ---------------------------------------------------------------------------------------------------

    def mark_active(self, partitions: Set[int], now_s: float) -> None:
        """These are not read to their end, or not read at all."""
        for partition in partitions:
            self._active_s[partition] = now_s

    def _watermarks(self, now_s: float) -> dict[int, int]:
        """Of the partitions that are not idle."""
        found = {}
        for partition, lane in enumerate(self.lanes):
            if now_s - self._active_s[partition] < self.cutting.idle_timeout_s:
                known = lane.newest > BEFORE_ALL
                found[partition] = lane.newest - self.cutting.disorder - 1 if known else BEFORE_ALL
        return found

    def cut(self, number: int, now_s: float) -> Cut | str:
        """The next epoch, or what it waits for."""
        for partition, lane in enumerate(self.lanes):
            if not lane.is_caught_up:
                return f"partition {partition} is to be read again up to offset {lane.read - 1}, it is at {lane.at}"
        marks = self._watermarks(now_s)
        final = min(marks.values(), default=LAST_TS)
        ts = self._end(final, is_flush=not marks)
        if ts is None:
            slowest = min(marks, key=lambda partition: marks[partition], default=0)
            newest = self.lanes[slowest].newest
            said = f"its newest event is at {newest}" if newest > BEFORE_ALL else "nothing came from it"
            return f"partition {slowest} may still have events of epoch {number}: {said}"
        records = {}
        for partition, lane in enumerate(self.lanes):
            rows = lane.table()
            mine = rows[0, (rows[3] == _WAITS) & (rows[1] > self._closed_ts) & (rows[1] <= ts)]
            if mine.size:
                records[partition] = mine
        self._closed_ts = ts
        return Cut(number, ts, records)

    def _waiting(self) -> Ints:
        """The times of the events that no epoch has taken."""
        times = []
        for lane in self.lanes:
            rows = lane.table()
            times.append(rows[1, (rows[3] == _WAITS) & (rows[1] > self._closed_ts)])
        return np.concatenate(times)

    def _end(self, final: int, is_flush: bool) -> int | None:
        if final <= self._closed_ts:
            return None
        times = self._waiting()
        if times.size == 0:
            return None
        if self.cutting.count is None:
            end = int(self._epoch_end(times.min(keepdims=True))[0])
            if is_flush:
                return min(end, int(times.max()))
            return end if end <= final else None
        times = times[times <= final]
        if times.size < self.cutting.count:
            return int(times.max()) if is_flush else None
        return int(np.partition(times, self.cutting.count - 1)[self.cutting.count - 1])

    # --- commits --------------------------------------------------------------------------------------------------

    def take_late(self, ts: int | None) -> Iterator[tuple[Place, int]]:
        """Late records up to the time of a commit, each once: its place and time."""
        if not self._late:
            return
        for partition, lane in enumerate(self.lanes):
            rows = lane.table()
            mine = np.flatnonzero((rows[3] == _LATE) & (rows[1] <= _time(ts)))
            rows[3, mine] = _LETTERED
            self._late -= mine.size
            for offset, time in rows[:2, mine].T.tolist():
                yield Place(partition, offset), time

    def cursors(self, ts: int | None) -> dict[int, Cursor]:
        """Where a commit up to this time leaves each partition."""
        found = {}
        for partition, lane in enumerate(self.lanes):
            lane.read = max(lane.read, lane.at)
            rows = lane.table()
            open_rows = np.flatnonzero(rows[1] > _time(ts))
            low = int(rows[0, open_rows[0]]) if open_rows.size else lane.at
            found[partition] = Cursor(low, frozenset(), lane.read)
        return found

    def drop(self, memory: Memory) -> Offsets:
        """What this memory, committed now, says is dealt with."""
        self._cursors, self._committed_ts = memory.cursors, _time(memory.punctuation_ts)
        gone = {}
        for partition, lane in enumerate(self.lanes):
            rows, read = lane.table(), memory.cursors[partition].read
            gone[partition] = lane.keep((rows[1] > self._committed_ts) | (rows[0] >= read))
        return gone

    # --- memory ---------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return sum(lane.size_bytes for lane in self.lanes)

    def ahead(self, now_s: float) -> tuple[frozenset[int], int]:
        """Partitions whose watermark is beyond the least one, and the bytes that wait in the others."""
        marks = self._watermarks(now_s)
        least = min(marks.values(), default=LAST_TS)
        ahead = frozenset(p for p, mark in marks.items() if mark > least and self.lanes[p].is_caught_up)
        if not all(lane.is_caught_up for lane in self.lanes):
            return ahead, 0
        return ahead, sum(lane.size_bytes for partition, lane in enumerate(self.lanes) if partition not in ahead)


def _time(ts: int | None) -> int:
    return BEFORE_ALL if ts is None else ts
