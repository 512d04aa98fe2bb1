"""The bank against a dictionary of balances and a list of each user's operations."""

import pytest

from engine import Reason, TestDriver
from services.apps import bank, workloads
from services.apps.workloads import Parameters
from tests.services.apps.playing import Verdict, play, rows_of, verdicts

SPAN = 60
PARAMETERS = Parameters(theta=0.7, abort_share=0.1, transactions=250, states=25, sources=2, disorder=0.3)


def test_balances_and_the_limit_of_operations():
    epochs = list(workloads.bank(PARAMETERS, epochs=3, seed=8))
    balances, done, expected = {}, {}, []
    too_many = 0

    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            users = [event["user"]] if "user" in event else [event["sender"], event["receiver"]]
            payer = {"Deposit": None, "Withdrawal": event.get("user"), "Transfer": event.get("sender")}[record_type]
            receiver = {"Deposit": event.get("user"), "Withdrawal": None, "Transfer": event.get("receiver")}[
                record_type
            ]
            reason, key = Reason.NONE, None
            for user in users:
                # "In any minute": those of the last 60 units, this moment included.
                recent = [moment for moment in done.get(user, []) if moment > ts - SPAN]
                if len(recent) >= 5 and reason == Reason.NONE:
                    reason, key = Reason.REFUSED, user
                    too_many += 1
            if reason == Reason.NONE and payer is not None and balances.get(payer, 0) < event["amount"]:
                reason, key = Reason.CONSTRAINT, payer
            if reason == Reason.NONE:
                for user in users:
                    done.setdefault(user, []).append(ts)
                if payer is not None:
                    balances[payer] = balances.get(payer, 0) - event["amount"]
                if receiver is not None:
                    balances[receiver] = balances.get(receiver, 0) + event["amount"]
            expected.append(Verdict(record_type, ts, source, seq, reason, key))
    assert too_many > 20
    assert {verdict.reason for verdict in expected} == {Reason.NONE, Reason.REFUSED, Reason.CONSTRAINT}

    driver, outcomes = play(bank.build(span_ms=SPAN), epochs)
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    assert driver.state("accounts") == {user: {"balance": balance} for user, balance in balances.items()}
    assert driver.state("activity") == {user: {"operations": len(times)} for user, times in done.items()}


def committed(driver, punctuation_ts):
    return [outcome.verdict == "committed" for outcome in driver.punctuate(punctuation_ts).outcomes()]


def test_the_sixth_operation_of_a_minute_is_refused_and_not_counted():
    driver = TestDriver(bank.build())
    for ts in (0, 10, 20, 30, 40, 50, 59_999, 60_000):
        driver.send("Deposit", ts=ts, source=0, user=1, amount=1)
    # At 60,000 the operation at 0 has left the minute; the refused ones never were in it.
    assert committed(driver, 60_000) == [True] * 5 + [False, False, True]
    driver.send("Deposit", ts=60_009, source=0, user=1, amount=1)
    driver.send("Deposit", ts=60_010, source=0, user=1, amount=1)
    assert committed(driver, 60_010) == [False, True]
    assert driver.get("accounts", 1) == {"balance": 7}


@pytest.mark.parametrize("busy_user", ["sender", "receiver"])
def test_a_transfer_counts_for_both_users(busy_user):
    driver = TestDriver(bank.build(operations_max=2))
    driver.load("accounts", {1: {"balance": 100}, 2: {"balance": 100}, 3: {"balance": 100}})
    users = {"sender": 1, "receiver": 2}
    driver.send("Transfer", ts=1, source=0, amount=10, **users)
    driver.send("Deposit", ts=2, source=0, user=users[busy_user], amount=10)
    driver.send(
        "Transfer", ts=3, source=0, amount=10, **{**users, "sender": 3, "receiver": 3, busy_user: users[busy_user]}
    )
    driver.send("Transfer", ts=4, source=0, sender=3, receiver=3, amount=100)
    assert committed(driver, 4) == [True, True, False, True]
    assert driver.get("activity", 3) == {"operations": 2}
