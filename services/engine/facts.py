"""What the machine is told (facts) and what it asks for (instructions): plain values, no Kafka, no clock, no bytes.

A message's payload stays with the runner; the machine knows it by its place (partition, offset) and by what its header says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Offsets = Mapping[int, NDArray[np.int64]]  # of single records, by partition, rising
Identity = tuple[int, int, int]  # a chunk within its epoch: source, number, checksum


class Place(NamedTuple):
    """Where a message is in the input topic. Places compare as the contract wants: by partition, then offset."""

    partition: int
    offset: int


# --- what a message is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """Some events of one source and epoch."""

    source: int
    epoch: int
    number: int
    events: int
    checksum: int  # CRC-32 of the body
    size_bytes: int  # in memory: the payload and its columns

    @property
    def identity(self) -> Identity:
        return self.source, self.number, self.checksum


@dataclass(frozen=True)
class Punctuation:
    """A source's promise about one partition and epoch: so many chunks and events, their checksums' sum."""

    source: int
    epoch: int
    ts: int
    chunks: int
    events: int
    checksum: int


@dataclass(frozen=True)
class Undecodable:
    """A message that cannot be read."""

    reason: str
    size_bytes: int


Item = Chunk | Punctuation | Undecodable


# --- what is remembered between epochs (in the marker, the changelog and the snapshots) ---------------------------------


@dataclass(frozen=True)
class Cursor:
    """How far one partition is read: everything below `low`, and the `handled` offsets from there on, is dealt with.

    Of single records, those below `read` are dealt with up to the last punctuation's time, and none of them needs naming.
    """

    low: int = 0
    handled: frozenset[int] = frozenset()
    read: int = 0

    def has(self, offset: int) -> bool:
        return offset < self.low or offset in self.handled


@dataclass(frozen=True)
class Tally:
    """Counts of events, since the beginning or of one commit; `repeated` and `undecodable` count messages."""

    committed: int = 0
    failed: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    duplicates: int = 0  # events that came again
    conflicts: int = 0  # events that came again with another payload
    repeated: int = 0  # messages that came again
    undecodable: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


NOTHING = Tally()


@dataclass(frozen=True)
class Memory:
    """Where the service stands after a commit: what a restart needs besides the tables."""

    epoch: int = -1  # the last one committed
    punctuation_ts: int | None = None
    cursors: dict[int, Cursor] = field(default_factory=dict)
    closed: dict[int, frozenset[tuple[int, int, int]]] = field(
        default_factory=dict
    )  # (source, chunk, checksum) by epoch
    tally: Tally = NOTHING


# --- facts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recovered:
    """The state is that after `memory.epoch`. `attempts`: how often the epoch `attempted` (None: the next one) was begun and
    never ended."""

    memory: Memory
    attempts: int = 0
    attempted: int | None = None


@dataclass(frozen=True)
class Arrived:
    place: Place
    item: Item


@dataclass(frozen=True, eq=False)
class RecordsArrived:
    """Single records of one partition, by offset: their event times and sizes, and those that cannot be read."""

    partition: int
    offsets: NDArray[np.int64]
    ts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    undecodable: tuple[tuple[int, str], ...] = ()  # offset and reason


@dataclass(frozen=True)
class Executed:
    """An epoch ran; its outputs wait to be committed. `tally` has what became of its events, conflicts included."""

    epoch: int
    tally: Tally


@dataclass(frozen=True)
class Refused:
    """The engine would not run the epoch: its events contradict each other. Nothing changed."""

    epoch: int
    why: str


@dataclass(frozen=True)
class Committed:
    pass


@dataclass(frozen=True)
class CommitLost:
    """A commit or its time-out: nobody knows whether it took effect."""

    why: str


@dataclass(frozen=True)
class Fenced:
    """Another engine with our id has begun."""

    why: str


@dataclass(frozen=True)
class SnapshotEnded:
    epoch: int
    error: str | None = None


@dataclass(frozen=True)
class Ticked:
    """Monotonic seconds; only differences mean anything. `behind`: partitions that are not read to their end."""

    now_s: float
    behind: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SchemaUnknown:
    """A message was written with a schema that nobody knows (yet), or the registry does not answer."""

    why: str


@dataclass(frozen=True)
class SchemaKnown:
    """It is known now; its message arrives next."""


@dataclass(frozen=True)
class StopAsked:
    pass


Fact = (
    Recovered
    | Arrived
    | Executed
    | Refused
    | Committed
    | CommitLost
    | Fenced
    | SnapshotEnded
    | Ticked
    | SchemaUnknown
    | SchemaKnown
    | StopAsked
)


# --- instructions -------------------------------------------------------------------------------------------------------


class LetterReason(StrEnum):
    """Why an event or message is a dead letter."""

    LATE = "late"
    INCOMPLETE = "incomplete"
    UNKNOWN_SOURCE = "unknown-source"
    UNDECODABLE = "undecodable"
    QUARANTINED = "quarantined"
    CONFLICT = "conflict"  # a late copy that differs; copies in time are compared event by event, when the epoch runs


@dataclass(frozen=True)
class Letter:
    """A whole message that goes to the dead letters."""

    place: Place
    reason: LetterReason
    detail: str = ""


@dataclass(frozen=True)
class Recover:
    """Drop the producer and all state that is not committed, read the last marker, restore, and say `Recovered`."""

    why: str


@dataclass(frozen=True)
class Execute:
    """Run an epoch made of these chunks, the winning copy of an event being the first in this order; or of these records,
    whose sources are their partitions and whose numbers their positions here."""

    epoch: int
    punctuation_ts: int
    chunks: tuple[Place, ...]
    records: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """One Kafka transaction: the epoch's outputs and changes (if there is one), dead letters, and this memory."""

    epoch: int | None
    letters: tuple[Letter, ...]
    memory: Memory


@dataclass(frozen=True)
class Forget:
    """Payloads that nobody needs any more."""

    places: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class ForgetRecords:
    """Single records that nobody needs any more."""

    records: Offsets


@dataclass(frozen=True)
class Pause:
    partitions: frozenset[int]  # those to pause; all others are to be read


@dataclass(frozen=True)
class Snapshot:
    """Keep the state as of the last commit."""

    memory: Memory


@dataclass(frozen=True)
class Warn:
    text: str


@dataclass(frozen=True)
class Halt:
    """End with this exit code; a code of 0 is a clean stop."""

    why: str
    code: int


Instruction = Recover | Execute | Commit | Forget | ForgetRecords | Pause | Snapshot | Warn | Halt
