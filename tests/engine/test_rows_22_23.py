"""Rows 22 and 23: keys that nobody loaded, and one key for everything."""

from __future__ import annotations

import numpy as np
import pytest

from engine import Application, Engine, Epoch, Reason, all_policies, int64, udf
from engine.scheduling.policy import SERIAL

POLICIES = ["cost", "paper", *all_policies()]

app = Application("rows")
open_cells = app.table("open", key=int, value={"total": int64}, default={"total": 5}, create=True)
fixed_cells = app.table("fixed", key=int, value={"total": int64}, create=False)
app.event("Add", {"one": int64, "two": int64, "amount": int64})


@udf
def add(cell, event):
    cell.total += event.amount
    return cell.total >= 0


@app.transaction("Add")
def add_to_both(txn, event):
    txn.write(open_cells[event.one], add)
    txn.write(fixed_cells[event.two], add)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_row_22_an_unknown_key_is_created_or_fails_the_transaction_as_its_table_says(policy):
    with Engine(app, policy=policy, threads=2) as engine:
        engine.load("fixed", [1], {"total": [10]})
        columns = {"ts": [1, 2, 3, 4], "one": [7, 8, 7, 9], "two": [1, 2, 1, 3], "amount": [1, 1, 2, 1]}
        outcomes = engine.run_epoch(Epoch(0, 9, {"Add": columns})).outcomes()
        assert [(each.verdict, each.reason, each.key) for each in outcomes] == [
            ("committed", Reason.NONE, None),
            ("failed", Reason.UNKNOWN_KEY, 2),
            ("committed", Reason.NONE, None),
            ("failed", Reason.UNKNOWN_KEY, 3),
        ]
        assert engine.state("open") == {7: {"total": 8}}, "what failed leaves no new key"
        assert engine.state("fixed") == {1: {"total": 13}}


EVENTS, EPOCHS = 4_000, 12


def epoch_on_one_key(number: int) -> tuple[Epoch, np.ndarray]:
    chance = np.random.default_rng(number)
    amounts = chance.integers(-60, 100, EVENTS)
    ts = chance.permutation(EVENTS) + EVENTS * number + 1
    columns = {"ts": ts, "one": np.full(EVENTS, 7), "two": np.full(EVENTS, 1), "amount": amounts}
    return Epoch(number, EVENTS * (number + 1), {"Add": columns}), amounts[np.argsort(ts)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_row_23_every_event_on_one_key_gives_the_right_answer(policy):
    one, two = 5, 0
    with Engine(app, policy=policy, threads=2) as engine:
        engine.load("fixed", [1], {"total": [0]})
        for number in range(2):
            epoch, amounts = epoch_on_one_key(number)
            committed = 0
            for amount in amounts.tolist():
                if one + amount >= 0 and two + amount >= 0:
                    one, two, committed = one + amount, two + amount, committed + 1
            assert engine.run_epoch(epoch).committed == committed
        assert engine.state("open") == {7: {"total": one}} and engine.state("fixed") == {1: {"total": two}}


def test_row_23_as_fast_as_serial_because_serial_is_what_is_chosen():
    with Engine(app, policy="cost", threads=2, wait=True) as engine:
        engine.load("fixed", [1], {"total": [0]})
        chosen = [engine.run_epoch(epoch_on_one_key(number)[0]).policies for number in range(EPOCHS)]
    assert chosen[-1] == [SERIAL.name] and sum(each == [SERIAL.name] for each in chosen) >= EPOCHS - 2
