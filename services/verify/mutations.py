"""`millrace verify mutations`: known mistakes, put into a copy of the engine one at a time; the verification must find each.

Each mistake is a text replaced in one file. A mistake whose text is no longer there is reported as such: the list moves with
the code.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = (50, 200)  # most mistakes show in the handmade applications, which come first
TIME_LIMIT_S = 1800  # some twenty times what a verification of that size takes, kernels compiled
FOUND, ENDLESS = "found", "endless"


@dataclass(frozen=True)
class Mutation:
    """One mistake: what it is, where, and the text it changes."""

    name: str
    file: str
    right: str
    wrong: str


KERNELS = "engine/execution"
MUTATIONS = (
    Mutation("a stale read: aborted versions stay visible", f"{KERNELS}/version_kernel.py",
             "return owner == transaction or marks.aborted[owner] == 0", "return True"),
    Mutation("a skipped rollback: only direct followers", f"{KERNELS}/settle_kernel.py",
             "    while at < waiting:\n", "    initially = waiting\n    while at < initially:\n"),
    Mutation("a terminal ABT: failures are never withdrawn", f"{KERNELS}/settle_kernel.py",
             "if marks.result[follower] == NONE or (stands and same):",
             "if marks.result[follower] == NONE or marks.result[follower] == FAILED or (stands and same):"),
    Mutation("a missing edge: no parametric dependencies", "engine/planning/graph_kernel.py",
             "count = _add_edge(sources, kinds, count, edges_begin, begin, write, PD)", "pass"),
    Mutation("a missing edge: fences do not wait for writes", "engine/planning/graph_kernel.py",
             "count = _add_edge(sources, kinds, count, edges_begin, begin, write, FD)", "pass"),
    Mutation("reads see the transaction's own writes", f"{KERNELS}/operation_kernel.py",
             "    transaction = operations.transaction[operation]\n    bound = operations.first[transaction]\n    free",
             "    transaction = operations.transaction[operation]\n    bound = operation\n    free"),
    Mutation("windows see the transaction's own writes", f"{KERNELS}/operation_kernel.py",
             "        if kind == WRITE or kind == DELETE:\n            bound = operation\n",
             "        if kind == WRITE or kind == DELETE or target == WINDOW:\n            bound = operation\n"),
    Mutation("windows forget their lower bound", "engine/state/chain_kernels.py",
             "        if words[node + TS] >= oldest_ts:\n", "        if True:\n"),
    Mutation("windows take runs that reach out of their range", "engine/state/chain_kernels.py",
             "return pointer_at(base, WORD)[node + LOWEST_TS] >= oldest_ts", "return True"),
    Mutation("windows count a transaction's versions twice", f"{KERNELS}/window_kernel.py",
             "    if found >= 0 and operations.transaction[found] == transaction:", "    if False:"),
    Mutation("deleted keys stay known", f"{KERNELS}/operation_kernel.py",
             "        marks.live[operation] = 0\n", "        marks.live[operation] = 1\n"),
    Mutation("constraints are not checked", f"{KERNELS}/operation_kernel.py",
             "if tables.constraint[table] != 0:", "if tables.constraint[table] == 1:"),
    Mutation("computed keys are not rolled back", f"{KERNELS}/settle_kernel.py",
             "        leave_row(tables, marks, program.table[statement], operations.row[operation], operation)\n",
             "        pass\n"),
    Mutation("lazy abort stops after one round", f"{KERNELS}/explore_kernel.py",
             "        control[FINISHED] = 1 if following >= strata else 0",
             "        control[FINISHED] = 1 if control[STRATUM] + 1 >= strata or following >= strata else 0"),
    Mutation("the earliest failure is not the one reported", f"{KERNELS}/settle_kernel.py",
             "if marks.result[operation] == FAILED and failed < 0:", "if marks.result[operation] == FAILED:"),
    Mutation("inlined: a second write of a key forgets the first", "engine/inlined/transaction_source.py",
             "        for earlier in self.earlier_writes(s):\n", "        for earlier in list[Statement]():\n"),
    Mutation("inlined: a failure does not end the transaction", "engine/inlined/commit_source.py",
             'f"    at_row = _int64({row})", "    break")', 'f"    at_row = _int64({row})")'),
    Mutation("ordered: writers do not wait for readers", "engine/planning/conflict_kernel.py",
             "                if writes and last_read >= 0:\n                    reader = last_read\n",
             "                if writes and last_read >= 0:\n                    reader = np.int64(-1)\n"),
    Mutation("ordered: nobody waits", "engine/inlined/lane_kernel.py",
             "        if load_word(done) == PENDING:\n            _wait(own, done)\n", "        pass\n"),
    Mutation("planning: a read takes the link of the wrong statement", "engine/planning/decompose_kernel.py",
             "entry_link[entry] = link_at[starts[same] - first_operation]", "entry_link[entry] = -1"),
    Mutation("candidates are not checked", f"{KERNELS}/operation_kernel.py", "        if not inside:\n", "        if False:\n"),
)  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Applies each mutation to a copy and verifies it; exit code 1 if one goes unnoticed."""
    results = []
    chosen = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    if not chosen:
        print(f"no deliberate bug's name has {arguments.only!r} in it", file=sys.stderr)
        return 2
    for mutation in chosen:
        outcome = try_mutation(mutation)
        results.append({**asdict(mutation), "outcome": outcome})
        if not arguments.json:
            print(f"{outcome:<10} {mutation.name} ({mutation.file})", flush=True)
    missed = [result["name"] for result in results if result["outcome"] not in (FOUND, ENDLESS)]
    if arguments.json:
        print(json.dumps({"mutations": len(results), "missed": missed, "results": results}))
    else:
        print(f"{len(results) - len(missed)} of {len(results)} deliberate bugs found")
    return 1 if missed else 0


def try_mutation(mutation: Mutation) -> str:
    """`found`, `endless` (noticed by that), `unnoticed`, or `stale` where the text to change is gone."""
    with tempfile.TemporaryDirectory(prefix="millrace-mutation-") as folder:
        copy = Path(folder)
        for package in ("engine", "services", "millrace"):
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / mutation.file
        text = target.read_text(encoding="utf-8")
        if mutation.right not in text:
            return "stale"
        target.write_text(text.replace(mutation.right, mutation.wrong, 1), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder, "MILLRACE_CACHE_DIR": str(copy / "cache")}
        code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from services.cli import main; sys.exit(main())"
        for epochs in EPOCHS:
            verify = ["verify", "engine", "--epochs", str(epochs), "--threads", "1,2", "--json"]
            command = [sys.executable, "-c", code, folder, *verify]
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=TIME_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return ENDLESS
            if "mismatch" in done.stdout or done.returncode not in (0, 1):  # 1: so few epochs may be tame
                return FOUND
        return "unnoticed"
