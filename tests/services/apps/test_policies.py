"""Every application as columns on the engine: each policy, on one and two threads, leaves the bytes of serial."""

from collections import Counter
from dataclasses import replace

import pytest

from engine import Engine, all_policies
from services.apps import bank, grep_sum, market, online_bidding, osed, sea, streaming_ledger, toll_processing, tweets
from services.apps import workloads as make
from services.apps.workloads import Parameters

pytestmark = pytest.mark.slow

STATES = 30
SMALL = Parameters(theta=0.8, abort_share=0.3, transactions=120, states=STATES, sources=2, disorder=0.3)
BALANCES = {"balance": [150] * STATES}
VALUES = {"value": list(range(STATES))}

# name: (application, epochs, what to load)
APPLICATIONS = {
    "streaming ledger": (
        streaming_ledger.build,
        lambda: make.streaming_ledger(SMALL, 2),
        {"accounts": BALANCES, "assets": BALANCES},
    ),
    "grep and sum": (grep_sum.build, lambda: make.grep_sum(SMALL, 2, query_share=0.3), {"records": VALUES}),
    "windowed": (
        lambda: grep_sum.build_windowed(window=50),
        lambda: make.windowed_grep_sum(SMALL, 2, period=10, keys_read=10),
        {"records": VALUES},
    ),
    "computed": (
        lambda: grep_sum.build_computed(states=STATES),
        lambda: make.computed_grep_sum(SMALL, 2, computed_share=0.3),
        {"records": VALUES},
    ),
    "tolls": (
        lambda: toll_processing.build(dense_above=3, slow_below=60.0, grouped=True),
        lambda: make.toll_processing(SMALL, 2, vehicles=50, nested=replace(SMALL, abort_share=0.6)),
        {},
    ),
    "bidding": (
        online_bidding.build,
        lambda: make.online_bidding(replace(SMALL, length=20), 2),
        {"items": {"price": [50] * STATES, "quantity": [4] * STATES}},
    ),
    "bank": (lambda: bank.build(span_ms=60), lambda: make.bank(SMALL, 2), {}),
    "exchange": (lambda: sea.build(window=40), lambda: market.generate(200, stocks=5).epochs(span=60), {}),
    "events": (
        lambda: osed.build(osed.Thresholds(window=50, burst_tweets=3, event_tweets=3, clusters_compared=6, removals=2)),
        lambda: tweets.generate(300, seed=4, tweets_per_window=50).epochs(50),
        {},
    ),
}


def run(name, policy, threads):
    build, epochs, tables = APPLICATIONS[name]
    with Engine(build(), threads=threads, policy=policy) as engine:
        for table, columns in tables.items():
            engine.load(table, list(range(STATES)), columns)
        outcomes = [engine.run_epoch(epoch).outcomes() for epoch in epochs()]
        return outcomes, engine.snapshot()


@pytest.mark.parametrize("name", APPLICATIONS)
def test_all_policies_agree(name):
    expected_outcomes, expected_state = run(name, "serial", 1)
    ran = Counter((each.record_type, each.verdict) for epoch in expected_outcomes for each in epoch)
    assert all(ran[record_type, "committed"] > 0 for record_type in APPLICATIONS[name][0]().templates), ran
    for policy in all_policies():
        for threads in (1, 2):
            outcomes, state = run(name, policy, threads)
            assert outcomes == expected_outcomes, f"{policy} on {threads} threads"
            assert state == expected_state, f"{policy} on {threads} threads"
