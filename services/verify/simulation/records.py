"""The simulation's records mode: partitions of single records whose producers know nothing of punctuation.

What is expected follows from the input alone: which records are late, and, where no partition counts as idle, every epoch.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import cast

import numpy as np

from services.engine.facts import (
    Execute,
    Executed,
    Fact,
    LetterReason,
    Place,
    RecordsArrived,
    Tally,
    Undecodable,
)
from services.engine.record_machine import RecordMachine
from services.engine.rules import Cutting, Rules
from services.verify.simulation.instance import Instance
from services.verify.simulation.scenario import Event, Message, Record, Scenario
from services.verify.simulation.world import Output, World, apply_epoch

NEVER_S = 1e12  # no partition is ever idle
FAR = 10**6  # the time of each partition's last record, where none is ever idle: all before it can be cut
RECORD_BYTES = 20


def make_record_scenario(seed: int) -> Scenario:
    """Some partitions of records, more or less in the order of their times."""
    chance = random.Random(seed)
    partitions = chance.randint(1, 3)
    disorder = chance.choice([0, 5, 40])
    cutting = Cutting(
        count=chance.choice([None, chance.randint(1, 9)]),
        interval=chance.choice([1, 10, 30]),
        disorder=disorder,
        idle_timeout_s=chance.choice([1.0, 10.0, NEVER_S]),
    )
    rules = Rules(
        partitions=partitions,
        memory_bytes=chance.choice([300, 2_000, 10**6]),
        snapshot_every_epochs=chance.choice([1, 2, 3, 100]),
        attempts=10**6,
        cutting=cutting,
    )
    lanes = [_lane(chance, partition, cutting) for partition in range(partitions)]
    return Scenario(rules, 0, lanes, published=[0] * partitions)


def _lane(chance: random.Random, partition: int, cutting: Cutting) -> list[Message]:
    lane: list[Message] = []
    offset, now = chance.randint(0, 3), chance.randint(-50, 50)
    behind = cutting.disorder + chance.choice([0, 0, 30])  # now and then more than what is allowed
    for _ in range(chance.choice([0, 10, 25])):
        now += chance.choice([0, 0, 1, 3, 20])
        place = Place(partition, offset)
        ts = now - chance.randint(0, behind)
        if chance.random() < 0.05:
            lane.append(Message(place, Undecodable("not Avro", 7)))
        else:
            lane.append(Message(place, Record(ts), {(ts, *place): chance.randrange(1000)}))
        offset += 1 + (chance.random() < 0.2)
    if cutting.idle_timeout_s == NEVER_S:
        event = (FAR, partition, offset)
        lane.append(Message(Place(partition, offset), Record(FAR), {event: 1}))
    return lane


class RecordInstance(Instance):
    """A service process that reads single records, some at a time."""

    def step(self) -> None:
        """As of any service; now and then producers write more."""
        if self.chance.random() < 0.2:
            self._publish()
        super().step()

    def _publish(self) -> None:
        assert self.scenario.published is not None
        partition = self.chance.randrange(len(self.scenario.partitions))
        more = self.scenario.published[partition] + self.chance.randint(1, 5)
        self.scenario.published[partition] = min(more, len(self.scenario.partitions[partition]))

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self.scenario.published == [len(lane) for lane in self.scenario.partitions]

    def _read(self, partition: int, at: int) -> None:
        assert self.positions is not None
        messages = self.scenario.partitions[partition][at : min(self._end(partition), at + self.chance.randint(1, 4))]
        self.positions[partition] = at + len(messages)
        records = [(m.place.offset, m.item.ts) for m in messages if isinstance(m.item, Record)]
        broken = [(m.place.offset, m.item.reason) for m in messages if isinstance(m.item, Undecodable)]
        self.payloads.update({message.place: message.payload for message in messages if message.payload})
        offsets, ts = np.array(records, np.int64).reshape(-1, 2).T
        sizes = np.full(offsets.size, RECORD_BYTES)
        machine = cast(RecordMachine, self.machine)
        self.perform(machine.handle(RecordsArrived(partition, offsets, ts, sizes, tuple(broken))))

    def _execute(self, wanted: Execute) -> Fact:
        events: list[tuple[Event, int]] = []
        for partition, offsets in wanted.records.items():
            for offset in offsets.tolist():  # a payload that was forgotten too early is a KeyError here
                events += self.payloads[Place(partition, offset)].items()
        events.sort()
        self.state = apply_epoch(self.state, events)
        self.outputs[wanted.epoch] = Output(wanted.epoch, tuple(events), tuple(self.state.items()))
        failed = sum(value % 10 == 0 for _, value in events)
        return Executed(wanted.epoch, Tally(len(events) - failed, failed))


# --- what must be true at the end ---------------------------------------------------------------------------------------


def check_records(scenario: Scenario, world: World) -> list[str]:
    """The violations; none if all is well."""
    return [
        *_check_epochs(scenario, world),
        *_check_accounting(scenario, world),
        *_check_rest(scenario, world),
    ]


def _outputs(world: World) -> Iterator[tuple[Output, int | None]]:
    for transaction in world.log:
        if transaction.output is not None:
            yield transaction.output, transaction.memory.punctuation_ts


def _check_epochs(scenario: Scenario, world: World) -> Iterator[str]:
    """Numbered one by one, in the order of time, each from the state of the one before."""
    state, last = {"digest": 0, "events": 0}, -(2**63)
    for number, (output, ts) in enumerate(_outputs(world)):
        events = list(output.events)
        if output.epoch != number:
            yield f"epoch {output.epoch} was committed where {number} was expected"
        if ts is None or not all(last < event[0] <= ts for event, _ in events):
            yield f"epoch {number} between {last} and {ts} has {events}"
        state, last = apply_epoch(state, sorted(events)), ts or 0
        if dict(output.state) != state:
            yield f"the state after epoch {number} is {dict(output.state)}, expected {state}"
    if scenario.rules.cutting.idle_timeout_s == NEVER_S:
        found = [[event for event, _ in output.events] for output, _ in _outputs(world)]
        expected = expected_epochs(scenario)
        if found != expected:
            yield f"the epochs are {found}, the input says {expected}"


def _check_accounting(scenario: Scenario, world: World) -> Iterator[str]:
    """Every record is in one epoch or in one dead letter."""
    given = Counter(Place(*event[1:]) for output, _ in _outputs(world) for event, _ in output.events)
    letters = Counter((letter.place, letter.reason) for transaction in world.log for letter in transaction.letters)
    late = expected_late(scenario)
    waiting = _waiting_for_ever(scenario)
    for message in scenario.messages():
        place, sent = message.place, letters[message.place, LetterReason.LATE]
        if isinstance(message.item, Undecodable):
            if (given[place], sent, letters[place, LetterReason.UNDECODABLE]) != (0, 0, 1):
                yield f"{place} cannot be read and was not one dead letter"
        elif given[place] + sent != (0 if place in waiting else 1):
            yield f"{place} was in {given[place]} epochs and {sent} dead letters"
        elif place in late and given[place]:
            yield f"{place} is late and was taken"
        elif sent and place not in late and scenario.rules.cutting.idle_timeout_s == NEVER_S:
            yield f"{place} is not late and was refused"


def _check_rest(scenario: Scenario, world: World) -> Iterator[str]:
    """Counts and cursors."""
    if not world.log:
        return
    memory = world.log[-1].memory
    values = [value for output, _ in _outputs(world) for _, value in output.events]
    failed = sum(value % 10 == 0 for value in values)
    late = sum(letter.reason is LetterReason.LATE for transaction in world.log for letter in transaction.letters)
    broken = sum(isinstance(message.item, Undecodable) for message in scenario.messages())
    expected = Tally(len(values) - failed, failed, dead_lettered=late, undecodable=broken)
    if memory.tally != expected:
        yield f"counted {memory.tally}, expected {expected}"
    waiting = _waiting_for_ever(scenario)
    for message in scenario.messages():
        cursor, offset = memory.cursors.get(message.place.partition), message.place.offset
        if message.place not in waiting and (cursor is None or max(cursor.low, cursor.read) <= offset):
            yield f"{message.place} was never handled, the cursor is {cursor}"
        if message.place in waiting and cursor is not None and cursor.low > offset:
            yield f"{message.place} waits and the cursor is {cursor}"


def _waiting_for_ever(scenario: Scenario) -> set[Place]:
    """Where no partition is ever idle: the records after the last epoch that the input allows, late ones too."""
    if scenario.rules.cutting.idle_timeout_s != NEVER_S:
        return set()
    epochs = expected_epochs(scenario)
    last = _end_of(scenario.rules.cutting, epochs[-1][-1][0]) if epochs else -(2**63)
    return {m.place for m in scenario.messages() if isinstance(m.item, Record) and m.item.ts > last}


def _end_of(cutting: Cutting, ts: int) -> int:
    if cutting.count is not None:
        return ts
    end = ts
    while end % cutting.interval:
        end += 1
    return end


def expected_late(scenario: Scenario) -> set[Place]:
    """Records that an earlier one of their partition is too new for."""
    cutting, late = scenario.rules.cutting, set()
    for lane in scenario.partitions:
        before: list[int] = []
        for message in lane:
            if isinstance(message.item, Record):
                if any(_end_of(cutting, message.item.ts) < ts - cutting.disorder for ts in before):
                    late.add(message.place)
                before.append(message.item.ts)
    return late


def expected_epochs(scenario: Scenario) -> list[list[Event]]:
    """All epochs that the input's last records allow, if no partition is ever idle."""
    cutting, late = scenario.rules.cutting, expected_late(scenario)
    newest = [max(m.item.ts for m in lane if isinstance(m.item, Record)) for lane in scenario.partitions]
    final = min(newest) - cutting.disorder - 1
    events = sorted(event for m in scenario.messages() if m.place not in late for event in m.payload)
    events = [event for event in events if _end_of(cutting, event[0]) <= final]
    epochs: list[list[Event]] = []
    while events:
        if cutting.count is None:
            end = _end_of(cutting, events[0][0])
        elif len(events) >= cutting.count:
            end = events[cutting.count - 1][0]
        else:
            break
        epochs.append([event for event in events if event[0] <= end])
        events = events[len(epochs[-1]) :]
    return epochs
