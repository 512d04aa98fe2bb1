"""`millrace bench`: lists, runs and reports the experiments."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from bench import report
from bench.data import readable
from bench.experiment import Experiment, Size
from bench.experiments import EXPERIMENTS
from bench.harness import REPEATS, Outcome, Settings, run_all
from bench.machine import git_hash, machine_facts
from engine import InputError


def list_experiments(arguments: argparse.Namespace) -> int:
    """Names, figures, what they show and how long they take."""
    rows: list[dict[str, Any]] = [
        {"name": e.name, "figure": e.figure, "shows": e.shows, "cells": len(e.grid(Size.FULL)), "minutes": minutes(e)}
        for e in EXPERIMENTS.values()
    ]
    if arguments.json:
        print(json.dumps(rows))
        return 0
    console = Console()
    shown = Table(title="millrace bench run NAME", show_lines=False)
    shown.add_column("name", no_wrap=True)
    shown.add_column("shows")
    shown.add_column("takes about", justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(row["name"], f"{row['figure']}: {row['shows']}", f"{row['minutes']:g} min")
    console.print(shown)
    console.print(
        f"all together about {sum(row['minutes'] for row in rows):g} min, {REPEATS[Size.FULL]} repeats of every cell"
    )
    return 0


def minutes(experiment: Experiment) -> float:
    """Of a full run, roughly, once everything is compiled (`--compile`)."""
    seconds = REPEATS[Size.FULL] * sum(experiment.cell_seconds(cell) for cell in experiment.grid(Size.FULL))
    return max(0.5, round(seconds / 30) / 2)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a policy gave another answer than the others."""
    console = Console(stderr=True)
    outcomes = run_all(
        chosen(arguments.names), _settings(arguments), console,
        lambda outcome: None if arguments.json else _show(outcome, Console()),
    )  # fmt: skip
    if arguments.json:
        print(json.dumps({"millrace": git_hash(), **machine_facts(), "experiments": [_as_json(o) for o in outcomes]}))
    for outcome in outcomes:
        for text in outcome.wrong:
            print(f"millrace: WRONG ANSWER in {outcome.experiment.name}: {text}", file=sys.stderr)
        if outcome.broken:
            print(f"millrace: {outcome.experiment.name} could not be run: {outcome.broken}", file=sys.stderr)
    return 1 if any(outcome.wrong or outcome.broken for outcome in outcomes) else 0


def render_report(arguments: argparse.Namespace) -> int:
    path = report.render(list(EXPERIMENTS.values()), Settings(out=arguments.out), arguments.docs)
    print(json.dumps({"page": str(path)}) if arguments.json else f"{path} written")
    return 0


def chosen(names: list[str]) -> list[Experiment]:
    """By name or pattern (`fig*`), each once, in the order of the listing."""
    patterns = ["*" if name == "all" else name for name in names]
    unknown = [pattern for pattern in patterns if not fnmatch.filter(EXPERIMENTS, pattern)]
    if unknown:
        raise InputError(f"no experiment {', '.join(unknown)}; `millrace bench list` shows them all")
    return [e for name, e in EXPERIMENTS.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def _settings(arguments: argparse.Namespace) -> Settings:
    return Settings(
        size=Size.QUICK if arguments.quick else Size.FULL,
        repeats=arguments.repeats,
        seed=arguments.seed,
        out=Path(arguments.out),
        fresh=arguments.fresh,
        measures=not arguments.compile,
    )


def _show(outcome: Outcome, console: Console) -> None:
    experiment, data = outcome.experiment, outcome.data
    did = f"{outcome.ran} runs of a cell" if data.rows else outcome.broken or "compiled"
    console.print(
        f"[bold]{experiment.name}[/bold] ({experiment.figure}): {did} in {outcome.seconds:.0f} s", highlight=False
    )
    if not data.rows:
        return
    across = tuple(name for name in data.parameters if len(data.distinct(name)) > 1) + experiment.shown_by
    shown = Table(*(Column(name, no_wrap=True) for name in across))  # a policy's name cut short would be no name
    for name in (f"{experiment.main} (middle half)", "least to greatest", "repeats"):
        shown.add_column(name, overflow="fold")
    for key, spread in data.spread(experiment.main, across).items():
        ends = f"{readable(spread.minimum)} – {readable(spread.maximum)}"
        shown.add_row(*map(str, key), str(spread), ends, str(spread.count))
    console.print(shown)
    for decided, answer in outcome.answers.items():
        console.print(f"answer ({decided}): {answer}", highlight=False)
    console.print("[red]ANSWERS DIFFER[/red]" if outcome.wrong else "[green]answers agree[/green]")
    for note in outcome.notes:
        console.print(f"note: {note}", highlight=False)
    for path in (outcome.path, *outcome.figures):
        console.print(str(path), highlight=False, soft_wrap=True)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    data, experiment = outcome.data, outcome.experiment
    by = (*data.parameters, *experiment.coordinates)
    cells: dict[tuple[Any, ...], dict[str, Any]] = {}
    for value in experiment.values:
        if any(isinstance(row[value], str) for row in data.rows):
            continue  # words, such as the policy that was chosen: in the data file
        for key, spread in data.spread(value, by).items():
            cells.setdefault(key, dict(zip(by, key, strict=True)))[value] = spread.as_json()
    return {
        "name": experiment.name, "figure": experiment.figure, "ran": outcome.ran, "seconds": outcome.seconds,
        "broken": outcome.broken, "data": str(outcome.path),
        "figures": [str(path) for path in outcome.figures], "answers": outcome.answers, "wrong": outcome.wrong,
        "notes": outcome.notes, "cells": list(cells.values()),
    }  # fmt: skip
