"""What scheduling costs on this machine, measured for the simulation: taking a unit, signalling one, meeting.

One key written again and again makes a chain: each stratum has one operation, each operation one successor. Keys that
are all different make no edges at all. The difference is what edges cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from bench.running import Plan, Run, run_workload
from bench.workload import Workload, sums
from services.apps import workloads

CHAIN_TRANSACTIONS = 2_000


@dataclass(frozen=True)
class Overheads:
    """Seconds."""

    signal_s: float
    meeting_s: float


@cache
def measure_overheads(seed: int) -> Overheads:
    """Measured with functions that do nothing, so that only scheduling is left."""
    plan = Plan(warm_epochs=2, epochs=5)

    def unit_s(workload: Workload, policy: str, threads: int) -> float:
        run = run_workload(workload, policy, threads, seed, plan)
        return execution_s(run) / threads / max(1, run.operations)

    base = replace(
        workloads.GREP_SUM, reads=1, busy_us=0.0, abort_share=0.0, theta=0.0, transactions=CHAIN_TRANSACTIONS
    )
    chain, scattered = sums(replace(base, states=1), 0.0), sums(replace(base, states=100_000), 0.0)
    unstructured, structured = "unstructured/fine/eager", "breadth-first/fine/eager"
    return Overheads(
        signal_s=max(0.0, unit_s(chain, unstructured, 1) - unit_s(scattered, unstructured, 1)),
        meeting_s=max(0.0, unit_s(chain, structured, 2) - unit_s(chain, structured, 1)),
    )


def execution_s(run: Run) -> float:
    """The time of a run's threads, planning and collecting left out."""
    return sum(run.total(part) for part in ("useful", "explore", "abort", "sync"))
