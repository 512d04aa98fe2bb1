"""TStream's Fig. 8 and 10 to 13: its own defaults (10,000 records, θ = 0.6, an interval of 500, no aborts, no busy loop).

The papers' schemes and ours get the same events. `pat` takes a key's partition to be its number modulo 16.
"""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures, streams
from bench.data import Data
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, Size, crossed, of_workload
from bench.policies import COST, ORDERED, SCHEMES, SERIAL, TSTREAM
from bench.running import Plan
from bench.workload import Workload, bids, ledger, sums, tolls
from services.apps import workloads
from services.apps.workloads import Parameters

APPLICATIONS = ("GS", "SL", "OB", "TP")
OURS = (SERIAL, ORDERED, "unstructured/fine/eager", COST)
POLICIES = (*SCHEMES, *OURS)
PARTITIONS = 16
INTERVAL = 500
ACCESSES = 10


def _base(size: Size, interval: int) -> Parameters:
    return Parameters(
        theta=0.6, abort_share=0.0, length=1, busy_us=0.0, reads=ACCESSES,
        transactions=size.of(interval, interval, min(interval, 64)), states=size.of(10_000, 10_000, 160),
    )  # fmt: skip


def _application(context: Context, name: str, interval: int, read_share: float = 0.5) -> Workload:
    base, rate = _base(context.size, interval), context.iterations_per_us
    if name == "GS":
        return sums(base, rate, query_share=read_share).changed(streams.lists_of_accesses)
    if name == "SL":
        return ledger(base, rate)
    if name == "OB":
        return bids(replace(workloads.ONLINE_BIDDING, abort_share=0.0, transactions=base.transactions), rate)
    return tolls(replace(workloads.TOLL_PROCESSING, abort_share=0.0, busy_us=0.0, transactions=base.transactions), rate)


def _plan(context: Context, cell: Cell) -> Plan:
    """About 12,000 transactions, or a hundred epochs: short epochs are not to be judged by a handful."""
    interval = int(cell.get("interval", INTERVAL))
    return Plan(context.size.of(2, 2, 1), context.size.of(min(100, max(3, 12_000 // interval)), 4, 1))


def _any_application(context: Context, cell: Cell) -> Workload:
    return _application(context, str(cell["application"]), int(cell["interval"]))


def _draw_by_interval(data: Data, figure: Figure) -> None:
    intervals = data.distinct("interval")
    for axes, interval in zip(figure.subplots(1, len(intervals), squeeze=False)[0], intervals, strict=True):
        figures.bars(
            axes, data.where(interval=interval), "application", "throughput_per_s", scale=1e-3,
            label="K transactions/s",
        )  # fmt: skip
        axes.set_title(f"{interval:,} transactions an epoch", fontsize=9)
    figures.legend(figure)


FIG8 = Experiment(
    name="tstream-fig8-throughput",
    figure="TStream Fig. 8",
    title="Four applications under the schemes of the paper and ours",
    shows="throughput of GS, SL, OB and TP for LOCK, MVLK, PAT, TStream, No-Lock and ours",
    claim="On 40 cores TStream is 3.8×, 1.7× and 3.3× PAT for GS, SL and OB, and 4.8× LOCK for TP; No-Lock, the upper "
    "bound, stays well above it (VI-C).",
    grid=lambda size: crossed(
        application=APPLICATIONS, interval=size.of((INTERVAL, 10_240), (INTERVAL, 4_096), (INTERVAL,)), policy=POLICIES
    ),
    **of_workload(_any_application, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("application", "interval"),
    draw=_draw_by_interval,
    figure_inches=(13, 4.5),
)


def _partition_cells(size: Size) -> list[Cell]:
    shares = size.of((0.0, 0.25, 0.5, 1.0), (0.0, 0.5, 1.0), (0.5,))
    lengths = size.of((1, 3, 6, 10), (1, 4, 10), (4,))
    points = dict.fromkeys([*((share, 6) for share in shares), *((0.5, length) for length in lengths)])
    return [{"multiple_share": s, "partitions_touched": n, "policy": policy} for s, n in points for policy in POLICIES]


def _partitioned(context: Context, cell: Cell) -> Workload:
    workload = sums(_base(context.size, INTERVAL), context.iterations_per_us)
    return workload.changed(
        streams.partitioned, partitions=PARTITIONS, multiple_share=float(cell["multiple_share"]),
        length=int(cell["partitions_touched"]),
    )  # fmt: skip


def _draw_partitions(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    figures.lines(
        left, data.where(partitions_touched=6), "multiple_share", "throughput_per_s", scale=1e-3,
        label="K transactions/s",
    )  # fmt: skip
    left.set_title("(a) share of multi-partition transactions (6 partitions)", fontsize=9)
    figures.lines(
        right, data.where(multiple_share=0.5), "partitions_touched", "throughput_per_s", scale=1e-3,
        label="K transactions/s",
    )  # fmt: skip
    right.set_title("(b) partitions they touch (half of the transactions)", fontsize=9)
    figures.legend(figure)


FIG10 = Experiment(
    name="tstream-fig10-partitions",
    figure="TStream Fig. 10",
    title="Grep and Sum, ten writes a transaction, within one partition or across several",
    shows="what multi-partition transactions cost PAT and the others",
    claim="PAT degrades with the share and the length of multi-partition transactions, and is below TStream even without "
    "any (VI-E).",
    grid=_partition_cells,
    **of_workload(_partitioned, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("multiple_share", "partitions_touched"),
    draw=_draw_partitions,
    figure_inches=(11, 4.5),
)


def _mix_cells(size: Size) -> list[Cell]:
    shares = size.of((0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0), (0.5,))
    skews = size.of((0.0, 0.4, 0.8, 1.0), (0.0, 0.6, 1.0), (0.6,))
    points = [*(("a", share, 0.0) for share in shares), *(("b", 0.0, theta) for theta in skews)]
    return [
        {"panel": panel, "read_share": share, "theta": theta, "policy": policy}
        for panel, share, theta in points
        for policy in POLICIES
    ]


def _mix(context: Context, cell: Cell) -> Workload:
    base = replace(_base(context.size, INTERVAL), theta=float(cell["theta"]))
    return sums(base, context.iterations_per_us, float(cell["read_share"])).changed(streams.lists_of_accesses)


def _draw_mix(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    figures.lines(
        left, data.where(panel="a"), "read_share", "throughput_per_s", scale=1e-3, label="K transactions/s"
    )  # fmt: skip
    left.set_title("(a) share of read requests, no skew", fontsize=9)
    figures.lines(right, data.where(panel="b"), "theta", "throughput_per_s", scale=1e-3, label="K transactions/s")
    right.set_title("(b) skew θ, writes only", fontsize=9)
    figures.legend(figure)


FIG11 = Experiment(
    name="tstream-fig11-mix",
    figure="TStream Fig. 11",
    title="Grep and Sum by share of reads and by skew",
    shows="read/write ratio and skew for all schemes",
    claim="The ratio of reads hardly matters to LOCK, MVLK and PAT; TStream gets somewhat slower with more reads. Skew "
    "hurts the prior schemes and hardly TStream (VI-E).",
    grid=_mix_cells,
    **of_workload(_mix, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("panel", "read_share", "theta"),
    draw=_draw_mix,
    figure_inches=(11, 4.5),
)


def _draw_interval(data: Data, figure: Figure) -> None:
    policies = data.distinct("policy")
    grid = figure.subplots(2, len(policies), squeeze=False, sharey="row")
    for column, policy in enumerate(policies):
        here = data.where(policy=policy)
        figures.lines(grid[0][column], here, "interval", "throughput_per_s", by="application", scale=1e-3,
                      label="K transactions/s")  # fmt: skip
        figures.lines(grid[1][column], here, "interval", "latency_p99_ms", by="application", label="p99 latency, ms")
        grid[0][column].set_title(policy, fontsize=9)
        for row in (0, 1):
            figures.logarithmic(grid[row][column], here, "interval")
            grid[row][column].set_yscale("log")
            if column:
                grid[row][column].set_ylabel("")
    figures.legend(figure)


FIG12 = Experiment(
    name="tstream-fig12-interval",
    figure="TStream Fig. 12",
    title="Punctuation interval: throughput and latency",
    shows="how long an epoch should be",
    claim="Throughput grows with the punctuation interval, most for TP; at 500 the p99 latency is 0.23 to 0.63 ms (40 "
    "cores); latency grows only once throughput no longer does (VI-F).",
    grid=lambda size: crossed(
        application=APPLICATIONS,
        interval=size.of((25, 100, 500, 2_500, 10_000), (50, 500, 5_000), (50,)),
        policy=[TSTREAM, COST, SERIAL, ORDERED, "unstructured/fine/eager"],
    ),
    **of_workload(_any_application, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("application", "interval"),
    draw=_draw_interval,
    figure_inches=(13, 6.5),
)


def _draw_latency(data: Data, figure: Figure) -> None:
    axes = figure.subplots()
    figures.bars(axes, data, "application", "latency_p99_ms", label="p99 latency under full load, ms")
    figures.legend(figure)


FIG13 = Experiment(
    name="tstream-fig13-latency",
    figure="TStream Fig. 13",
    title="Tail latency of four applications, 500 transactions an epoch",
    shows="99th percentile of the latency by scheme",
    claim="At an interval of 500 TStream's p99 latency is comparable to that of the prior schemes, sometimes lower (VI-F).",
    grid=lambda size: crossed(application=APPLICATIONS, interval=[INTERVAL], policy=POLICIES),
    **of_workload(_any_application, _plan),
    values=THROUGHPUT,
    main="latency_p99_ms",
    answer_by=("application", "interval"),
    draw=_draw_latency,
)
