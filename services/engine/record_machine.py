"""The machine for single records: it punctuates them itself (`cutting.py`); everything else is decided as for chunks."""

from __future__ import annotations

from dataclasses import replace

from services.engine.assembly import Assembly, Waiting
from services.engine.closed import Closed
from services.engine.cutting import PendingRecords
from services.engine.facts import (
    Execute,
    Fact,
    ForgetRecords,
    Instruction,
    Letter,
    LetterReason,
    Memory,
    Place,
    RecordsArrived,
    Tally,
    Ticked,
)
from services.engine.machine import Machine, Phase


class RecordMachine(Machine):
    """One shard's decisions where input is single records."""

    def _begin_anew(self, memory: Memory, attempts: int) -> None:
        super()._begin_anew(memory, attempts)
        self.pending = PendingRecords(self.rules.cutting, self.rules.partitions, memory, self.now_s)

    def _tick(self, fact: Ticked) -> None:
        super()._tick(fact)
        self.pending.mark_active(self.behind | self.paused, self.now_s)

    # --- records --------------------------------------------------------------------------------------------------

    def handle(self, fact: Fact | RecordsArrived) -> list[Instruction]:
        if isinstance(fact, RecordsArrived):
            return self._arrive_records(fact) if self.phase is Phase.RUNNING else []
        return super().handle(fact)

    def _arrive_records(self, fact: RecordsArrived) -> list[Instruction]:
        seen = self.seen.get(fact.partition, -1)
        new = fact.offsets > seen
        newest = [seen, *fact.offsets[-1:].tolist(), *(offset for offset, _ in fact.undecodable)]
        self.seen[fact.partition] = max(newest)
        arrived = replace(fact, offsets=fact.offsets[new], ts=fact.ts[new], sizes=fact.sizes[new])
        done = self.pending.add(arrived, self.now_s)
        cursor = self.memory.cursors.get(fact.partition)
        for offset, reason in fact.undecodable:
            if offset > seen and (cursor is None or offset >= cursor.read):
                letter = Letter(Place(fact.partition, offset), LetterReason.UNDECODABLE, reason)
                self._dead_letter(letter, Tally(undecodable=1))
        forget: list[Instruction] = [ForgetRecords({fact.partition: done})] if done.size else []
        return forget + self._go_on()

    # --- epochs ---------------------------------------------------------------------------------------------------

    def _begin_epoch(self) -> list[Instruction]:
        if self.executing is not None or self.executed is not None or self.snapshot_due is not None:
            return []
        cut = self.pending.cut(self.next_epoch, self.now_s)
        if isinstance(cut, str):
            return self._wait(Assembly(self.next_epoch), Waiting(cut, 0))
        if self.quarantined == cut.number:
            why = f"begun {self.rules.attempts} times and never ended"
            return self._give_up(cut, cut.ts, LetterReason.QUARANTINED, why)
        return self._close(cut, Execute(cut.number, cut.ts, (), cut.records))

    def _holds_anything(self) -> bool:
        return self.pending.size_bytes > 0

    # --- commits --------------------------------------------------------------------------------------------------

    def _begin_commit(self) -> list[Instruction]:
        if self.committing is None:
            closed = self.executed
            ts = closed.punctuation_ts if closed is not None else self.memory.punctuation_ts
            for place, time in self.pending.take_late(ts):
                letter = Letter(place, LetterReason.LATE, f"its time is {time}, its epoch was closed")
                self._dead_letter(letter, Tally(dead_lettered=1))
        return super()._begin_commit()

    def _remember(self, closed: Closed | None, handled: frozenset[Place]) -> Memory:
        after = replace(self.memory, tally=self.memory.tally + self.tally)
        if closed is not None:
            number, ts = closed.assembly.number, closed.punctuation_ts
            after = replace(after, epoch=number, punctuation_ts=ts, tally=after.tally + closed.tally)
        return replace(after, cursors=self.pending.cursors(after.punctuation_ts))

    def _committed(self) -> list[Instruction]:
        if self.committing is None:
            return []
        gone = self.pending.drop(self.committing[0].memory)
        return [ForgetRecords(gone), *super()._committed()]

    # --- memory ---------------------------------------------------------------------------------------------------

    def held_bytes(self) -> int:
        return self.pending.size_bytes

    def _ahead(self) -> tuple[frozenset[int], int]:
        return self.pending.ahead(self.now_s)
