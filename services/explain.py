"""`millrace explain`: runs a workload and says for one epoch what was measured, chosen and done, in numbers and pictures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from engine import DeclarationError, Engine, ExecutionOptions
from engine.execution.layout import EXE
from engine.planning.export import Look, describe, draw, part_to_draw
from engine.result import EpochResult
from engine.scheduling.choice import Choice, Chooser, Explanation, Observation, Stage, describe_properties
from engine.scheduling.chooser import make_chooser
from engine.scheduling.policy import Granularity
from engine.scheduling.properties import Properties, measure
from engine.stage_run import StageRun
from engine.stage_view import StageView
from services.timeline import draw_timeline
from services.workload_catalogue import workload

BOXES_MAX = 60  # operations in a picture that can still be read
MOMENTS_MAX = 200_000  # a thread
STATES = {"executed": ("#e3f1e3", "#339933"), "aborted": ("#fbd5d5", "#cc3333"), "not run": ("#eeeeee", "#888888")}
THREADS = (
    ("#d7e8f7", "#1f77b4"), ("#fde6cf", "#e07b1a"), ("#e8dcf2", "#7d55a5"), ("#dff0d8", "#4a8f3a"),
    ("#f9dcea", "#c2427f"), ("#f3efc9", "#9a8b1c"), ("#d5f0ee", "#21918a"), ("#e6e0da", "#7a5c45"),
)  # fmt: skip


class Watching:
    """The engine's own chooser, with the stages of the epoch that is to be explained kept, and labels for a picture."""

    def __init__(self, inner: Chooser) -> None:
        self.inner = inner
        self.engine: Engine | None = None
        self.watches = False
        self.stages: list[StageRun] = []
        self.labels: list[list[str]] = []

    def choose(self, stage: Stage) -> Choice:
        if self.watches:
            assert isinstance(stage, StageView)
            run = stage.plan()  # so a serial stage runs operation by operation, not inlined
            run.graph()
            self.stages.append(run)
        return self.inner.choose(stage)

    def learn(self, observation: Observation) -> None:
        self.inner.learn(observation)
        if self.watches:  # now, while the keys of failed transactions are still in their rows
            assert self.engine is not None
            self.labels.append(_labels(self.engine, self.stages[-1]))

    def explain(self) -> Explanation:
        return self.inner.explain()


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the exit code is 0."""
    console = Console(stderr=arguments.json)
    wanted = arguments.epoch if arguments.epoch is not None else arguments.epochs - 1
    if not 0 <= wanted < arguments.epochs:
        raise DeclarationError(f"--epoch {wanted} is not one of the {arguments.epochs} epochs, which count from 0")
    options = ExecutionOptions(timed=True, timeline=MOMENTS_MAX if arguments.svg else 0)
    watching = Watching(make_chooser(arguments.policy))
    with console.status("compiling kernels (a minute or two the first time, cached afterwards) …"):
        app, epochs, tables = workload(
            arguments.app, arguments.events, arguments.epochs, arguments.seed, arguments.busy
        )
        engine = Engine(app, threads=arguments.threads, policy=watching, options=options)
    watching.engine = engine
    for table, (keys, values) in tables.items():
        engine.load(table, keys, values)
    with engine:
        for turn, epoch in enumerate(epochs):
            watching.watches = turn == wanted
            result = engine.run_epoch(epoch)
            if turn == wanted:
                break
    written = _draw(arguments, watching, result) if arguments.svg else []
    found = [_measured(stage, result) for stage in watching.stages]
    if arguments.json:
        print(json.dumps(as_dict(result, found, written)))
    else:
        console.print(as_text(result, found, written), highlight=False, soft_wrap=True)
    return 0


def _measured(stage: StageRun, result: EpochResult) -> Properties:
    """The properties of the whole stage with its own C and aborts, now that it has run."""
    aborted = stage.aborted
    useful = 1e6 * result.times.useful / max(1, result.counters["operations"])
    everything, ratio = np.zeros(stage.transactions, np.int64), np.array([aborted.mean() if aborted.size else 0.0])
    return measure(stage.graph(), everything, 1, useful, ratio, stage.units(Granularity.COARSE))[0]


def as_text(result: EpochResult, found: list[Properties], written: list[str]) -> str:
    """All of it for people."""
    times = result.times
    parts = {"useful": times.useful, "explore": times.explore, "abort": times.abort, "sync": times.sync}
    lines = [
        f"epoch {result.epoch}: {result.committed:,} committed, {result.failed:,} failed, {result.filtered:,} filtered "
        f"in {times.total * 1e3:.3g} ms",
        "",
        "choice",
        *(choice.text() for choice in result.choices),
        "",
        "measured afterwards (C and aborts are this epoch's own)",
        *(f"  stage {choice.stage}: {describe_properties(each)}"
          for choice, each in zip(result.choices, found, strict=True)),
        "",
        "time (this epoch was made into operations to be looked at: serial, too, ran them one by one, not inlined)",
        f"  planning {times.plan * 1e3:.3g} ms, then all threads together: "
        + ", ".join(f"{name} {value * 1e3:.3g} ms" for name, value in parts.items())
        + f"; the rest {times.other * 1e3:.3g} ms",
        "",
        "counters",
        "  " + ", ".join(f"{name} {value:,}" for name, value in result.counters.items() if value),
        f"  operations by thread: {', '.join(f'{count:,}' for count in result.operations_per_thread)}",
        *([""] if written else []),
        *written,
    ]  # fmt: skip
    return "\n".join(lines)


def as_dict(result: EpochResult, found: list[Properties], written: list[str]) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        "epoch": result.epoch,
        "committed": result.committed,
        "failed": result.failed,
        "filtered": result.filtered,
        "choices": [choice.as_dict() for choice in result.choices],
        "measured": [each.as_dict() for each in found],
        "times_ms": {name: 1e3 * value for name, value in vars(result.times).items()},
        "counters": result.counters,
        "operations_per_thread": result.operations_per_thread,
        "written": written,
    }


def _draw(arguments: argparse.Namespace, watching: Watching, result: EpochResult) -> list[str]:
    """Writes both pictures of the first stage; gives a sentence about each."""
    if not watching.stages:
        return ["the epoch has no operation: nothing to draw"]
    path = Path(arguments.svg)
    path.parent.mkdir(parents=True, exist_ok=True)
    stage = watching.stages[0]
    graph = stage.graph()
    drawn, which = part_to_draw(graph, BOXES_MAX)
    names = _states_of(stage) if arguments.colour == "state" else _threads_of(stage)
    colours = {name: _colour(name) for name in sorted(set(names))}
    caption = f"epoch {result.epoch}, {', '.join(result.policies)}: {which}"
    look = Look(watching.labels[0], [colours[name] for name in names], drawn, colours, caption)
    path.write_text(draw(graph, look), encoding="utf-8")
    timeline = path.with_name(f"{path.stem}-timeline{path.suffix}")
    title = f"epoch {result.epoch}, {', '.join(result.policies)}: what each thread did"
    threads = len(result.operations_per_thread)
    timeline.write_text(draw_timeline(result.timeline, threads, title), encoding="utf-8")
    counts = ", ".join(f"{value:,} {name}" for name, value in describe(graph).items())
    return [f"{path}: the graph, {which} ({counts})", f"{timeline}: the threads, {len(result.timeline):,} moments"]


def _states_of(stage: StageRun) -> list[str]:
    marks = stage.arrays.marks
    aborted = marks.aborted[stage.arrays.planned.transaction[stage.first_operation :][: stage.count]]
    states = marks.state[stage.first_operation :][: stage.count]
    named = np.where(aborted != 0, "aborted", np.where(states == EXE, "executed", "not run"))
    return [str(name) for name in named]


def _threads_of(stage: StageRun) -> list[str]:
    owners = stage.arrays.marks.owner[stage.first_operation :][: stage.count]
    return [f"thread {owner}" if owner >= 0 else "serially" for owner in owners.tolist()]


def _colour(name: str) -> tuple[str, str]:
    if name.startswith("thread "):
        return THREADS[int(name.split()[1]) % len(THREADS)]
    return STATES.get(name, STATES["not run"])


def _labels(engine: Engine, stage: StageRun) -> list[str]:
    """What is written into the operations' boxes, for as many as a picture may have."""
    drawn, _ = part_to_draw(stage.graph(), BOXES_MAX)
    labels = [""] * stage.count
    operations = stage.arrays.planned
    for local in drawn:
        operation = local + stage.first_operation
        _, statement = engine.program.statements[int(operations.statement[operation])]
        what = statement.function.name if statement.function is not None else statement.kind.name.lower()
        row = int(operations.row[operation])
        if statement.access is not None and row >= 0:
            table = engine.store.table(statement.access.table.name)
            what += f" {table.name}[{table.index.key_of(row)}]"
        labels[local] = f"{int(operations.transaction[operation]) - stage.first_transaction + 1}: {what}"
    return labels
