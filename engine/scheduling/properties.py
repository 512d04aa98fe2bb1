"""What is measured of a stage before a policy is chosen: the seven properties of Table 2, and the graph's shape.

Everything is measured on the epoch itself; what cannot be known before it has run (complexity, aborts) comes from earlier
epochs. All of it for several groups of transactions at once: groups share no edge, so a group is a graph of its own.

Degree skew is θ's measured twin. It is the Gini coefficient of the accesses each written state gets, by table, the tables
weighted with their accesses: 0 where all states of a table are accessed alike, towards 1 where one gets them all. Not of
the operations' own degrees: a chain's operations have one predecessor each however long it is, and in a scattered
epoch most have none, so that coefficient falls where θ rises. By table, because a segment and a vehicle are not alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Ints, Units
from engine.execution.shared import share
from engine.planning.graph_kernel import FD, PD, SD, TD
from engine.planning.task_graph import TaskGraph
from engine.scheduling.properties_kernel import (
    COLUMNS,
    LD,
    OPERATIONS,
    count_accesses,
    measure_edges,
    measure_units,
)
from engine.scheduling.units import UnitGraph


@dataclass(frozen=True)
class Properties:
    """Table 2 for one group of one stage, and what the counts are relative to."""

    transactions: int
    operations: int
    temporal: int
    parametric: int
    logical: int
    same_transaction: int
    fences: int
    degree_skew: float
    cyclic: bool | None  # None: not measured
    complexity_us: float
    abort_ratio: float

    @property
    def temporal_ratio(self) -> float:
        return self.temporal / max(1, self.transactions)

    @property
    def parametric_ratio(self) -> float:
        return self.parametric / max(1, self.transactions)

    @property
    def logical_ratio(self) -> float:
        return self.logical / max(1, self.transactions)

    @property
    def dependency_ratio(self) -> float:
        """TD, PD and LD together, relative to the number of transactions."""
        return self.temporal_ratio + self.parametric_ratio + self.logical_ratio

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"dependency_ratio": self.dependency_ratio}


@dataclass(frozen=True)
class Shape:
    """A graph of units as far as running it depends on it; sizes in operations."""

    units: int
    edges: int
    strata: int
    span: float  # the heaviest path
    steps: float  # each stratum shared out evenly, or its heaviest unit: what a barrier each makes of it


def measure(
    graph: TaskGraph,
    group: Ints,
    groups: int,
    complexity_us: float,
    abort_ratios: NDArray[np.float64],
    coarse: UnitGraph | None,
) -> list[Properties]:
    """The properties of each group; `group` has the number of each transaction's group."""
    operations, base = graph.operations, graph.edges.base
    end = base + graph.operation_count
    program, shared = share(graph.program), share(operations)
    counts = np.zeros((groups, COLUMNS), np.int64)
    measure_edges(
        program, shared, base, end, graph.first_transaction, group, graph.edges.predecessor_begin, graph.kinds, counts
    )
    skews = degree_skews(graph, group, groups)
    cyclic = np.zeros(groups, np.bool_)
    if coarse is not None:
        merged = np.flatnonzero(coarse.is_merged)
        firsts = coarse.units.member[coarse.units.member_begin[merged]]
        cyclic[group[operations.transaction[firsts] - graph.first_transaction]] = True
    sizes = np.bincount(group, minlength=groups)
    return [
        Properties(
            int(sizes[g]),
            int(counts[g, OPERATIONS]),
            int(counts[g, TD]),
            int(counts[g, PD]),
            int(counts[g, LD]),
            int(counts[g, SD]),
            int(counts[g, FD]),
            float(skews[g]),
            None if coarse is None else bool(cyclic[g]),
            complexity_us,
            float(abort_ratios[g]),
        )
        for g in range(groups)
    ]


def degree_skews(graph: TaskGraph, group: Ints, groups: int) -> NDArray[np.float64]:
    """The degree skew of each group."""
    operations, base, count = graph.operations, graph.edges.base, graph.operation_count
    head, accesses = np.zeros(count, np.int64), np.zeros(count, np.int64)
    count_accesses(share(graph.program), share(operations), base, base + count, head, accesses)
    heads = np.flatnonzero(accesses)
    table = graph.program.table[operations.statement[base + heads]]
    mine = group[operations.transaction[base + heads] - graph.first_transaction]
    accesses = accesses[heads]
    skews = np.zeros(groups)
    for g in range(groups):
        total = 0
        for t in range(int(table.max()) + 1 if table.size else 0):
            of_table = accesses[(table == t) & (mine == g)]
            total += int(of_table.sum())
            skews[g] += of_table.sum() * gini(of_table)
        skews[g] /= max(1, total)
    return skews


def gini(values: Ints) -> float:
    """The Gini coefficient of numbers above 0, by counting equal ones: linear in the numbers and their sum."""
    if values.size < 2:
        return 0.0
    counts = np.bincount(values)
    value = np.flatnonzero(counts)
    number = counts[value].astype(np.float64)
    # In rising order the numbers of one value have ranks before + 1 … before + number, on average before + (number + 1) / 2.
    rank = np.cumsum(number) - number + (number + 1) / 2
    size, total = float(values.size), float(values.sum())
    return float(max(0.0, 2 * (rank * number * value).sum() / (size * total) - (size + 1) / size))


def measure_shapes(graph: TaskGraph, units: UnitGraph, group: Ints, threads: list[float]) -> list[Shape]:
    """The shape of each group for the threads it would have."""
    arrays: Units = units.units
    groups = len(threads)
    firsts = arrays.member[arrays.member_begin[:-1]]
    of_unit = group[graph.operations.transaction[firsts] - graph.first_transaction]
    edges, span = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    weight = np.zeros((groups, max(1, units.strata)), np.int64)
    heaviest = np.zeros_like(weight)
    path = np.empty(arrays.stratum.size, np.int64)
    measure_units(
        arrays.member_begin, arrays.predecessor_begin, arrays.predecessor, arrays.stratum, of_unit,
        path, edges, span, weight, heaviest,
    )  # fmt: skip
    sizes = np.bincount(of_unit, minlength=groups)
    return [
        Shape(
            int(sizes[g]),
            int(edges[g]),
            int(np.count_nonzero(weight[g])),
            float(span[g]),
            float(np.maximum(weight[g] / threads[g], heaviest[g]).sum()),
        )
        for g in range(groups)
    ]
