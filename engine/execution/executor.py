"""Runs one planned stage under its policies: groups of the graph side by side, each on its own threads.

Groups are disjoint (no edge, no transaction crosses), so each can have its own policy. Threads are dealt out by the number of
operations; where there are more groups than threads, a thread runs several groups one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import types

from engine.execution.chosen_kernel import run_chosen
from engine.execution.explore_kernel import explore, keep_time, read_cycles
from engine.execution.layout import (
    CONTROL_SIZE,
    COORDINATOR,
    COUNTERS,
    DELAY_SEED,
    NOBODY,
    REMAINING,
    RUNNING_SERIALLY,
    TIMED,
    Edges,
    Group,
    Ints,
    Marks,
    Operations,
    Program,
    Scratch,
    Tables,
    Units,
)
from engine.execution.serial_kernel import run_serially
from engine.execution.shared import Shared, share
from engine.execution.threads import ThreadPool
from engine.planning.chain_kernel import list_members
from engine.scheduling.policy import Abort, Granularity, Policy
from engine.scheduling.units import UnitGraph


@dataclass(frozen=True)
class ExecutionOptions:
    """What a caller may ask of an execution besides its result."""

    timed: bool = False  # measure the time inside user functions (costs about 20 ns an operation)
    delay_seed: int = 0  # tests: random pauses inside threads
    trace: int = 0  # tests: how many state transitions to write down
    timeline: int = 0  # how many things each thread writes down with their begin and end; implies timed
    replays: tuple[tuple[Policy, int], ...] = ()  # run each stage under these policies and threads too, and compare
    inlines: bool = True  # False: the serial mode runs operations one by one, as parallel ones do, never inlined

    @property
    def allows_inlining(self) -> bool:
        """An inlined stage has no operations to trace, to time one by one or to run again."""
        return self.inlines and not self.trace and not self.timeline and not self.replays


@dataclass(frozen=True)
class StageArrays:
    """All that kernels need to run a stage."""

    program: Program
    tables: Tables
    operations: Operations
    marks: Marks
    edges: Edges | None  # None: serial, no graph was built
    first_transaction: int
    last_transaction: int

    shared_parts: tuple[Shared, Shared, Shared, Shared]  # the first four as kernels take them

    def shared(self) -> tuple[Shared, Shared, Shared, Shared]:
        return self.shared_parts


@dataclass
class ScheduledGroup:
    """Some of a stage's operations (by number minus the stage's first; None: all) with their policy and units."""

    policy: Policy
    graph: UnitGraph | None
    members: Ints | None
    operations: int


def make_scratch(largest_arguments: int, list_bytes: int, timeline: int = 0) -> Scratch:
    return Scratch(
        np.zeros(2 * largest_arguments + 2, np.int64),
        np.zeros(list_bytes // 8 + 1, np.int64),
        np.zeros(COUNTERS, np.int64),
        np.zeros(3 * timeline + 1, np.int64),
    )


def run_stage(
    stage: StageArrays,
    groups: list[ScheduledGroup],
    pool: ThreadPool,
    threads: int,
    scratches: list[Scratch],
    options: ExecutionOptions,
) -> None:
    """Runs all groups on so many threads; the counters are in the scratches."""
    if len(groups) == 1 and groups[0].policy.is_serial:
        _run_serial(stage, scratches[0], None)
        return
    lanes = _deal_threads(groups, threads)
    shares: list[Callable[[], None]] = []
    for first_thread, lane_threads, queue in lanes:
        prepared = [(group, None if group.policy.is_serial else _opened(stage, group, options)) for group in queue]
        for thread in range(lane_threads):
            shares.append(_share(stage, prepared, scratches[first_thread + thread], thread, lane_threads))
    pool.run(shares)


def _share(
    stage: StageArrays,
    queue: list[tuple[ScheduledGroup, tuple[Shared, ...] | None]],
    scratch: Scratch,
    thread: int,
    threads: int,
) -> Callable[[], None]:
    own = share(scratch)
    shared = next((opened for _, opened in queue if opened is not None), None)
    entry = _explore_entry(tuple(part.type for part in (*shared, own))) if shared is not None else None

    def run() -> None:
        for group, opened in queue:
            if opened is None:
                if thread == 0:
                    _run_serial(stage, scratch, group.members)
                continue
            assert entry is not None
            policy = group.policy
            entry(*opened, own, thread, threads, int(policy.exploration), policy.abort is Abort.EAGER)

    return run


@cache
def _explore_entry(shared: tuple[Any, ...]) -> Callable[..., None]:
    """The kernel for these types of shared arrays; numba would find it anew, in 100 µs, for every call."""
    entry: Callable[..., None] = explore.compile((*shared, types.int64, types.int64, types.int64, types.boolean))
    return entry


def _opened(stage: StageArrays, group: ScheduledGroup, options: ExecutionOptions) -> tuple[Shared, ...]:
    """What all threads of a group share."""
    assert group.graph is not None and stage.edges is not None
    opened = _open_group(stage, group, options)
    return *stage.shared(), share(stage.edges), share(group.graph.units), share(opened)


def _run_serial(stage: StageArrays, scratch: Scratch, members: Ints | None) -> None:
    begin = read_cycles()
    if members is None:
        run_serially(*stage.shared(), share(scratch), stage.first_transaction, stage.last_transaction)
    else:
        assert stage.edges is not None
        transactions = np.unique(stage.operations.transaction[members + stage.edges.base]).astype(np.int64)
        run_chosen(*stage.shared(), share(scratch), transactions)
    if scratch.timeline.size > 1:
        keep_time(share(scratch), RUNNING_SERIALLY, begin, read_cycles())


def _deal_threads(groups: list[ScheduledGroup], threads: int) -> list[tuple[int, int, list[ScheduledGroup]]]:
    """(first thread, number of threads, groups one after another): more threads to larger groups, at least one each."""
    if len(groups) > threads:
        lanes: list[tuple[int, int, list[ScheduledGroup]]] = [(t, 1, []) for t in range(threads)]
        loads = [0] * threads
        for group in sorted(groups, key=lambda g: -g.operations):
            lane = loads.index(min(loads))
            lanes[lane][2].append(group)
            loads[lane] += group.operations
        return [lane for lane in lanes if lane[2]]
    counts = [1] * len(groups)
    for _ in range(threads - len(groups)):
        busiest = max(range(len(groups)), key=lambda g: groups[g].operations / counts[g])
        counts[busiest] += 1
    firsts = np.cumsum([0, *counts])
    return [(int(firsts[g]), counts[g], [group]) for g, group in enumerate(groups)]


def _open_group(stage: StageArrays, group: ScheduledGroup, options: ExecutionOptions) -> Group:
    """A group's shared memory: its units by stratum, the meeting point, the lists for abort handling."""
    assert group.graph is not None and stage.edges is not None
    units: Units = group.graph.units
    if group.members is None:
        chosen = np.arange(units.stratum.size, dtype=np.int64)
    else:
        chosen = np.unique(units.of_operation[group.members])
    strata = units.stratum[chosen]
    count = int(strata.max()) + 1
    stratum_begin, order = np.zeros(count + 1, np.int64), np.empty(chosen.size, np.int64)
    list_members(strata, 0, stratum_begin, order)
    control = np.zeros(CONTROL_SIZE, np.int64)
    control[COORDINATOR] = NOBODY
    control[REMAINING] = chosen.size
    control[DELAY_SEED] = options.delay_seed
    control[TIMED] = int(options.timed or options.timeline > 0)
    transactions = stage.last_transaction - stage.first_transaction
    return Group(
        stratum_begin,
        chosen[order],
        control,
        suspects=np.empty(transactions, np.int64),
        touched=np.empty(group.operations, np.int64),
        worklist=np.empty(2 * group.operations, np.int64),
        depths=np.empty(2 * group.operations, np.int64),
        stack=np.empty(chosen.size, np.int64),
    )


def granularities(groups: list[Policy]) -> set[Granularity]:
    """The granularities that parallel policies among these need units for."""
    return {policy.granularity for policy in groups if not policy.is_serial}
