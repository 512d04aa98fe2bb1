"""One epoch from events to result: order, plan, schedule, execute, stage by stage; then install and collect.

The tables are not touched before the last step, so an epoch that is refused leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.api.application import Application
from engine.collect import collect_counters, collect_stage, collect_times, collect_trace, emitted_batches
from engine.config import Limits
from engine.execution.executor import ExecutionOptions, make_scratch
from engine.execution.layout import OPERATIONS, Ints
from engine.execution.threads import ThreadPool
from engine.install import give_back, install
from engine.planning.arrays import EpochArrays
from engine.planning.epoch import Batch, Epoch, fire_batches, first_fires, input_batches
from engine.planning.graph_kernel import link_operations
from engine.planning.program import CompiledProgram
from engine.planning.stage import StagePlan, StagePlanner, order_events
from engine.planning.task_graph import TaskGraph
from engine.result import EpochResult, StageResult
from engine.scheduling.policy import Policy
from engine.stage_run import StageRun
from engine.state.store import Store

# Chooses the policies of a stage: the graph maker is called only if the choice needs the graph. Gives each policy with the
# transactions (numbers within the stage) it is for; None: all of them.
Chooser = Callable[[int, Callable[[], TaskGraph]], list[tuple[Policy, Ints | None]]]


@dataclass(frozen=True)
class Machinery:
    """What an engine has made once and every epoch uses."""

    application: Application
    program: CompiledProgram
    store: Store
    pool: ThreadPool
    choose: Chooser
    limits: Limits
    options: ExecutionOptions
    collects_changes: bool


def run_epoch(machinery: Machinery, epoch: Epoch) -> EpochResult:
    """Runs one epoch and installs it. On an input error nothing has changed."""
    started = time.perf_counter()
    store = machinery.store
    batches = input_batches(machinery.application, epoch, store.last_punctuation_ts, machinery.limits)
    fires = store.next_fires
    if fires is None and batches:
        fires = first_fires(machinery.application, batches)
    batches += fire_batches(machinery.application, epoch, fires or {}, machinery.limits)

    arrays = EpochArrays(machinery.application, machinery.program, store, machinery.options.trace)
    run = _EpochRun(machinery, arrays)
    try:
        pending = batches
        for stage in range(1 + max((t.stage for t in machinery.application.templates.values()), default=0)):
            due = [batch for batch in pending if batch.template.stage == stage]
            pending = [batch for batch in pending if batch.template.stage != stage]
            if due:
                pending += run.run_stage(due, stage)
    except BaseException:
        give_back(store, arrays)
        raise
    changes = install(store, arrays, epoch, fires, machinery.collects_changes)
    times = collect_times(run.scratches, time.perf_counter() - started, run.plan_seconds)
    return EpochResult(
        epoch.number,
        epoch.punctuation_ts,
        run.policies,
        run.stages,
        collect_counters(run.scratches, run.merged_cycles, run.lazy_rounds_max),
        [int(scratch.counters[OPERATIONS]) for scratch in run.scratches],
        times,
        arrays.nbytes,
        changes,
        collect_trace(arrays.marks.trace),
    )


class _EpochRun:
    """The running totals of one epoch."""

    def __init__(self, machinery: Machinery, arrays: EpochArrays) -> None:
        self.machinery = machinery
        self.arrays = arrays
        self.stages: list[StageResult] = []
        self.policies: list[str] = []
        self.plan_seconds = 0.0
        self.list_bytes = 8
        self.merged_cycles = 0
        self.lazy_rounds_max = 0
        self.scratches = [make_scratch(machinery.program.largest_arguments, 8) for _ in range(machinery.pool.threads)]

    def run_stage(self, batches: list[Batch], stage: int) -> list[Batch]:
        """Plans, schedules and executes a stage; gives the derived records of its committed transactions."""
        machinery, arrays = self.machinery, self.arrays
        begin = time.perf_counter()
        events = order_events(batches, stage)
        planner = StagePlanner(machinery.program, machinery.store.tables, events, machinery.limits)
        first_operation, first_transaction = arrays.operation_count, arrays.transaction_count
        try:
            plan = planner.plan(
                first_operation, first_transaction, int(arrays.operations.entry_begin[-1]), arrays.slot_bytes
            )
        except BaseException:
            arrays.looked_up += planner.looked_up
            raise
        arrays.append(plan)
        self._make_room(plan)
        arrays.locate_tables(first_operation, 1)
        link_operations(*arrays.shared(), first_operation, arrays.operation_count)
        if arrays.operation_count > first_operation:
            run = StageRun(
                machinery.pool, arrays, self.scratches, machinery.options, first_operation, first_transaction
            )
            chosen = machinery.choose(run.count, run.graph)
            run.prepare(chosen)
            self.plan_seconds += time.perf_counter() - begin
            self.policies += run.execute(chosen)
            self.merged_cycles += run.merged_cycles
            self.lazy_rounds_max = max(self.lazy_rounds_max, run.lazy_rounds_max)
        result = collect_stage(arrays, events)
        self.stages.append(result)
        return emitted_batches(machinery.application, arrays, result)

    def _make_room(self, plan: StagePlan) -> None:
        """Threads' scratch memory for the longest lists that a function of this stage reads."""
        if plan.list_bytes <= self.list_bytes:
            return
        self.list_bytes = plan.list_bytes
        for number, scratch in enumerate(self.scratches):
            self.scratches[number] = scratch._replace(lists=np.zeros(plan.list_bytes // 8 + 1, np.int64))
