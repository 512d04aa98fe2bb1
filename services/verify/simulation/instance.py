"""One running service in the simulated world: a machine, its volatile memory, and the instructions it has under way.

Everything takes effect after a while, in an order that chance decides; a crash leaves a commit that is under way done or undone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from services.engine.facts import (
    Arrived,
    Chunk,
    Commit,
    CommitLost,
    Committed,
    Execute,
    Executed,
    Fact,
    Fenced,
    Forget,
    ForgetRecords,
    Halt,
    Instruction,
    Memory,
    Pause,
    Place,
    Recover,
    Recovered,
    Snapshot,
    SnapshotEnded,
    Tally,
    Warn,
)
from services.engine.machine import Machine
from services.verify.simulation.scenario import Event, Payload, Record, Scenario
from services.verify.simulation.world import FencedError, Output, State, World, apply_epoch


class Instance:
    """A service process."""

    def __init__(self, machine: Machine, world: World, scenario: Scenario, chance: random.Random) -> None:
        self.machine, self.world, self.scenario, self.chance = machine, world, scenario, chance
        self.state: State = {}
        self.outputs: dict[int, Output] = {}
        self.payloads: dict[Place, Payload] = {}
        self.positions: dict[int, int] | None = None
        self.paused: frozenset[int] = frozenset()
        self.under_way: list[Callable[[], Fact | None]] = []
        self.producer = 0
        self.ended: Halt | None = None
        self.warnings: list[str] = []
        self.perform(machine.start())

    def tell(self, fact: Fact) -> None:
        self.perform(self.machine.handle(fact))

    def perform(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Recover():
                    self.under_way = [self._recover]
                    self.positions = None
                case Execute():
                    self.under_way.append(partial(self._execute, instruction))
                case Commit():
                    self.under_way.append(partial(self._commit, instruction))
                case Snapshot():
                    self.under_way.append(partial(self._snapshot, instruction.memory, dict(self.state)))
                case Forget():
                    for place in instruction.places:
                        self.payloads.pop(place, None)
                case ForgetRecords():
                    for partition, offsets in instruction.records.items():
                        for offset in offsets.tolist():
                            self.payloads.pop(Place(partition, offset), None)
                case Pause():
                    self.paused = instruction.partitions
                case Warn():
                    self.warnings.append(instruction.text)
                case Halt():
                    self.ended = instruction
                    self.under_way = []

    def step(self) -> None:
        """One thing under way ends, or one message arrives."""
        readable = self._readable()
        if self.under_way and (not readable or self.chance.random() < 0.4):
            action = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            fact = action()
            if fact is not None:
                self.tell(fact)
        elif readable:
            partition = self.chance.choice(readable)
            assert self.positions is not None
            self._read(partition, self.positions[partition])

    def _read(self, partition: int, at: int) -> None:
        """The message of a partition at this position, or some from there on, arrives."""
        assert self.positions is not None
        message = self.scenario.partitions[partition][at]
        self.positions[partition] = at + 1
        if isinstance(message.item, Chunk):
            self.payloads[message.place] = message.payload
        assert not isinstance(message.item, Record)
        self.tell(Arrived(message.place, message.item))

    @property
    def is_idle(self) -> bool:
        return not self.under_way and not self._readable()

    @property
    def behind(self) -> frozenset[int]:
        """Partitions with messages that were not read."""
        return frozenset(p for p, at in (self.positions or {}).items() if at < self._end(p))

    def _end(self, partition: int) -> int:
        """Where a partition ends for now."""
        published = self.scenario.published
        return len(self.scenario.partitions[partition]) if published is None else published[partition]

    def _readable(self) -> list[int]:
        if self.positions is None or self.ended is not None:
            return []
        return [p for p, at in self.positions.items() if p not in self.paused and at < self._end(p)]

    def crash(self) -> None:
        """The process dies: of what was under way, a commit may still reach the broker."""
        if self.chance.random() < 0.5:
            for action in self.under_way:
                if isinstance(action, partial) and action.func == self._commit:
                    action()
        self.under_way, self.ended = [], Halt("killed", 137)

    def _recover(self) -> Fact:
        self.producer = self.world.init_transactions()
        memory, self.state = self.world.recover()
        self.payloads, self.outputs = {}, {}
        self.positions = {}
        for partition, lane in enumerate(self.scenario.partitions):
            cursor = memory.cursors.get(partition)
            low = cursor.low if cursor is not None else 0
            self.positions[partition] = sum(message.place.offset < low for message in lane)
        return Recovered(memory, self.world.attempts)

    def _execute(self, wanted: Execute) -> Fact:
        winners: dict[Event, int] = {}
        duplicates, conflicts = 0, []
        for place in wanted.chunks:  # a payload that was forgotten too early is a KeyError here
            for event, value in self.payloads[place].items():
                if event not in winners:
                    winners[event] = value
                elif winners[event] == value:
                    duplicates += 1
                else:
                    conflicts.append((place, event))
        ordered = sorted(winners.items(), key=lambda pair: (pair[0][2], pair[0]))
        self.state = apply_epoch(self.state, ordered)
        self.outputs[wanted.epoch] = Output(wanted.epoch, tuple(ordered), tuple(self.state.items()), tuple(conflicts))
        failed = sum(value % 10 == 0 for _, value in ordered)
        tally = Tally(len(ordered) - failed, failed, duplicates=duplicates, conflicts=len(conflicts))
        return Executed(wanted.epoch, tally)

    def _commit(self, wanted: Commit) -> Fact:
        for letter in wanted.letters:
            if self.scenario.message(letter.place).payload:
                assert letter.place in self.payloads, f"the payload of a dead letter is gone: {letter}"
        output = self.outputs[wanted.epoch] if wanted.epoch is not None else None
        outcome = self.chance.random()
        try:
            self.world.prepare(self.producer, wanted, output)
            if outcome < 0.06:
                return CommitLost("time-out before the commit reached the broker")
            self.world.end(self.producer)
        except FencedError as error:
            return Fenced(str(error))
        return CommitLost("acknowledgement lost") if outcome < 0.12 else Committed()

    def _snapshot(self, memory: Memory, state: State) -> Fact:
        outcome = self.chance.random()
        if outcome < 0.15:
            return SnapshotEnded(memory.epoch, "no space left")
        self.world.snapshots.append((memory, state, outcome > 0.25))
        return SnapshotEnded(memory.epoch)
