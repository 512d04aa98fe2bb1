"""MorphStream's Fig. 16 and 17: where the time goes, and memory over time; and our own figures of memory."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row
from bench.experiment import Cell, Context, Experiment, crossed, of_workload
from bench.experiments.dynamic import DYNAMIC_POLICIES, dynamic_plan
from bench.policies import COST, ORDERED, SERIAL
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
SMALL_EPOCH = 128  # transactions: ten thousand such epochs take seconds
BYTES_TARGET = 200
FLAT_MB = 10.0  # an axis shorter than this would make noise look like growth
MEMORY = ("resident_growth_mb", "working_mb", "working_bytes_per_operation", "throughput_per_s")


def _dynamic(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.STREAMING_LEDGER,
        transactions=size.of(2_048, 1_024, 64),
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
    right.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


FIG16 = Experiment(
    name="fig16-breakdown",
    figure="MorphStream Fig. 16",
    title="Dynamic Streaming Ledger: where the time goes, and how much memory an epoch works in",
    shows="useful, plan, explore, abort, sync and other time by policy; memory over time",
    claim="MorphStream and TStream spend much time constructing and little synchronising; TStream has the highest abort "
    "time, because it redoes the batch; MorphStream's exploring is significant (8.3.1). MorphStream uses about 1.4× the "
    "memory of TStream and never gives it back during a run (8.3.2); 114 GB in the end.",
    grid=lambda size: crossed(policy=DYNAMIC_POLICIES),
    **of_workload(_dynamic, _timed_plan, _parts, learning_epochs=0),
    values=(*PARTS, "resident_growth_mb", "working_mb"),
    coordinates=("epoch",),
    main="useful_us",
    answer_by=(),
    draw=_draw_parts,
    figure_inches=(15, 5),
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
    """Small epochs: so many that a leak would show, noted now and then. Large ones: few, for the bytes an operation."""
    if int(cell["transactions"]) == SMALL_EPOCH:
        epochs = context.size.of(10_000, 200, 4)
        return Plan(100 if epochs > 1_000 else 2, epochs, fact_every=max(1, epochs // 40))
    return Plan(2, context.size.of(8, 4, 4))


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
    **of_workload(_memory_workload, _many_epochs, _memory, learning_epochs=0),
    values=MEMORY,
    coordinates=("epoch",),
    main="resident_growth_mb",
    answer_by=("transactions",),
    draw=_draw_clean_up,
)


def _draw_memory(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.bars(left, data, "transactions", "working_bytes_per_operation", label="bytes an operation")
    left.set_xlabel("transactions an epoch", fontsize=9)
    left.axhline(BYTES_TARGET, color="black", linewidth=0.8, linestyle=":")
    left.set_title(f"(a) working memory of an epoch (dotted: {BYTES_TARGET} bytes)", fontsize=9)
    smallest = min(data.distinct("transactions"))
    small = data.where(transactions=smallest)
    figures.lines(right, small, "epoch", "resident_growth_mb", label="resident memory gained, MB")
    grown = max((abs(float(row["resident_growth_mb"])) for row in small.rows), default=0.0)
    right.set_ylim(-FLAT_MB if grown < FLAT_MB else None, max(FLAT_MB, 1.05 * grown))
    right.set_title(f"(b) resident memory over epochs of {smallest} transactions", fontsize=9)
    figures.legend(figure)


def _summarise_memory(data: Data) -> list[str]:
    by = ("transactions", "policy")
    found = data.spread("working_bytes_per_operation", by)
    gained = "resident memory gained from the first noted epoch to the middle, to the last, MB"
    lines = [
        f"| transactions an epoch | policy | working bytes an operation | epochs | {gained} |",
        "|---|---|---|---|---|",
    ]
    for (transactions, policy), spread in found.items():
        epochs = data.where(transactions=transactions, policy=policy).distinct("epoch")
        places = (epochs[len(epochs) // 2], epochs[-1])
        grown = data.where(transactions=transactions, policy=policy, epoch=places).spread(
            "resident_growth_mb", ("epoch",)
        )
        gained = ", ".join(str(grown[(place,)]) for place in places)
        lines.append(f"| {transactions:,} | {policy} | {spread} | {epochs[-1] + 1:,} | {gained} |")
    return lines


SPEED_MEMORY = Experiment(
    name="speed-memory",
    figure="our target",
    title="Memory: bytes an operation while an epoch runs, and resident memory over many epochs",
    shows="working bytes an operation; resident memory stays flat over 10,000 epochs",
    claim="MorphStream used 114 GB for the dynamic ledger, and 13 GB for the plain one on two cores.",
    grid=lambda size: crossed(
        transactions=size.of((SMALL_EPOCH, 10_240, 102_400), (SMALL_EPOCH, 2_048, 10_240), (SMALL_EPOCH,)),
        policy=[COST, SERIAL, ORDERED, "unstructured/fine/eager"],
    ),
    **of_workload(_memory_workload, _epochs_enough, _memory, learning_epochs=0),
    values=MEMORY,
    coordinates=("epoch",),
    main="working_bytes_per_operation",
    answer_by=("transactions",),
    draw=_draw_memory,
    summarise=_summarise_memory,
    figure_inches=(11, 4.5),
)
