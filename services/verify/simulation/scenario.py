"""A seeded input topic: sources that put chunks and punctuations into partitions, with everything that Kafka and retries do to
them: copies, conflicts, late and foreign chunks, messages that cannot be read, gaps between offsets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from services.engine.facts import Chunk, Item, Place, Punctuation, Undecodable
from services.engine.rules import OnIncomplete, Rules

Event = tuple[int, int, int]  # (source, epoch, seq)
Payload = dict[Event, int]  # what each event of a chunk says

EPOCH_TIME = 100
FOREIGN_SOURCE = 99


@dataclass(frozen=True)
class Record:
    """A single record."""

    ts: int


@dataclass
class Message:
    """One message of the input topic; a punctuation's payload is empty, and so is that of one that cannot be read."""

    place: Place
    item: Item | Record
    payload: Payload = field(default_factory=dict)


@dataclass
class Scenario:
    """A whole input and the rules under which it is read."""

    rules: Rules
    epochs: int
    partitions: list[list[Message]]
    chunks_lost: set[int] = field(default_factory=set)  # epochs of which a chunk never came
    published: list[int] | None = None  # so many messages of each partition are there already; None: all

    def message(self, place: Place) -> Message:
        return next(message for message in self.partitions[place.partition] if message.place == place)

    def messages(self) -> Iterator[Message]:
        for partition in self.partitions:
            yield from partition


def checksum_of(payload: Payload) -> int:
    return hash(tuple(sorted(payload.items()))) % 2**32


def make_scenario(seed: int) -> Scenario:
    """An input of a few epochs; which mischief there is follows from the seed."""
    chance = random.Random(seed)
    partitions, sources = chance.randint(1, 3), chance.randint(1, 3)
    epochs = chance.randint(3, 8)
    gives_up = chance.random() < 0.3
    rules = Rules(
        partitions=partitions,
        sources=frozenset(range(sources)),
        memory_bytes=chance.choice([400, 2_000, 10**6]),
        incomplete_timeout_s=30.0,
        on_incomplete=OnIncomplete.DEAD_LETTER if gives_up else OnIncomplete.HALT,
        snapshot_every_epochs=chance.choice([1, 2, 3, 100]),
        attempts=10**6,
    )
    lanes: list[list[tuple[Item, Payload]]] = [[] for _ in range(partitions)]
    scenario = Scenario(rules, epochs, [])
    for epoch in range(epochs):
        for source in range(sources):
            _fill_epoch(scenario, chance, lanes, source, epoch, gives_up)
    for lane in lanes:
        _make_mischief(chance, lane)
    scenario.partitions = [_with_offsets(chance, number, lane) for number, lane in enumerate(lanes)]
    return scenario


def _fill_epoch(
    scenario: Scenario,
    chance: random.Random,
    lanes: list[list[tuple[Item, Payload]]],
    source: int,
    epoch: int,
    gives_up: bool,
) -> None:
    """A source's chunks of one epoch, dealt to partitions, then a punctuation in each."""
    events = [(source, epoch, seq) for seq in range(chance.randint(0, 9))]
    chance.shuffle(events)
    number = 0
    put: list[list[Chunk]] = [[] for _ in lanes]
    while events:
        taken, events = events[: (size := chance.randint(1, 4))], events[size:]
        payload = {event: chance.randrange(1000) for event in taken}
        partition = chance.randrange(len(lanes))
        chunk = Chunk(source, epoch, number, len(payload), checksum_of(payload), 20 * len(payload))
        put[partition].append(chunk)
        number += 1
        if gives_up and chance.random() < 0.05:
            scenario.chunks_lost.add(epoch)
            continue
        lanes[partition].append((chunk, payload))
        if chance.random() < 0.1:  # a differing copy of the same chunk
            other = {event: value + 1000 for event, value in payload.items()}
            copy = Chunk(source, epoch, chunk.number, len(other), checksum_of(other), 20 * len(other))
            lanes[partition].insert(chance.randint(len(lanes[partition]) - 1, len(lanes[partition])), (copy, other))
    for partition, chunks in enumerate(put):
        total = sum(chunk.checksum for chunk in chunks) % 2**32
        count = sum(chunk.events for chunk in chunks)
        punctuation = Punctuation(source, epoch, EPOCH_TIME * (epoch + 1), len(chunks), count, total)
        lanes[partition].append((punctuation, {}))


def _make_mischief(chance: random.Random, lane: list[tuple[Item, Payload]]) -> None:
    for _ in range(chance.randint(0, 4)):  # the same message again, somewhere later
        at = chance.randrange(len(lane))
        lane.insert(chance.randint(at + 1, len(lane)), lane[at])
    for _ in range(chance.randint(0, 2)):  # neighbours swapped: retries overtake each other
        at = chance.randrange(len(lane))
        if at + 1 < len(lane):
            lane[at], lane[at + 1] = lane[at + 1], lane[at]
    if chance.random() < 0.3:
        lane.insert(chance.randint(0, len(lane)), (Undecodable("not Avro", 7), {}))
    if chance.random() < 0.3:
        payload = {(FOREIGN_SOURCE, 0, seq): 0 for seq in range(3)}
        foreign = Chunk(FOREIGN_SOURCE, 0, 0, 3, checksum_of(payload), 60)
        lane.insert(chance.randint(0, len(lane)), (foreign, payload))


def _with_offsets(chance: random.Random, partition: int, lane: list[tuple[Item, Payload]]) -> list[Message]:
    """Offsets rise, with gaps where Kafka keeps its own records."""
    messages, offset = [], chance.randint(0, 3)
    for item, payload in lane:
        messages.append(Message(Place(partition, offset), item, payload))
        offset += 1 + (chance.random() < 0.2)
    return messages
