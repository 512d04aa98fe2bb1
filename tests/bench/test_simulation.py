"""The simulator against schedules worked out by hand."""

import numpy as np
import pytest

from bench.simulation import UnitCosts, UnitDag, simulate
from engine import Exploration

BREADTH, DEPTH, UNSTRUCTURED = Exploration.BREADTH_FIRST, Exploration.DEPTH_FIRST, Exploration.UNSTRUCTURED
PARALLEL = (BREADTH, DEPTH, UNSTRUCTURED)

CHAIN = UnitDag.of([[], [0], [1], [2]])
FAN_OUT = UnitDag.of([[], [0], [0], [0], [0]])
DIAMOND = UnitDag.of([[], [0], [0], [1, 2]])


def costs(
    dag: UnitDag, *unit_s: float, taking_s: float = 0.0, signal_s: float = 0.0, meeting_s: float = 0.0
) -> UnitCosts:
    given = np.array(unit_s or [1.0] * dag.count)
    return UnitCosts(given, taking_s, signal_s, meeting_s)


@pytest.mark.parametrize("exploration", PARALLEL)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_chain_gains_nothing(exploration: Exploration, threads: int) -> None:
    assert simulate(CHAIN, costs(CHAIN, 1, 2, 3, 4), threads, exploration) == 10


@pytest.mark.parametrize("exploration", PARALLEL)
@pytest.mark.parametrize(("threads", "expected"), [(1, 5), (2, 3), (4, 2), (16, 2)])
def test_a_fan_out_is_shared(exploration: Exploration, threads: int, expected: float) -> None:
    assert simulate(FAN_OUT, costs(FAN_OUT), threads, exploration) == expected


@pytest.mark.parametrize("exploration", PARALLEL)
def test_a_diamond_waits_for_the_longer_side(exploration: Exploration) -> None:
    assert simulate(DIAMOND, costs(DIAMOND, 1, 5, 2, 1), 2, exploration) == 7


def test_breadth_first_meets_after_every_stratum() -> None:
    # Four strata; two threads pay one meeting each time, three threads two.
    assert simulate(CHAIN, costs(CHAIN, meeting_s=10), 1, BREADTH) == 4
    assert simulate(CHAIN, costs(CHAIN, meeting_s=10), 2, BREADTH) == 4 + 4 * 10
    assert simulate(CHAIN, costs(CHAIN, meeting_s=10), 3, BREADTH) == 4 + 4 * 20


def test_only_breadth_first_waits_for_unrelated_units() -> None:
    # Two chains of a long and a short unit: 0 (3) → 1 (1), 2 (1) → 3 (3).
    dag = UnitDag.of([[], [0], [], [2]])
    given = costs(dag, 3, 1, 1, 3)
    assert simulate(dag, given, 2, BREADTH) == 6
    assert simulate(dag, given, 2, DEPTH) == 4
    assert simulate(dag, given, 2, UNSTRUCTURED) == 4


def test_depth_first_shares_are_fixed() -> None:
    # Thread 1 has units 0 and 1 (1 + 1), thread 2 has 2 and 3 (5 + 5); a free thread takes nothing over.
    dag = UnitDag.of([[], [], [], []])
    assert simulate(dag, costs(dag, 1, 1, 5, 5), 2, DEPTH) == 10
    assert simulate(dag, costs(dag, 1, 1, 5, 5), 2, UNSTRUCTURED) == 6


def test_signals_are_paid_by_unstructured_exploration_alone() -> None:
    assert simulate(FAN_OUT, costs(FAN_OUT, signal_s=0.5), 1, UNSTRUCTURED) == 5 + 4 * 0.5
    assert simulate(FAN_OUT, costs(FAN_OUT, signal_s=0.5), 1, BREADTH) == 5


@pytest.mark.parametrize("exploration", PARALLEL)
def test_taking_a_unit_costs_each_time(exploration: Exploration) -> None:
    assert simulate(CHAIN, costs(CHAIN, taking_s=0.25), 2, exploration) == 5


def test_serial_is_the_sum_and_nothing_takes_no_time() -> None:
    assert simulate(DIAMOND, costs(DIAMOND, 1, 5, 2, 1, taking_s=9), 4, Exploration.SERIAL) == 9
    empty = UnitDag.of([])
    assert simulate(empty, UnitCosts(np.empty(0)), 4, UNSTRUCTURED) == 0


@pytest.mark.parametrize("exploration", PARALLEL)
def test_random_graphs_stay_within_bounds(exploration: Exploration) -> None:
    random = np.random.default_rng(5)
    predecessors = [sorted(set(random.integers(0, unit, 2).tolist())) if unit else [] for unit in range(200)]
    dag = UnitDag.of(predecessors)
    unit_s = random.random(200)
    longest = [0.0] * 200
    for unit, before in enumerate(predecessors):
        longest[unit] = unit_s[unit] + max((longest[earlier] for earlier in before), default=0.0)
    for threads in (1, 2, 5):
        found = simulate(dag, UnitCosts(unit_s), threads, exploration)
        assert max(max(longest), unit_s.sum() / threads) - 1e-9 <= found <= unit_s.sum() + 1e-9
