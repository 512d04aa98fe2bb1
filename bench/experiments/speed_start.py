"""How long an application takes to start: with nothing compiled, with the engine compiled, with everything compiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data
from bench.experiment import Cell, Context, Experiment, Measured, Size, crossed
from bench.machine import ROOT
from engine.functions.cache import kernel_cache_directory

NOTHING, ENGINE, EVERYTHING = "nothing compiled", "engine compiled, application new", "everything compiled"
TRANSACTIONS = 256
PARTS = {"import_s": "import", "declare_s": "declare (user functions)", "first_epoch_s": "first epoch",
         "second_epoch_s": "second epoch"}  # fmt: skip


def _measure(context: Context, cell: Cell) -> Measured:
    if cell["start"] == EVERYTHING:
        return _start(None)
    with tempfile.TemporaryDirectory(prefix="millrace-start-") as directory:
        if cell["start"] == ENGINE:
            _copy_engine_kernels(Path(directory))
        return _start(directory)


def _copy_engine_kernels(directory: Path) -> None:
    """The kernel cache without what was compiled for applications (their modules' names start with `entry_`)."""
    source = kernel_cache_directory()
    shutil.copytree(source, directory / source.name, ignore=shutil.ignore_patterns("entry_*"))


def _start(cache: str | None) -> Measured:
    environment = {**os.environ, **({"MILLRACE_CACHE_DIR": cache} if cache is not None else {})}
    command = [sys.executable, "-m", "bench.start_child", str(TRANSACTIONS)]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    printed = json.loads(done.stdout)
    answer = printed.pop("answer")
    return Measured([{**printed, "process_s": whole}], answer)


def _warm(context: Context, cell: Cell) -> None:
    """Fills the cache that `everything compiled` and `engine compiled` start from."""
    if cell["start"] != NOTHING and context.size is not Size.TINY:
        _start(None)


def _draw(data: Data, figure: Figure) -> None:
    axes = figure.subplots()
    figures.stacked(axes, data, "start", PARTS, label="seconds")
    axes.legend(fontsize=8, frameon=False)


SPEED_START = Experiment(
    name="speed-start",
    figure="our target",
    title="Starting an application in a new process",
    shows="first and second start: compile and load time",
    claim="A mid-size parallel kernel compiles in 4 s and loads from the cache in 0.15 s; a user function compiles in 0.25 s.",
    grid=lambda size: crossed(start=size.of([NOTHING, ENGINE, EVERYTHING], [ENGINE, EVERYTHING], [EVERYTHING])),
    measure=_measure,
    warm=_warm,
    values=(*PARTS, "process_s"),
    main="process_s",
    answer_by=(),
    draw=_draw,
    cell_seconds=lambda cell: {NOTHING: 27.0, ENGINE: 4.0, EVERYTHING: 1.0}[str(cell["start"])],
)
