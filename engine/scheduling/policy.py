"""A scheduling policy: one value with three dimensions (section 5), and two modes beside them that need no graph.

`serial` runs transactions one after another. `ordered` hands whole transactions out in the total order to all threads; each
waits for the earlier ones that touch what it touches, so nothing is ever rolled back. It exists inlined only: where an
application (or a stage) cannot run inlined, `ordered` is `serial`.
"""

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
    ORDERED = 4


GRAPH_EXPLORATIONS = (Exploration.BREADTH_FIRST, Exploration.DEPTH_FIRST, Exploration.UNSTRUCTURED)


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
    def needs_graph(self) -> bool:
        return self.exploration in GRAPH_EXPLORATIONS

    @property
    def name(self) -> str:
        if not self.needs_graph:
            return self.exploration.name.lower()
        return "/".join(
            part.name.lower().replace("_", "-") for part in (self.exploration, self.granularity, self.abort)
        )

    def __str__(self) -> str:
        return self.name


SERIAL = Policy()
ORDERED = Policy(Exploration.ORDERED)


def all_policies() -> list[Policy]:
    """Serial and the twelve policies over the graph: what runs any application."""
    return [SERIAL, *(Policy(e, g, a) for e in GRAPH_EXPLORATIONS for g in Granularity for a in Abort)]


def policy_named(name: str) -> Policy:
    """The policy of that name, such as `serial` or `unstructured/coarse/lazy`."""
    known = [*all_policies(), ORDERED]
    for policy in known:
        if policy.name == name:
            return policy
    raise DeclarationError(f"no policy {name!r}; there are {', '.join(p.name for p in known)}")
