"""The limits and choices by which the machine decides; set once, at start."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class OnIncomplete(StrEnum):
    """What to do with an epoch whose chunks never match its punctuations, or which the engine refuses."""

    HALT = "halt"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class Cutting:
    """How single records, whose producers know nothing of punctuation, are cut into epochs."""

    count: int | None = None  # events an epoch (more where times are equal); None: by event time
    interval: int = 1_000  # in event time: epochs end at its multiples
    disorder: int = 0  # in event time: so far an event may be behind the newest of its partition
    idle_timeout_s: float = 5.0  # a partition read to its end, without a record for so long, holds no epoch open


@dataclass(frozen=True)
class Rules:
    """What the machine expects of its input, and how long it waits."""

    partitions: int = 1
    sources: frozenset[int] = frozenset({0})
    memory_bytes: int = 2 * 1024**3  # of payloads that wait for their epoch: the most that one epoch may have
    ahead_bytes: int = (
        64 * 1024**2
    )  # with so much at hand nothing is read ahead of the next epoch; decoded it is five times that
    incomplete_timeout_s: float = 60.0
    on_incomplete: OnIncomplete = OnIncomplete.HALT
    warn_every_s: float = 30.0
    loose_timeout_s: float = 1.0  # dead letters and repeated messages wait so long for an epoch to be committed with
    snapshot_every_epochs: int = 100
    remembered_epochs: int = 10_000  # whose chunks can still be recognised as duplicates
    attempts: int = 3  # to run one epoch before it is quarantined
    schema_timeout_s: float = 60.0  # a message whose schema id nobody knows is asked about for so long
    epoch_timeout_s: float = 300.0  # after which an epoch that runs is an endless one
    cutting: Cutting = field(default_factory=Cutting)  # of single records

    @property
    def pause_above_bytes(self) -> int:
        return min(self.memory_bytes, self.ahead_bytes)


RESUME_BELOW = 0.8  # of `pause_above_bytes`: a little lower than where reading pauses, so that it does not flutter
EXIT_CLEAN, EXIT_HALTED, EXIT_FENCED, EXIT_ENDLESS = 0, 1, 3, 4
