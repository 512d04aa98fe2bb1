"""MorphStream's Fig. 16 and 17: where the time goes, and memory over time; and our own figures of memory."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row
from bench.experiment import Cell, Context, Experiment, crossed, of_workload
from bench.experiments.dynamic import dynamic_plan
from bench.policies import COST, LOCK, PAPER, PAT, SERIAL, SOME_FIXED, TSTREAM
from bench.running import Plan, Run
from bench.workload import Workload, dynamic_ledger, ledger
from services.apps import workloads

PARTS = {
    "useful_us": "useful",
    "plan_us": "plan (construct)",
    "explore_us": "explore",
    "abort_us": "abort",
    "sync_us": "sync",
    "other_us": "other (input, install, collect)",
}
MEMORY = ("resident_growth_mb", "working_mb", "working_bytes_per_operation", "throughput_per_s")


def _dynamic(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.STREAMING_LEDGER,
        transactions=size.of(10_240, 2_048, 64),
        states=size.of(100_000, 10_000, 100),
        busy_us=size.of(10.0, 2.0, 0.0),
    )
    return dynamic_ledger(parameters, context.iterations_per_us)


def _parts(run: Run) -> list[Row]:
    first = run.epochs[0].resident_mb
    return [
        {
            "epoch": facts.epoch,
            **{part: getattr(facts.times, part.removesuffix("_us")) * 1e6 / facts.transactions for part in PARTS},
            "resident_growth_mb": facts.resident_mb - first,
            "working_mb": facts.working_bytes / 1e6,
        }
        for facts in run.epochs
    ]


def _timed_plan(context: Context, cell: Cell) -> Plan:
    return replace(dynamic_plan(context, cell), timed=True)


def _draw_parts(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.stacked(left, data, "policy", PARTS, label="µs a transaction, summed over threads")
    left.set_title("(a) where the time goes (plan and other: one thread)", fontsize=9)
    left.margins(y=0.35)  # room for the legend above the bars
    left.legend(fontsize=7, frameon=False, ncols=3, loc="upper center")
    figures.lines(right, data, "epoch", "working_mb", label="memory of an epoch's work, MB")
    right.set_title("(b) memory over time", fontsize=9)
    right.legend(fontsize=6, frameon=False)


FIG16 = Experiment(
    name="fig16-breakdown",
    figure="MorphStream Fig. 16",
    title="Dynamic Streaming Ledger: where the time goes, and how much memory an epoch works in",
    shows="useful, plan, explore, abort, sync and other time by policy; memory over time",
    claim="MorphStream and TStream spend much time constructing and little synchronising; TStream has the highest abort "
    "time, because it redoes the batch; MorphStream's exploring is significant (8.3.1). MorphStream uses about 1.4× the "
    "memory of TStream and never gives it back during a run (8.3.2); 114 GB in the end.",
    grid=lambda size: crossed(policy=[COST, PAPER, *SOME_FIXED, TSTREAM, LOCK, PAT]),
    **of_workload(_dynamic, _timed_plan, _parts),
    values=(*PARTS, "resident_growth_mb", "working_mb"),
    coordinates=("epoch",),
    main="useful_us",
    answer_by=(),
    draw=_draw_parts,
    cell_seconds=9,
    figure_inches=(12, 5),
)


def _memory(run: Run) -> list[Row]:
    first = run.epochs[0].resident_mb
    return [
        {
            "epoch": facts.epoch,
            "resident_growth_mb": facts.resident_mb - first,
            "working_mb": facts.working_bytes / 1e6,
            "working_bytes_per_operation": facts.working_bytes / max(1, facts.operations),
            "throughput_per_s": facts.transactions / facts.seconds,
        }
        for facts in run.epochs
    ]


def _many_epochs(context: Context, cell: Cell) -> Plan:
    return Plan(2, context.size.of(100, 30, 4), keeps_results=cell.get("results") == "kept")


def _epochs_enough(context: Context, cell: Cell) -> Plan:
    """Fewer where they are large: the figures are bytes an operation, and whether memory grows."""
    return Plan(2, context.size.of(100 if int(cell["transactions"]) < 50_000 else 12, 10, 4))


def _memory_workload(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.STREAMING_LEDGER,
        busy_us=0.0,
        transactions=int(cell["transactions"]),
        states=size.of(100_000, 10_000, 100),
    )
    return ledger(parameters, context.iterations_per_us)


def _draw_clean_up(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.lines(left, data, "epoch", "throughput_per_s", by="results", scale=1e-3, label="K transactions/s")
    left.set_title("(a) throughput", fontsize=9)
    figures.lines(right, data, "epoch", "resident_growth_mb", by="results", label="resident memory gained, MB")
    right.set_title("(b) memory over epochs", fontsize=9)
    figures.legend(figure)


FIG17 = Experiment(
    name="fig17-clean-up",
    figure="MorphStream Fig. 17",
    title="Memory over epochs: versions are dropped with their epoch; kept results show what holding on would cost",
    shows="flat memory, because finished versions are always dropped",
    claim="Clearing temporary objects costs MorphStream up to 12.8 % of its throughput; with less than 300 GB of heap its "
    "memory goes up and down with the garbage collector (8.3.3).",
    grid=lambda size: crossed(
        transactions=[size.of(10_240, 2_048, 64)], policy=["unstructured/fine/eager"], results=["dropped", "kept"]
    ),
    **of_workload(_memory_workload, _many_epochs, _memory),
    values=MEMORY,
    coordinates=("epoch",),
    main="resident_growth_mb",
    answer_by=("transactions",),
    draw=_draw_clean_up,
    cell_seconds=4,
)


def _draw_memory(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.bars(left, data, "transactions", "working_bytes_per_operation", label="bytes an operation")
    left.set_title("(a) working memory of an epoch", fontsize=9)
    largest = data.where(transactions=max(data.distinct("transactions")))
    figures.lines(right, largest, "epoch", "resident_growth_mb", label="resident memory gained, MB")
    right.set_title("(b) resident memory over epochs", fontsize=9)
    figures.legend(figure)


SPEED_MEMORY = Experiment(
    name="speed-memory",
    figure="our target",
    title="Memory: bytes an operation while an epoch runs, and resident memory over many epochs",
    shows="working bytes an operation; resident memory stays flat",
    claim="MorphStream used 114 GB for the dynamic ledger, and 13 GB for the plain one on two cores.",
    grid=lambda size: crossed(
        transactions=size.of((10_240, 102_400), (2_048, 10_240), (64,)),
        policy=[COST, SERIAL, "unstructured/fine/eager", "breadth-first/coarse/lazy"],
    ),
    **of_workload(_memory_workload, _epochs_enough, _memory),
    values=MEMORY,
    coordinates=("epoch",),
    main="working_bytes_per_operation",
    answer_by=("transactions",),
    draw=_draw_memory,
    cell_seconds=2,
)
