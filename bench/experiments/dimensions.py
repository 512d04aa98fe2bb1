"""MorphStream's Fig. 18, 19 and 20: one scheduling dimension at a time, on Grep and Sum (section 8.4)."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures, streams
from bench.data import Data
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, Size, of_workload
from bench.policies import ORDERED, SERIAL
from bench.running import Plan
from bench.workload import Workload, sums
from services.apps import workloads
from services.apps.workloads import Parameters

INTERVALS = (5_120, 20_480, 81_920)
SKEWS = (0.0, 0.6, 1.0)
HIGH_INTERVAL = 40_960
ABORT_TRANSACTIONS = 5_120  # Fig. 20: at C = 100 µs and two writes a transaction an epoch of these is half a second
ABORTS = (0.0, 0.1, 0.5, 0.7, 0.9)
COMPLEXITIES_US = (0.0, 10.0, 40.0, 100.0)
TRANSACTIONS_A_RUN, LONGEST_RUN_US = 20_480, 100_000.0
HIGH_ABORTS = 0.7
EXPLORATIONS = ("breadth-first/fine/eager", "depth-first/fine/eager", "unstructured/fine/eager", ORDERED, SERIAL)
GRANULARITIES = (
    "unstructured/fine/eager", "unstructured/coarse/eager", "breadth-first/fine/eager", "breadth-first/coarse/eager",
    ORDERED, SERIAL,
)  # fmt: skip
ABORT_HANDLING = (
    "unstructured/fine/eager", "unstructured/fine/lazy", "breadth-first/fine/eager", "breadth-first/fine/lazy", ORDERED,
    SERIAL,
)  # fmt: skip


def _plan(context: Context, cell: Cell) -> Plan:
    """As many epochs as take a twentieth of a second or more."""
    transactions = int(cell.get("transactions", ABORT_TRANSACTIONS))
    busy_us = float(cell.get("busy_us", 10.0))
    enough = TRANSACTIONS_A_RUN if busy_us == 0.0 else int(LONGEST_RUN_US / busy_us)
    return Plan(1, context.size.of(max(1, enough // transactions), 2, 1))


def _parameters(size: Size) -> Parameters:
    return replace(
        workloads.GREP_SUM, busy_us=size.of(10.0, 2.0, 0.0), transactions=size.of(10_240, 2_048, 64),
        states=size.of(100_000, 10_000, 200),
    )  # fmt: skip


def _two_sweeps(size: Size) -> tuple[tuple[int, ...], tuple[float, ...], int]:
    intervals = size.of(INTERVALS, (512, 2_048, 8_192), (64, 128))
    return intervals, size.of(SKEWS, (0.0, 0.6, 1.0), (0.0, 1.0)), size.of(HIGH_INTERVAL, 8_192, 128)


def _exploration_cells(size: Size) -> list[Cell]:
    intervals, skews, high = _two_sweeps(size)
    pairs = dict.fromkeys([*((t, 0.0) for t in intervals), *((high, theta) for theta in skews)])
    return [{"transactions": t, "theta": s, "policy": policy} for t, s in pairs for policy in EXPLORATIONS]


def _exploration(context: Context, cell: Cell) -> Workload:
    parameters = replace(
        _parameters(context.size), transactions=int(cell["transactions"]), theta=float(cell["theta"])
    )  # fmt: skip
    return sums(parameters, context.iterations_per_us)


def _draw_exploration(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    uniform = data.where(theta=0.0)
    high = max(data.where(theta=max(data.distinct("theta"))).distinct("transactions"))
    figures.lines(left, uniform, "transactions", "throughput_per_s", scale=1e-3, label="K transactions/s")
    figures.logarithmic(left, uniform, "transactions")
    left.set_title("(a) punctuation interval T, no skew", fontsize=9)
    skewed = data.where(transactions=high)
    figures.lines(right, skewed, "theta", "throughput_per_s", scale=1e-3, label="K transactions/s")
    right.set_title(f"(b) skew θ, T = {high:,}", fontsize=9)
    figures.legend(figure)


FIG18 = Experiment(
    name="fig18-exploration",
    figure="MorphStream Fig. 18",
    title="How to explore: Grep and Sum by punctuation interval and skew",
    shows="breadth-first, depth-first and unstructured exploration by T and θ",
    claim="Unstructured exploration is better at low punctuation intervals and under skew, structured at high intervals "
    "and without skew (8.4.1).",
    grid=_exploration_cells,
    **of_workload(_exploration, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("transactions", "theta"),
    draw=_draw_exploration,
    figure_inches=(11, 4.5),
)


def _granularity_cells(size: Size) -> list[Cell]:
    usual = size.of(10_240, 2_048, 64)
    shapes: list[Cell] = [
        {"panel": "a", "graph": graph, "reads": reads, "transactions": usual, "multiple_share": 1.0}
        for graph in ("acyclic", "cyclic")
        for reads in size.of((2, 10), (2, 10), (2,))
    ]
    shapes += [
        {"panel": "b", "graph": "alone", "reads": 1, "transactions": interval, "multiple_share": 0.0}
        for interval in _two_sweeps(size)[0]
    ]
    shapes += [
        {"panel": "c", "graph": "mixed", "reads": 2, "transactions": usual, "multiple_share": share}
        for share in size.of((0.0, 0.25, 0.5, 1.0), (0.0, 0.5, 1.0), (0.5,))
    ]
    return [{**shape, "policy": policy} for shape in shapes for policy in GRANULARITIES]


def _granularity(context: Context, cell: Cell) -> Workload:
    parameters = replace(
        _parameters(context.size), transactions=int(cell["transactions"]), reads=int(cell["reads"])
    )  # fmt: skip
    workload = sums(parameters, context.iterations_per_us)
    if cell["graph"] == "acyclic":
        return workload.changed(streams.acyclic)
    if cell["graph"] == "mixed":
        return workload.changed(streams.sometimes_alone, multiple_share=float(cell["multiple_share"]))
    return workload


def _draw_granularity(data: Data, figure: Figure) -> None:
    left, middle, right = figure.subplots(1, 3)
    panel = data.where(panel="a")
    panel.rows = [{**row, "accesses": f"{row['graph']}\nr = {row['reads']}"} for row in panel.rows]
    figures.bars(left, panel, "accesses", "throughput_per_s", scale=1e-3, label="K transactions/s")
    left.set_title("(a) cycles among chains", fontsize=9)
    left.set_xlabel("")
    panel = data.where(panel="b")
    figures.lines(middle, panel, "transactions", "throughput_per_s", scale=1e-3, label="K transactions/s")
    figures.logarithmic(middle, panel, "transactions")
    middle.set_title("(b) punctuation interval T, one access", fontsize=9)
    figures.lines(
        right, data.where(panel="c"), "multiple_share", "throughput_per_s", scale=1e-3, label="K transactions/s"
    )
    right.set_title("(c) share with several accesses", fontsize=9)
    figures.legend(figure)


FIG19 = Experiment(
    name="fig19-granularity",
    figure="MorphStream Fig. 19",
    title="What to schedule at once: operations (fine) or key chains (coarse)",
    shows="fine against coarse by cycles, T and share of multiple accesses",
    claim="Coarse units are better without cycles and at high intervals; fine ones with cycles, many accesses per "
    "operation, and a high share of multiple accesses (8.4.2).",
    grid=_granularity_cells,
    **of_workload(_granularity, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("panel", "graph", "reads", "transactions", "multiple_share"),
    draw=_draw_granularity,
    figure_inches=(14, 4.5),
)


def _abort_cells(size: Size) -> list[Cell]:
    complexities = size.of(COMPLEXITIES_US, (0.0, 5.0), (0.0,))
    points = dict.fromkeys(
        [*((c, HIGH_ABORTS) for c in complexities), *((0.0, a) for a in size.of(ABORTS, (0.0, 0.7), (0.7,)))]
    )
    return [{"busy_us": c, "abort_share": a, "policy": policy} for c, a in points for policy in ABORT_HANDLING]


def _aborts(context: Context, cell: Cell) -> Workload:
    parameters = replace(
        _parameters(context.size), busy_us=float(cell["busy_us"]), abort_share=float(cell["abort_share"]), length=2,
        transactions=context.size.of(ABORT_TRANSACTIONS, 2_048, 64),
    )  # fmt: skip
    return sums(parameters, context.iterations_per_us)


def _draw_aborts(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    high = data.where(abort_share=HIGH_ABORTS)
    figures.lines(left, high, "busy_us", "throughput_per_s", scale=1e-3, label="K transactions/s")
    left.set_yscale("log")
    left.set_title(f"(a) complexity C in µs, {HIGH_ABORTS:.0%} aborts (logarithmic)", fontsize=9)
    figures.lines(
        right, data.where(busy_us=0.0), "abort_share", "throughput_per_s", scale=1e-3, label="K transactions/s"
    )
    right.set_title("(b) share of aborting transactions, C = 0", fontsize=9)
    figures.legend(figure)


FIG20 = Experiment(
    name="fig20-aborts",
    figure="MorphStream Fig. 20",
    title="When to handle aborts: eagerly or lazily",
    shows="eager against lazy by C (many aborts) and by abort ratio (C = 0); two writes a transaction",
    claim="Lazy handling is better for cheap functions and frequent aborts, eager for costly functions (8.4.3).",
    grid=_abort_cells,
    **of_workload(_aborts, _plan),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("abort_share", "busy_us"),
    draw=_draw_aborts,
    figure_inches=(11, 4.5),
)
