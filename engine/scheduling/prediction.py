"""How long a stage, or a group of it, will take under each policy: a pure function of shapes and costs.

serial            operations · serial
ordered           what it last took against serial; before it ever ran, an even share for each thread, and finding conflicts
breadth-first     steps · (useful + explore) + strata · barrier, where steps is each stratum's share of one thread
unstructured      max(operations / threads, span) · (useful + explore) + edges · signal / threads
depth-first       between the two: no barriers, but each thread's share of a stratum is fixed
all parallel ones + aborting transactions · (settle + operations run again), and starting the threads; all times the
                  policy's own correction. What has to be built before it can run (graph, units) is added by the caller's needs.
lazy ones         again what comes after a fence and the first abort, if that is more
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.scheduling.policy import SERIAL, Abort, Exploration, Granularity, Policy, all_policies
from engine.scheduling.profile import Costs
from engine.scheduling.properties import Shape

CONFLICTS_NS = 20.0  # an operation, for the ordered mode's plan: measured on SL and GS
PARALLEL = [policy for policy in all_policies() if not policy.is_serial]


@dataclass(frozen=True)
class Work:
    """What is to be run: by whom, and the shapes that are known."""

    operations: int
    transactions: int
    abort_ratio: float
    threads: float  # that really run at once: no more than there are cores
    shapes: dict[Granularity, Shape]
    fenced: float = 0.0  # the share of operations that come after a fence (an operation whose key has to be computed)


def serial_ns(costs: Costs, operations: int) -> float:
    return operations * costs.serial.value


def ordered_best_ns(costs: Costs, operations: int, threads: float) -> float:
    """The least the ordered mode can take: nobody waits."""
    return costs.start.value + operations * (costs.rest.value + CONFLICTS_NS + serial_kernel_ns(costs) / threads)


def serial_kernel_ns(costs: Costs) -> float:
    """An operation in the serial kernel alone."""
    return max(1.0, costs.serial.value - costs.rest.value) * costs.beside.value


def ordered_ns(costs: Costs, operations: int, threads: float) -> float:
    if not costs.ordered.count:
        return ordered_best_ns(costs, operations, threads)
    return operations * costs.serial.value * costs.ordered.value


def run_ns(costs: Costs, work: Work, policy: Policy) -> float:
    """Running alone, without building graph and units."""
    if policy.is_serial:
        return serial_ns(costs, work.operations)
    return plain_run_ns(costs, work, policy) * costs.corrected(policy) + costs.starting_ns(work.operations)


def plain_run_ns(costs: Costs, work: Work, policy: Policy) -> float:
    """The formula itself, without the policy's correction and without starting threads."""
    shape = work.shapes[policy.granularity]
    each = costs.useful_ns() + costs.explore[policy.exploration, policy.granularity].value
    even = max(work.operations / work.threads, shape.span)
    if policy.exploration is Exploration.BREADTH_FIRST:
        time = shape.steps * each + shape.strata * costs.barrier.value
    elif policy.exploration is Exploration.DEPTH_FIRST:
        time = (shape.steps + even) / 2 * each
    else:
        time = even * each + shape.edges * costs.signal / work.threads
    aborting = work.abort_ratio * work.transactions
    again = aborting * costs.redo[policy.abort].value * each / work.threads
    if policy.abort is Abort.LAZY:  # what comes after a fence depends on all before it: the first abort undoes the rest
        again = max(again, time * work.fenced * aborting / (aborting + 1))
    return time + again + aborting * costs.settle[policy.abort].value


def building_ns(costs: Costs, operations: int, granularities: set[Granularity]) -> float:
    """The graph and these units."""
    return operations * (costs.graph.value + sum(costs.units[granularity].value for granularity in granularities))


def predict_all(costs: Costs, work: Work) -> dict[Policy, float]:
    """Every policy whose shape is known: all that is still to be done, building included."""
    found = {SERIAL: serial_ns(costs, work.operations)}
    for policy in PARALLEL:
        if policy.granularity in work.shapes:
            found[policy] = run_ns(costs, work, policy) + building_ns(costs, work.operations, {policy.granularity})
    return found


def optimistic_ns(costs: Costs, operations: int, threads: float) -> float:
    """The least any parallel run can take, whatever the graph looks like: everything evenly shared, nothing aborting."""
    explore = min(average.value for average in costs.explore.values())
    building = operations * (costs.graph.value + min(average.value for average in costs.units.values()))
    best = min((average.value for average in costs.correction.values() if average.count), default=1.0)
    running = operations * (costs.useful_ns() + explore) / threads * min(1.0, best)
    return building + costs.starting_ns(operations) + running
