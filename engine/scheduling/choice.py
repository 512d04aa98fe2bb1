"""The contract between the pipeline and what chooses policies: what a chooser sees, what it gives, what it is told after.

A chooser belongs to one engine and keeps what it learns. The pipeline calls `choose` before a stage runs and `learn` after;
`explain` is then about that stage. A choice never changes an answer, only the time it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Ints
from engine.planning.task_graph import TaskGraph
from engine.scheduling.policy import Granularity, Policy
from engine.scheduling.properties import Properties
from engine.scheduling.units import UnitGraph

# Policies with the transactions (numbers within the stage) they are for; None: all of them.
Choice = list[tuple[Policy, Ints | None]]
Reason = Callable[[], str] | str  # words are made when asked for
# The plain form of a chooser: the graph maker is called only if the choice needs the graph.
ChoiceFunction = Callable[[int, Callable[[], TaskGraph]], Choice]


class Stage(Protocol):
    """A planned stage, as far as a choice may look at it. The graph and the units are built when first asked for."""

    number: int
    operations: int
    transactions: int
    threads: int
    inlines: bool  # whether it can run inlined: serially at full speed, or ordered

    def graph(self) -> TaskGraph: ...

    def units(self, granularity: Granularity) -> UnitGraph: ...

    def group_values(self) -> Ints | None:
        """A number for each transaction, equal where the declared group keys are; None where none is declared."""

    def time_operations(self) -> None:
        """Asks for the time inside user functions to be measured in this stage."""


@dataclass(frozen=True)
class Observation:
    """What happened to a stage. Times of threads are added up, in nanoseconds."""

    choice: list[tuple[Policy, int]]  # with the number of transactions
    operations: int
    transactions: int
    aborted: NDArray[np.int8]  # for each transaction
    graph_ns: float | None  # None: no graph was built
    units_ns: dict[Granularity, float]
    run_ns: float  # from giving the work to the threads until the last one ended
    useful_ns: float
    explore_ns: float  # where `timed` is False, useful time is in here
    abort_ns: float
    sync_ns: float
    timed: bool
    counters: dict[str, int]
    threads: int
    ran_ns: float = 0.0  # the longest thread's own time: run_ns without starting and ending threads
    choosing_ns: float = 0.0  # measuring and deciding, without building the graph and the units
    plan_ns: float = 0.0  # making operations and collecting what they gave; inlined stages have none
    inlined: bool = False

    @property
    def aborts(self) -> int:
        return int(np.count_nonzero(self.aborted))


@dataclass
class Explanation:
    """Why a stage ran as it did, in words and numbers. Words are made when asked for."""

    model: str
    stage: int
    operations: int
    transactions: int
    threads: int
    reasons: list[Reason] = field(default_factory=list)
    properties: dict[str, Properties] = field(default_factory=dict)  # by group
    chosen: list[tuple[str, int]] = field(default_factory=list)  # policy and number of transactions
    predicted_ms: dict[str, float] = field(default_factory=dict)
    predicted_run_ms: float | None = None
    observed_run_ms: float | None = None
    looked: bool = False  # whether the graph was built to decide

    def words(self) -> list[str]:
        """The reasons as sentences."""
        return [reason if isinstance(reason, str) else reason() for reason in self.reasons]

    def text(self) -> str:
        """All of it for people."""
        names = ", ".join(f"{name} for {count:,} transactions" for name, count in self.chosen)
        lines = [f"stage {self.stage}: {self.model} chose {names} on {self.threads} thread(s)"]
        lines += [f"  {sentence}" for sentence in self.words()]
        for group, found in self.properties.items():
            lines.append(f"  {group}: {describe_properties(found)}")
        if self.predicted_ms:
            best = sorted(self.predicted_ms.items(), key=lambda item: item[1])
            lines.append("  predicted: " + ", ".join(f"{name} {value:.3g} ms" for name, value in best))
        if self.observed_run_ms is not None:
            said = f", {self.predicted_run_ms:.3g} ms predicted" if self.predicted_run_ms is not None else ""
            lines.append(f"  observed: {self.observed_run_ms:.3g} ms running{said}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "model": self.model,
            "stage": self.stage,
            "operations": self.operations,
            "transactions": self.transactions,
            "threads": self.threads,
            "chosen": [{"policy": name, "transactions": count} for name, count in self.chosen],
            "looked": self.looked,
            "reasons": self.words(),
            "properties": {group: found.as_dict() for group, found in self.properties.items()},
            "predicted_ms": self.predicted_ms,
            "predicted_run_ms": self.predicted_run_ms,
            "observed_run_ms": self.observed_run_ms,
        }


def describe_properties(found: Properties) -> str:
    """The seven properties in one line."""
    cyclic = {None: "cycles not looked for", True: "cyclic chains", False: "no cyclic chains"}[found.cyclic]
    return (
        f"{found.transactions:,} transactions, {found.operations:,} operations; TD {found.temporal_ratio:.2f} T, "
        f"PD {found.parametric_ratio:.2f} T, LD {found.logical_ratio:.2f} T, degree skew {found.degree_skew:.2f}, "
        f"{cyclic}, C {found.complexity_us:.3g} µs, aborts {found.abort_ratio:.1%}"
    )


class Chooser(Protocol):
    """Chooses the policies of each stage, and learns from how it went."""

    def choose(self, stage: Stage) -> Choice: ...

    def learn(self, observation: Observation) -> None: ...

    def explain(self) -> Explanation: ...


class FromFunction:
    """A chooser made of a plain function, which learns nothing."""

    def __init__(self, function: ChoiceFunction, name: str, reason: str) -> None:
        self.function = function
        self.name = name
        self.reason = reason
        self._explanation: Explanation | None = None

    def choose(self, stage: Stage) -> Choice:
        chosen = self.function(stage.operations, stage.graph)
        self._explanation = explanation_of(self.name, stage, chosen)
        self._explanation.reasons.append(self.reason)
        return chosen

    def learn(self, observation: Observation) -> None:
        assert self._explanation is not None
        self._explanation.observed_run_ms = observation.run_ns / 1e6

    def explain(self) -> Explanation:
        assert self._explanation is not None, "nothing has been chosen yet"
        return self._explanation


def fixed(policy: Policy) -> FromFunction:
    """A chooser that always takes the same policy."""
    return FromFunction(lambda operations, graph: [(policy, None)], "fixed", f"always {policy}, as the engine was told")


def explanation_of(model: str, stage: Stage, chosen: Choice) -> Explanation:
    """An explanation with everything but the reasons."""
    sizes = [
        (policy.name, stage.transactions if transactions is None else len(transactions))
        for policy, transactions in chosen
    ]
    return Explanation(model, stage.number, stage.operations, stage.transactions, stage.threads, chosen=sizes)
