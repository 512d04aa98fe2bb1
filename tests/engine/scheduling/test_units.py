"""Scheduling units: an operation each (fine), or a chain each with cycles merged (coarse), told on small graphs."""

# mypy: ignore-errors

from itertools import pairwise

import pytest

from engine import Engine
from engine.scheduling.units import fresh
from tests.engine.planning.cells import LOADED, A, B, C, D, at, between, cells
from tests.engine.planning.graphs import as_columns, members, plan_by_hand

TRANSFERS_BOTH_WAYS = [at("Set", A), between("Move", A, B), between("Move", B, A), at("Set", C), at("Set", C)]


def planned(*sent):
    return plan_by_hand(cells, *sent, tables={"cells": LOADED})


def units_of(*sent):
    return sorted(sorted(unit) for unit in planned(*sent).units)


def test_fine_has_a_unit_for_each_operation():
    found = planned(*TRANSFERS_BOTH_WAYS)
    count = found.graph.operation_count
    assert members(found.fine) == [frozenset([operation]) for operation in range(count)]
    assert found.fine.merged_cycles == 0
    units, edges = found.fine.units, found.graph.edges
    assert units.of_operation.tolist() == list(range(count))
    assert units.predecessor.tolist() == edges.predecessor.tolist()
    assert units.stratum.tolist() == found.graph.strata.tolist()


def test_coarse_has_a_unit_for_each_chain():
    assert units_of(at("Set", A), at("Set", B), at("Set", A), at("Set", B), at("Set", A)) == [[0, 2, 4], [1, 3]]
    assert units_of(at("Set", A), between("Copy", A, B), at("Set", A)) == [[0, 2], [1]]


def test_a_chain_begins_with_a_write():
    """0 and 2 read A before anybody wrote it (1 and 3 show it): nothing keeps them together; 5 and 7 follow the write 4."""
    looks = [at("Look", A)] * 2
    assert units_of(*looks, at("Set", A), *looks) == [[0], [1], [2], [3], [4, 5, 7], [6], [8]]


def test_a_writing_fence_ends_the_chains_of_its_table():
    assert units_of(at("Set", A), at("Set", A), at("Jump", 0), at("Set", A), at("Set", A)) == [[0, 1], [2], [3, 4]]
    assert units_of(at("Set", A), at("Peek", 0), at("Set", A)) == [[0, 3], [1], [2]]


def test_a_merged_cycle_is_one_unit_and_counted():
    found = planned(*TRANSFERS_BOTH_WAYS)
    assert sorted(sorted(unit) for unit in found.units) == [[0, 1, 2, 3, 4], [5, 6]]
    assert found.coarse.merged_cycles == 1


def test_the_result_of_an_epoch_counts_merged_cycles():
    events = [(name, ts, 0, ts, fields) for ts, (name, fields) in enumerate(TRANSFERS_BOTH_WAYS)]
    for policy, expected in (("breadth-first/coarse/lazy", 1), ("breadth-first/fine/lazy", 0), ("serial", 0)):
        with Engine(cells, threads=1, policy=policy) as engine:
            engine.load("cells", list(LOADED), {"value": [record["value"] for record in LOADED.values()]})
            assert engine.run_epoch(as_columns(0, 9, events)).counters["merged_cycles"] == expected, policy


@pytest.mark.parametrize("granularity", ["fine", "coarse"])
def test_units_are_numbered_along_their_edges_and_cover_every_operation_once(granularity):
    sent = [*TRANSFERS_BOTH_WAYS, at("Jump", 0), *TRANSFERS_BOTH_WAYS, between("Copy", C, D), at("Total", 0)]
    found = planned(*sent)
    units = getattr(found, granularity).units
    of_operation = units.of_operation.tolist()
    assert sorted(units.member.tolist()) == list(range(found.graph.operation_count))
    for number, unit in enumerate(members(getattr(found, granularity))):
        assert all(of_operation[operation] == number for operation in unit)
        begin, end = units.predecessor_begin[number : number + 2].tolist()
        assert all(earlier < number for earlier in units.predecessor[begin:end].tolist())
    across = {(of_operation[a], of_operation[b]) for a, b, _ in found.graph.edge_set()}
    begins = units.predecessor_begin.tolist()
    listed = {(s, unit) for unit, (b, e) in enumerate(pairwise(begins)) for s in units.predecessor[b:e].tolist()}
    assert listed == {(a, b) for a, b in across if a != b}


def test_fresh_units_are_all_open():
    graph = planned(*TRANSFERS_BOTH_WAYS).coarse
    graph.units.done[:] = graph.units.claimed[:] = graph.units.queued[:] = 1
    graph.units.pending[:] = 0
    opened = fresh(graph)
    for marks in (opened.units.done, opened.units.claimed, opened.units.queued):
        assert marks.tolist() == [0] * marks.size
    begins = opened.units.predecessor_begin.tolist()
    assert opened.units.pending.tolist() == [end - begin for begin, end in pairwise(begins)]
    assert (opened.strata, opened.merged_cycles) == (graph.strata, graph.merged_cycles)
