"""Runs an experiment: interleaved repeats, warm-up outside the clock, answers checked, every cell written at once.

Repeats are interleaved (all cells once, then all again), so that a slow minute of the machine hits all cells alike.
A cell and repeat that the data file holds already is not run again: an interrupted run goes on where it stopped.
Invariant: data of other seeds, sizes, machines or calibrations never mix in one file; the harness refuses.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench import data as files
from bench.data import BOOKKEEPING, Data, Row, Writer
from bench.experiment import Cell, Context, Experiment, Size
from bench.figures import save
from bench.machine import git_hash, iterations_per_us, machine_facts
from bench.policies import is_available
from engine import DeclarationError, InputError

REPEATS = {Size.FULL: 7, Size.QUICK: 3, Size.TINY: 1}
TINY_ITERATIONS_PER_US = 1.0  # a tiny run measures nothing, so it need not calibrate


@dataclass(frozen=True)
class Settings:
    """What the command line says about a run."""

    size: Size = Size.FULL
    repeats: int | None = None
    seed: int = 1
    out: Path = Path("bench/results")
    fresh: bool = False
    draws: bool = True
    measures: bool = True  # or compiles only

    @property
    def repeats_wanted(self) -> int:
        return self.repeats if self.repeats is not None else REPEATS[self.size]

    def data_path(self, name: str) -> Path:
        return self.out / name / f"{name}{'' if self.size is Size.FULL else f'-{self.size}'}.csv"


@dataclass
class Outcome:
    """What came of running one experiment."""

    experiment: Experiment
    data: Data
    path: Path
    ran: int
    figures: list[Path] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # what decides the answer → the answer
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken: str = ""  # why it could not be run, if so
    seconds: float = 0.0  # that this run took, compiling and all


def run_experiment(experiment: Experiment, settings: Settings, console: Console) -> Outcome:
    """Measures what is missing, writes it, checks answers and draws the figure."""
    begin = time.perf_counter()
    context = make_context(settings)
    cells, notes = runnable(experiment, settings.size)
    if not settings.measures:
        return _compile(experiment, settings, context, cells, notes, console)
    data = _open(experiment, settings, context, cells)
    writer = Writer(settings.data_path(experiment.name), _columns(experiment, cells))
    writer.start(data.header, data.rows)
    done = data.done()
    todo = [
        (repeat, cell)
        for repeat in range(1, settings.repeats_wanted + 1)
        for cell in cells
        if (repeat, data.key(cell)) not in done
    ]
    refused: set[files.Key] = set()
    with _progress(console) as progress:
        _warm(experiment, context, [cell for _, cell in todo], data, refused, notes, progress)
        task = progress.add_task(f"{experiment.name}: measuring", total=len(todo))
        for repeat, cell in todo:
            if data.key(cell) not in refused:
                rows = _measure(experiment, context, repeat, cell)
                writer.append(rows)
                data.rows += rows
            progress.advance(task)
    outcome = Outcome(experiment, data, writer.path, len(todo), notes=notes, seconds=time.perf_counter() - begin)
    check_answers(outcome)
    if settings.draws and data.rows:
        outcome.figures = save(experiment, data, writer.path.with_suffix(""))
    return outcome


def _compile(
    experiment: Experiment, settings: Settings, context: Context, cells: list[Cell], notes: list[str], console: Console
) -> Outcome:
    """Everything that a run would compile is compiled and left on disk, so that a quiet hour is not spent on it."""
    begin, data = time.perf_counter(), Data({}, tuple(cells[0]) if cells else ())
    with _progress(console) as progress:
        _warm(experiment, context, cells, data, set(), notes, progress)
    path = settings.data_path(experiment.name)
    return Outcome(experiment, data, path, 0, notes=notes, seconds=time.perf_counter() - begin)


def make_context(settings: Settings) -> Context:
    rate = TINY_ITERATIONS_PER_US if settings.size is Size.TINY else iterations_per_us(settings.out)
    return Context(settings.size, settings.seed, rate)


def runnable(experiment: Experiment, size: Size) -> tuple[list[Cell], list[str]]:
    """The cells whose policies the engine has, and a note on those left out."""
    cells = experiment.grid(size)
    wanted = dict.fromkeys(str(cell["policy"]) for cell in cells if "policy" in cell)
    missing = [name for name in wanted if name not in experiment.own_policies and not is_available(name)]
    notes = [f"left out, not in this engine: {', '.join(missing)}"] if missing else []
    return [cell for cell in cells if cell.get("policy") not in missing], notes


def _columns(experiment: Experiment, cells: list[Cell]) -> list[str]:
    parameters = list(cells[0]) if cells else []
    return ["repeat", *parameters, "line", "lines", *experiment.coordinates, *experiment.values, "answer"]


def _open(experiment: Experiment, settings: Settings, context: Context, cells: list[Cell]) -> Data:
    """What was measured before, unless it does not belong with what would be measured now."""
    fixed = {
        "experiment": experiment.name,
        "size": str(settings.size),
        "seed": str(settings.seed),
        **machine_facts(),
        "busy_iterations_per_us": f"{context.iterations_per_us:g}",
    }
    parameters = tuple(cells[0]) if cells else ()
    known = {name: sorted({str(cell[name]) for cell in cells}) for name in parameters}
    header = {**fixed, "millrace": git_hash()}
    header |= {f"parameter {name}": ", ".join(values) for name, values in known.items()}
    path = settings.data_path(experiment.name)
    if settings.fresh or not path.exists():
        return Data(header, parameters)
    before, rows = files.read(path)
    for name, value in fixed.items():
        if before.get(name, "nothing") != value:
            raise InputError(
                f"{path} was measured with {name} {before.get(name, 'nothing')!r}, this run has {value!r}; "
                "start over with --fresh, or keep both with --out"
            )
    if rows and set(rows[0]) != set(_columns(experiment, cells)):
        raise InputError(f"{path} has other columns than the experiment has now; start over with --fresh")
    versions = before.get("millrace", "").split(", ")
    header["millrace"] = ", ".join(dict.fromkeys([*filter(None, versions), git_hash()]))
    return Data(header, parameters, files.complete(rows, parameters))


def _warm(
    experiment: Experiment,
    context: Context,
    cells: list[Cell],
    data: Data,
    refused: set[files.Key],
    notes: list[str],
    progress: Progress,
) -> None:
    """Compiles before the first measurement; a cell whose application a policy cannot run is left out with a note."""
    distinct = {data.key(cell): cell for cell in cells}
    task = progress.add_task(f"{experiment.name}: compiling", total=len(distinct))
    for key, cell in distinct.items():
        try:
            experiment.warm(context, cell)
        except DeclarationError as error:
            refused.add(key)
            notes.append(f"left out {_words(cell)}: {error}")
        progress.advance(task)
    progress.remove_task(task)
    gc.collect()
    gc.freeze()  # what compiling left behind stays: looking through it again and again would be measured


def _measure(experiment: Experiment, context: Context, repeat: int, cell: Cell) -> list[Row]:
    gc.collect()  # the garbage of the cell before is not this one's to clear
    measured = experiment.measure(context, cell)
    lines = len(measured.lines)
    return [
        {"repeat": repeat, **cell, "line": number, "lines": lines, **values, "answer": measured.answer}
        for number, values in enumerate(measured.lines, start=1)
    ]


def check_answers(outcome: Outcome) -> None:
    """Fills the outcome's answers; two that should be one are a wrong answer."""
    experiment = outcome.experiment
    seen: dict[str, tuple[Cell, str]] = {}
    for row in outcome.data.rows:
        cell = {name: row[name] for name in outcome.data.parameters}
        if not experiment.is_exact(cell):
            continue
        decided = _words({name: row[name] for name in experiment.answer_by}) or "all cells"
        first_cell, answer = seen.setdefault(decided, (cell, row["answer"]))
        outcome.answers[decided] = answer
        if row["answer"] != answer:
            message = f"{_words(cell)} gave {row['answer']}, but {_words(first_cell)} gave {answer}"
            if message not in outcome.wrong:
                outcome.wrong.append(message)


def run_all(
    experiments: list[Experiment], settings: Settings, console: Console, report: Callable[[Outcome], None]
) -> list[Outcome]:
    """One after another; what each gave is reported at once. One that cannot be run does not stop the others."""
    outcomes = []
    for experiment in experiments:
        try:
            outcome = run_experiment(experiment, settings, console)
        except Exception as error:
            if len(experiments) == 1:
                raise
            outcome = Outcome(experiment, Data({}, ()), settings.data_path(experiment.name), 0)
            outcome.broken = f"{type(error).__name__}: {error}"
            console.print_exception()
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def load(experiment: Experiment, settings: Settings) -> Data | None:
    """What is on disk of an experiment, full runs before quick ones; None if nothing is."""
    for size in (Size.FULL, Size.QUICK):
        header, rows = files.read(replace(settings, size=size).data_path(experiment.name))
        if rows:
            named = set(BOOKKEEPING) | set(experiment.values) | set(experiment.coordinates)
            parameters = tuple(name for name in rows[0] if name not in named)
            with suppress(KeyError):  # columns that the experiment no longer has
                return Data(header, parameters, files.complete(rows, parameters))
    return None


def _words(cell: Cell) -> str:
    return ", ".join(f"{name} {value}" for name, value in cell.items())


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
