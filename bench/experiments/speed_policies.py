"""How good the policies and the choice among them are: two threads against one, and what the adaptive choice costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench import figures
from bench.data import Data
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, Size, crossed, of_workload
from bench.policies import ADAPTIVE, COST, FIXED, ORDERED, PAPER, PARALLEL, SERIAL
from bench.running import Plan
from bench.workload import Workload, ledger, sums, tolls
from services.apps import workloads
from services.apps.workloads import Parameters

REGRET_SHOWN_MAX = 1.0  # twice as slow as the best, and beyond, have one colour
SWEEPS: dict[str, tuple[float, ...]] = {
    "theta": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5),
    "abort_share": (0.0, 0.01, 0.1, 0.3, 0.6, 0.9),
    "length": (1, 2, 4, 10),
    "busy_us": (0.0, 1.0, 10.0, 40.0, 100.0),
    "reads": (1, 2, 5, 10),
    "transactions": (5_120, 10_240, 40_960, 81_920),
    "phase": (1, 2, 3, 4),
}
QUICK_SWEEPS: dict[str, tuple[float, ...]] = {
    "theta": (0.0, 1.0),
    "abort_share": (0.6,),
    "length": (4,),
    "busy_us": (0.0,),
    "reads": (5,),
    "transactions": (512,),
    "phase": (1, 4),
}
TINY_SWEEPS: dict[str, tuple[float, ...]] = {"theta": (1.0,), "phase": (4,)}
# What the adaptive choices are held against: each exploration and granularity, and lazy handling where it can matter. All
# thirteen would take an hour; the ones left out differ from one of these in handling aborts only.
RIVALS = (
    SERIAL, ORDERED, "breadth-first/fine/eager", "breadth-first/coarse/eager", "depth-first/fine/eager",
    "unstructured/fine/eager", "unstructured/fine/lazy", "unstructured/coarse/eager", "unstructured/coarse/lazy",
)  # fmt: skip
# The ends of the dynamic workload's phases: skew, share of transfers, share of aborts.
PHASES = {1: (0.0, 0.05, 0.0), 2: (0.6, 0.05, 0.0), 3: (0.6, 0.95, 0.0), 4: (0.6, 0.95, 0.6)}


def _two_threads(context: Context, cell: Cell) -> Workload:
    makers: dict[str, tuple[Callable[[Parameters, float], Workload], Parameters]] = {
        "SL": (ledger, workloads.STREAMING_LEDGER), "GS": (sums, workloads.GREP_SUM),
        "TP": (tolls, workloads.TOLL_PROCESSING),
    }  # fmt: skip
    make, parameters = makers[str(cell["application"])]
    transactions = context.size.of(10_240, 2_048, 64)
    changed = replace(parameters, busy_us=float(cell["busy_us"]), transactions=transactions)
    return make(changed, context.iterations_per_us)


def _plan(context: Context, cell: Cell) -> Plan:
    return Plan(context.size.of(2, 2, 1), context.size.of(3, 2, 1))


def _draw_two_threads(data: Data, figure: Figure) -> None:
    costs = data.distinct("busy_us")
    for axes, busy in zip(figure.subplots(1, len(costs), squeeze=False)[0], costs, strict=True):
        here = data.where(busy_us=busy)
        serial = here.where(policy=SERIAL).medians("throughput_per_s", ("application",))
        relative = Data(here.header, here.parameters, [
            {**row, "speed-up": row["throughput_per_s"] / serial[(row["application"],)]}
            for row in here.rows if row["policy"] != SERIAL and (row["application"],) in serial
        ])  # fmt: skip
        figures.bars(axes, relative, "application", "speed-up", label="× the median of serial")
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_title(f"C = {busy:g} µs", fontsize=9)
    figures.legend(figure)


SPEED_TWO_THREADS = Experiment(
    name="speed-two-threads",
    figure="our target: 1.9× serial at C = 10 µs",
    title="Two threads against serial",
    shows="speed-up of every parallel policy and the adaptive ones at C = 10 and 1 µs",
    claim="5.7 µs operations on two threads ran 1.95× faster than serial in a prototype; the target is 1.9×.",
    grid=lambda size: crossed(
        application=["SL", "GS", "TP"],
        busy_us=size.of((10.0, 1.0), (2.0,), (0.0,)),
        policy=[SERIAL, ORDERED, *size.of(PARALLEL, PARALLEL, PARALLEL[::5]), COST, PAPER],
    ),
    **of_workload(_two_threads, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("application",),
    draw=_draw_two_threads,
    cell_seconds=1.2,
    figure_inches=(14, 5),
)


def _regret_cells(size: Size) -> list[Cell]:
    sweeps = size.of(SWEEPS, QUICK_SWEEPS, TINY_SWEEPS)
    policies = (*size.of(RIVALS, RIVALS, RIVALS[::4]), *ADAPTIVE)
    points = [(name, value) for name, values in sweeps.items() for value in values]
    return [{"sweep": name, "value": value, "policy": policy} for name, value in points for policy in policies]


def _regret(context: Context, cell: Cell) -> Workload:
    size, name, value = context.size, str(cell["sweep"]), cell["value"]
    busy_us, transactions = size.of(10.0, 2.0, 0.0), size.of(10_240, 1_024, 64)
    states = size.of(100_000, 10_000, 200)
    if name == "phase":
        theta, transfers, aborts = PHASES[int(value)]
        parameters = replace(
            workloads.STREAMING_LEDGER, theta=theta, abort_share=aborts, busy_us=busy_us, transactions=transactions,
            states=states,
        )  # fmt: skip
        return ledger(parameters, context.iterations_per_us, transfers)
    usual = replace(workloads.GREP_SUM, busy_us=busy_us, transactions=transactions, states=states)
    changed: dict[str, Any] = {name: int(value) if name in ("length", "reads", "transactions") else float(value)}
    return sums(replace(usual, **changed), context.iterations_per_us)


def regrets(data: Data) -> dict[tuple[str, float], dict[str, float]]:
    """For each cell of the sweep and policy: how much longer it takes than the best fixed policy (medians)."""
    medians = data.medians("throughput_per_s", ("sweep", "value", "policy"))
    found: dict[tuple[str, float], dict[str, float]] = {}
    for (name, value, policy), throughput in medians.items():
        best = max(
            speed for (n, v, p), speed in medians.items() if (n, v) == (name, value) and p not in ADAPTIVE
        )  # fmt: skip
        found.setdefault((name, value), {})[policy] = best / throughput - 1
    return found


def _draw_regret(data: Data, figure: Figure) -> None:
    found = regrets(data)
    policies = sorted(data.distinct("policy"), key=lambda p: (p not in ADAPTIVE, FIXED.index(p) if p in FIXED else 0))
    matrix = np.array([[found[point].get(policy, np.nan) for point in found] for policy in policies])
    axes = figure.subplots()
    names = [f"{name} = {value:g}" for name, value in found]
    figures.heat_map(axes, matrix, policies, names, label="slower than the best fixed policy", top=REGRET_SHOWN_MAX)


def _summarise_regret(data: Data) -> list[str]:
    found = regrets(data)
    lines = ["| policy | median | worst | worst at |", "|---|---|---|---|"]
    for policy in data.distinct("policy"):
        values = {point: by_policy[policy] for point, by_policy in found.items() if policy in by_policy}
        worst = max(values, key=lambda point: values[point])
        middle = float(np.median(list(values.values())))
        lines.append(f"| {policy} | {middle:.1%} | {values[worst]:.1%} | {worst[0]} = {worst[1]:g} |")
    return lines


SPEED_REGRET = Experiment(
    name="speed-regret",
    figure="our target: adaptive within 5 % of the best fixed policy",
    title="Regret: how much slower than the best fixed policy, one parameter at a time, and in the dynamic phases",
    shows="nine fixed policies and the adaptive ones over sweeps of θ, a, l, C, r, T (GS) and four phases (SL)",
    claim="No fixed policy is best everywhere (8.4); the adaptive choice should be within 5 % of the best.",
    grid=_regret_cells,
    **of_workload(_regret, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("sweep", "value"),
    draw=_draw_regret,
    cell_seconds=0.9,
    figure_inches=(14, 6),
    summarise=_summarise_regret,
)
