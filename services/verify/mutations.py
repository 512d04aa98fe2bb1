"""`millrace verify mutations`: known mistakes, put into a copy of the engine one at a time; the verification must find each.

Each mistake is a text replaced in one file. A mistake whose text is no longer there is reported as such: the list moves with
the code. A copy without a mistake runs first and must pass, so that nothing is found which is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import InvariantError
from engine.scheduling.policy import all_policies
from services.verify.command import EPOCHS_A_STREAM, run_stream
from services.verify.comparison import Configuration
from services.verify.generator import APPLICATIONS
from services.verify.handmade import HANDMADE

ROOT = Path(__file__).resolve().parents[2]
SEED = 2_000_000  # of the first stream, as `millrace verify engine --seed 1` has it
STREAMS = 12  # of the application in which a mistake should show; then one of every application
STREAM_LIMIT_S = 600  # compiles all kernels and runs five epochs; some ten times what that takes on a busy machine
RUN_LIMIT_S = 7200  # of one copy; only where a stream's limit could not be kept

FOUND, INVARIANT, CRASHED, ENDLESS = "found", "invariant", "crashed", "endless"
UNNOTICED, BROKEN, STALE = "unnoticed", "broken", "stale"
NOTICED = (FOUND, INVARIANT, CRASHED, ENDLESS)


@dataclass(frozen=True)
class Mutation:
    """One mistake: what it is, where, the text it changes, and the handmade application in which it should show first."""

    name: str
    file: str
    right: str
    wrong: str
    application: str


@dataclass(frozen=True)
class Trial:
    """What became of a copy with one mistake in it: the outcome, and what showed it."""

    outcome: str
    shown: str


KERNELS = "engine/execution"
MUTATIONS = (
    Mutation("a stale read: aborted versions stay visible", f"{KERNELS}/version_kernel.py",
             "return owner == transaction or marks.aborted[owner] == 0", "return True", "abort_chain"),
    Mutation("a skipped rollback: only direct followers", f"{KERNELS}/settle_kernel.py",
             "    while at < waiting:\n", "    initially = waiting\n    while at < initially:\n", "abort_chain"),
    Mutation("a terminal ABT: failures are never withdrawn", f"{KERNELS}/settle_kernel.py",
             "if marks.result[follower] == NONE or (stands and same):",
             "if marks.result[follower] == NONE or marks.result[follower] == FAILED or (stands and same):",
             "withdrawn_failure"),
    Mutation("a missing edge: no parametric dependencies", "engine/planning/graph_kernel.py",
             "count = _add_edge(sources, kinds, count, edges_begin, begin, write, PD)", "pass", "transfers"),
    Mutation("a missing edge: fences do not wait for writes", "engine/planning/graph_kernel.py",
             "count = _add_edge(sources, kinds, count, edges_begin, begin, write, FD)", "pass", "keys_computed_again"),
    Mutation("reads see the transaction's own writes", f"{KERNELS}/operation_kernel.py",
             "    transaction = operations.transaction[operation]\n    bound = operations.first[transaction]\n    free",
             "    transaction = operations.transaction[operation]\n    bound = operation\n    free", "transfers"),
    Mutation("windows see the transaction's own writes", f"{KERNELS}/operation_kernel.py",
             "        if kind == WRITE or kind == DELETE:\n            bound = operation\n",
             "        if kind == WRITE or kind == DELETE or target == WINDOW:\n            bound = operation\n",
             "windows_and_fires"),
    Mutation("windows forget their lower bound", "engine/state/chain_kernels.py",
             "        if words[node + TS] >= oldest_ts:\n", "        if True:\n", "windows_and_fires"),
    Mutation("windows take runs that reach out of their range", "engine/state/chain_kernels.py",
             "return pointer_at(base, WORD)[node + LOWEST_TS] >= oldest_ts", "return True", "windows_and_fires"),
    Mutation("windows count a transaction's versions twice", f"{KERNELS}/window_kernel.py",
             "    if found >= 0 and operations.transaction[found] == transaction:", "    if False:",
             "windows_and_fires"),
    Mutation("deleted keys stay known", f"{KERNELS}/operation_kernel.py",
             "        marks.live[operation] = 0\n", "        marks.live[operation] = 1\n", "one_key_many_times"),
    Mutation("constraints are not checked", f"{KERNELS}/operation_kernel.py",
             "if tables.constraint[table] != 0:", "if tables.constraint[table] == 1:", "apart_by_group"),
    Mutation("computed keys are not rolled back", f"{KERNELS}/settle_kernel.py",
             "        leave_row(tables, marks, program.table[statement], operations.row[operation], operation)\n",
             "        pass\n", "keys_computed_again"),
    Mutation("lazy abort stops after one round", f"{KERNELS}/explore_kernel.py",
             "        control[FINISHED] = 1 if following >= strata else 0",
             "        control[FINISHED] = 1 if explored else 0",
             "alternating_verdicts"),
    Mutation("the earliest failure is not the one reported", f"{KERNELS}/settle_kernel.py",
             "if marks.result[operation] == FAILED and failed < 0:", "if marks.result[operation] == FAILED:",
             "one_key_many_times"),
    Mutation("inlined: a second write of a key forgets the first", "engine/inlined/transaction_source.py",
             "        for earlier in self.earlier_writes(s):\n", "        for earlier in list[Statement]():\n",
             "one_key_many_times"),
    Mutation("inlined: a failure does not end the transaction", "engine/inlined/commit_source.py",
             'f"    at_row = _int64({row})", "    break")', 'f"    at_row = _int64({row})")', "transfers"),
    Mutation("ordered: writers do not wait for readers", "engine/planning/conflict_kernel.py",
             "                if writes and last_read >= 0:\n                    reader = last_read\n",
             "                if writes and last_read >= 0:\n                    reader = np.int64(-1)\n",
             "transfers"),
    Mutation("ordered: nobody waits", "engine/inlined/lane_kernel.py",
             "        if load_word(done) == PENDING:\n            _wait(own, done)\n", "        pass\n", "transfers"),
    Mutation("planning: a read takes the link of the wrong statement", "engine/planning/decompose_kernel.py",
             "entry_link[entry] = link_at[starts[same] - first_operation]", "entry_link[entry] = -1", "transfers"),
    Mutation("candidates are not checked", f"{KERNELS}/operation_kernel.py", "        if not inside:\n", "        if False:\n",
             "keys_computed_again"),
)  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Tries a copy without and then one with each mistake; exit code 1 if one goes unnoticed, or the first does not pass."""
    chosen = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    if not chosen:
        print(f"no deliberate bug's name has {arguments.only!r} in it", file=sys.stderr)
        return 2
    control = try_mutation(None)
    if control.outcome != UNNOTICED:
        print(
            f"without any mistake the verification does not pass: {control.outcome}, {control.shown}", file=sys.stderr
        )
        return 1
    results = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mutation, trial in zip(chosen, pool.map(try_mutation, chosen), strict=True):
            results.append({**asdict(mutation), **asdict(trial)})
            if not arguments.json:
                print(f"{trial.outcome:<10} {mutation.name} ({mutation.file}): {trial.shown}", flush=True)
    missed = [result["name"] for result in results if result["outcome"] not in NOTICED]
    if arguments.json:
        print(json.dumps({"mutations": len(results), "missed": missed, "results": results}))
    else:
        print(f"{len(results) - len(missed)} of {len(results)} deliberate bugs found, none where there is none")
    return 1 if missed else 0


def try_mutation(mutation: Mutation | None) -> Trial:
    """Verifies a copy of the engine with this mistake in it, or with none."""
    with tempfile.TemporaryDirectory(prefix="millrace-mutation-") as folder:
        copy = Path(folder)
        for package in ("engine", "services", "millrace"):
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            target = copy / mutation.file
            text = target.read_text(encoding="utf-8")
            if mutation.right not in text:
                return Trial(STALE, "the text to change is gone")
            target.write_text(text.replace(mutation.right, mutation.wrong, 1), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder, "MILLRACE_CACHE_DIR": str(copy / "cache")}
        code = (
            "import sys; sys.path.insert(0, sys.argv.pop(1)); from services.verify import mutations; mutations.seek()"
        )
        command = [sys.executable, "-c", code, folder, mutation.application if mutation is not None else ""]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return Trial(ENDLESS, f"no answer in {RUN_LIMIT_S} s")
        return judge(done.returncode, done.stdout, done.stderr)


def judge(returncode: int, stdout: str, stderr: str) -> Trial:
    """What `seek` said of a copy. A copy that does not even compile shows nothing."""
    if returncode < 0:
        return Trial(CRASHED, f"ended by signal {-returncode}")
    lines = stdout.splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1] if lines else "")
    except ValueError:
        return Trial(BROKEN, (stderr.splitlines() or [f"exit code {returncode}"])[-1])
    where = f"application {answer['application']}, stream seed {answer['stream_seed']}"
    if answer["result"] == "endless":
        return Trial(ENDLESS, f"{where}: no end in {STREAM_LIMIT_S} s")
    mismatch = answer["mismatch"]
    if mismatch is None:
        return Trial(UNNOTICED, f"{answer['streams']} streams agreed")
    shown = f"{where}, {mismatch['policy']} on {mismatch['threads']} thread(s): {mismatch['what']}"
    if mismatch["found"].startswith(InvariantError.__name__):
        return Trial(INVARIANT, f"{shown}: {mismatch['found']}")
    return Trial(FOUND, shown)


def seek() -> None:
    """Runs in the copy, up to the first mismatch, and prints what was seen last; the argument is a mutation's application."""
    configurations = [Configuration(policy, threads) for policy in all_policies() for threads in (1, 2)]
    for streams, (number, seed) in enumerate(_streams(sys.argv[1]), 1):
        place = {"application": number, "stream_seed": seed, "streams": streams}
        timer = threading.Timer(STREAM_LIMIT_S, _give_up, (place,))
        timer.daemon = True
        timer.start()
        mismatch = run_stream(number, seed, EPOCHS_A_STREAM, configurations).mismatch
        timer.cancel()
        if mismatch is not None:
            break
    found = asdict(mismatch) if mismatch is not None else None
    print(json.dumps({"result": "ended", **place, "mismatch": found}), flush=True)


def _give_up(place: dict[str, int]) -> None:
    print(json.dumps({"result": "endless", **place}), flush=True)
    os._exit(1)  # the threads of the engine would never end


def _streams(application: str) -> Iterator[tuple[int, int]]:
    """Application and stream seed: those in which the mistake should show, then one of all; without one, of the handmade."""
    for number, declare in enumerate(HANDMADE):
        if application in ("", declare.__name__):
            yield from ((number, SEED + turn) for turn in range(STREAMS if application else 1))
    if application:
        yield from ((number, SEED) for number in range(APPLICATIONS))
