"""What running a stage tells a chooser, and what threads did when: both from the threads' own memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.collect import cycles_per_second
from engine.execution.layout import (
    ABORT_CYCLES,
    BARRIERS,
    CANCELLATIONS,
    OPERATIONS,
    ROLLBACKS,
    SIGNALS,
    SYNC_CYCLES,
    TOTAL_CYCLES,
    USEFUL_CYCLES,
    Ints,
    Scratch,
)
from engine.planning.stage import GOES_ON
from engine.result import FAILED, Moment, StageResult
from engine.scheduling.choice import Choice, Observation
from engine.stage_view import StageView

# What choosers learn from, few because it is read after every stage; the result of the epoch has them all.
_COUNTED = {
    "operations": OPERATIONS,
    "signals": SIGNALS,
    "barriers": BARRIERS,
    "rollbacks": ROLLBACKS,
    "cancellations": CANCELLATIONS,
}


def counters_now(scratches: list[Scratch]) -> Ints:
    """All threads' counters, to tell later what one stage added."""
    return np.array([scratch.counters for scratch in scratches])


def observe(
    view: StageView, chosen: Choice, result: StageResult, seconds: float, scratches: list[Scratch], before: Ints
) -> Observation:
    """What happened to a stage that has just run, choosing included, in so many seconds."""
    added = counters_now(scratches) - before
    rate = cycles_per_second() / 1e9
    total = added.sum(axis=0).tolist()
    useful, aborts, sync, threads = (
        total[at] / rate for at in (USEFUL_CYCLES, ABORT_CYCLES, SYNC_CYCLES, TOTAL_CYCLES)
    )
    run = view.run
    built_seconds = 0.0 if run is None else run.built_seconds
    ran_seconds = run.run_seconds if run is not None else seconds - view.choosing_seconds
    if view.runs_inlined:
        ran_seconds = seconds - view.choosing_seconds - view.planning_seconds - built_seconds
    return Observation(
        choice=[(policy, view.transactions if members is None else len(members)) for policy, members in chosen],
        operations=view.operations,
        transactions=view.transactions,
        aborted=_aborted(view, result) if run is None or view.runs_inlined else run.aborted,
        graph_ns=None if run is None or run.graph_seconds is None else 1e9 * run.graph_seconds,
        units_ns={} if run is None else {each: 1e9 * taken for each, taken in run.units_seconds.items()},
        run_ns=1e9 * ran_seconds,
        useful_ns=useful,
        explore_ns=max(0.0, threads - useful - aborts - sync),
        abort_ns=aborts,
        sync_ns=sync,
        timed=run is None or view.runs_inlined or run.options.timed or run.options.timeline > 0,
        inlined=view.runs_inlined,
        counters={name: total[at] for name, at in _COUNTED.items()},
        threads=view.threads,
        ran_ns=float(added[:, TOTAL_CYCLES].max()) / rate,
        choosing_ns=1e9 * view.choosing_seconds,
        plan_ns=1e9 * max(0.0, seconds - view.choosing_seconds - built_seconds - ran_seconds),
    )


def _aborted(view: StageView, result: StageResult) -> NDArray[np.int8]:
    """For each transaction; events that were left out or failed before have none."""
    verdict = result.verdict
    if view.transactions < verdict.size:
        verdict = verdict[view.events.outcome == GOES_ON]
    aborted: NDArray[np.int8] = (verdict == FAILED).view(np.int8)
    return aborted


def collect_timeline(scratches: list[Scratch]) -> list[Moment]:
    """What all threads wrote down, by when it began."""
    if all(scratch.timeline.size == 1 for scratch in scratches):
        return []
    rate = cycles_per_second()
    kept = []
    for thread, scratch in enumerate(scratches):
        rows = scratch.timeline[1:].reshape(-1, 3)[: int(scratch.timeline[0])]
        kept += [(thread, what, begin, end) for what, begin, end in rows.tolist()]
    first = min((begin for _, _, begin, _ in kept), default=0)
    moments = [Moment(t, what, (begin - first) / rate, (end - first) / rate) for t, what, begin, end in kept]
    return sorted(moments, key=lambda moment: (moment.begin, moment.thread))
