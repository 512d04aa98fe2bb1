"""Cycles among chains are exact: what looks like one and is none, what is one, and random graphs against plain reachability."""

# mypy: ignore-errors

import random

import numpy as np
import pytest

from engine.planning.chain_kernel import merge_cycles
from tests.engine.planning.cells import LOADED, A, B, C, D, at, between, cells, gather
from tests.engine.planning.graphs import plan_by_hand


def cycles(*sent):
    """The keys of the chains that were merged, and the count that the engine keeps."""
    planned = plan_by_hand(cells, *sent, tables={"cells": LOADED})
    keys = [{planned.vertices[operation][4] for operation in unit} for unit in planned.units]
    return sorted(sorted(of_unit) for of_unit in keys if len(of_unit) > 1), planned.coarse.merged_cycles


def test_a_diamond_is_no_cycle():
    sent = [at("Set", A), between("Copy", A, B), between("Copy", A, C), gather([B, C], D)]
    assert cycles(*sent) == ([], 0)


def test_a_diamond_that_goes_on_is_a_cycle_only_if_it_leads_back():
    sent = [at("Set", A), between("Copy", A, B), between("Copy", A, C), gather([B, C], D)]
    assert cycles(*sent, at("Set", A), between("Copy", A, B), gather([B, C], D)) == ([], 0)
    assert cycles(*sent, between("Copy", D, A)) == ([[A, B, C, D]], 1)


def test_transfers_one_way_are_no_cycle():
    assert cycles(*[between("Move", A, B)] * 3) == ([], 0)


def test_transfers_both_ways_are_a_cycle():
    there, back = between("Move", A, B), between("Move", B, A)
    assert cycles(at("Set", A), there, back) == ([[A, B]], 1)  # figure 3
    assert cycles(there, back) == ([], 0)  # nobody wrote A before, so B waits for nothing of A
    assert cycles(there, back, there) == ([[A, B]], 1)


def test_three_keys_in_a_ring_are_a_cycle():
    ring = [at("Set", A), between("Copy", A, B), between("Copy", B, C), between("Copy", C, A)]
    assert cycles(*ring[:-1]) == ([], 0)
    assert cycles(*ring) == ([[A, B, C]], 1)


def test_two_cycles_apart_and_two_that_meet():
    pairs = [(A, B), (B, A), (A, B), (C, D), (D, C), (C, D)]
    apart = [between("Move", origin, target) for origin, target in pairs]
    assert cycles(*apart) == ([[A, B], [C, D]], 2)
    assert cycles(*apart, between("Copy", A, C)) == ([[A, B], [C, D]], 2)  # one leads to the other, and not back
    assert cycles(*apart, between("Copy", A, C), between("Copy", D, B)) == ([[A, B, C, D]], 1)


def test_a_writing_fence_cuts_chains_and_so_a_cycle():
    there, back = between("Copy", A, B), between("Copy", B, A)
    assert cycles(at("Set", A), there, back) == ([[A, B]], 1)
    assert cycles(at("Set", A), there, at("Jump", 0), back) == ([], 0)
    assert cycles(at("Set", A), there, at("Peek", 0), back) == ([[A, B]], 1)  # a fence that reads cuts nothing


def test_reads_before_the_first_write_of_a_key_close_no_cycle():
    """A is read into the window's write of B, then B goes to A: the read of A waits for nothing, so A's chain starts later."""
    assert cycles(at("Recent", A, amount=B), between("Copy", B, A)) == ([], 0)
    assert cycles(at("Set", A), at("Recent", A, amount=B), between("Copy", B, A)) == ([[A, B]], 1)


def reachable(following, start):
    reached, waiting = {start}, [start]
    while waiting:
        for vertex in following[waiting.pop()] - reached:
            reached.add(vertex)
            waiting.append(vertex)
    return reached


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_are_merged_as_reachability_says(seed):
    draw = random.Random(seed)
    count = draw.randint(1, 25)
    edges = draw.choice((count // 2, count, 2 * count))
    following = [{draw.randrange(count) for _ in range(draw.randint(0, 2 * edges // count))} for _ in range(count)]
    begin = np.cumsum([0, *map(len, following)]).astype(np.int64)
    successor = np.array([target for targets in following for target in sorted(targets)], np.int64)
    unit = np.full(count, -1, np.int64)
    units, merged = merge_cycles(begin, successor, unit)

    reach = [reachable(following, vertex) for vertex in range(count)]
    same = [frozenset(other for other in reach[vertex] if vertex in reach[other]) for vertex in range(count)]
    assert {frozenset(np.flatnonzero(unit == number).tolist()) for number in range(units)} == set(same), f"seed {seed}"
    assert merged == sum(len(group) > 1 for group in set(same)), f"seed {seed}"
    backwards = [(v, w) for v in range(count) for w in following[v] if unit[v] > unit[w]]
    assert backwards == [], f"seed {seed}: edges among units must point to higher numbers"
