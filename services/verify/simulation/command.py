"""`millrace verify simulate`: many seeds of the simulated service, or the deliberate bugs, each of which must be found."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.progress import Progress

from services.verify.simulation.bugs import BUGS, Bug, broken, is_stale
from services.verify.simulation.record_bugs import RECORD_BUGS
from services.verify.simulation.run import Report, simulate

SEEDS_A_TASK = 250
BUG_SEEDS = 1_000  # within which a deliberate bug must be found


def run(arguments: argparse.Namespace) -> int:
    """What the command line asks for; exit code 1 where a check failed or a bug went unnoticed."""
    return _run_bugs(arguments) if arguments.bugs else _run_seeds(arguments)


def _run_seeds(arguments: argparse.Namespace) -> int:
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    failures: list[Report] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=arguments.json or not console.is_terminal) as progress:
        task = progress.add_task("seeds", total=arguments.seeds)
        for done, reports_counts, failed in _tasks(arguments):
            counts.update(reports_counts)
            failures += failed
            progress.advance(task, done)
    seconds = time.perf_counter() - started
    if arguments.json:
        summary = {"seeds": arguments.seeds, "seed": arguments.seed, "violations": len(failures), "seconds": seconds}
        first = [{"seed": report.seed, "violations": report.violations} for report in failures[:5]]
        print(json.dumps({**summary, "counts": dict(counts), "first": first}))
        return 1 if failures else 0
    for report in failures[:5]:
        print(f"VIOLATION seed {report.seed}: {report.violations[0]}")
        print(f"reproduce millrace verify simulate --input {arguments.input} --seed {report.seed} --seeds 1")
    last = arguments.seed + arguments.seeds - 1
    print(f"seeds {arguments.seed} to {last} in {seconds:.0f} s: {len(failures)} violations")
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return 1 if failures else 0


def _tasks(arguments: argparse.Namespace) -> Iterator[tuple[int, Counter[str], list[Report]]]:
    ends = arguments.seed + arguments.seeds
    ranges = [(begin, min(begin + SEEDS_A_TASK, ends)) for begin in range(arguments.seed, ends, SEEDS_A_TASK)]
    if arguments.jobs == 1:
        yield from (_some_seeds(each, arguments.input) for each in ranges)
        return
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_some_seeds, ranges, [arguments.input] * len(ranges))


def _some_seeds(seeds: tuple[int, int], mode: str) -> tuple[int, Counter[str], list[Report]]:
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(*seeds):
        report = simulate(seed, mode=mode)
        counts.update(report.counts)
        if report.violations:
            failed.append(report)
    return seeds[1] - seeds[0], counts, failed


def find(bug: Bug, first_seed: int) -> tuple[int, str] | None:
    """The first seed that shows the bug, and how; None if none of `BUG_SEEDS` does."""
    with broken(bug) as make_machine:
        for seed in range(first_seed, first_seed + BUG_SEEDS):
            report = simulate(seed, make_machine, bug.mode)
            if report.violations:
                return seed, report.violations[0]
    return None


def _run_bugs(arguments: argparse.Namespace) -> int:
    results = []
    for bug in RECORD_BUGS if arguments.input == "records" else BUGS:
        found = None if is_stale(bug) else find(bug, arguments.seed)
        outcome = "stale" if is_stale(bug) else "unnoticed" if found is None else "found"
        results.append({"name": bug.name, "outcome": outcome, "seed": found[0] if found else None})
        if not arguments.json:
            print(f"{outcome:<10} {bug.name}" + (f" (seed {found[0]}: {found[1][:90]})" if found else ""), flush=True)
    missed = [result["name"] for result in results if result["outcome"] != "found"]
    if arguments.json:
        print(json.dumps({"bugs": len(results), "missed": missed, "results": results}))
    else:
        print(f"{len(results) - len(missed)} of {len(results)} deliberate bugs found within {BUG_SEEDS} seeds")
    return 1 if missed else 0
