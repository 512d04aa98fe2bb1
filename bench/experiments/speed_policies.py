"""How good the policies and the choice among them are: two threads against one, and what the adaptive choice costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Spread
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, Size, crossed, of_workload
from bench.policies import ADAPTIVE, COST, FIXED, ORDERED, PAPER, PARALLEL, SERIAL
from bench.running import Plan
from bench.workload import Workload, ledger, sums, tolls
from services.apps import workloads
from services.apps.workloads import Parameters

REGRET_LEARNING_EPOCHS = 4  # epochs of the largest T are long
REGRET_RUN_US = 100_000  # of serial work measured in a cell and repeat
REGRET_SHOWN_MAX = 1.0  # twice as slow as the best, and beyond, have one colour
SWEEPS: dict[str, tuple[float, ...]] = {
    "theta": (0.0, 0.2, 0.6, 1.0, 1.5),  # 0.2 is the default of all: the point that the other sweeps start from
    "abort_share": (0.0, 0.3, 0.9),
    "length": (4, 10),
    "busy_us": (0.0, 1.0, 100.0),
    "reads": (1, 10),
    "transactions": (5_120, 81_920),
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
    transactions = context.size.of(5_120, 2_048, 64)
    changed = replace(parameters, busy_us=float(cell["busy_us"]), transactions=transactions)
    return make(changed, context.iterations_per_us)


def _plan(context: Context, cell: Cell) -> Plan:
    """SL calls three functions a transaction, so its epochs take three times as long."""
    enough = 8 if cell["busy_us"] != 10.0 else 1 if cell["application"] == "SL" else 2
    return Plan(1, context.size.of(enough, 2, 1))


def _regret_plan(context: Context, cell: Cell) -> Plan:
    """A twentieth of a second or more."""
    workload = _regret(context, cell)
    serial_us = workload.parameters.transactions * (workload.calls * workload.parameters.busy_us + 0.1)
    return Plan(1, context.size.of(min(64, max(1, round(REGRET_RUN_US / serial_us))), 2, 1))


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
    answer_by=("application", "busy_us"),
    draw=_draw_two_threads,
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
            workloads.STREAMING_LEDGER, theta=theta, abort_share=aborts, busy_us=busy_us, states=states,
            transactions=size.of(2_560, 1_024, 64),
        )  # fmt: skip
        return ledger(parameters, context.iterations_per_us, transfers)
    usual = replace(workloads.GREP_SUM, busy_us=busy_us, transactions=transactions, states=states)
    changed: dict[str, Any] = {name: int(value) if name in ("length", "reads", "transactions") else float(value)}
    made = replace(usual, **changed)
    # The same work an epoch where a transaction takes longer, or the sweep would last an hour.
    work = max(1.0, made.length * made.busy_us / 10.0) if size is Size.FULL else 1.0
    return sums(replace(made, transactions=int(made.transactions / work)), context.iterations_per_us)


def regrets(data: Data) -> dict[tuple[str, float], dict[str, float]]:
    """For each cell of the sweep and policy: how much longer it takes than the best fixed policy (medians)."""
    medians = data.medians("throughput_per_s", ("sweep", "value", "policy"))
    best: dict[tuple[str, float], float] = {}
    for (name, value, policy), throughput in medians.items():
        if policy not in ADAPTIVE:
            best[(name, value)] = max(throughput, best.get((name, value), 0.0))
    found: dict[tuple[str, float], dict[str, float]] = {}
    for (name, value, policy), throughput in medians.items():
        if (name, value) in best:
            found.setdefault((name, value), {})[policy] = best[(name, value)] / throughput - 1
    return found


def two_regimes(data: Data, policies: Sequence[str]) -> str:
    """Two points at which different policies win, each by more than the spread (its slowest repeat beats the other's
    fastest); the pair with the clearest smaller win. Or that there is none."""
    spreads = data.where(policy=tuple(policies)).spread("throughput_per_s", ("sweep", "value", "policy"))
    points: dict[tuple[str, float], dict[str, Spread]] = {}
    for (name, value, policy), spread in spreads.items():
        points.setdefault((name, value), {})[policy] = spread
    wins: dict[tuple[str, str], list[tuple[float, tuple[str, float]]]] = {}
    for point, found in points.items():
        best = max(found, key=lambda policy: found[policy].median)
        for policy, spread in found.items():
            if policy != best and found[best].minimum > spread.maximum:
                wins.setdefault((best, policy), []).append((found[best].median / spread.median, point))
    pairs = [
        (min(max(wins[(one, other)])[0], max(wins[(other, one)])[0]), one, other)
        for one, other in wins
        if one < other and (other, one) in wins
    ]
    if not pairs:
        return "none: no two of them win against each other, each at some point by more than the spread."
    _, one, other = max(pairs)
    told = [
        f"at {name} = {value:g} {winner} is the best and {ratio:.2f} × {loser}"
        for winner, loser in ((one, other), (other, one))
        for ratio, (name, value) in (max(wins[(winner, loser)]),)
    ]
    return "; ".join(told) + " (every repeat of the one above every repeat of the other)."


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
    policies = data.distinct("policy")
    for policy in policies:
        values = {point: by_policy[policy] for point, by_policy in found.items() if policy in by_policy}
        if not values:
            continue
        worst = max(values, key=lambda point: values[point])
        middle = float(np.median(list(values.values())))
        lines.append(f"| {policy} | {middle:.1%} | {values[worst]:.1%} | {worst[0]} = {worst[1]:g} |")
    parallel = [policy for policy in policies if policy not in (SERIAL, *ADAPTIVE)]
    over_graphs = [policy for policy in parallel if policy != ORDERED]
    lines += ["", "Two regimes in which different parallel policies win by more than the spread:", ""]
    lines += [f"- among all of them: {two_regimes(data, parallel)}"]
    lines += [
        f"- among those over a graph: {two_regimes(data, over_graphs)}",
        "",
        "| at | best fixed | cost against it |",
    ]
    lines += ["|---|---|---|"]
    for (name, value), regret in found.items():
        best = min((policy for policy in regret if policy not in ADAPTIVE), key=lambda policy: regret[policy])
        lines.append(f"| {name} = {value:g} | {best} | {f'{regret[COST]:+.1%}' if COST in regret else '–'} |")
    return lines


SPEED_REGRET = Experiment(
    name="speed-regret",
    figure="our target: adaptive within 5 % of the best fixed policy",
    title="Regret: how much slower than the best fixed policy, one parameter at a time, and in the dynamic phases",
    shows="nine fixed policies and the adaptive ones over sweeps of θ, a, l, C, r, T (GS) and four phases (SL)",
    claim="No fixed policy is best everywhere (8.4); the adaptive choice should be within 5 % of the best.",
    grid=_regret_cells,
    **of_workload(_regret, _regret_plan, learning_epochs=REGRET_LEARNING_EPOCHS),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("sweep", "value"),
    draw=_draw_regret,
    figure_inches=(14, 6),
    summarise=_summarise_regret,
)
