"""About how long one run of a cell takes, from its size: for the listing, nothing depends on it.

The constants were measured on two cores (AMD EPYC, 2026): what a run costs outside its epochs (opening, loading, hashing
the final state), generating events, and an access or a call of a user function inside and outside of a graph.
"""

from __future__ import annotations

from bench.policies import ORDERED, SERIAL
from bench.running import Plan
from bench.workload import Workload

RUN_S = 0.03
STATE_S = 0.7e-6  # loading one and hashing it, serially
FILLED_STATE_S = 0.1e-6  # by numpy, and hashed
EPOCH_S, GRAPH_EPOCH_S = 0.25e-3, 1.2e-3
GENERATE_S = 0.15e-6  # an access
ACCESS_S, GRAPH_ACCESS_S = 0.05e-6, 0.5e-6
SPEED_UP = {SERIAL: 1.0, ORDERED: 1.8}
GRAPH_SPEED_UP = 1.7
POLICIES_A_WORKLOAD = 6  # neighbouring cells share their events


def run_seconds(workload: Workload, policy: str, plan: Plan) -> float:
    """Of one repeat."""
    parameters = workload.parameters
    plain = policy in (SERIAL, ORDERED, "cost", "hand")
    transactions = plan.all_epochs * parameters.transactions
    accesses = workload.calls * max(1.0, 0.5 * (parameters.reads + 1)) + workload.window_accesses
    access_s = (ACCESS_S if plain else GRAPH_ACCESS_S) * accesses + GENERATE_S * accesses / POLICIES_A_WORKLOAD
    call_s = workload.calls * parameters.busy_us * 1e-6 / SPEED_UP.get(policy, GRAPH_SPEED_UP)
    epochs_s = plan.all_epochs * (EPOCH_S if plain else GRAPH_EPOCH_S)
    state_s = STATE_S if policy != "hand" else FILLED_STATE_S
    return RUN_S + workload.tables * parameters.states * state_s + epochs_s + transactions * (access_s + call_s)
