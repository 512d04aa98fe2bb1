"""MorphStream's Fig. 14 and 15: window queries and keys computed from state; and the same without a busy loop."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data
from bench.experiment import THROUGHPUT, Cell, Context, Experiment, Size, crossed, of_workload
from bench.policies import COST, LOCK, ORDERED, SERIAL, TSTREAM
from bench.running import Plan
from bench.workload import Workload, computed_sums, windowed_sums
from services.apps import workloads

WINDOW, PERIOD = 1_000, 100
WINDOWS = (1_000, 10_000, 100_000)
PERIODS = (100, 1_000, 10_000)
SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
POLICIES = (COST, SERIAL, ORDERED, "unstructured/fine/eager", TSTREAM)


def _window_cells(
    size: Size, policies: tuple[str, ...], busy_us: tuple[float, ...]
) -> list[dict[str, int | float | str]]:
    windows = size.of(WINDOWS, (1_000, 10_000), (1_000, 2_000))
    periods = size.of(PERIODS, (100, 1_000), (100, 200))
    pairs = list(dict.fromkeys([*((w, PERIOD) for w in windows), *((WINDOW, p) for p in periods)]))
    return [
        {"busy_us": busy, "window": window, "period": period, "policy": policy}
        for busy in busy_us
        for window, period in pairs
        for policy in policies
    ]


def _windows(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.GREP_SUM_WINDOWED,
        abort_share=0.0,
        busy_us=float(cell["busy_us"]),
        transactions=size.of(102_400, 10_240, 512),
        states=size.of(100_000, 10_000, 500),
    )
    return windowed_sums(parameters, context.iterations_per_us, int(cell["window"]), int(cell["period"]))


def _draw_windows(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for busy in data.distinct("busy_us"):
        here, suffix = data.where(busy_us=busy), f", C = {busy:g} µs" if len(data.distinct("busy_us")) > 1 else ""
        by_window, by_period = here.where(period=PERIOD), here.where(window=WINDOW)
        dashed = busy != data.distinct("busy_us")[0]
        for axes, part, x in ((left, by_window, "window"), (right, by_period, "period")):
            figures.lines(
                axes, part, x, "throughput_per_s", scale=1e-3, label="K transactions/s", dashed=dashed, suffix=suffix
            )
            figures.logarithmic(axes, part, x)
    left.set_title("(a) window size (a query every 100 events)", fontsize=9)
    right.set_title("(b) events between queries (window 1,000)", fontsize=9)
    figures.legend(figure)


def _one_long_epoch(context: Context, cell: Cell) -> Plan:
    """The first fills the windows."""
    return Plan(1, context.size.of(1, 2, 1))


FIG14 = Experiment(
    name="fig14-windows",
    figure="MorphStream Fig. 14",
    title="Grep and Sum with window queries over 100 keys",
    shows="what the window's size and the time between queries cost",
    claim="Windows of 100,000 instead of 1,000 cost up to 30 % of the throughput; a query every 100 instead of every "
    "10,000 events up to 60 % (8.2.4).",
    grid=lambda size: _window_cells(size, POLICIES, (size.of(2.0, 2.0, 0.0),)),
    **of_workload(_windows, _one_long_epoch, learning_epochs=4),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("window", "period"),
    draw=_draw_windows,
    figure_inches=(11, 4.5),
)


def _long_epochs(context: Context, cell: Cell) -> Plan:
    return Plan(1, context.size.of(2 if cell["busy_us"] == 0.0 else 1, 2, 1))


def _short_epochs(context: Context, cell: Cell) -> Plan:
    """About a tenth of a second."""
    return Plan(1, context.size.of(48 if cell["busy_us"] == 0.0 else 2, 2, 1))


def _relative_windows(data: Data) -> list[str]:
    """Larger windows against the smallest, more frequent queries against the rarest."""
    found = data.spread("throughput_per_s", ("busy_us", "policy", "window", "period"))
    lines = ["| C, µs | policy | window | period | transactions/s | relative |", "|---|---|---|---|---|---|"]
    for (busy, policy, window, period), spread in found.items():
        alike = [(w, p) for c, q, w, p in found if (c, q) == (busy, policy)]
        first, rarest = min(w for w, p in alike if p == PERIOD), max(p for w, p in alike if w == WINDOW)
        parts = []
        if period == PERIOD:
            parts.append(f"{spread.median / found[(busy, policy, first, PERIOD)].median:.2f} of window {first:,}")
        if window == WINDOW:
            parts.append(f"{spread.median / found[(busy, policy, WINDOW, rarest)].median:.2f} of period {rarest:,}")
        lines.append(f"| {busy:g} | {policy} | {window:,} | {period:,} | {spread} | {'; '.join(parts)} |")
    return lines


SPEED_WINDOWS = replace(
    FIG14,
    name="speed-windows",
    figure="MorphStream 8.2.4, our target",
    title="Window queries: throughput with and without a busy loop in the functions",
    shows="throughput by window size and period, relative to the smallest window and the rarest queries",
    claim="MorphStream loses up to 30 % (size) and 60 % (period).",
    # C = 10 µs is the paper's, 2 µs is in fig14-windows. Ordered is serial here: windows do not run inlined.
    grid=lambda size: _window_cells(size, (COST, SERIAL), size.of((0.0, 10.0), (0.0,), (0.0,))),
    **of_workload(_windows, _long_epochs, learning_epochs=4),
    answer_by=("busy_us", "window", "period"),
    summarise=_relative_windows,
)


def _computed(context: Context, cell: Cell) -> Workload:
    size = context.size
    parameters = replace(
        workloads.GREP_SUM,
        busy_us=float(cell["busy_us"]),
        transactions=size.of(10_240, 2_048, 128),
        states=size.of(100_000, 10_000, 500),
    )
    return computed_sums(parameters, context.iterations_per_us, float(cell["computed_share"]))


def _draw_computed(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for busy in data.distinct("busy_us"):
        here, suffix = data.where(busy_us=busy), f", C = {busy:g} µs" if len(data.distinct("busy_us")) > 1 else ""
        dashed = busy != data.distinct("busy_us")[0]
        figures.lines(
            left, here, "computed_share", "throughput_per_s", scale=1e-3, label="K transactions/s", dashed=dashed,
            suffix=suffix,
        )  # fmt: skip
        for position, policy in enumerate(here.distinct("policy")):
            medians = here.where(policy=policy).medians("throughput_per_s", ("computed_share",))
            first = medians[min(medians)]
            shares = sorted(medians)
            right.plot(
                [share for (share,) in shares], [medians[share] / first for share in shares],
                color=figures.colour_of(policy, position), linestyle="--" if dashed else "-", marker=".",
            )  # fmt: skip
    figures.finish(right, "computed_share", "relative to no computed keys", "(b) relative (medians)")
    left.set_title("(a) throughput", fontsize=9)
    figures.legend(figure)


FIG15 = Experiment(
    name="fig15-computed",
    figure="MorphStream Fig. 15",
    title="Grep and Sum in which a share of the transactions computes its keys from state",
    shows="what non-deterministic accesses cost",
    claim="MorphStream and TStream lose much of their throughput as the share of non-deterministic accesses grows; "
    "S-Store, which runs dependent operations one after another, loses almost none (8.2.5).",
    grid=lambda size: crossed(
        busy_us=[size.of(10.0, 2.0, 0.0)],
        computed_share=size.of(SHARES, (0.0, 0.1, 1.0), (0.0, 1.0)),
        policy=[*POLICIES, LOCK],
    ),
    **of_workload(_computed, _short_epochs),
    values=THROUGHPUT,
    main="throughput_per_s",
    answer_by=("computed_share",),
    draw=_draw_computed,
    figure_inches=(11, 4.5),
)

SPEED_COMPUTED = replace(
    FIG15,
    name="speed-computed",
    figure="MorphStream 8.2.5, our target",
    title="Computed keys: throughput with and without a busy loop in the functions",
    shows="relative throughput from 0 to 100 % computed keys",
    claim="MorphStream and TStream degrade notably; S-Store does not.",
    grid=lambda size: crossed(
        busy_us=size.of((0.0, 10.0), (0.0, 2.0), (0.0,)),
        computed_share=size.of(SHARES, (0.0, 0.1, 1.0), (0.0, 1.0)),
        policy=[COST, SERIAL, ORDERED],
    ),
    **of_workload(_computed, _short_epochs),
    answer_by=("busy_us", "computed_share"),
)
