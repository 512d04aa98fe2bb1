"""Edges of small graphs, told by hand: the paper's examples, windows, fences. Engine and reference must both find them."""

# mypy: ignore-errors

from itertools import permutations

import pytest

from engine.planning.reference import PlannedEvent, Planner
from tests.contract.registers import registers
from tests.engine.planning.cells import LOADED, A, B, C, D, at, between, cells, gather
from tests.engine.planning.graphs import plan_by_hand, refer


def edges(*sent, app=cells):
    """The edges of an epoch whose events follow each other in time, by the engine; the reference agrees."""
    planned = plan_by_hand(app, *sent, tables={"cells": LOADED} if app is cells else {})
    reference = refer(app, [PlannedEvent(name, ts, 0, ts, fields) for ts, (name, fields) in enumerate(sent)], seed=1)
    found = planned.graph.edge_set()
    assert found == reference.edges
    return found


@pytest.mark.parametrize("arrival", list(permutations(range(3))), ids=lambda order: "".join(map(str, order)))
def test_figure_3_whatever_comes_first(arrival):
    """Deposit to A; transfer A→B; transfer B→A. The paper's O1 is 0 here."""
    sent = [at("Set", A), between("Move", A, B), between("Move", B, A)]
    planner = Planner(cells.templates)
    for ts in arrival:
        name, fields = sent[ts]
        planner.add(PlannedEvent(name, ts, 0, ts, fields))
    graph = planner.punctuate()
    assert graph.edges == {
        (0, 1, "TD"), (1, 4, "TD"), (2, 3, "TD"),
        (0, 2, "PD"), (2, 4, "PD"),
    }  # fmt: skip
    assert graph.logical_dependencies == {(1, 2), (3, 4)}
    assert graph.transaction_of == [0, 1, 1, 2, 2]
    assert graph.cycles() == [frozenset({0, 1})] and graph.chains == [[0, 1, 4], [2, 3]]


def test_figure_4a_a_window_write_follows_the_last_write_in_its_window():
    """O5 is the last write of C. The paper's O6 is two operations here: the window's read of C and the write of A."""
    sent = [at("Set", key) for key in (A, A, B, C, C)]
    found = edges(*sent, at("Recent", C, amount=A))
    assert found == {(0, 1, "TD"), (3, 4, "TD"), (4, 5, "TD"), (5, 6, "SD"), (1, 6, "TD")}


def test_figure_4b_a_write_to_a_computed_key_follows_the_writes_of_all_keys():
    sent = [at("Set", key) for key in (A, A, B, C, C)]
    found = edges(*sent, at("Jump", 0, amount=B))
    assert {edge for edge in found if edge[2] != "TD"} == {(write, 5, "FD") for write in range(5)}


def test_reads_wait_for_writes_and_nothing_waits_for_reads():
    """Operations 1 and 3 read A (2 and 4 show what was read): only the write 5 follows, and it follows the write 0."""
    found = edges(at("Set", A), at("Look", A), at("Look", A), at("Set", A))
    assert found == {(0, 1, "TD"), (1, 2, "SD"), (0, 3, "TD"), (3, 4, "SD"), (0, 5, "TD")}


def test_virtual_operations_depend_on_writes_only():
    found = edges(between("Copy", A, B), between("Copy", A, C), at("Set", A), between("Copy", A, D))
    assert found == {(2, 3, "PD")}


def test_a_list_of_keys_is_a_virtual_operation_for_each():
    found = edges(at("Set", A), at("Set", B), at("Set", C), gather([A, C, A], D), gather([], D))
    assert found == {(0, 3, "PD"), (2, 3, "PD"), (3, 4, "TD")}


def test_two_writes_of_one_transaction_are_in_statement_order():
    """The second (2) reads the key as of before its transaction (PD from 0), and continues the first (SD)."""
    found = edges(at("Set", A), at("Twice", A), at("Set", A))
    assert found == {(0, 1, "TD"), (1, 2, "SD"), (0, 2, "PD"), (2, 3, "TD")}


def test_reads_skip_all_writes_of_their_own_transaction():
    """A twist writes its key three times; the third (2, 6) and the output (3, 7) read the key as of before them all."""
    twist = ("Twist", {"key": "k", "amount": 1})
    within_both = {(first + at, first + at + 1, "SD") for first in (0, 4) for at in range(3)}
    assert edges(twist, twist, app=registers) == within_both | {(2, 4, "TD"), (2, 6, "PD"), (2, 7, "PD")}


def test_a_transaction_that_copies_a_key_to_itself_does_not_wait_for_itself():
    assert edges(between("Copy", A, A), between("Copy", A, A)) == {(0, 1, "TD"), (0, 1, "PD")}


def test_a_writing_fence_is_followed_by_every_later_access_of_its_table():
    found = edges(at("Set", A), at("Jump", 0), at("Look", B), between("Copy", C, D), at("Set", A))
    assert found == {
        (0, 1, "FD"), (1, 2, "FD"), (2, 3, "SD"), (1, 4, "FD"), (1, 5, "FD"), (0, 5, "TD"),
    }  # fmt: skip


def test_who_reads_no_key_of_a_table_needs_no_more_than_its_fence():
    assert edges(at("Set", A), at("Jump", 0), ("Show", {"keys": [B]})) == {(0, 1, "FD"), (1, 2, "FD")}
    assert edges(at("Set", A), ("Show", {"keys": []})) == set()
    assert edges(at("Set", A), at("Jump", 0), ("Show", {"keys": []})) <= {(0, 1, "FD"), (1, 2, "FD")}


@pytest.mark.parametrize("reading", ["Peek", "Total"])
def test_a_reading_fence_is_followed_by_the_next_fence_only(reading):
    found = edges(at("Set", A), at(reading, 0), at("Set", B), at("Set", A), at("Jump", 0))
    assert found == {
        (0, 1, "FD"), (1, 2, "SD"), (0, 4, "TD"),
        (1, 5, "FD"), (3, 5, "FD"), (4, 5, "FD"),
    }  # fmt: skip


def test_a_fence_stands_for_all_keys_by_one_vertex():
    """Its edges are to what the epoch touches, whether its table has ten keys or ten thousand."""
    sent = [at("Set", A), at("Set", B), at("Jump", 0), at("Set", A)]
    expected = {(0, 2, "FD"), (1, 2, "FD"), (2, 3, "FD"), (0, 3, "TD")}
    for size in (10, 10_000):
        planned = plan_by_hand(cells, *sent, tables={"cells": {key: {"value": 1} for key in range(size)}})
        assert planned.graph.operation_count == 4
        assert planned.graph.edge_set() == expected


def test_what_a_fence_reads_to_compute_its_key_is_a_parametric_dependency():
    """The second fence (3) reads A: it follows the fence before it, which may have written A."""
    found = edges(at("Set", A), between("Follow", A, B), between("Follow", A, B))
    assert found == {
        (0, 1, "PD"), (0, 1, "FD"), (1, 2, "FD"),
        (0, 3, "PD"), (1, 3, "FD"), (2, 3, "FD"),
        (2, 4, "TD"), (3, 4, "FD"),
    }  # fmt: skip


def test_operations_are_numbered_by_time_source_and_number():
    sent = [("Guard", 5, 0, 1), ("Guard", 5, 1, 0), ("Guard", 4, 2, 0), ("Guard", 5, 0, 0)]
    events = [PlannedEvent(*event, {"key": f"{event[2]}{event[3]}", "limit": 0}) for event in sent]
    graph = refer(registers, events, seed=3)
    assert [operation.key for operation in graph.operations] == [("20",), ("00",), ("01",), ("10",)]
