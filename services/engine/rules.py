"""The limits and choices by which the machine decides; set once, at start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OnIncomplete(StrEnum):
    """What to do with an epoch whose chunks never match its punctuations, or which the engine refuses."""

    HALT = "halt"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class Rules:
    """What the machine expects of its input, and how long it waits."""

    partitions: int = 1
    sources: frozenset[int] = frozenset({0})
    memory_bytes: int = 2 * 1024**3  # of payloads that wait for their epoch
    incomplete_timeout_s: float = 60.0
    on_incomplete: OnIncomplete = OnIncomplete.HALT
    warn_every_s: float = 30.0
    loose_timeout_s: float = 1.0  # dead letters and repeated messages wait so long for an epoch to be committed with
    snapshot_every_epochs: int = 100
    remembered_epochs: int = 10_000  # whose chunks can still be recognised as duplicates
    attempts: int = 3  # to run one epoch before it is quarantined


RESUME_BELOW = 0.8  # of `memory_bytes`: a little lower than where reading pauses, so that it does not flutter
EXIT_CLEAN, EXIT_HALTED, EXIT_FENCED = 0, 1, 3
