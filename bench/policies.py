"""The names of policies that experiments compare, and which of them this engine accepts.

Baselines (`lock`, `mvlk`, `pat`, `tstream`, `no-lock`) and adaptive choosers (`cost`, `paper`) are asked for by name: a
name the engine does not know is left out of a grid, and the run says so. `no-lock` is wrong on purpose (the upper bound
of TStream's section VI), so nobody expects its answer to be the others'.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from engine import Application, Engine, MillraceError, all_policies
from services.apps import streaming_ledger

SERIAL = "serial"
ORDERED = "ordered"
COST, PAPER = "cost", "paper"
LOCK, MVLK, PAT, TSTREAM, NO_LOCK = "lock", "mvlk", "pat:16", "tstream", "no-lock"
ADAPTIVE = (COST, PAPER)
SCHEMES = (LOCK, MVLK, PAT, TSTREAM, NO_LOCK)
PARALLEL = tuple(policy.name for policy in all_policies() if not policy.is_serial)
FIXED = (SERIAL, ORDERED, *PARALLEL)
INEXACT = frozenset({NO_LOCK})

# One of each exploration, and the paper's own favourites: enough to see a trend, few enough to read.
SOME_FIXED = (SERIAL, ORDERED, "breadth-first/coarse/eager", "depth-first/fine/eager", "unstructured/fine/eager",
              "unstructured/coarse/lazy")  # fmt: skip


@cache
def _ledger() -> Application:
    return streaming_ledger.build()


@cache
def is_available(name: str) -> bool:
    """Whether the engine runs an application under this name."""
    try:
        Engine(_ledger(), threads=2, policy=name).close()
    except MillraceError:
        return False
    return True


def available_policies(names: Iterable[str]) -> list[str]:
    """Those of the names that the engine accepts, in their order."""
    return [name for name in names if is_available(name)]


def missing_policies(names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_available(name)]
