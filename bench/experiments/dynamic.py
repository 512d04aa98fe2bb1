"""MorphStream's Fig. 12 and 13: a workload that changes over time, and one whose parts want different policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, crossed, of_workload
from bench.policies import COST, LOCK, ORDERED, PAPER, PAT, SERIAL, TSTREAM
from bench.running import Plan, Run, latency_ms
from bench.workload import Workload, dynamic_ledger, tolls
from engine import Epoch, Policy
from engine.execution.layout import Ints
from engine.planning.task_graph import TaskGraph
from engine.scheduling.policy import policy_named
from services.apps import workloads

NESTED = "nested"
# The adaptive ones, both that need no graph, one of each exploration that the paper's model picks here, and TStream and S-Store.
DYNAMIC_POLICIES = (
    COST, PAPER, SERIAL, ORDERED, "breadth-first/coarse/eager", "unstructured/fine/eager", TSTREAM, PAT,
)  # fmt: skip
SKEWED_POLICY, UNIFORM_POLICY = "unstructured/coarse/lazy", "breadth-first/coarse/eager"


def _dynamic(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.STREAMING_LEDGER,
        transactions=size.of(2_048, 1_024, 64),
        states=size.of(100_000, 10_000, 100),
        busy_us=size.of(10.0, 2.0, 0.0),
    )
    return dynamic_ledger(parameters, context.iterations_per_us)


def dynamic_plan(context: Context, cell: Cell) -> Plan:
    """The first epoch of the first phase warms up."""
    return Plan(warm_epochs=1, epochs=4 * context.size.of(8, 4, 1) - 1)


def _by_epoch(run: Run) -> list[Row]:
    lines, before = [], run.epochs[0].seconds
    for facts in run.epochs:
        lines.append(
            {
                "epoch": facts.epoch,
                "throughput_per_s": facts.transactions / facts.seconds,
                "latency_p99_ms": latency_ms([before, facts.seconds], 0.99),
                "chosen": "+".join(facts.policies),
            }
        )
        before = facts.seconds
    return lines


def _draw_dynamic(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.lines(left, data, "epoch", "throughput_per_s", scale=1e-3, label="K transactions/s")
    figures.lines(right, data, "epoch", "latency_p99_ms", label="p99 latency under full load, ms")
    epochs = max(data.distinct("epoch")) + 1
    for axes, title in ((left, "(a) throughput"), (right, "(b) latency")):
        axes.set_title(title, fontsize=9)
        for phase in range(1, 4):
            axes.axvline(epochs * phase / 4 - 0.5, color="#999999", linestyle=":", linewidth=0.8)
    figures.legend(figure)


FIG12 = Experiment(
    name="fig12-dynamic",
    figure="MorphStream Fig. 12",
    title="Streaming Ledger whose workload changes: deposits, then skew, then transfers, then aborts",
    shows="adaptive against fixed policies while the workload changes, by epoch",
    claim="Adaptive scheduling is up to 1.27× the second best in phase 1 and 2.2× to 3.4× TStream and S-Store in phase 4 "
    "(24 cores); both have a much longer tail latency (8.2.2).",
    grid=lambda size: crossed(policy=DYNAMIC_POLICIES),
    **of_workload(_dynamic, dynamic_plan, _by_epoch, learning_epochs=0),  # it learns while the workload changes
    values=("throughput_per_s", "latency_p99_ms", "chosen"),
    coordinates=("epoch",),
    main="throughput_per_s",
    answer_by=(),
    draw=_draw_dynamic,
    figure_inches=(12, 4.5),
)


class NestedChooser:
    """The paper's nested configuration: one policy for the skewed region, another for the uniform one."""

    def __init__(self) -> None:
        self._regions = np.zeros(0, np.int64)

    def see(self, epoch: Epoch) -> None:
        """Transactions of a stage are numbered in the total order, which here is the order of time."""
        columns = list(epoch.events.values())
        ts = np.concatenate([column["ts"] for column in columns])
        self._regions = np.concatenate([column["region"] for column in columns])[np.argsort(ts, kind="stable")]

    def __call__(self, operations: int, graph: Callable[[], TaskGraph]) -> list[tuple[Policy, Ints | None]]:
        return [
            (policy_named(UNIFORM_POLICY), np.flatnonzero(self._regions == 0)),
            (policy_named(SKEWED_POLICY), np.flatnonzero(self._regions == 1)),
        ]


def _nested(context: Context, cell: Cell) -> Workload:
    size = context.size
    uniform = replace(
        workloads.TOLL_PROCESSING,
        theta=0.0,
        abort_share=0.01,
        transactions=size.of(40_960, 4_096, 64),
        busy_us=size.of(10.0, 2.0, 0.0),
    )
    return tolls(uniform, context.iterations_per_us, replace(uniform, theta=0.8, abort_share=0.6), grouped=True)


def _nested_policy(context: Context, cell: Cell) -> str | NestedChooser:
    return NestedChooser() if cell["policy"] == NESTED else str(cell["policy"])


def _draw_nested(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.bars(left, data, "application", "throughput_per_s", scale=1e-3, label="K transactions/s")
    figures.bars(right, data, "application", "latency_p99_ms", label="p99 latency under full load, ms")
    left.set_title("(a) throughput", fontsize=9)
    right.set_title("(b) latency", fontsize=9)
    figures.legend(figure)


FIG13 = Experiment(
    name="fig13-nested",
    figure="MorphStream Fig. 13",
    title="Toll Processing with a skewed, often aborting region beside a uniform one",
    shows="two policies side by side (nested) against one for all",
    claim="The nested configuration is 1.17× and 2.87× the two plain policies it is made of, 40.9 % above TStream and "
    "117 % above S-Store (8.2.3).",
    grid=lambda size: crossed(
        application=["TP"],
        policy=[NESTED, SKEWED_POLICY, UNIFORM_POLICY, COST, PAPER, SERIAL, ORDERED, TSTREAM, LOCK, PAT],
    ),
    **of_workload(_nested, lambda context, cell: Plan(1, context.size.of(2, 2, 1)), policy=_nested_policy),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("application",),
    draw=_draw_nested,
    own_policies=frozenset({NESTED}),
)
