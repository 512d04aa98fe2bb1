"""MorphStream's Fig. 21b: throughput by threads. One and two are measured; more are simulated, and marked as such.

The simulation schedules the graph of a real epoch with costs measured in one thread (see `bench.simulation`); planning
and collecting stay as long as they were. It gives figures for one and two threads too, which show how far to trust it.
Nothing aborts here, because the simulation knows no aborts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row
from bench.estimate import run_seconds
from bench.experiment import NOMINAL, Cell, Context, Experiment, Measured, Size, with_learning
from bench.overheads import execution_s, measure_overheads
from bench.policies import COST, LOCK, ORDERED, PAT, SERIAL, TSTREAM
from bench.running import Plan, Run, run_workload, warm_up
from bench.simulation import UnitCosts, UnitDag, simulate
from bench.workload import Workload, ledger
from engine import Policy
from engine.execution.layout import Ints
from engine.planning.task_graph import TaskGraph
from engine.scheduling.policy import policy_named
from engine.scheduling.units import UnitGraph, build_units
from services.apps import workloads

MEASURED, SIMULATED = "measured", "simulated"
SIMULATED_POLICIES = (
    "breadth-first/fine/eager", "depth-first/fine/eager", "unstructured/fine/eager", "unstructured/coarse/eager",
)  # fmt: skip
MEASURED_POLICIES = (*SIMULATED_POLICIES, SERIAL, ORDERED, COST, TSTREAM, LOCK, PAT)
SIMULATION_S = 0.5
THREADS_MEASURED = (1, 2)
THREADS_SIMULATED = (1, 2, 4, 8, 12, 16, 24)


def _cells(size: Size) -> list[Cell]:
    cells: list[Cell] = [{"kind": MEASURED, "policy": policy} for policy in MEASURED_POLICIES]
    return cells + [{"kind": SIMULATED, "policy": policy} for policy in SIMULATED_POLICIES]


def _workload(context: Context) -> Workload:
    size = context.size
    parameters = replace(
        workloads.STREAMING_LEDGER, abort_share=0.0, busy_us=size.of(10.0, 5.0, 0.0),
        transactions=size.of(5_120, 2_048, 64), states=size.of(100_000, 10_000, 100),
    )  # fmt: skip
    return ledger(parameters, context.iterations_per_us)


def _plan(context: Context) -> Plan:
    return Plan(1, context.size.of(1, 2, 1))


class _Keeper:
    """A chooser that runs one policy and keeps the units that it would schedule."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.units: UnitGraph | None = None

    def __call__(self, operations: int, graph: Callable[[], TaskGraph]) -> list[tuple[Policy, Ints | None]]:
        g = graph()
        self.units = build_units(
            self.policy.granularity, g.program, g.tables, g.operations, g.edges, g.operation_count
        )  # fmt: skip
        return [(self.policy, None)]


def _measure(context: Context, cell: Cell) -> Measured:
    return _simulated(context, cell) if cell["kind"] == SIMULATED else _measured(context, cell)


def _measured(context: Context, cell: Cell) -> Measured:
    lines: list[Row] = []
    answers = set()
    for threads in THREADS_MEASURED:
        policy = str(cell["policy"])
        plan = with_learning(context, policy, _plan(context))
        run = run_workload(_workload(context), policy, threads, context.seed, plan)
        lines.append({"threads": threads, "throughput_per_s": run.throughput_per_s})
        answers.add(run.answer)
    return Measured(lines, " or ".join(sorted(answers)))


def _simulated(context: Context, cell: Cell) -> Measured:
    workload, policy = _workload(context), policy_named(str(cell["policy"]))
    run = run_workload(workload, policy.name, 1, context.seed, replace(_plan(context), timed=True))
    keeper = _Keeper(policy)
    run_workload(workload, keeper, 1, context.seed, Plan(warm_epochs=0, epochs=1))
    assert keeper.units is not None
    dag = UnitDag.of_units(keeper.units.units)
    costs = unit_costs(run, keeper.units, context.seed)
    fixed_s = (run.total("plan") + run.total("other")) / len(run.epochs)
    transactions = run.transactions / len(run.epochs)
    lines: list[Row] = [
        {
            "threads": threads,
            "throughput_per_s": transactions / (fixed_s + simulate(dag, costs, threads, policy.exploration)),
        }
        for threads in THREADS_SIMULATED
    ]
    return Measured(lines, run.answer)


def unit_costs(run: Run, units: UnitGraph, seed: int) -> UnitCosts:
    """Costs from a timed run in one thread: its time is divided among its operations, units and signals."""
    overheads = measure_overheads(seed)
    members = np.diff(units.units.member_begin).astype(np.float64)
    operation_s = run.total("useful") / max(1, run.operations)
    run_units = max(1, sum(facts.counters["units"] for facts in run.epochs))
    signals = sum(facts.counters["signals"] for facts in run.epochs)
    scheduling_s = execution_s(run) - run.total("useful")
    taking_s = max(0.0, scheduling_s - overheads.signal_s * signals) / run_units
    return UnitCosts(members * operation_s, taking_s, overheads.signal_s, overheads.meeting_s)


def _cell_seconds(cell: Cell) -> float:
    """In one and in two threads; or two epochs and one more for the graph, in one thread, and the simulation."""
    policy = str(cell["policy"])
    plan = with_learning(NOMINAL, policy, _plan(NOMINAL))
    alone = run_seconds(_workload(NOMINAL), SERIAL, plan)
    if cell["kind"] == SIMULATED:
        return 1.5 * alone + SIMULATION_S
    return alone + run_seconds(_workload(NOMINAL), policy, plan)


def _warm(context: Context, cell: Cell) -> None:
    for threads in THREADS_MEASURED:
        warm_up(_workload(context), str(cell["policy"]), threads)
    if cell["kind"] == SIMULATED:
        measure_overheads(context.seed)


def _draw(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    simulated, measured = data.where(kind=SIMULATED), data.where(kind=MEASURED)
    for axes in (left, right):
        figures.lines(axes, measured, "threads", "throughput_per_s", scale=1e-3, label="K transactions/s")
        figures.lines(
            axes, simulated if axes is left else simulated.where(threads=THREADS_MEASURED), "threads",
            "throughput_per_s", scale=1e-3, label="K transactions/s", dashed=True, suffix=" (simulated)",
        )  # fmt: skip
    left.set_title("dashed: SIMULATED from the measured graph and costs", fontsize=9)
    right.set_title("how far to trust it: measured and simulated, 1 and 2 threads", fontsize=9)
    right.set_xticks(THREADS_MEASURED)
    figures.legend(figure)


def validation(data: Data) -> list[tuple[str, int, float]]:
    """(policy, threads, simulated over measured - 1) where both exist."""
    found = data.medians("throughput_per_s", ("policy", "threads", "kind"))
    return [
        (policy, threads, value / found[(policy, threads, MEASURED)] - 1)
        for (policy, threads, kind), value in found.items()
        if kind == SIMULATED and (policy, threads, MEASURED) in found
    ]


def _summarise(data: Data) -> list[str]:
    found = data.spread("throughput_per_s", ("kind", "policy", "threads"))
    lines = ["| kind | policy | threads | transactions/s |", "|---|---|---|---|"]
    lines += [f"| {kind} | {policy} | {threads} | {spread} |" for (kind, policy, threads), spread in found.items()]
    lines += ["", "| policy | threads | simulated against measured |", "|---|---|---|"]
    return lines + [f"| {policy} | {threads} | {error:+.1%} |" for policy, threads, error in validation(data)]


FIG21B = Experiment(
    name="fig21b-scalability",
    figure="MorphStream Fig. 21b",
    title="Streaming Ledger by number of threads",
    shows="1 and 2 threads measured, 4 to 24 simulated from the measured graph",
    claim="MorphStream scales best of the three systems up to 24 cores, though not linearly; on few cores it is slower than "
    "S-Store, because building the graph has a constant cost (8.5).",
    grid=_cells,
    measure=_measure,
    warm=_warm,
    values=("throughput_per_s",),
    coordinates=("threads",),
    shown_by=("threads",),
    main="throughput_per_s",
    answer_by=(),
    draw=_draw,
    cell_seconds=_cell_seconds,
    figure_inches=(12, 4.5),
    summarise=_summarise,
)
