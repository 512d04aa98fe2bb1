"""The task precedence graph of one stage: edges by target and by source, their kinds, and what is known of it as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Edges, Ints, Operations, Program, Tables
from engine.execution.shared import share
from engine.planning.arrays import EpochArrays
from engine.planning.graph_kernel import FD, PD, SD, TD, connect_transactions, find_edges, rank_strata, reverse_edges

EDGE_KINDS = {TD: "TD", PD: "PD", SD: "SD", FD: "FD"}


@dataclass(frozen=True)
class TaskGraph:
    """Vertices are the stage's operations, numbered from 0 here (`edges.base` is the first one's number in the epoch)."""

    edges: Edges
    kinds: NDArray[np.int8]
    program: Program
    tables: Tables
    operations: Operations
    first_transaction: int
    transactions: int

    @property
    def operation_count(self) -> int:
        return int(self.edges.predecessor_begin.size - 1)

    @property
    def nbytes(self) -> int:
        return self.kinds.nbytes + sum(array.nbytes for array in self.edges if isinstance(array, np.ndarray))

    def count(self, kind: int) -> int:
        return int(np.count_nonzero(self.kinds == kind))

    @property
    def logical_dependencies(self) -> int:
        """Edges between neighbouring operations of a transaction: they order nothing, but fail together."""
        lengths = np.diff(self.operations.first[self.first_transaction :])
        return int(np.maximum(lengths - 1, 0).sum())

    @cached_property
    def components(self) -> Ints:
        """For each transaction the lowest transaction it is connected with."""
        component = np.empty(self.transactions, np.int64)
        base = self.edges.base
        connect_transactions(
            share(self.operations), base, base + self.operation_count, self.first_transaction,
            self.edges.predecessor_begin, self.edges.predecessor, component,
        )  # fmt: skip
        return component

    @cached_property
    def strata(self) -> Ints:
        """Longest-path rank of each operation."""
        stratum = np.empty(self.operation_count, np.int64)
        rank_strata(self.edges.predecessor_begin, self.edges.predecessor, stratum)
        return stratum

    def edge_set(self) -> set[tuple[int, int, str]]:
        """(source, target, kind) of every edge, for people and tests."""
        targets = np.repeat(np.arange(self.operation_count), np.diff(self.edges.predecessor_begin))
        return {
            (int(source), int(target), EDGE_KINDS[int(kind)])
            for source, target, kind in zip(self.edges.predecessor, targets, self.kinds, strict=True)
        }


def build_graph(program: Program, arrays: EpochArrays, first_operation: int, first_transaction: int) -> TaskGraph:
    """The transaction phase: all temporal and parametric dependencies among a stage's linked operations."""
    operations, tables = arrays.planned, arrays.tables
    assert tables is not None
    last_operation = arrays.operation_count
    count = last_operation - first_operation
    entries = int(operations.entry_begin[last_operation] - operations.entry_begin[first_operation])
    # At most: one edge an entry and one fence edge, an own-key edge and its fence edge, an edge to the next fence, fences.
    most = 2 * entries + 4 * count
    sources, kinds = np.empty(most, np.int64), np.empty(most, np.int8)
    predecessor_begin = np.empty(count + 1, np.int64)
    found = find_edges(*arrays.shared(), first_operation, last_operation, predecessor_begin, sources, kinds)
    predecessor, kinds = sources[:found].copy(), kinds[:found].copy()
    successor_begin, successor = np.empty(count + 1, np.int64), np.empty(found, np.int64)
    reverse_edges(predecessor_begin, predecessor, successor_begin, successor)
    edges = Edges(first_operation, predecessor_begin, predecessor, successor_begin, successor)
    return TaskGraph(
        edges, kinds, program, tables, operations, first_transaction, arrays.transaction_count - first_transaction
    )
