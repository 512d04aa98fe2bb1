"""Strata: an operation's rank is the length of the longest path to it, as plain recursion says."""

# mypy: ignore-errors

import random
from functools import cache

import numpy as np
import pytest

from engine.planning.graph_kernel import rank_strata, reverse_edges
from tests.engine.planning.cells import LOADED, A, B, C, D, at, between, cells, gather
from tests.engine.planning.graphs import plan_by_hand


def recursive_ranks(predecessors):
    @cache
    def rank(vertex):
        return max((rank(earlier) + 1 for earlier in predecessors[vertex]), default=0)

    return [rank(vertex) for vertex in range(len(predecessors))]


def test_the_longest_path_counts_not_the_shortest():
    """D follows A at once and also through B and C."""
    sent = [at("Set", A), between("Copy", A, B), between("Copy", B, C), gather([A, C], D), at("Set", A)]
    planned = plan_by_hand(cells, *sent, tables={"cells": LOADED})
    assert planned.graph.strata.tolist() == [0, 1, 2, 3, 1]


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_are_ranked_as_recursion_says(seed):
    draw = random.Random(seed)
    predecessors = [sorted({draw.randrange(v) for _ in range(draw.randint(0, 3))} if v else ()) for v in range(40)]
    begin = np.cumsum([0, *map(len, predecessors)]).astype(np.int64)
    flat = np.array([earlier for found in predecessors for earlier in found], np.int64)
    stratum = np.full(40, -1, np.int64)
    strata = rank_strata(begin, flat, stratum)
    expected = recursive_ranks(predecessors)
    assert (stratum.tolist(), strata) == (expected, max(expected) + 1), f"seed {seed}"

    successor_begin, successor = np.empty(41, np.int64), np.empty(flat.size, np.int64)
    reverse_edges(begin, flat, successor_begin, successor)
    ends = successor_begin.tolist()
    found = {(v, w) for v in range(40) for w in successor[ends[v] : ends[v + 1]].tolist()}
    assert found == {(earlier, v) for v in range(40) for earlier in predecessors[v]}, f"seed {seed}"


@pytest.mark.parametrize("seed", range(4))
def test_planned_strata_and_unit_strata_are_longest_paths(seed):
    draw = random.Random(seed)
    forms = [
        lambda: at("Set", draw.randrange(6)),
        lambda: at("Jump", 0, draw.randrange(6)),
        lambda: at("Total", 0),
        lambda: between(draw.choice(("Copy", "Move", "Follow")), draw.randrange(6), draw.randrange(6)),
        lambda: gather([draw.randrange(6) for _ in range(draw.randrange(4))], draw.randrange(6)),
    ]
    sent = [draw.choices(forms, (6, 1, 1, 6, 3))[0]() for _ in range(60)]
    planned = plan_by_hand(cells, *sent, tables={"cells": LOADED})
    predecessors = [[] for _ in range(planned.graph.operation_count)]
    for source, target, _ in planned.graph.edge_set():
        predecessors[target].append(source)
    assert planned.graph.strata.tolist() == recursive_ranks(predecessors), f"seed {seed}"

    unit_of = planned.coarse.units.of_operation.tolist()
    among_units = [set() for _ in range(max(unit_of) + 1)]
    for source, target, _ in planned.graph.edge_set():
        if unit_of[source] != unit_of[target]:
            among_units[unit_of[target]].add(unit_of[source])
    ranks = recursive_ranks(among_units)
    assert planned.coarse.units.stratum.tolist() == ranks, f"seed {seed}"
    assert planned.coarse.strata == max(ranks) + 1, f"seed {seed}"
