"""Renders docs/results.md: claim, figure, numbers with spread, machine, our own verdict.

The data behind the page are in docs/data. Those of full runs that are here replace them, all others stay as they are, so that
experiments can be run again one by one, on whichever machine. The page is a pure function of docs/data, the experiments and
`bench.notes`: rendering twice changes nothing.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from bench.data import Data
from bench.experiment import Experiment, Size
from bench.figures import save
from bench.harness import Settings, load
from bench.notes import DIFFERENCES, NOTES

INTRODUCTION = """# Results

Made by `millrace bench report` from the data of `millrace bench run`, which are in [data](data), a CSV file each with seed,
versions and machine; change `bench/notes.py`, not this page. Numbers are medians over interleaved repeats with the middle half
in brackets. MorphStream's own repeats of one setting differ by 15 %: where two spreads touch, or differ by less, we cannot tell
which is better.
"""
NOT_RUN = "*Not run yet:* `millrace bench run {name}`."
NOT_JUDGED = "*Not judged yet.*"


def render(experiments: list[Experiment], settings: Settings, docs: Path) -> Path:
    """Writes `docs`/results.md and copies figures to `docs`/figures."""
    parts = [INTRODUCTION]
    kept = replace(settings, size=Size.FULL, out=docs / "data")
    for experiment in experiments:
        _keep(experiment, settings, kept)
        parts.append(_section(experiment, load(experiment, kept) or load(experiment, settings), docs))
    path = docs / "results.md"
    docs.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _keep(experiment: Experiment, settings: Settings, kept: Settings) -> None:
    """The data of a full run becomes what the page is made of."""
    measured, target = (replace(each, size=Size.FULL).data_path(experiment.name) for each in (settings, kept))
    if measured.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(measured, target)


def _section(experiment: Experiment, data: Data | None, docs: Path) -> str:
    lines = [f"## {experiment.name}: {experiment.title}", ""]
    lines += [f"*{experiment.figure}.* {experiment.shows[0].upper()}{experiment.shows[1:]}.", ""]
    lines += [f"**Claim.** {experiment.claim}", ""]
    if experiment.name in DIFFERENCES:
        lines += [f"**Ours differs.** {DIFFERENCES[experiment.name]}", ""]
    if data is None:
        return "\n".join([*lines, NOT_RUN.format(name=experiment.name), ""])
    figure = _copy_figure(experiment, data, docs)
    lines += [f"![{experiment.title}]({figure.relative_to(docs).as_posix()})", ""]
    lines += [*numbers(experiment, data), ""]
    lines += [
        provenance(data),
        "",
        f"**Where we lose, or cannot tell.** {NOTES.get(experiment.name) or NOT_JUDGED}",
        "",
    ]
    return "\n".join(lines)


def _copy_figure(experiment: Experiment, data: Data, docs: Path) -> Path:
    """Drawn anew, so that the page's figure is of the page's data."""
    target = docs / "figures" / f"{experiment.name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn = save(experiment, data, target.parent / ".drawing" / experiment.name)
    shutil.move(drawn[0], target)
    shutil.rmtree(target.parent / ".drawing")
    return target


def provenance(data: Data) -> str:
    header = data.header
    warning = "" if header.get("size") == "full" else " **A quick run: shows that it works, not how fast.**"
    return (
        f"{header.get('cpu')}, {header.get('cores')} cores, {header.get('memory_gib')} GiB; Python {header.get('python')}, "
        f"numpy {header.get('numpy')}, numba {header.get('numba')}; Millrace {header.get('millrace')}; "
        f"{len(data.distinct('repeat'))} repeats, seed {header.get('seed')}.{warning}"
    )


def numbers(experiment: Experiment, data: Data) -> list[str]:
    return experiment.summarise(data) if experiment.summarise is not None else table(experiment, data)


def table(experiment: Experiment, data: Data) -> list[str]:
    """The main value: a row for each setting, a column for each policy."""
    across = "policy" if "policy" in data.parameters else data.parameters[-1]
    down = [name for name in data.parameters if name != across and len(data.distinct(name)) > 1]
    down += experiment.shown_by
    names = data.distinct(across)
    found = data.spread(experiment.main, (*down, across))
    rows = list(dict.fromkeys(key[:-1] for key in found))
    lines = [
        f"`{experiment.main}`:",
        "",
        "| " + " | ".join([*(down or [""]), *map(str, names)]) + " |",
        "|" + "---|" * (max(1, len(down)) + len(names)),
    ]
    for row in rows:
        cells = [str(found.get((*row, name), "–")) for name in names]
        lines.append("| " + " | ".join([*(map(str, row) if row else [""]), *cells]) + " |")
    return lines
