"""Limits in one frozen place. An epoch beyond them is refused before anything runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one epoch may be at most."""

    events: int = 4_000_000
    operations: int = 40_000_000
    fires: int = 100_000  # self-firing transactions an epoch: a long gap in event time times a short period
    list_length: int = 1_000_000
