"""One epoch while its messages arrive: which chunks are there, in which copies, and whether that is all of them.

A source's punctuation says for one partition how many chunks and events it put there and what their checksums add up to. Chunks
may come twice (the same bytes: no matter) or in differing copies of one number: then all must wait until one choice of copies
matches the punctuation, and which copy of an event wins is decided event by event, by the place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.engine.facts import NOTHING, Chunk, Identity, Place, Punctuation, Tally

CHOICES_MAX = (
    4096  # of copies that are tried against a punctuation; more differing copies than that are a broken source
)
CHECKSUM_MODULUS = 2**32

Lane = tuple[int, int]  # (partition, source): what one punctuation speaks of


@dataclass(frozen=True)
class Waiting:
    """Not complete. `punctuated`: all punctuations are there, so the chunks of this partition do not match them (yet)."""

    why: str
    partition: int
    punctuated: bool = False


@dataclass(frozen=True)
class Contradiction:
    """Two messages that cannot both be right."""

    why: str


@dataclass(frozen=True)
class Complete:
    punctuation_ts: int
    chunks: tuple[Place, ...]  # every distinct copy, by place


@dataclass
class Assembly:
    """What has arrived of one epoch."""

    number: int
    copies: dict[Lane, dict[int, dict[int, tuple[Place, Chunk]]]] = field(default_factory=dict)  # by number, checksum
    punctuations: dict[Lane, tuple[Place, Punctuation]] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)  # of all its messages, repeated ones too
    size_bytes: int = 0
    repeated: Tally = NOTHING  # of messages that came again; counted when the epoch is committed
    contradiction: Contradiction | None = None

    def add_chunk(self, place: Place, chunk: Chunk) -> bool:
        """Takes a chunk; False if this very chunk is there already."""
        self.places.add(place)
        copies = self.copies.setdefault((place.partition, chunk.source), {}).setdefault(chunk.number, {})
        if chunk.checksum in copies:
            self.repeated += Tally(repeated=1, duplicates=chunk.events)
            return False
        copies[chunk.checksum] = place, chunk
        self.size_bytes += chunk.size_bytes
        return True

    def add_punctuation(self, place: Place, punctuation: Punctuation) -> None:
        """Takes a punctuation; one that contradicts another is remembered as such."""
        self.places.add(place)
        for earlier_place, earlier in self.punctuations.values():
            if earlier.ts != punctuation.ts:
                self.contradiction = Contradiction(
                    f"epoch {self.number} is punctuated at {earlier.ts} by source {earlier.source} (partition "
                    f"{earlier_place.partition}, offset {earlier_place.offset}) and at {punctuation.ts} by source "
                    f"{punctuation.source} (partition {place.partition}, offset {place.offset}); "
                    "all punctuations of an epoch carry the same time"
                )
        lane = (place.partition, punctuation.source)
        if lane not in self.punctuations:
            self.punctuations[lane] = place, punctuation
            return
        self.repeated += Tally(repeated=1)
        earlier_place, earlier = self.punctuations[lane]
        if earlier != punctuation and self.contradiction is None:
            self.contradiction = Contradiction(
                f"source {punctuation.source} punctuated epoch {self.number} twice in partition {place.partition}: "
                f"{earlier.chunks} chunks, {earlier.events} events, checksum {earlier.checksum} at offset "
                f"{earlier_place.offset}, but {punctuation.chunks}, {punctuation.events}, {punctuation.checksum} at "
                f"offset {place.offset}"
            )

    @property
    def chunks(self) -> list[tuple[Place, Chunk]]:
        """All distinct copies, by place."""
        found = [copy for lane in self.copies.values() for copies in lane.values() for copy in copies.values()]
        return sorted(found, key=lambda copy: copy[0])

    @property
    def messages(self) -> list[Place]:
        """Those that become dead letters if the epoch is given up."""
        return [place for place, _ in self.chunks]

    @property
    def identities(self) -> frozenset[Identity]:
        """Of every copy: what tells a duplicate from a late chunk afterwards."""
        return frozenset(chunk.identity for _, chunk in self.chunks)

    def given_up(self) -> Tally:
        """The epoch's events as dead letters; of differing copies of a chunk the first counts, the others are conflicts."""
        tally = NOTHING
        for lane in self.copies.values():
            for copies in lane.values():
                first, *others = (chunk for _, chunk in sorted(copies.values(), key=lambda copy: copy[0]))
                tally += Tally(dead_lettered=first.events, conflicts=sum(chunk.events for chunk in others))
        return tally

    def is_complete_in(self, partition: int, sources: Iterable[int]) -> bool:
        """Whether everything that this partition has for the epoch is there."""
        lanes = [(partition, source) for source in sources]
        return all(
            lane in self.punctuations and self._mismatch(lane, self.punctuations[lane][1]) is None for lane in lanes
        )

    def status(self, partitions: int, sources: frozenset[int]) -> Waiting | Contradiction | Complete:
        """Whether the epoch can be run."""
        if self.contradiction is not None:
            return self.contradiction
        for lane in itertools.product(range(partitions), sorted(sources)):
            if lane not in self.punctuations:
                return Waiting(
                    f"no punctuation of source {lane[1]} in partition {lane[0]} for epoch {self.number}", lane[0]
                )
        for lane, (_, punctuation) in sorted(self.punctuations.items()):
            problem = self._mismatch(lane, punctuation)
            if problem is not None:
                return Waiting(problem, lane[0], punctuated=True)
        ts = next(iter(self.punctuations.values()))[1].ts
        return Complete(ts, tuple(place for place, _ in self.chunks))

    def _mismatch(self, lane: Lane, punctuation: Punctuation) -> str | None:
        """Why no choice of copies matches the punctuation; None if one does."""
        arrived = [list(copies.values()) for copies in self.copies.get(lane, {}).values()]
        where = f"epoch {self.number}, source {lane[1]}, partition {lane[0]}"
        if len(arrived) != punctuation.chunks:
            return f"{where}: {len(arrived)} of {punctuation.chunks} chunks are there"
        if math.prod(len(copies) for copies in arrived) > CHOICES_MAX:
            return f"{where}: too many differing copies of its chunks"
        for choice in itertools.product(*arrived):
            events = sum(chunk.events for _, chunk in choice)
            checksum = sum(chunk.checksum for _, chunk in choice) % CHECKSUM_MODULUS
            if (events, checksum) == (punctuation.events, punctuation.checksum):
                return None
        return (
            f"{where}: its {punctuation.chunks} chunks do not have the {punctuation.events} events and the checksum "
            f"{punctuation.checksum} that its punctuation says"
        )
