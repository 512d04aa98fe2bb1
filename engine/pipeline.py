"""One epoch from events to result: order, plan, schedule, execute, stage by stage; then install and collect.

A stage runs in one of two ways. As operations: versions lie in the operations' slots and the tables stay as they were until the
epoch is installed. Inlined (the serial mode compiled for the application, and the ordered one): the tables change in place and
their undo logs hold what was before. An epoch that is refused leaves nothing behind either way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from engine.api.application import Application
from engine.buffers import Buffers
from engine.collect import (
    collect_counters,
    collect_inlined,
    collect_planned,
    collect_times,
    collect_trace,
    emitted_batches,
)
from engine.config import Limits
from engine.execution.executor import ExecutionOptions, make_scratch
from engine.execution.layout import OPERATIONS, TOTAL_CYCLES, USEFUL_CYCLES
from engine.execution.threads import ThreadPool
from engine.inlined.kernel import InlinedMode
from engine.inlined.lanes import run_ordered
from engine.inlined.run import Inlining, run_inlined
from engine.install import give_back, install
from engine.observing import collect_timeline, counters_now, observe
from engine.planning.arrays import EpochArrays
from engine.planning.batch import Batch
from engine.planning.conflicts import link_transactions
from engine.planning.decompose import StageColumns, decompose_stage, stage_operations
from engine.planning.epoch import Epoch, fire_batches, first_fires, input_batches
from engine.planning.graph_kernel import forget_links
from engine.planning.identity import Turns
from engine.planning.keys import KeyRows
from engine.planning.program import CompiledProgram
from engine.planning.stage import StageEvents, order_events
from engine.result import EpochResult, StageResult
from engine.running import Running
from engine.scheduling.choice import Choice, Chooser, Explanation
from engine.scheduling.policy import ORDERED, SERIAL, Policy
from engine.stage_run import StageRun
from engine.stage_view import StageView
from engine.state.store import Store


@dataclass(frozen=True)
class Machinery:
    """What an engine has made once and every epoch uses."""

    application: Application
    program: CompiledProgram
    store: Store
    pool: ThreadPool
    chooser: Chooser
    limits: Limits
    options: ExecutionOptions
    inlined: InlinedMode
    collects_changes: bool
    buffers: Buffers
    running: Running = field(default_factory=Running)


def run_epoch(machinery: Machinery, epoch: Epoch, careful: bool = False) -> EpochResult:
    """Runs one epoch and installs it. On an input error nothing has changed. `careful`: see `Running`."""
    started = time.perf_counter()
    store = machinery.store
    batches, turns = input_batches(
        machinery.application, epoch, store.last_punctuation_ts, machinery.limits, machinery.buffers
    )
    fires = store.next_fires
    if fires is None and batches:
        fires = first_fires(machinery.application, batches)
    fired = fire_batches(machinery.application, epoch, fires or {}, machinery.limits)
    if fired:
        batches, turns = [*batches, *fired], None

    store.generation += 1
    run = _EpochRun(machinery, careful)
    try:
        pending = batches
        for stage in range(1 + max((t.stage for t in machinery.application.templates.values()), default=0)):
            due = [batch for batch in pending if batch.template.stage == stage]
            pending = [batch for batch in pending if batch.template.stage != stage]
            if due:
                pending += run.run_stage(due, stage, turns if stage == 0 and len(due) == len(batches) else None)
    except BaseException:
        give_back(store, run.arrays)
        raise
    finally:
        machinery.running.arrays = machinery.running.events = None
    changes = install(store, run.arrays, epoch, fires, machinery.collects_changes)
    times = collect_times(run.scratches, time.perf_counter() - started, run.plan_seconds)
    return EpochResult(
        epoch.number,
        epoch.punctuation_ts,
        run.policies,
        run.stages,
        collect_counters(run.scratches, run.merged_cycles, run.lazy_rounds_max),
        [int(scratch.counters[OPERATIONS]) for scratch in run.scratches],
        times,
        run.arrays.nbytes + run.inlined_bytes + run.graph_bytes,
        changes,
        collect_trace(run.arrays.marks.trace),
        run.choices,
        collect_timeline(run.scratches),
    )


class _EpochRun:
    """The running totals of one epoch."""

    def __init__(self, machinery: Machinery, careful: bool) -> None:
        self.machinery, self.careful = machinery, careful
        self.arrays = EpochArrays(machinery.application, machinery.program, machinery.store, machinery.options.trace)
        self.stages: list[StageResult] = []
        self.policies: list[str] = []
        self.choices: list[Explanation] = []
        self.plan_seconds = 0.0
        self.list_bytes = 8
        self.inlined_bytes = 0
        self.graph_bytes = 0
        self.merged_cycles = 0
        self.lazy_rounds_max = 0
        self.scratches = [
            make_scratch(machinery.program.largest_arguments, 8, machinery.options.timeline)
            for _ in range(machinery.pool.threads)
        ]

    def run_stage(self, batches: list[Batch], stage: int, turns: Turns | None) -> list[Batch]:
        """Plans, schedules and executes a stage; gives the derived records of its committed transactions."""
        begin = time.perf_counter()
        machinery = self.machinery
        events = order_events(batches, stage, turns)
        keys = KeyRows(machinery.store, machinery.limits, self.arrays.provisional)
        count = stage_operations(events, keys)
        view = StageView(events, count, machinery.pool.threads, self._can_inline(), lambda: self._plan(events, keys))
        started, before = time.perf_counter(), counters_now(self.scratches)
        chosen: Choice = [(SERIAL, None)]
        chooses = count > 0 and view.transactions > 0 and not self.careful
        if chooses:
            chosen = view.choose(machinery.chooser)
        view.runs_inlined = view.inlines and chosen in ([(SERIAL, None)], [(ORDERED, None)])
        if view.runs_inlined:
            if view.run is not None:
                self._take_back_plan()
            result = self._run_inlined(events, keys, chosen[0][0])
            self.plan_seconds += time.perf_counter() - begin - self.inlined_seconds
        else:
            chosen = [(SERIAL if policy == ORDERED else policy, members) for policy, members in chosen]
            result = self._run_planned(view.plan(), chosen, events, begin)
        if chooses and view.operations:
            machinery.chooser.learn(
                observe(view, chosen, result, time.perf_counter() - started, self.scratches, before)
            )
            self.choices.append(machinery.chooser.explain())
        self.stages.append(result)
        return emitted_batches(machinery.application, result)

    def _can_inline(self) -> bool:
        """Whether a stage can run inlined now: compiled, no stage before left its versions in slots."""
        options = self.machinery.options
        ready = self.machinery.inlined.kernel is not None and options.allows_inlining and not self.careful
        return ready and self.arrays.operation_count == 0

    def _take_back_plan(self) -> None:
        """The stage was made into operations to choose, and the choice needs none."""
        planned, machinery = self.arrays, self.machinery
        with machinery.store.lock:
            forget_links(*planned.shared(), 0, planned.operation_count)
            planned.return_spare_rows()
        self.arrays = EpochArrays(machinery.application, machinery.program, machinery.store, machinery.options.trace)
        self.arrays.provisional = planned.provisional

    def _run_inlined(self, events: StageEvents, keys: KeyRows, policy: Policy) -> StageResult:
        machinery, kernel = self.machinery, self.machinery.inlined.kernel
        assert kernel is not None
        inlining = Inlining(kernel, machinery.store, machinery.limits, machinery.buffers)
        if policy == ORDERED and machinery.pool.threads > 1:
            conflicts = link_transactions(machinery.store, events, keys)
            seed = machinery.options.delay_seed
            ran = run_ordered(inlining, keys, events, conflicts, machinery.pool, self.scratches, seed)
        else:
            ran = run_inlined(inlining, keys, events)
            scratch = self.scratches[0]
            scratch.counters[USEFUL_CYCLES] += ran.cycles
            scratch.counters[TOTAL_CYCLES] += ran.cycles
            scratch.counters[OPERATIONS] += ran.operations
        self.inlined_seconds = ran.seconds
        self.inlined_bytes += ran.nbytes
        self.policies.append(policy.name)
        return collect_inlined(machinery.store, events, ran)

    def _plan(self, events: StageEvents, keys: KeyRows) -> StageRun:
        """The stage's operations, linked (the stream phase)."""
        machinery, arrays = self.machinery, self.arrays
        columns = StageColumns(machinery.program, events, keys)
        size = columns.size()
        with machinery.store.lock:
            tables = arrays.locate_tables(events.batches)
        arrays.kept += columns.kept
        arrays.append(decompose_stage(columns, tables, arrays.size, size, machinery.limits.operations), size)
        self._make_room(columns.list_bytes)
        return StageRun(machinery.pool, arrays, self.scratches, machinery.options, events.batches, size)

    def _run_planned(self, run: StageRun, chosen: Choice, events: StageEvents, begin: float) -> StageResult:
        if run.count:
            run.prepare(chosen)
            if self.careful:
                running = self.machinery.running
                running.first_operation, running.events, running.arrays = run.first_operation, events, self.arrays
            self.plan_seconds += time.perf_counter() - begin
            self.policies += run.execute(chosen)
            self.merged_cycles += run.merged_cycles
            self.graph_bytes += run.nbytes
            self.lazy_rounds_max = max(self.lazy_rounds_max, run.lazy_rounds_max)
        return collect_planned(self.arrays, events)

    def _make_room(self, list_bytes: int) -> None:
        """Threads' scratch memory for the longest lists that a function of this stage reads."""
        if list_bytes <= self.list_bytes:
            return
        self.list_bytes = list_bytes
        for number, scratch in enumerate(self.scratches):
            self.scratches[number] = scratch._replace(lists=np.zeros(list_bytes // 8 + 1, np.int64))
