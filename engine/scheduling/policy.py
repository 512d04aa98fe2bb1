"""A scheduling policy: one value with three dimensions (section 5), and the plain serial mode beside them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from engine.errors import DeclarationError


class Exploration(IntEnum):
    """How threads go through the graph."""

    BREADTH_FIRST = 0
    DEPTH_FIRST = 1
    UNSTRUCTURED = 2
    SERIAL = 3


class Granularity(IntEnum):
    """What is scheduled at once: an operation, or a key's chain (chains in a cycle merged)."""

    FINE = 0
    COARSE = 1


class Abort(IntEnum):
    """When a failure is handled: soon, or once everything is explored."""

    EAGER = 0
    LAZY = 1


@dataclass(frozen=True)
class Policy:
    """How one epoch, or one group of it, is run. All policies give the same bytes."""

    exploration: Exploration = Exploration.SERIAL
    granularity: Granularity = Granularity.FINE
    abort: Abort = Abort.EAGER

    @property
    def is_serial(self) -> bool:
        return self.exploration is Exploration.SERIAL

    @property
    def name(self) -> str:
        if self.is_serial:
            return "serial"
        return "/".join(
            part.name.lower().replace("_", "-") for part in (self.exploration, self.granularity, self.abort)
        )

    def __str__(self) -> str:
        return self.name


SERIAL = Policy()


def all_policies() -> list[Policy]:
    """Serial and the twelve parallel policies."""
    parallel = [e for e in Exploration if e is not Exploration.SERIAL]
    return [SERIAL, *(Policy(e, g, a) for e in parallel for g in Granularity for a in Abort)]


def policy_named(name: str) -> Policy:
    """The policy of that name, such as `serial` or `unstructured/coarse/lazy`."""
    for policy in all_policies():
        if policy.name == name:
            return policy
    raise DeclarationError(f"no policy {name!r}; there are {', '.join(p.name for p in all_policies())}")
