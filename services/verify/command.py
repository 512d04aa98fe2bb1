"""`millrace verify engine`: random applications and epochs, every policy and thread count, against the oracle.

Exit code 1 where an answer differs, and also where none does but the input was tame: a proof that met no cascade, no
withdrawn failure or no window across epochs would prove nothing about them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engine.api.application import Application
from engine.baselines import EXACT
from engine.scheduling.policy import all_policies
from services.verify.comparison import Configuration, Mismatch, StreamReport, compare
from services.verify.generator import APPLICATIONS, generate_application
from services.verify.handmade import HANDMADE
from services.verify.streams import generate_epochs

EPOCHS_A_STREAM = 5  # enough for windows and fires to reach across, few enough that streams are many
EPOCHS_AN_APPLICATION = 500  # long runs make more applications than `APPLICATIONS`, one for so many epochs

# What must have occurred, with the least number that counts.
REQUIRED = {
    "cascade_depth_max": (3, "deepest cascade of rollbacks"),
    "T7": (1, "failures withdrawn (T7)"),
    "lazy_rounds_max": (3, "most rounds of a lazy abort"),
    "merged_cycles": (1, "cycles merged"),
    "window_across_epochs": (1, "windows across epochs"),
    "computed_again": (1, "keys computed anew on redo"),
    "same_key_rewrites": (1, "transactions that wrote a key twice"),
    "inlined_epochs": (1, "epochs also run inlined"),
    "delayed_epochs": (1, "epochs whose threads were held up at random"),
    # What the first thread did not run itself: where this is 0, nothing was tried on several threads.
    "by_others_breadth-first": (1, "operations run by other threads, breadth-first"),
    "by_others_depth-first": (1, "operations run by other threads, depth-first"),
    "by_others_unstructured": (1, "operations run by other threads, unstructured"),
    "by_others_ordered": (1, "operations run by other threads, ordered"),
    "by_others_replays": (100, "operations run by other threads, replayed under all policies"),
}


def run_engine(arguments: argparse.Namespace) -> int:
    """Runs the verification that the command line asks for."""
    started = time.perf_counter()
    policies = [*all_policies(), *(EXACT if getattr(arguments, "baselines", False) else ())]
    configurations = [Configuration(policy, threads) for policy in policies for threads in arguments.threads]
    total = StreamReport()
    chosen = getattr(arguments, "application", None)
    seen: set[int] = set()
    with _progress(arguments) as progress:
        task = progress.add_task("epochs", total=arguments.epochs)
        for number, stream_seed, report in _reports(arguments, chosen, configurations):
            total.add(report)
            seen.add(number)
            progress.update(task, completed=total.epochs)
            if report.mismatch is not None:
                progress.stop()
                return _fail(arguments, number, stream_seed, report.mismatch)
    missing = {} if chosen is not None else tame(total)
    _summary(arguments, total, len(seen), len(configurations), missing, time.perf_counter() - started)
    return 1 if missing else 0


def _reports(
    arguments: argparse.Namespace, chosen: int | None, configurations: list[Configuration]
) -> Iterator[tuple[int, int, StreamReport]]:
    """Application, stream seed and report of each stream: here, or on several processes, as they are done."""
    plan = _plan(arguments, chosen)
    jobs = getattr(arguments, "jobs", 1)
    if jobs == 1:
        for number, stream_seed, epochs in plan:
            yield number, stream_seed, run_stream(number, stream_seed, epochs, configurations)
        return
    with ExitStack() as open_pools:
        # A pool of one process each, so that an application is declared in one process only.
        context = multiprocessing.get_context("spawn")
        pools = [open_pools.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(jobs)]
        running = {
            pools[number % jobs].submit(run_stream, number, stream_seed, epochs, configurations): (number, stream_seed)
            for number, stream_seed, epochs in plan
        }
        try:
            for done in as_completed(running):
                yield *running[done], done.result()
        finally:
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)


def run_stream(number: int, stream_seed: int, epochs: int, configurations: list[Configuration]) -> StreamReport:
    """One application and one stream of it."""
    app = _application(number)
    # Half of the streams of a handmade application are made to hit what it is there for.
    hot = number < len(HANDMADE) and stream_seed % 2 == 0
    return compare(
        app, generate_epochs(app, stream_seed, EPOCHS_A_STREAM, hot).first(epochs), configurations, stream_seed + number
    )


@lru_cache(maxsize=256)
def _application(number: int) -> Application:
    """Declared once: loading its functions takes longer than running a stream."""
    return generate_application(number)[0]


def tame(total: StreamReport) -> dict[str, str]:
    """What should have occurred and did not, with what was seen of it."""
    return {
        name: f"{what}: {total.counters[name]}, at least {least} needed"
        for name, (least, what) in REQUIRED.items()
        if total.counters[name] < least
    }


def _plan(arguments: argparse.Namespace, chosen: int | None) -> Iterator[tuple[int, int, int]]:
    """Application, stream seed and number of epochs of each stream, until there are epochs enough."""
    if chosen is not None:
        yield chosen, arguments.stream_seed, EPOCHS_A_STREAM
        return
    applications = max(APPLICATIONS, arguments.epochs // EPOCHS_AN_APPLICATION)
    for position, begin in enumerate(range(0, arguments.epochs, EPOCHS_A_STREAM)):
        number = position % applications
        turn = position // applications  # even seeds first: those are the hot streams
        yield number, 2 * arguments.seed * 10**6 + turn, min(EPOCHS_A_STREAM, arguments.epochs - begin)


def _progress(arguments: argparse.Namespace) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=arguments.json or not console.is_terminal)


def _fail(arguments: argparse.Namespace, number: int, stream_seed: int, mismatch: Mismatch) -> int:
    threads = ",".join(map(str, arguments.threads))
    again = f"millrace verify engine --application {number} --stream-seed {stream_seed} --threads {threads}"
    again += " --baselines" if getattr(arguments, "baselines", False) else ""
    description = generate_application(number)[1]
    if arguments.json:
        found: dict[str, Any] = {"result": "mismatch", "seed": arguments.seed, "application": number}
        found |= {"stream_seed": stream_seed, "description": description, "reproduce": again, **asdict(mismatch)}
        print(json.dumps(found))
        return 1
    print(f"MISMATCH  seed {arguments.seed}, application {number}, stream seed {stream_seed}, epoch {mismatch.epoch}")
    print(f"policy    {mismatch.policy}, {mismatch.threads} thread(s)")
    print(f"differs   {mismatch.what}")
    print(f"expected  {mismatch.expected}")
    print(f"found     {mismatch.found}")
    print(f"reproduce {again}")
    print(description)
    return 1


def _summary(
    arguments: argparse.Namespace,
    total: StreamReport,
    applications: int,
    configurations: int,
    missing: dict[str, str],
    seconds: float,
) -> None:
    if arguments.json:
        summary: dict[str, Any] = {"result": "tame" if missing else "ok", "seed": arguments.seed}
        summary |= {"epochs": total.epochs, "runs": total.runs, "applications": applications, "seconds": seconds}
        summary |= {"configurations": configurations, "mismatches": 0, "missing": missing}
        summary |= {"verdicts": dict(total.verdicts), "counters": dict(total.counters)}
        print(json.dumps(summary))
        return
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(total.verdicts.items()))
    print(f"seed {arguments.seed}: {total.epochs} epochs of {applications} applications, {verdicts}")
    print(f"{total.runs} runs under {configurations} configurations in {seconds:.0f} s, 0 mismatches")
    for name, (_, what) in REQUIRED.items():
        print(f"  {total.counters[name]:>9}  {what}")
    for line in missing.values():
        print(f"FAILED: the input was tame. {line}", file=sys.stderr)
