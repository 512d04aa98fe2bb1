"""An experiment as a value: which figure it repeats, its grid of cells, how one cell is measured, how the data is drawn.

A cell is a dict of parameters. Most experiments run one workload per cell under the cell's `policy` on two threads:
`of_workload` makes those. An experiment declares which of its parameters decide the answer (`answer_by`): cells that
agree in them must give the same answer, whatever their policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from bench.data import Data, Row, Scalar
from bench.estimate import run_seconds
from bench.policies import ADAPTIVE, INEXACT, PAPER
from bench.running import Chooser, Plan, Run, run_workload, warm_up
from bench.workload import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = dict[str, Scalar]
THREADS = 2  # what our machines have; more are simulated, see bench.simulation
# The cost model runs two epochs serially, tries ordered, then looks at the graph: after these it has settled, or never will.
LEARNING_EPOCHS = 5
ADAPTIVE_EPOCHS_MIN = 3  # one epoch alone may be the one in which another policy is tried
T = TypeVar("T")


class Size(StrEnum):
    """How much is run: the papers' sizes, seconds an experiment, or just enough to see that it works."""

    FULL = "full"
    QUICK = "quick"
    TINY = "tiny"

    def of(self, full: T, quick: T, tiny: T) -> T:
        return {Size.FULL: full, Size.QUICK: quick, Size.TINY: tiny}[self]


@dataclass(frozen=True)
class Context:
    """What every cell of a run shares."""

    size: Size
    seed: int
    iterations_per_us: float


NOMINAL = Context(Size.FULL, seed=1, iterations_per_us=1.0)  # for estimates, where nothing runs


@dataclass(frozen=True)
class Measured:
    """One cell, once: its lines (one, or one an epoch) and the answer."""

    lines: list[Row]
    answer: str


@dataclass(frozen=True)
class Experiment:
    """See the module. `own_policies` are names in the grid that mean something to `measure` and nothing to the engine."""

    name: str
    figure: str
    title: str
    shows: str
    claim: str
    grid: Callable[[Size], list[Cell]]
    measure: Callable[[Context, Cell], Measured]
    values: tuple[str, ...]
    main: str
    answer_by: tuple[str, ...]
    draw: Callable[[Data, Figure], None]
    warm: Callable[[Context, Cell], None] = lambda context, cell: None
    own_policies: frozenset[str] = frozenset()
    cell_seconds: Callable[[Cell], float] = lambda cell: 1.0  # what one repeat of a cell takes at full size, about
    coordinates: tuple[str, ...] = ()  # values that say which line of a cell it is, such as the epoch
    shown_by: tuple[str, ...] = ()  # coordinates that tables tell apart; over others they average
    figure_inches: tuple[float, float] = (9.0, 4.5)
    summarise: Callable[[Data], list[str]] | None = None  # lines of Markdown instead of the plain table
    needs_broker: bool = False  # needs Java, and starts processes: left out of the smoke run of `make check`

    def is_exact(self, cell: Cell) -> bool:
        return cell.get("policy") not in INEXACT


def of_workload(
    workload: Callable[[Context, Cell], Workload],
    plan: Callable[[Context, Cell], Plan],
    lines: Callable[[Run], list[Row]] | None = None,
    policy: Callable[[Context, Cell], str | Chooser] | None = None,
    learning_epochs: int = LEARNING_EPOCHS,
) -> dict[str, Any]:
    """`measure`, `warm` and `cell_seconds` of an experiment whose cells each run one workload."""

    def policy_of(context: Context, cell: Cell) -> str | Chooser:
        return policy(context, cell) if policy is not None else str(cell["policy"])

    def plan_of(context: Context, cell: Cell) -> Plan:
        return with_learning(context, str(cell.get("policy")), plan(context, cell), learning_epochs)

    def measure(context: Context, cell: Cell) -> Measured:
        run = run_workload(
            workload(context, cell), policy_of(context, cell), THREADS, context.seed, plan_of(context, cell)
        )
        return Measured((lines or throughput)(run), run.answer)

    def warm(context: Context, cell: Cell) -> None:
        warm_up(workload(context, cell), policy_of(context, cell), THREADS)

    def cell_seconds(cell: Cell) -> float:
        return run_seconds(workload(NOMINAL, cell), str(cell.get("policy")), plan_of(NOMINAL, cell))

    return {"measure": measure, "warm": warm, "cell_seconds": cell_seconds}


def with_learning(context: Context, policy: str, plan: Plan, learning_epochs: int = LEARNING_EPOCHS) -> Plan:
    """More epochs before the measured ones where the policy has to learn first; fewer where nothing is measured."""
    if policy not in ADAPTIVE or learning_epochs == 0:
        return plan
    if policy == PAPER:  # its thresholds are fixed: all it learns is C and the share of aborts
        learning_epochs = min(1, learning_epochs)
    elif context.size is Size.FULL:  # short epochs are many: trials among the measured ones are then as rare as later
        learning_epochs = max(learning_epochs, plan.epochs // 2)
    return replace(
        plan,
        learning_epochs=context.size.of(learning_epochs, min(2, learning_epochs), 0),
        epochs=max(plan.epochs, context.size.of(ADAPTIVE_EPOCHS_MIN, 0, 0)),
        answer_epochs=plan.answered_epochs,
    )


THROUGHPUT = ("throughput_per_s", "latency_p50_ms", "latency_p99_ms")


def throughput(run: Run) -> list[Row]:
    """The usual line: how many transactions a second, and the latency under full load."""
    return [
        {
            "throughput_per_s": run.throughput_per_s,
            "latency_p50_ms": run.latency_ms(0.5),
            "latency_p99_ms": run.latency_ms(0.99),
        }
    ]


def crossed(**axes: Sequence[Scalar]) -> list[Cell]:
    """All combinations; the last axis changes fastest, so put the policy last: its cells then share their events."""
    cells: list[Cell] = [{}]
    for name, values in axes.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    return cells
