"""The Streaming Ledger against a dictionary, and the money in it."""

from engine import Reason
from services.apps import streaming_ledger, workloads
from services.apps.workloads import Parameters
from tests.services.apps.playing import Verdict, play, rows_of, verdicts

START = 150
PARAMETERS = Parameters(theta=0.8, abort_share=0.2, transactions=200, states=20, sources=2, disorder=0.3)


def answer(epochs, accounts, assets):
    expected = []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            amount, reason, key = event["amount"], Reason.NONE, None
            if record_type == "Deposit":
                account, asset = event["account"], event["asset"]
                if accounts[account] + amount < 0:
                    reason, key = Reason.CONSTRAINT, account
                elif assets[asset] + amount < 0:
                    reason, key = Reason.CONSTRAINT, asset
                else:
                    accounts[account] += amount
                    assets[asset] += amount
            elif accounts[event["sender_account"]] < amount:
                reason, key = Reason.REFUSED, event["sender_account"]
            elif assets[event["sender_asset"]] < amount:
                reason, key = Reason.REFUSED, event["sender_asset"]
            else:
                accounts[event["sender_account"]] -= amount
                assets[event["sender_asset"]] -= amount
                accounts[event["receiver_account"]] += amount
                assets[event["receiver_asset"]] += amount
            expected.append(Verdict(record_type, ts, source, seq, reason, key))
    return expected


def test_every_verdict_and_balance_is_that_of_a_plain_loop():
    epochs = list(workloads.streaming_ledger(PARAMETERS, epochs=3, seed=5))
    accounts, assets = dict.fromkeys(range(20), START), dict.fromkeys(range(20), START)
    start = {key: {"balance": START} for key in range(20)}
    expected = answer(epochs, accounts, assets)
    assert {verdict.reason for verdict in expected} == {Reason.NONE, Reason.REFUSED, Reason.CONSTRAINT}

    driver, outcomes = play(streaming_ledger.build(busy_iterations=3), epochs, {"accounts": start, "assets": start})
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    assert driver.state("accounts") == {key: {"balance": balance} for key, balance in accounts.items()}
    assert driver.state("assets") == {key: {"balance": balance} for key, balance in assets.items()}


def test_transfers_conserve_money():
    epochs = workloads.streaming_ledger(PARAMETERS, epochs=2, seed=6, transfer_share=1.0)
    start = {key: {"balance": START} for key in range(20)}
    driver, _ = play(streaming_ledger.build(), epochs, {"accounts": start, "assets": start})
    for table in ("accounts", "assets"):
        assert sum(record["balance"] for record in driver.state(table).values()) == 20 * START
