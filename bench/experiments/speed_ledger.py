"""The engine's own speed on the ledger without a busy loop: against a loop by hand, by table size and by epoch size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row
from bench.estimate import run_seconds
from bench.experiment import NOMINAL, Cell, Context, Experiment, Measured, Size, crossed, of_workload, with_learning
from bench.ledger_speed import HAND, run_ledger
from bench.policies import COST, ORDERED, SERIAL
from bench.running import Plan, Run, warm_up
from bench.workload import Workload, bids, ledger, sums, tolls
from services.apps import workloads
from services.apps.workloads import Parameters

POLICIES = (HAND, SERIAL, ORDERED, COST)
VALUES = ("throughput_per_s", "ns_per_transaction")
TRANSACTIONS_A_RUN = 1_000_000
PLANNED_A_RUN = 100_000  # over graphs, ten times slower


def _workload(context: Context, cell: Cell) -> Workload:
    parameters = replace(
        workloads.STREAMING_LEDGER, busy_us=0.0, transactions=int(cell["transactions"]), states=int(cell["states"])
    )
    return ledger(parameters, context.iterations_per_us)


def _plan(context: Context, cell: Cell) -> Plan:
    """About a tenth of a second; the first epochs are left out, because new memory is slow."""
    transactions = int(cell["transactions"])
    enough = context.size.of(TRANSACTIONS_A_RUN, 40_000, 0) // transactions
    plan = Plan(context.size.of(2 if transactions > 100_000 else 5, 2, 1), max(2, enough))
    return with_learning(context, str(cell["policy"]), plan)


def _measure(context: Context, cell: Cell) -> Measured:
    workload, threads = _workload(context, cell), 2
    return Measured(*run_ledger(workload, str(cell["policy"]), threads, context.seed, _plan(context, cell)))


def _warm(context: Context, cell: Cell) -> None:
    workload, policy = _workload(context, cell), str(cell["policy"])
    if policy == HAND:
        run_ledger(workload.tiny(), HAND, 1, context.seed, Plan(0, 1))
    else:
        warm_up(workload, policy, 2)


def _cell_seconds(cell: Cell) -> float:
    return run_seconds(_workload(NOMINAL, cell), str(cell["policy"]), _plan(NOMINAL, cell))


def _against_hand(x: str) -> Callable[[Data], list[str]]:
    def summarise(data: Data) -> list[str]:
        found = data.spread("throughput_per_s", (x, "policy"))
        lines = [f"| {x} | policy | M transactions/s | middle half | of the loop by hand |", "|---|---|---|---|---|"]
        for (at, policy), spread in sorted(found.items()):
            hand = found.get((at, HAND))
            ratio = f"{spread.median / hand.median:.2f}" if hand else "?"
            lines.append(
                f"| {at:,} | {policy} | {spread.median / 1e6:.2f} | "
                f"{spread.low_quartile / 1e6:.2f}–{spread.high_quartile / 1e6:.2f} | {ratio} |"
            )
        return lines

    return summarise


def _draw_ledger(data: Data, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    figures.bars(left, data, "transactions", "throughput_per_s", scale=1e-6, label="M transactions/s")
    left.set_title("(a) throughput", fontsize=9)
    figures.bars(right, data, "transactions", "ns_per_transaction", label="ns a transaction")
    right.set_title("(b) cost", fontsize=9)
    figures.legend(figure)


SPEED_LEDGER = Experiment(
    name="speed-ledger",
    figure="our target: 10 M transactions/s",
    title="Streaming Ledger, C = 0: the engine against a loop written by hand for it",
    shows="transactions a second: serial, adaptive, and an inlined numba loop over the same columns",
    claim="MorphStream and TStream reach 26 to 59 K transactions/s on two cores. The target is 10 M a second and half the "
    "speed of an inlined loop.",
    grid=lambda size: crossed(
        transactions=size.of((10_240, 102_400), (10_240,), (64,)),
        states=[size.of(100_000, 100_000, 100)],
        policy=POLICIES,
    ),
    measure=_measure,
    warm=_warm,
    values=VALUES,
    main="throughput_per_s",
    answer_by=("transactions", "states"),
    draw=_draw_ledger,
    own_policies=frozenset({HAND}),
    cell_seconds=_cell_seconds,
    summarise=_against_hand("transactions"),
)


def _draw_curve(x: str) -> Callable[[Data, Figure], None]:
    def draw(data: Data, figure: Figure) -> None:
        axes = figure.subplots()
        figures.lines(axes, data, x, "ns_per_transaction", label="ns a transaction")
        figures.logarithmic(axes, data, x)
        figures.legend(figure)

    return draw


SPEED_TABLE_SIZE = replace(
    SPEED_LEDGER,
    name="speed-table-size",
    figure="our target: independent of table size",
    title="Streaming Ledger, C = 0, by keys in each of two tables",
    shows="cost by table size, engine and plain loop: caches and page tables alone should make the difference",
    claim="Cost should follow the epoch, not the table.",
    grid=lambda size: crossed(
        transactions=[size.of(102_400, 10_240, 64)],
        states=size.of((10_000, 100_000, 1_000_000, 10_000_000), (10_000, 100_000), (100, 1_000)),
        policy=(HAND, SERIAL),
    ),
    draw=_draw_curve("states"),
    summarise=_against_hand("states"),
)

SPEED_EPOCH_SIZE = replace(
    SPEED_LEDGER,
    name="speed-epoch-size",
    figure="our target: linear in the epoch",
    title="Streaming Ledger, C = 0, by transactions an epoch",
    shows="cost a transaction by epoch size: flat means linear",
    claim="Cost should be linear in the epoch.",
    grid=lambda size: crossed(
        transactions=size.of((1_024, 10_240, 102_400, 1_024_000), (1_024, 10_240), (64, 128)),
        states=[size.of(100_000, 100_000, 100)],
        policy=POLICIES,
    ),
    draw=_draw_curve("transactions"),
)


def _any_application(context: Context, cell: Cell) -> Workload:
    makers: dict[str, tuple[Callable[[Parameters, float], Workload], Parameters]] = {
        "SL": (ledger, workloads.STREAMING_LEDGER), "GS": (sums, workloads.GREP_SUM),
        "TP": (tolls, workloads.TOLL_PROCESSING), "OB": (bids, workloads.ONLINE_BIDDING),
    }  # fmt: skip
    make, parameters = makers[str(cell["application"])]
    changed = replace(parameters, busy_us=0.0, abort_share=0.0, transactions=int(cell["transactions"]))
    return make(changed, context.iterations_per_us)


def _planning_plan(context: Context, cell: Cell) -> Plan:
    enough = context.size.of(PLANNED_A_RUN, 10_000, 0) // int(cell["transactions"])
    # The same epochs under all policies: tables that grow make some of them slow.
    return Plan(context.size.of(7, 2, 1), max(context.size.of(8, 2, 2), enough))


def _planning(run: Run) -> list[Row]:
    operations = max(1, run.operations)
    return [
        {
            "plan_ns_per_operation": run.total("plan") / operations * 1e9,
            "total_ns_per_operation": run.seconds / operations * 1e9,
        }
    ]


def _draw_planning(data: Data, figure: Figure) -> None:
    sizes = data.distinct("transactions")
    for axes, size in zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
        figures.bars(
            axes, data.where(transactions=size), "application", "plan_ns_per_operation", label="ns an operation"
        )
        axes.set_title(f"{size:,} transactions an epoch", fontsize=9)
    figures.legend(figure)


def _planning_cells(size: Size) -> list[Cell]:
    return crossed(
        application=["SL", "GS", "TP", "OB"],
        transactions=size.of((10_240, 102_400), (2_048,), (64,)),
        policy=[SERIAL, ORDERED, "unstructured/fine/eager", "unstructured/coarse/eager", COST],
    )


SPEED_PLANNING = Experiment(
    name="speed-planning",
    figure="our target: a few ns an operation",
    title="Planning: nanoseconds an operation, from columns to a schedule",
    shows="planning cost of links alone (serial), the graph (fine) and chains (coarse)",
    claim="One pass over a last-writer table finds every dependency in about 5 ns an operation (measured by hand).",
    grid=_planning_cells,
    **of_workload(_any_application, _planning_plan, _planning),
    values=("plan_ns_per_operation", "total_ns_per_operation"),
    main="plan_ns_per_operation",
    answer_by=("application", "transactions"),
    draw=_draw_planning,
    figure_inches=(11, 4.5),
)
