"""The paper's choices on real epochs: the phases of section 8.2.2 and the two groups of section 8.2.3.

Settings within the ranges of workloads.md. The ledger's phases need keys that meet often enough for TD ≥ 0.2 T: 10,240
transactions an epoch over 10,000 states a table (with 100,000 states, scattered deposits have TD = 0.1 T and the
thresholds say fine). C is 0, because from 40 µs on aborts are eager whatever their number.
"""

from dataclasses import replace

import numpy as np
import pytest

from engine import Engine
from engine.scheduling.paper_model import decide
from engine.scheduling.properties import Properties
from services.apps import streaming_ledger, toll_processing
from services.apps import workloads as make

STATES = 10_000
LEDGER = replace(make.STREAMING_LEDGER, transactions=10_240, states=STATES)
STRUCTURED, UNSTRUCTURED = "breadth-first/coarse/eager", "unstructured/coarse/eager"
FINE, LAZY = "unstructured/fine/eager", "unstructured/fine/lazy"


@pytest.fixture(scope="module")
def phases():
    """The policies and explanations of Fig. 12's epochs, and three more with aborts beyond 60 %."""
    engine = Engine(streaming_ledger.build(), threads=2, policy="paper")
    for table in ("accounts", "assets"):
        engine.load(table, list(range(STATES)), {"balance": np.full(STATES, make.STARTING_BALANCE)})
    epochs = list(make.dynamic_streaming_ledger(LEDGER, epochs_per_phase=4, seed=1))
    beyond = replace(LEDGER, theta=0.6, abort_share=0.85)
    epochs += make.streaming_ledger(beyond, 4, 1, transfer_share=0.95, first_epoch=len(epochs))
    results = [engine.run_epoch(epoch) for epoch in epochs]
    engine.close()
    return [(result.policies, result.choices[0]) for result in results]


def policies(phases, begin, end):
    return [chosen for [chosen], _ in phases[begin:end]]


def test_scattered_deposits_are_structured_and_coarse(phases):
    assert policies(phases, 0, 4) == [STRUCTURED] * 4


def test_rising_skew_ends_unstructured(phases):
    chosen = policies(phases, 4, 8)
    assert chosen[0] == STRUCTURED and chosen[-1] == UNSTRUCTURED
    assert chosen == sorted(chosen)  # once, and not back: b before u


def test_rising_transfers_end_fine(phases):
    chosen = policies(phases, 8, 12)
    assert chosen[0] == UNSTRUCTURED and chosen[-1] == FINE
    assert chosen == sorted(chosen)


def test_aborts_stay_eager_until_most_abort(phases):
    assert policies(phases, 12, 16) == [FINE] * 4  # up to 60 %
    beyond = policies(phases, 16, 20)
    assert beyond[0] == FINE  # the ratio comes from earlier epochs
    assert beyond[-1] == LAZY


def test_the_explanation_names_the_thresholds(phases):
    text = phases[0][1].text()
    for part in (
        "TD + PD + LD is 1.9",
        "above 0.8 T",
        "degree skew 0.27",
        "below 0.3",
        "no cyclic chains",
        "aborts 0%",
    ):
        assert part in text
    assert phases[-1][1].as_dict()["properties"]["all"]["abort_ratio"] > 0.7


@pytest.mark.parametrize("grouped", [True, False], ids=["declared", "found"])
def test_two_groups_of_toll_processing(grouped):
    """Group 1 skewed with many aborts: ns, c, l; group 2 uniform with few: s, c, e. Declared by region, or found by aborts."""
    uniform = replace(make.TOLL_PROCESSING, theta=0.0, abort_share=0.01)
    skewed = replace(uniform, theta=1.0, abort_share=0.8)
    epochs = list(make.toll_processing(uniform, 3, 1, nested=skewed))
    with Engine(toll_processing.build(grouped=grouped), threads=2, policy="paper") as engine:
        results = [engine.run_epoch(epoch) for epoch in epochs]
    assert results[-1].policies == [STRUCTURED, "unstructured/coarse/lazy"]
    in_groups = [count for _, count in results[-1].choices[0].chosen]
    regions = np.concatenate([columns["region"] for columns in epochs[-1].events.values()])
    # A transaction that touches nothing anyone has written is a component without a history: those few go anywhere.
    assert in_groups == pytest.approx(np.bincount(regions).tolist(), abs=0 if grouped else 100)


BALANCED = Properties(100, 200, 60, 10, 40, 0, 0, 0.1, False, 1.0, 0.0)


@pytest.mark.parametrize(
    ("changed", "policy"),
    [
        ({}, "breadth-first/coarse/eager"),
        ({"temporal": 20, "parametric": 20}, "unstructured/coarse/eager"),  # 0.8 T is not above 0.8 T
        ({"temporal": 21, "parametric": 20}, "breadth-first/coarse/eager"),
        ({"degree_skew": 0.3}, "unstructured/coarse/eager"),
        ({"degree_skew": 0.299}, "breadth-first/coarse/eager"),
        ({"cyclic": True}, "breadth-first/fine/eager"),
        ({"temporal": 20}, "unstructured/coarse/eager"),  # TD of 0.2 T is coarse still, but the sum is 0.7 T
        ({"temporal": 19, "logical": 90}, "breadth-first/fine/eager"),
        ({"parametric": 30}, "breadth-first/coarse/eager"),
        ({"parametric": 31}, "breadth-first/fine/eager"),
        ({"abort_ratio": 0.69}, "breadth-first/coarse/eager"),
        ({"abort_ratio": 0.7}, "breadth-first/coarse/lazy"),
        ({"abort_ratio": 0.9, "complexity_us": 40.0}, "breadth-first/coarse/eager"),
        ({"abort_ratio": 0.9, "complexity_us": 39.9}, "breadth-first/coarse/lazy"),
    ],
)
def test_every_threshold_from_both_sides(changed, policy):
    assert decide(replace(BALANCED, **changed)).name == policy
