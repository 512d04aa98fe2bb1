"""Runs one planned stage: schedules its groups, executes them, runs them again where rows ran out or a check is asked for.

Executing a stage changes nothing but marks and slots, so it can be repeated: `ExecutionOptions.replays` runs it under other
policies first and compares their answers, transaction by transaction and version by version.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np

from engine.baselines import Baseline, run_baseline
from engine.errors import InvariantError
from engine.execution.executor import (
    ExecutionOptions,
    ScheduledGroup,
    StageArrays,
    granularities,
    run_stage,
)
from engine.execution.layout import DONE, OUT_OF_ROWS, ROUNDS, Bytes, Scratch
from engine.execution.threads import ThreadPool
from engine.planning.arrays import EpochArrays
from engine.planning.batch import Batch
from engine.planning.decompose import Size
from engine.planning.task_graph import TaskGraph, build_graph
from engine.scheduling.choice import Choice
from engine.scheduling.policy import Abort, Granularity, Policy
from engine.scheduling.units import UnitGraph, build_units, fresh

RUN_AGAIN_LIMIT = 8  # times a stage is run anew because computed keys needed more rows than were set aside


class StageRun:
    """One stage from its linked operations to settled verdicts."""

    def __init__(
        self,
        pool: ThreadPool,
        arrays: EpochArrays,
        scratches: list[Scratch],
        options: ExecutionOptions,
        batches: list[Batch],
        size: Size,
    ) -> None:
        self.pool = pool
        self.arrays = arrays
        self.scratches = scratches
        self.options = options
        self.batches = batches
        self.first_operation = arrays.operation_count - size.operations
        self.first_transaction = arrays.transaction_count - size.transactions
        self.count = size.operations
        self.lazy_rounds_max = 0
        self.graph_seconds: float | None = None
        self.units_seconds: dict[Granularity, float] = {}
        self.run_seconds = 0.0
        self._graph: TaskGraph | None = None
        self._units: dict[Granularity, UnitGraph] = {}
        self._ran: set[Granularity] = set()

    def graph(self) -> TaskGraph:
        """The task precedence graph, built when first asked for."""
        if self._graph is None:
            begin = time.perf_counter()
            self._graph = build_graph(
                self.arrays.program.arrays, self.arrays, self.first_operation, self.first_transaction
            )
            self.graph_seconds = time.perf_counter() - begin
        return self._graph

    @property
    def transactions(self) -> int:
        return self.arrays.transaction_count - self.first_transaction

    @property
    def aborted(self) -> Bytes:
        """For each transaction, once the stage has run."""
        return self.arrays.marks.aborted[self.first_transaction :][: self.transactions]

    @property
    def built_seconds(self) -> float:
        """What the graph and the units have taken."""
        return (self.graph_seconds or 0.0) + sum(self.units_seconds.values())

    @property
    def nbytes(self) -> int:
        """Of the graph and the units; what fine units share with the graph is counted twice."""
        graph = self._graph.nbytes if self._graph is not None else 0
        return graph + sum(units.nbytes for units in self._units.values())

    def time_operations(self) -> None:
        """Measures the time inside user functions when the stage runs."""
        self.options = replace(self.options, timed=True)

    def units(self, granularity: Granularity) -> UnitGraph:
        """The units of this granularity, built when first asked for; those that run are copies."""
        if granularity not in self._units:
            arrays, edges = self.arrays, self.graph().edges
            assert arrays.tables is not None
            begin = time.perf_counter()
            self._units[granularity] = build_units(
                granularity, arrays.program.arrays, arrays.tables, arrays.planned, edges, self.count
            )
            self.units_seconds[granularity] = time.perf_counter() - begin
        return self._units[granularity]

    @property
    def merged_cycles(self) -> int:
        """Of the units that ran; others may have been built to choose."""
        return sum(self._units[granularity].merged_cycles for granularity in self._ran)

    def prepare(self, chosen: Choice) -> None:
        """Builds what the chosen policies need: the graph and the units."""
        for granularity in granularities([policy for policy, _ in chosen]):
            self.units(granularity)
            self._ran.add(granularity)

    def execute(self, chosen: Choice) -> list[str]:
        """Runs the stage as chosen, after the replays; gives the policies' names."""
        answer = b""
        for policy, threads in self.options.replays:
            self.prepare([(policy, None)])
            self._run([(policy, None)], min(threads, self.pool.threads))
            self._compare(answer, policy, threads)
            answer = answer or self._answer()
            self._forget()
            if self.arrays.program.computes_keys:  # rows set aside for them may have been used
                self.arrays.locate_tables(self.batches)
        begin = time.perf_counter()
        groups = self._run(chosen, self.pool.threads)
        self.run_seconds = time.perf_counter() - begin
        self._compare(answer, groups[0].policy, self.pool.threads)
        return [group.policy.name for group in groups]

    def _run(self, chosen: Choice, threads: int) -> list[ScheduledGroup]:
        arrays = self.arrays
        rounds = sum(int(scratch.counters[ROUNDS]) for scratch in self.scratches)
        for attempt in range(RUN_AGAIN_LIMIT):
            groups = self._schedule(chosen)
            assert arrays.tables is not None
            stage = StageArrays(
                arrays.program.arrays, arrays.tables, arrays.planned, arrays.marks,
                self._graph.edges if self._graph is not None else None, self.first_transaction, arrays.transaction_count,
                (*arrays.shared(), arrays.shared_marks()),
            )  # fmt: skip
            if isinstance(groups[0].policy, Baseline):  # for comparison only: it has the whole stage to itself
                run_baseline(stage, groups[0].policy, self.pool, threads, self.scratches, self.options)
            else:
                run_stage(stage, groups, self.pool, threads, self.scratches, self.options)
            arrays.return_spare_rows()
            if not sum(int(scratch.counters[OUT_OF_ROWS]) for scratch in self.scratches):
                if any(group.policy.abort is Abort.LAZY for group in groups):
                    total = sum(int(scratch.counters[ROUNDS]) for scratch in self.scratches)
                    self.lazy_rounds_max = max(self.lazy_rounds_max, total - rounds)
                return groups
            # Keys were computed anew so often that the rows set aside ran out: once more, with more of them.
            self._forget()
            arrays.locate_tables(self.batches, 4 ** (attempt + 1))
            for scratch in self.scratches:
                scratch.counters[OUT_OF_ROWS] = 0
        raise InvariantError(f"computed keys of one stage needed more rows {RUN_AGAIN_LIMIT} times")

    def _forget(self) -> None:
        """Back to before the stage ran."""
        self.arrays.forget_computed_writes(self.first_operation)
        self.arrays.reset_marks(self.first_operation, self.first_transaction)

    def _schedule(self, chosen: Choice) -> list[ScheduledGroup]:
        """The chosen policies with their operations and units, all units open."""
        arrays = self.arrays
        units = {granularity: fresh(graph) for granularity, graph in self._units.items()}
        groups = []
        for policy, transactions in chosen:
            members = None
            if transactions is not None:
                mine = np.zeros(arrays.transaction_count - self.first_transaction, np.bool_)
                mine[transactions] = True
                owners = arrays.planned.transaction[self.first_operation :] - self.first_transaction
                members = np.flatnonzero(mine[owners])
                self.graph()
            size = self.count if members is None else members.size
            if size:
                groups.append(
                    ScheduledGroup(policy, None if policy.is_serial else units[policy.granularity], members, size)
                )
        return groups

    def _answer(self) -> bytes:
        """All that must not depend on the policy: verdicts, reasons, and every version of a committed transaction."""
        marks, operations = self.arrays.marks, self.arrays.planned
        aborted = marks.aborted[self.first_transaction :]
        failed = marks.first_failed[self.first_transaction :]
        failing = failed[failed >= 0]
        kept = marks.aborted[operations.transaction[self.first_operation :]] == 0
        done = kept & (marks.result[self.first_operation :] == DONE)  # the slot of a skipped one may hold anything
        bounds = np.append(operations.slot, self.arrays.size.slot_words)
        visible = np.repeat(done, np.diff(bounds)[self.first_operation :])
        digest = hashlib.blake2b(digest_size=16)
        for part in (
            aborted,
            failed,
            marks.reason[failing],
            marks.failed_entry[failing],
            marks.result[self.first_operation :][kept],
            marks.live[self.first_operation :][done],
            marks.slots[bounds[self.first_operation] :][visible],
        ):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.digest()

    def _compare(self, answer: bytes, policy: Policy, threads: int) -> None:
        if answer and self._answer() != answer:
            first = self.options.replays[0]
            raise InvariantError(
                f"{policy} on {threads} thread(s) gives another answer than {first[0]} on {first[1]}; "
                "this is a bug in Millrace, please report it with the input"
            )
