"""What must be true at the end of a simulated run, from the input topic alone: no part of the service is asked."""

from __future__ import annotations

from collections import Counter

from services.engine.facts import Chunk, LetterReason, Place, Punctuation, Tally, Undecodable
from services.verify.simulation.scenario import Event, Message, Record, Scenario
from services.verify.simulation.world import World, apply_epoch


def check(scenario: Scenario, world: World) -> list[str]:
    """The violations; none if all is well."""
    return [
        *_check_epochs(scenario, world),
        *_check_letters(scenario, world),
        *_check_conflicts(scenario, world),
        *_check_tally(scenario, world),
        *_check_cursors(scenario, world),
    ]


def _is_known(message: Message, scenario: Scenario) -> bool:
    return isinstance(message.item, Chunk | Punctuation) and message.item.source in scenario.rules.sources


def _chunks(scenario: Scenario) -> list[tuple[Message, Chunk]]:
    """All chunks of known sources, by place."""
    found = [(m, m.item) for m in scenario.messages() if isinstance(m.item, Chunk) and _is_known(m, scenario)]
    return sorted(found, key=lambda pair: pair[0].place)


def expected_events(scenario: Scenario, epoch: int) -> list[tuple[Event, int]]:
    """The epoch's events in order; of copies that differ, the one at the smallest place."""
    winners: dict[Event, int] = {}
    for message, chunk in _chunks(scenario):
        if chunk.epoch == epoch:
            for event, value in message.payload.items():
                winners.setdefault(event, value)
    return sorted(winners.items(), key=lambda pair: (pair[0][2], pair[0]))


def _check_epochs(scenario: Scenario, world: World) -> list[str]:
    outputs = [transaction.output for transaction in world.log if transaction.output is not None]
    numbers = [output.epoch for output in outputs]
    if numbers != list(range(scenario.epochs)):
        return [f"epochs committed: {numbers}, expected 0 to {scenario.epochs - 1}, each once, in order"]
    state = {"digest": 0, "events": 0}
    for output in outputs:
        lost = output.epoch in scenario.chunks_lost
        events = [] if lost else expected_events(scenario, output.epoch)
        state = apply_epoch(state, events)
        if list(output.events) != events:
            return [f"epoch {output.epoch} gave {list(output.events)}, expected {events}"]
        if dict(output.state) != state:
            return [f"the state after epoch {output.epoch} is {dict(output.state)}, expected {state}"]
    return []


def _check_letters(scenario: Scenario, world: World) -> list[str]:
    letters = Counter(letter.place for transaction in world.log for letter in transaction.letters)
    reasons = {letter.place: letter.reason for transaction in world.log for letter in transaction.letters}
    violations = [f"the dead letter of {place} was sent {count} times" for place, count in letters.items() if count > 1]
    required: dict[Place, LetterReason] = {}
    for message in scenario.messages():
        if isinstance(message.item, Undecodable):
            required[message.place] = LetterReason.UNDECODABLE
        elif not _is_known(message, scenario):
            required[message.place] = LetterReason.UNKNOWN_SOURCE
    seen = set()
    for message, chunk in _chunks(scenario):
        identity = (message.place.partition, chunk.epoch, chunk.source, chunk.number, chunk.checksum)
        if chunk.epoch in scenario.chunks_lost and identity not in seen:
            required[message.place] = LetterReason.INCOMPLETE
        seen.add(identity)
    for place, reason in required.items():
        given = reasons.get(place)
        after_all = reason is LetterReason.INCOMPLETE and given in (LetterReason.CONFLICT, LetterReason.LATE)
        if given is not reason and not after_all:  # some chunks come after their epoch was given up
            violations.append(f"{place} should be a dead letter as {reason}, found {given}")
    copies = {message.place for message, _ in _chunks(scenario)}
    for place, reason in reasons.items():
        if place not in required and not (reason is LetterReason.CONFLICT and place in copies):
            violations.append(f"{place} is a dead letter as {reason} and should be none")
    return violations


def _check_conflicts(scenario: Scenario, world: World) -> list[str]:
    """Each event of a copy that differs from an earlier one goes to the dead letters once: alone or with its message."""
    sent: Counter[tuple[Place, Event]] = Counter()
    for transaction in world.log:
        sent.update(transaction.output.conflicts if transaction.output is not None else ())
        for letter in transaction.letters:
            sent.update((letter.place, event) for event in scenario.message(letter.place).payload)
    first: dict[tuple[int, Event], int] = {}
    seen: set[tuple[int, Chunk]] = set()
    violations = []
    for message, chunk in _chunks(scenario):
        for event, value in message.payload.items():
            lost = (
                first.setdefault((chunk.epoch, event), value) != value and (message.place.partition, chunk) not in seen
            )
            if lost and sent[message.place, event] != 1:
                violations.append(f"{event} at {message.place} lost and was sent {sent[message.place, event]} times")
        seen.add((message.place.partition, chunk))
    return violations


def expected_tally(scenario: Scenario) -> Tally:
    """What all counts must come to, whatever happened on the way."""
    counts: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    numbers: set[tuple[int, ...]] = set()
    for message in scenario.messages():
        item = message.item
        if isinstance(item, Undecodable):
            counts["undecodable"] += 1
        elif isinstance(item, Record):
            raise AssertionError("single records are checked in records.py")
        elif not _is_known(message, scenario):
            counts["dead_lettered"] += item.events if isinstance(item, Chunk) else 0
        elif (identity := (message.place.partition, item)) in seen:
            counts["repeated"] += 1
            counts["duplicates"] += item.events if isinstance(item, Chunk) else 0
        else:
            seen.add(identity)
            if isinstance(item, Punctuation):
                continue
            number = (message.place.partition, item.epoch, item.source, item.number)
            if number in numbers:
                counts["conflicts"] += item.events
            numbers.add(number)
    for epoch in range(scenario.epochs):
        events = expected_events(scenario, epoch)
        if epoch in scenario.chunks_lost:
            counts["dead_lettered"] += len(events)
            continue
        failed = sum(value % 10 == 0 for _, value in events)
        counts["failed"] += failed
        counts["committed"] += len(events) - failed
    return Tally(**counts)


def _check_tally(scenario: Scenario, world: World) -> list[str]:
    tally, expected = world.log[-1].memory.tally, expected_tally(scenario)
    return [] if tally == expected else [f"counted {tally}, expected {expected}"]


def _check_cursors(scenario: Scenario, world: World) -> list[str]:
    cursors = world.log[-1].memory.cursors
    return [
        f"{message.place} was never handled, the cursor is {cursors.get(message.place.partition)}"
        for message in scenario.messages()
        if message.place.partition not in cursors or not cursors[message.place.partition].has(message.place.offset)
    ]
