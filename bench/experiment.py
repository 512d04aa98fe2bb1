"""An experiment as a value: which figure it repeats, its grid of cells, how one cell is measured, how the data is drawn.

A cell is a dict of parameters. Most experiments run one workload per cell under the cell's `policy` on two threads:
`of_workload` makes those. An experiment declares which of its parameters decide the answer (`answer_by`): cells that
agree in them must give the same answer, whatever their policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from bench.data import Data, Row, Scalar
from bench.policies import INEXACT
from bench.running import Chooser, Plan, Run, run_workload, warm_up
from bench.workload import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = dict[str, Scalar]
THREADS = 2  # what our machines have; more are simulated, see bench.simulation
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
    cell_seconds: float = 1.0  # what a cell takes at full size, about; for `bench list`
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
) -> dict[str, Any]:
    """`measure` and `warm` of an experiment whose cells each run one workload."""

    def policy_of(context: Context, cell: Cell) -> str | Chooser:
        return policy(context, cell) if policy is not None else str(cell["policy"])

    def measure(context: Context, cell: Cell) -> Measured:
        run = run_workload(
            workload(context, cell), policy_of(context, cell), THREADS, context.seed, plan(context, cell)
        )
        return Measured((lines or throughput)(run), run.answer)

    def warm(context: Context, cell: Cell) -> None:
        warm_up(workload(context, cell), policy_of(context, cell), THREADS)

    return {"measure": measure, "warm": warm}


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
