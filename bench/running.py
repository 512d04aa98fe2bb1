"""Runs a workload under one policy and says what it took: seconds an epoch, counters, memory, and a hash of its answer.

The clock is around `Engine.run_epoch` alone. Loading, generating, compiling and hashing are outside it, and the first
epochs of a run may be left out: a new engine's memory is touched there for the first time (`Plan.warm_epochs`), and
adaptive policies learn there (`Plan.learning_epochs`, which the others need not pay for). The answer covers the epochs
that every policy runs: verdicts, outputs, and the state after them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.machine import resident_mb
from bench.workload import Workload
from engine import Engine, EpochResult, ExecutionOptions, Policy
from engine.execution.layout import Ints
from engine.planning.task_graph import TaskGraph
from engine.result import Times

# Chooses a stage's policies, each with its transactions (None: all), from its number of operations and its graph.
Chooser = Callable[[int, Callable[[], TaskGraph]], list[tuple[Policy, Ints | None]]]

LATENCY_POINTS = 200  # places within an epoch at which an event's latency is taken


@dataclass(frozen=True)
class Plan:
    """How long a cell runs."""

    warm_epochs: int = 1
    epochs: int = 3
    learning_epochs: int = 0  # more that are left out, for a policy that has to learn first
    answer_epochs: int = 0  # the answer covers so many: as many under every policy; 0: all
    fact_every: int = 1  # keep what is known of every so manieth epoch: a long run would measure its own notes
    timed: bool = False  # measure the time in user functions as well, for breakdowns
    keeps_results: bool = False  # hold on to every epoch's result, as a system without clean-up would

    @property
    def answered_epochs(self) -> int:
        return self.answer_epochs or self.all_epochs

    @property
    def unmeasured_epochs(self) -> int:
        return self.warm_epochs + self.learning_epochs

    @property
    def all_epochs(self) -> int:
        return self.unmeasured_epochs + self.epochs


@dataclass(frozen=True)
class EpochFacts:
    """One measured epoch."""

    epoch: int
    seconds: float
    transactions: int
    operations: int
    times: Times
    counters: dict[str, int]
    working_bytes: int
    policies: tuple[str, ...]
    resident_mb: float


@dataclass(frozen=True)
class Run:
    """The measured epochs of one run, and its answer."""

    epochs: list[EpochFacts]
    answer: str

    @property
    def seconds(self) -> float:
        return sum(facts.seconds for facts in self.epochs)

    @property
    def transactions(self) -> int:
        return sum(facts.transactions for facts in self.epochs)

    @property
    def operations(self) -> int:
        return sum(facts.operations for facts in self.epochs)

    @property
    def throughput_per_s(self) -> float:
        return self.transactions / self.seconds

    def total(self, part: str) -> float:
        """Seconds of one part of `Times`, over all measured epochs."""
        return float(sum(getattr(facts.times, part) for facts in self.epochs))

    def latency_ms(self, quantile: float) -> float:
        return latency_ms([facts.seconds for facts in self.epochs], quantile)


def latency_ms(seconds: list[float], quantile: float) -> float:
    """Latency under full load: while one epoch runs, the next one's events arrive evenly; then they wait for their own.

    So an event a share f into its epoch waits (1 - f) of the epoch before it, and then its own epoch's time.
    """
    share = (np.arange(LATENCY_POINTS) + 0.5) / LATENCY_POINTS
    before = [seconds[0], *seconds[:-1]]
    waits = [(1 - share) * earlier + own for earlier, own in zip(before, seconds, strict=True)]
    return float(np.quantile(np.concatenate(waits), quantile) * 1e3)


class Answer:
    """A hash of all that must not depend on the policy."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=8)
        self._committed = self._failed = 0

    def add(self, result: EpochResult) -> None:
        for stage in result.stages:
            for column in (stage.verdict, stage.reason, *(part for pair in stage.outputs.values() for part in pair)):
                self._digest.update(np.ascontiguousarray(column).tobytes())
        self._committed += result.committed
        self._failed += result.failed

    def finish(self, engine: Engine) -> str:
        self._digest.update(engine.snapshot())
        return f"{self._digest.hexdigest()} {self._committed} committed {self._failed} failed"


def run_workload(
    workload: Workload, policy: str | Chooser, threads: int, seed: int, plan: Plan, answer: Answer | None = None
) -> Run:
    """One run on a new engine. A chooser that has `see` is shown each epoch before it runs."""
    epochs = workload.epochs(plan.all_epochs, seed)
    answer, found, facts, kept = answer or Answer(), "", [], []
    see = getattr(policy, "see", None)
    options = ExecutionOptions(timed=plan.timed)
    with Engine(workload.application, policy=policy, threads=threads, options=options, wait=True) as engine:
        workload.load(engine, workload.parameters.states)
        for number, epoch in enumerate(epochs):
            if see is not None:
                see(epoch)
            begin = time.perf_counter()
            result = engine.run_epoch(epoch)
            seconds = time.perf_counter() - begin
            if number < plan.answered_epochs:
                answer.add(result)
            if plan.keeps_results:
                kept.append(result)
            if number >= plan.unmeasured_epochs and (number + 1 - plan.unmeasured_epochs) % plan.fact_every == 0:
                facts.append(_facts(number, seconds, result))
            if number + 1 == min(plan.answered_epochs, len(epochs)):
                found = answer.finish(engine)
        return Run(facts, found)


def _facts(number: int, seconds: float, result: EpochResult) -> EpochFacts:
    return EpochFacts(
        number,
        seconds,
        sum(int(stage.verdict.size) for stage in result.stages[:1]),
        result.counters.get("operations", 0),
        result.times,
        result.counters,
        result.working_bytes,
        tuple(result.policies),
        resident_mb(),
    )


_warmed: set[tuple[object, ...]] = set()


def warm_up(workload: Workload, policy: str | Chooser, threads: int) -> None:
    """Compiles what a run of this workload needs, once for each application, policy and number of threads."""
    tiny = workload.tiny()
    known = (tiny.build, tiny.constants, policy, threads)
    if known not in _warmed:
        run_workload(tiny, policy, threads, seed=1, plan=Plan(warm_epochs=0, epochs=4))
        _warmed.add(known)
