"""The generators: reproducible, skewed as asked, with the identities and the shares that the workloads promise."""

from dataclasses import replace

import numpy as np
import pytest

from services.apps import market, tweets, workloads
from services.apps.workloads import Parameters

SMALL = Parameters(transactions=2_000, states=500, sources=3, disorder=0.3)
GENERATORS = {
    "streaming_ledger": lambda seed: workloads.streaming_ledger(SMALL, 2, seed),
    "grep_sum": lambda seed: workloads.grep_sum(SMALL, 2, seed, query_share=0.5),
    "windowed_grep_sum": lambda seed: workloads.windowed_grep_sum(SMALL, 2, seed),
    "computed_grep_sum": lambda seed: workloads.computed_grep_sum(SMALL, 2, seed, computed_share=0.5),
    "toll_processing": lambda seed: workloads.toll_processing(SMALL, 2, seed),
    "online_bidding": lambda seed: workloads.online_bidding(replace(SMALL, length=20), 2, seed),
    "bank": lambda seed: workloads.bank(SMALL, 2, seed),
}


def flat(epochs):
    return [
        (epoch.number, epoch.punctuation_ts, record_type, name, column.tolist())
        for epoch in epochs
        for record_type, columns in epoch.events.items()
        for name, column in columns.items()
    ]


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_events_and_another_does_not(name):
    assert flat(GENERATORS[name](1)) == flat(GENERATORS[name](1))
    assert flat(GENERATORS[name](1)) != flat(GENERATORS[name](2))


@pytest.mark.parametrize("name", GENERATORS)
def test_identities_are_dense_and_times_lie_in_their_epoch(name):
    for number, epoch in enumerate(GENERATORS[name](1)):
        assert epoch.number == number
        source = np.concatenate([columns["source"] for columns in epoch.events.values()])
        seq = np.concatenate([columns["seq"] for columns in epoch.events.values()])
        ts = np.concatenate([columns["ts"] for columns in epoch.events.values()])
        assert len(ts) == SMALL.transactions
        for each in range(SMALL.sources):
            own = np.sort(seq[source == each])
            assert own.tolist() == list(range(len(own)))
        assert ts.min() > epoch.punctuation_ts - SMALL.transactions
        assert ts.max() <= epoch.punctuation_ts
        by_arrival = ts[np.lexsort((source, seq))]
        assert (np.diff(by_arrival) < 0).any()  # disorder was asked for


def test_zipf_draws_by_rank():
    random = np.random.default_rng(1)
    keys = workloads.zipf(random, 1.0, 4, 100_000)
    shares = np.bincount(keys, minlength=4) / len(keys)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert shares == pytest.approx([1 / harmonic, 1 / 2 / harmonic, 1 / 3 / harmonic, 1 / 4 / harmonic], abs=0.01)


@pytest.mark.parametrize(("theta", "states", "width"), [(0.2, 100, 10), (1.5, 50, 10), (1.5, 4, 4), (0.0, 1, 1)])
def test_distinct_keys_are_distinct(theta, states, width):
    keys = workloads.distinct_zipf(np.random.default_rng(1), theta, states, 500, width)
    assert all(len(set(row)) == width for row in keys.tolist())
    assert 0 <= keys.min() <= keys.max() < states


def test_more_distinct_keys_than_states_are_refused():
    with pytest.raises(ValueError, match="5 different keys of 4"):
        workloads.distinct_zipf(np.random.default_rng(1), 0.0, 4, 1, 5)


def test_the_defaults_are_those_of_the_papers():
    assert Parameters(0.2, 0.01, 4, 10.0, 2, 10_240, 100_000) == workloads.STREAMING_LEDGER
    assert Parameters(0.2, 0.01, 1, 10.0, 2, 10_240, 100_000) == workloads.GREP_SUM
    assert Parameters(0.2, 0.01, 2, 10.0, 1, 40_960, 100) == workloads.TOLL_PROCESSING
    assert Parameters(0.6, 0.01, 20, 0.0, 1, 10_240, 10_000) == workloads.ONLINE_BIDDING


def test_bidding_mixes_as_six_to_one_to_one():
    (epoch,) = workloads.online_bidding(replace(workloads.ONLINE_BIDDING, transactions=20_000))
    counts = {record_type: len(columns["ts"]) for record_type, columns in epoch.events.items()}
    assert counts["Bid"] == pytest.approx(15_000, rel=0.03)
    assert counts["Alter"] == pytest.approx(2_500, rel=0.1)
    assert counts["Top"] == pytest.approx(2_500, rel=0.1)


def test_the_dynamic_ledger_moves_through_its_phases():
    epochs = list(workloads.dynamic_streaming_ledger(replace(SMALL, transactions=4_000), epochs_per_phase=3))
    assert [epoch.number for epoch in epochs] == list(range(12))
    transfers = [len(epoch.events["Transfer"]["ts"]) / 4_000 for epoch in epochs]
    hottest = [
        np.bincount(epoch.events["Deposit"]["account"]).max() / len(epoch.events["Deposit"]["ts"]) for epoch in epochs
    ]
    aborts = [(epoch.events["Transfer"]["amount"] == workloads.BEYOND_ANY_BALANCE).mean() for epoch in epochs]
    assert max(transfers[:6]) < 0.1 < 0.9 < min(transfers[8:])
    assert hottest[0] < hottest[5]
    assert max(aborts[:10]) == 0.0
    assert aborts[11] == pytest.approx(0.6, abs=0.05)


def test_nested_tolls_are_skewed_in_one_region_only():
    calm = Parameters(theta=0.0, abort_share=0.01, transactions=20_000, states=100)
    (epoch,) = workloads.toll_processing(calm, nested=replace(calm, theta=1.0, abort_share=0.5))
    speeds = epoch.events["RoadSpeed"]
    calm_rows, hot_rows = speeds["region"] == 0, speeds["region"] == 1
    assert speeds["segment"][calm_rows].max() < 50 <= speeds["segment"][hot_rows].min()
    assert (speeds["speed"][calm_rows] < 0).mean() == pytest.approx(0.01, abs=0.01)
    assert (speeds["speed"][hot_rows] < 0).mean() == pytest.approx(0.5, abs=0.05)
    assert (speeds["segment"][hot_rows] == 50).mean() > 5 * (speeds["segment"][calm_rows] == 0).mean()


def test_tweets_are_reproducible_and_follow_their_plans():
    plans = (tweets.EventPlan("flood", begin=1, peak=2, end=4, peak_share=0.5),)
    stream = tweets.generate(1_200, plans, seed=3, tweets_per_window=200)
    assert stream.words == tweets.generate(1_200, plans, seed=3, tweets_per_window=200).words
    popularity = [stream.events[start : start + 200].count("flood") for start in range(0, 1_200, 200)]
    assert popularity[0] == popularity[5] == 0
    assert popularity[2] == max(popularity) == pytest.approx(100, rel=0.2)
    assert all(len(set(words)) == len(words) for words in stream.words)
    assert stream.vectors.sum(axis=1).tolist() == [float(len(words)) for words in stream.words]


def test_the_market_is_reproducible_and_cut_on_a_grid():
    first, again = market.generate(500, seed=2), market.generate(500, seed=2)
    assert first.trades["stock"].tolist() == again.trades["stock"].tolist()
    seen = 0
    for epoch in first.epochs(span=100):
        for columns in epoch.events.values():
            seen += len(columns["ts"])
            assert (columns["ts"] // 100 == epoch.punctuation_ts // 100).all()
    assert seen == 500
