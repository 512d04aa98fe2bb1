"""Connected components of transactions: those told by hand, and random ones against sets that are united one by one."""

# mypy: ignore-errors

import random

import pytest

from tests.engine.planning.cells import LOADED, A, B, C, D, E, at, between, cells, gather
from tests.engine.planning.graphs import plan_by_hand


def components(*sent):
    return plan_by_hand(cells, *sent, tables={"cells": LOADED}).graph.components.tolist()


def test_transactions_on_different_keys_are_apart():
    assert components(at("Set", A), at("Set", B), at("Set", C)) == [0, 1, 2]


def test_a_key_connects_its_writers():
    assert components(at("Set", A), at("Set", B), at("Set", A), at("Set", B), at("Set", A)) == [0, 1, 0, 1, 0]


def test_readers_of_a_key_that_nobody_writes_are_apart():
    assert components(between("Copy", A, B), between("Copy", A, C), at("Look", A)) == [0, 1, 2]


def test_a_late_transaction_joins_what_was_apart():
    assert components(at("Set", A), at("Set", B), at("Set", C), at("Set", D), gather([D, B], E)) == [0, 1, 2, 1, 1]
    assert components(at("Set", A), at("Set", B), between("Move", B, A), at("Set", C)) == [0, 0, 0, 3]


def test_a_fence_connects_the_writers_of_its_table():
    assert components(at("Set", A), at("Set", B), at("Look", C), at("Jump", 0), at("Look", D)) == [0, 0, 2, 0, 0]


@pytest.mark.parametrize("seed", range(8))
def test_random_components_are_those_of_united_sets(seed):
    draw = random.Random(seed)
    keys = range(10)
    forms = [
        lambda: at("Set", draw.choice(keys)),
        lambda: at("Look", draw.choice(keys)),
        lambda: between("Copy", draw.choice(keys), draw.choice(keys)),
    ]
    sent = [draw.choice(forms)() for _ in range(draw.randint(5, 14))]
    graph = plan_by_hand(cells, *sent, tables={"cells": LOADED}).graph
    owner = graph.operations.transaction.tolist()
    united = [{transaction} for transaction in range(len(sent))]
    for source, target, _ in graph.edge_set():
        joined = [group for group in united if owner[source] in group or owner[target] in group]
        united = [group for group in united if group not in joined] + [set().union(*joined)]
    lowest = {transaction: min(group) for group in united for transaction in group}
    assert graph.components.tolist() == [lowest[transaction] for transaction in range(len(sent))], f"seed {seed}"
    assert len(united) > 1, f"seed {seed}: everything is connected, which shows nothing"
