"""Where a measurement was made: the machine, the versions, and how fast the busy loop of the workloads' C runs here.

The loop is measured once for each kind of processor and written down (`machine.json` beside the results), because its
iterations are constants in the compiled user functions: another figure each day would compile them anew each day.
Delete that file to measure again.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import numba
import numpy as np

from engine import Engine, ExecutionOptions
from services.apps import grep_sum, workloads

ROOT = Path(__file__).resolve().parent.parent
CALIBRATION_ITERATIONS = 20_000
CALIBRATION_TRANSACTIONS = 20  # a few milliseconds an epoch: short enough to run without being interrupted …
CALIBRATION_EPOCHS = 60  # … once in so many times, also on a busy machine
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@cache
def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def memory_gib() -> float:
    return round(os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES / 2**30, 1)


def resident_mb() -> float:
    """Memory of this process that is in RAM now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES / 1e6
    except OSError:
        return 0.0


@cache
def git_hash() -> str:
    """The commit measured, with a mark if files were changed since."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        return commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def machine_facts() -> dict[str, str]:
    """Lines of a data file's header that must not change within a file."""
    return {
        "cpu": cpu_model(),
        "cores": str(os.cpu_count()),
        "memory_gib": str(memory_gib()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def measure_iterations_per_us() -> float:
    """How many rounds of `busy` a microsecond holds, through the engine as user functions run it."""
    parameters = workloads.Parameters(
        transactions=CALIBRATION_TRANSACTIONS, states=1_000, reads=1, abort_share=0.0, theta=0.0
    )
    fastest = []
    for iterations in (0, CALIBRATION_ITERATIONS):
        options = ExecutionOptions(timed=True)
        with Engine(grep_sum.build(iterations), threads=1, policy="unstructured/fine/eager", options=options) as engine:
            epochs = workloads.grep_sum(parameters, CALIBRATION_EPOCHS)
            fastest.append(min(engine.run_epoch(epoch).times.useful for epoch in epochs))
    microseconds = (fastest[1] - fastest[0]) / CALIBRATION_TRANSACTIONS * 1e6
    return float(f"{CALIBRATION_ITERATIONS / max(microseconds, 1e-3):.3g}")


def iterations_per_us(directory: Path) -> float:
    """The speed of the busy loop on this machine, measured the first time it is asked for."""
    path = directory / "machine.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if cpu_model() not in known:
        known[cpu_model()] = measure_iterations_per_us()
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return float(known[cpu_model()])
