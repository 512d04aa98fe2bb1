"""A discrete-event simulation of a task graph on more threads than this machine has. Its numbers are marked `simulated`.

List scheduling of units (operations or merged chains) with measured costs: a unit's own time, what scheduling it costs,
what a signal along an edge costs, what a meeting of all threads costs. The three explorations differ as in the engine:
breadth-first takes a stratum's units in turn and meets after each stratum; depth-first gives every thread an equal,
fixed share of each stratum and waits for predecessors alone; unstructured takes whatever is ready and signals.

Left out, so simulated figures are bounds: aborts, memory bandwidth, caches, contention on shared counters other than
the meeting (whose cost is taken to grow with the number of threads, as a counter in one cache line does).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Exploration

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UnitCosts:
    """Seconds: of each unit; of taking one; of one signal; of a meeting for each thread beyond the first."""

    unit_s: Floats
    taking_s: float = 0.0
    signal_s: float = 0.0
    meeting_s: float = 0.0


@dataclass(frozen=True)
class UnitDag:
    """Units in topological order of their strata, with their predecessors."""

    predecessor_begin: Ints
    predecessor: Ints
    stratum: Ints

    @property
    def count(self) -> int:
        return int(self.stratum.size)

    @classmethod
    def of(cls, predecessors: list[list[int]]) -> UnitDag:
        """From lists of predecessors; each must be lower than its unit."""
        stratum = np.zeros(len(predecessors), np.int64)
        for unit, before in enumerate(predecessors):
            stratum[unit] = max((stratum[earlier] + 1 for earlier in before), default=0)
        begin = np.cumsum([0, *map(len, predecessors)])
        return cls(begin, np.array([p for before in predecessors for p in before], np.int64), stratum)

    @classmethod
    def of_units(cls, units: Any) -> UnitDag:
        """From the engine's own units (`engine.execution.layout.Units`)."""
        return cls(units.predecessor_begin, units.predecessor, units.stratum)

    def predecessors(self) -> list[list[int]]:
        begin, flat = self.predecessor_begin.tolist(), self.predecessor.tolist()
        return [flat[begin[unit] : begin[unit + 1]] for unit in range(self.count)]

    def strata(self) -> list[list[int]]:
        order = np.argsort(self.stratum, kind="stable")
        bounds = np.searchsorted(self.stratum[order], np.arange(int(self.stratum.max(initial=-1)) + 2))
        return [order[a:b].tolist() for a, b in pairwise(bounds.tolist())]


def simulate(dag: UnitDag, costs: UnitCosts, threads: int, exploration: Exploration) -> float:
    """Seconds from the first unit's start to the last one's end."""
    if dag.count == 0:
        return 0.0
    if exploration is Exploration.SERIAL:
        return float(costs.unit_s.sum())
    if exploration is Exploration.BREADTH_FIRST:
        return _breadth_first(dag, costs, threads)
    if exploration is Exploration.DEPTH_FIRST:
        return _depth_first(dag, costs, threads)
    return _unstructured(dag, costs, threads)


def _breadth_first(dag: UnitDag, costs: UnitCosts, threads: int) -> float:
    """Each stratum on its own: the next unit goes to the thread that is free first; then all meet."""
    clock = 0.0
    unit_s = costs.unit_s.tolist()
    for stratum in dag.strata():
        free = [clock] * threads
        for unit in stratum:
            heapq.heapreplace(free, free[0] + costs.taking_s + unit_s[unit])
        clock = max(free) + costs.meeting_s * (threads - 1)
    return clock


def _depth_first(dag: UnitDag, costs: UnitCosts, threads: int) -> float:
    """A thread runs its share of stratum after stratum; a unit starts when its predecessors have ended."""
    unit_s, before = costs.unit_s.tolist(), dag.predecessors()
    ended = [0.0] * dag.count
    clock = [0.0] * threads
    for stratum in dag.strata():
        size = len(stratum)
        for thread in range(threads):
            for unit in stratum[size * thread // threads : size * (thread + 1) // threads]:
                start = max(clock[thread], max((ended[earlier] for earlier in before[unit]), default=0.0))
                clock[thread] = ended[unit] = start + costs.taking_s + unit_s[unit]
    return max(clock)


def _unstructured(dag: UnitDag, costs: UnitCosts, threads: int) -> float:
    """Free threads take ready units, oldest first; a unit's end signals its successors, which costs its thread."""
    unit_s, before = costs.unit_s.tolist(), dag.predecessors()
    after: list[list[int]] = [[] for _ in range(dag.count)]
    for unit, earlier in enumerate(before):
        for source in earlier:
            after[source].append(unit)
    pending = [len(earlier) for earlier in before]
    ready = deque(unit for unit in range(dag.count) if pending[unit] == 0)
    idle, clock = threads, 0.0
    running: list[tuple[float, int]] = []
    while ready or running:
        while ready and idle:
            unit = ready.popleft()
            cost = costs.taking_s + unit_s[unit] + costs.signal_s * len(after[unit])
            heapq.heappush(running, (clock + cost, unit))
            idle -= 1
        clock, unit = heapq.heappop(running)
        idle += 1
        for later in after[unit]:
            pending[later] -= 1
            if pending[later] == 0:
                ready.append(later)
    return clock
