"""The harness: repeats interleave, a stopped run goes on, answers are compared, files that do not belong are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bench import data as files
from bench.data import Data
from bench.experiment import Cell, Context, Experiment, Measured, Size, crossed
from bench.harness import Outcome, Settings, load, run_all, run_experiment
from bench.smoke import problems
from engine import DeclarationError, InputError

Measure = Callable[[Context, Cell], Measured]


def draw(data: Data, figure: Figure) -> None:
    figure.subplots().plot([spread.median for spread in data.spread("speed", ("policy",)).values()])


def experiment(measure: Measure, policies: tuple[str, ...] = ("serial", "unstructured/fine/eager")) -> Experiment:
    return Experiment(
        name="example", figure="Fig. 0", title="An example", shows="nothing", claim="None.",
        grid=lambda size: crossed(theta=[0.0, 0.5], policy=policies),
        measure=measure, values=("speed",), main="speed", answer_by=("theta",), draw=draw,
    )  # fmt: skip


class Recorder:
    """Measures nothing, remembers what was asked for."""

    def __init__(self, answer: Callable[[Cell], str] = lambda cell: f"answer at {cell['theta']}") -> None:
        self.asked: list[tuple[object, ...]] = []
        self.answer = answer
        self.fails_at: int | None = None

    def __call__(self, context: Context, cell: Cell) -> Measured:
        if self.fails_at is not None and len(self.asked) == self.fails_at:
            raise KeyboardInterrupt
        self.asked.append(tuple(cell.values()))
        return Measured([{"speed": float(len(self.asked))}], self.answer(cell))


def settings(tmp_path: Path, **changes: object) -> Settings:
    return replace(Settings(size=Size.TINY, repeats=2, out=tmp_path), **changes)  # type: ignore[arg-type]


def run(measure: Measure, given: Settings, **changes: object) -> Outcome:
    return run_experiment(replace(experiment(measure), **changes), given, Console(quiet=True))  # type: ignore[arg-type]


CELLS = [(0.0, "serial"), (0.0, "unstructured/fine/eager"), (0.5, "serial"), (0.5, "unstructured/fine/eager")]


def test_repeats_interleave(tmp_path: Path) -> None:
    recorder = Recorder()
    run(recorder, settings(tmp_path))
    assert recorder.asked == CELLS + CELLS


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(recorder, settings(tmp_path))
    recorder.fails_at = None
    outcome = run(recorder, settings(tmp_path))
    assert recorder.asked == CELLS + CELLS
    assert outcome.ran == 5
    assert len(outcome.data.rows) == 8
    assert run(recorder, settings(tmp_path)).ran == 0
    assert run(recorder, settings(tmp_path, repeats=3)).ran == 4


def test_fresh_starts_over(tmp_path: Path) -> None:
    recorder = Recorder()
    run(recorder, settings(tmp_path))
    assert run(recorder, settings(tmp_path, fresh=True)).ran == 8
    assert len(recorder.asked) == 16


def test_the_header_says_where_numbers_come_from(tmp_path: Path) -> None:
    outcome = run(Recorder(), settings(tmp_path, seed=7))
    header, _ = files.read(outcome.path)
    assert header["seed"] == "7" and header["experiment"] == "example" and header["size"] == "tiny"
    for name in ("python", "numpy", "numba", "millrace", "cpu", "cores", "memory_gib", "busy_iterations_per_us"):
        assert header[name], name
    assert header["parameter policy"] == "serial, unstructured/fine/eager"


def test_data_of_another_seed_is_refused(tmp_path: Path) -> None:
    run(Recorder(), settings(tmp_path))
    with pytest.raises(InputError, match=r"seed '1', this run has '2'.*--fresh"):
        run(Recorder(), settings(tmp_path, seed=2))


def test_the_same_answers_agree(tmp_path: Path) -> None:
    outcome = run(Recorder(), settings(tmp_path))
    assert outcome.wrong == []
    assert outcome.answers == {"theta 0.0": "answer at 0.0", "theta 0.5": "answer at 0.5"}
    assert problems(outcome) == []


def test_a_wrong_answer_is_noticed(tmp_path: Path) -> None:
    outcome = run(Recorder(lambda cell: "odd" if tuple(cell.values()) == CELLS[3] else "right"), settings(tmp_path))
    assert outcome.wrong == [
        "theta 0.5, policy unstructured/fine/eager gave odd, but theta 0.5, policy serial gave right"
    ]
    assert "wrong answer" in problems(outcome)[0]


def test_an_answer_that_changes_between_repeats_is_noticed(tmp_path: Path) -> None:
    answers = iter(["same"] * 7 + ["other"])
    outcome = run(Recorder(lambda cell: next(answers)), settings(tmp_path))
    assert len(outcome.wrong) == 1


def test_an_inexact_policy_may_differ(tmp_path: Path) -> None:
    recorder = Recorder(lambda cell: "wrong" if cell["policy"] == "no-lock" else "right")
    grid = {"grid": lambda size: crossed(theta=[0.0], policy=["serial", "no-lock"])}
    outcome = run(recorder, settings(tmp_path), **grid, own_policies=frozenset({"no-lock"}))
    assert outcome.wrong == [] and outcome.answers == {"theta 0.0": "right"}


def test_policies_the_engine_lacks_are_left_out_and_named(tmp_path: Path) -> None:
    recorder = Recorder()
    grid = {"grid": lambda size: crossed(theta=[0.0], policy=["serial", "clairvoyant"])}
    outcome = run(recorder, settings(tmp_path), **grid)
    assert outcome.notes == ["left out, not in this engine: clairvoyant"]
    assert recorder.asked == [(0.0, "serial"), (0.0, "serial")]


def test_a_cell_that_cannot_be_declared_is_left_out_and_named(tmp_path: Path) -> None:
    def warm(context: Context, cell: Cell) -> None:
        if cell["policy"] != "serial":
            raise DeclarationError("not with this application")

    recorder = Recorder()
    outcome = run(recorder, settings(tmp_path), warm=warm)
    assert {policy for _, policy in recorder.asked} == {"serial"}
    assert outcome.notes[0] == "left out theta 0.0, policy unstructured/fine/eager: not with this application"


def test_compiling_alone_measures_and_writes_nothing(tmp_path: Path) -> None:
    recorder, warmed = Recorder(), list[Cell]()
    outcome = run(recorder, settings(tmp_path, measures=False), warm=lambda context, cell: warmed.append(cell))
    assert recorder.asked == [] and len(warmed) == len(CELLS)
    assert not outcome.path.exists() and outcome.data.rows == []


def test_one_that_cannot_be_run_does_not_stop_the_others(tmp_path: Path) -> None:
    def fails(context: Context, cell: Cell) -> Measured:
        raise RuntimeError("no such thing")

    both = [replace(experiment(fails), name="first"), experiment(Recorder())]
    first, second = run_all(both, settings(tmp_path), Console(quiet=True), lambda outcome: None)
    assert first.broken == "RuntimeError: no such thing"
    assert second.broken == "" and second.data.rows


def test_full_data_comes_before_quick_data(tmp_path: Path) -> None:
    made = experiment(Recorder())
    assert load(made, settings(tmp_path)) is None
    (tmp_path / "machine.json").write_text("{}")
    for size in (Size.QUICK, Size.FULL):
        given = settings(tmp_path, size=size, draws=False)
        writer = files.Writer(
            given.data_path("example"), ["repeat", "theta", "policy", "line", "lines", "speed", "answer"]
        )
        line = {"repeat": 1, "theta": 0.0, "policy": "serial", "line": 1, "lines": 1, "speed": 1.0, "answer": "a"}
        writer.start({"size": str(size)}, [line])
        found = load(made, given)
        assert found is not None and found.header["size"] == str(size) and found.parameters == ("theta", "policy")
