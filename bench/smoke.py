"""`python -m bench.smoke`: every experiment without a broker at a tiny size, into a temporary directory: does it run?

Part of `make check`. It measures nothing: it shows that each experiment runs, that all policies give the same answer,
and that data and figures are written. Those that need a broker run in the slow tests (tests/bench/test_experiments.py).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.data import Data
from bench.experiment import Size
from bench.experiments import EXPERIMENTS
from bench.figures import save
from bench.harness import Outcome, Settings, run_experiment
from bench.report import numbers


def problems(outcome: Outcome) -> list[str]:
    """What is wrong with a tiny run; nothing if it is as it should be."""
    found = [f"wrong answer: {text}" for text in outcome.wrong]
    if not outcome.answers:
        found.append("no answer to check")
    if not outcome.path.exists() or not outcome.data.rows:
        found.append(f"no data in {outcome.path}")
    found += [f"no figure {path}" for path in outcome.figures if not path.exists()]
    return found + ([] if outcome.figures else ["no figure drawn"]) + partial_problems(outcome)


def partial_problems(outcome: Outcome) -> list[str]:
    """A run that was cut short is drawn and told too: the first cell alone, and half of the cells."""
    data, found = outcome.data, []
    for rows in (data.rows[: data.rows[0]["lines"]], data.rows[: len(data.rows) // 2]) if data.rows else ():
        part = Data(data.header, data.parameters, rows)
        try:
            with tempfile.TemporaryDirectory(prefix="millrace-smoke-") as directory:
                save(outcome.experiment, part, Path(directory) / "partial")
            numbers(outcome.experiment, part)
        except Exception as error:
            found.append(f"{len(rows)} of {len(data.rows)} rows cannot be shown: {type(error).__name__}: {error}")
    return found


def main() -> int:
    console = Console(stderr=True)
    failed, begin = 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="millrace-smoke-") as directory:
        settings = Settings(size=Size.TINY, out=Path(directory))
        chosen = [experiment for experiment in EXPERIMENTS.values() if not experiment.needs_broker]
        for experiment in chosen:
            started = time.perf_counter()
            found = problems(run_experiment(experiment, settings, console))
            failed += bool(found)
            seconds = time.perf_counter() - started
            print(f"{'FAIL' if found else 'ok  '} {experiment.name} ({seconds:.1f} s)", flush=True)
            for text in found:
                print(f"       {text}", flush=True)
    print(f"bench smoke: {len(chosen) - failed} of {len(chosen)} in {time.perf_counter() - begin:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
