"""Scheduling units: operations (fine) or merged chains (coarse), as the same arrays, so that one driver runs both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Edges, Ints, Operations, Program, Tables, Units
from engine.execution.shared import share
from engine.planning.chain_kernel import assign_chains, edges_between, list_members, merge_cycles
from engine.planning.graph_kernel import rank_strata, reverse_edges
from engine.scheduling.policy import Granularity


@dataclass(frozen=True)
class UnitGraph:
    """The units, how many strata they have, and which of them merge chains that depend on each other in a cycle."""

    units: Units
    strata: int
    is_merged: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.units) + self.is_merged.nbytes

    @property
    def merged_cycles(self) -> int:
        return int(np.count_nonzero(self.is_merged))


def build_units(
    granularity: Granularity, program: Program, tables: Tables, operations: Operations, edges: Edges, count: int
) -> UnitGraph:
    if granularity is Granularity.FINE:
        identity = np.arange(count, dtype=np.int64)
        return _finish(
            identity,
            np.arange(count + 1, dtype=np.int64),
            identity + edges.base,
            (edges.predecessor_begin, edges.predecessor),
            (edges.successor_begin, edges.successor),
            np.zeros(count, np.bool_),
        )
    chain = np.empty(count, np.int64)
    chains = assign_chains(share(program), share(tables), share(operations), edges.base, edges.base + count, chain)
    chain_predecessors = _contract(chain, edges.predecessor_begin, edges.predecessor, chains)
    chain_successors = _reverse(*chain_predecessors)
    unit_of_chain = np.empty(chains, np.int64)
    units, _ = merge_cycles(*chain_successors, unit_of_chain)
    unit = unit_of_chain[chain]
    predecessors = _contract(unit, edges.predecessor_begin, edges.predecessor, units)
    chains_in_unit = np.bincount(unit_of_chain, minlength=units)
    member_begin, member = np.zeros(units + 1, np.int64), np.empty(count, np.int64)
    list_members(unit, edges.base, member_begin, member)
    return _finish(unit, member_begin, member, predecessors, _reverse(*predecessors), chains_in_unit > 1)


def fresh(graph: UnitGraph) -> UnitGraph:
    """The same units, none of them run yet."""
    units = graph.units
    count = units.stratum.size
    reopened = units._replace(
        pending=np.diff(units.predecessor_begin),
        done=np.zeros(count, np.int8),
        claimed=np.zeros(count, np.int8),
        queued=np.zeros(count, np.int8),
    )
    return UnitGraph(reopened, graph.strata, graph.is_merged)


def _contract(group_of: Ints, predecessor_begin: Ints, predecessor: Ints, count: int) -> tuple[Ints, Ints]:
    begin = np.zeros(count + 1, np.int64)
    edges_between(group_of, predecessor_begin, predecessor, count, begin, predecessor, True)
    source = np.empty(int(begin[-1]), np.int64)
    edges_between(group_of, predecessor_begin, predecessor, count, begin, source, False)
    return begin, source


def _reverse(predecessor_begin: Ints, predecessor: Ints) -> tuple[Ints, Ints]:
    successor_begin, successor = np.zeros(predecessor_begin.size, np.int64), np.empty(predecessor.size, np.int64)
    reverse_edges(predecessor_begin, predecessor, successor_begin, successor)
    return successor_begin, successor


def _finish(
    of_operation: Ints,
    member_begin: Ints,
    member: Ints,
    predecessors: tuple[Ints, Ints],
    successors: tuple[Ints, Ints],
    is_merged: NDArray[np.bool_],
) -> UnitGraph:
    count = member_begin.size - 1
    stratum = np.zeros(count, np.int64)
    strata = rank_strata(*predecessors, stratum)
    units = Units(
        of_operation, member_begin, member, *predecessors, *successors, stratum,
        pending=np.diff(predecessors[0]),
        done=np.zeros(count, np.int8),
        claimed=np.zeros(count, np.int8),
        queued=np.zeros(count, np.int8),
    )  # fmt: skip
    return UnitGraph(units, strata, is_merged)
