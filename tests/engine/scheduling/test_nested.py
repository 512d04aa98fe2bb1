"""Groups: found and declared, merged where connected, remembered by their aborts; and all of them give the serial answer."""

from dataclasses import replace

import numpy as np
import pytest

from engine import Application, Engine, Epoch, int64, udf
from engine.scheduling.choice import FromFunction
from engine.scheduling.cost_model import CostModel
from engine.scheduling.groups import (
    AbortHistory,
    balanced_shares,
    buckets_of,
    find_groups,
    merge_connected,
    split_by_aborts,
)
from engine.scheduling.policy import Policy, all_policies
from services.apps import streaming_ledger, toll_processing
from services.apps import workloads as make

UNIFORM = replace(make.TOLL_PROCESSING, theta=0.0, abort_share=0.01, transactions=2_000, states=60)
NESTED = replace(UNIFORM, theta=1.0, abort_share=0.8)


def toll_epochs(count):
    return list(make.toll_processing(UNIFORM, count, 1, vehicles=500, nested=NESTED))


def regional(group_key_type=int64):
    """Transfers inside regions, declared by a group key of either type."""
    app = Application("regional")

    @udf
    def take(account, event):
        account.balance -= event.amount
        return account.balance >= 0

    @udf
    def give(account, event, sender):
        account.balance += event.amount
        return sender.balance >= event.amount

    accounts = app.table("accounts", key=int, value={"balance": int64}, default={"balance": 100})
    app.event("Move", {"region": group_key_type, "sender": int64, "receiver": int64, "amount": int64})

    @app.transaction("Move", group_key="region")
    def move(txn, event):
        sender = accounts[event.sender]
        txn.write(sender, take)
        txn.write(accounts[event.receiver], give, reads=[sender])

    return app


def moves(regions, senders, receivers, name=int):
    count = len(regions)
    columns = {
        "ts": list(range(1, count + 1)),
        "region": [name(region) for region in regions],
        "sender": senders,
        "receiver": receivers,
        "amount": [1] * count,
    }
    return Epoch(0, count, {"Move": columns})


def no_history(stage):
    return find_groups(stage, AbortHistory(), 0.0, split_giant=False)


@pytest.mark.parametrize(("kind", "name"), [(int64, int), (str, lambda region: f"region {region}")])
def test_declared_groups_are_taken_and_connected_ones_merged(look_into, kind, name):
    # Regions 0, 1 and 2; the last move of region 1 sends to an account of region 2.
    epoch = moves([0, 0, 1, 2, 1, 2], [1, 2, 11, 21, 12, 22], [2, 1, 12, 22, 22, 23], name)
    [grouping] = look_into(regional(kind), [epoch], no_history)
    assert grouping.count == 2
    first, second = grouping.members(grouping.of_transaction[0]), grouping.members(grouping.of_transaction[2])
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3, 4, 5])
    assert grouping.notes == ["3 declared groups are connected in the graph and became 2"]


def test_merging_is_transitive():
    group = np.array([0, 1, 2, 3, 1, 2])
    components = np.array([0, 1, 2, 3, 0, 1])  # transaction 4 (group 1) joins 0, transaction 5 (group 2) joins 1
    merged = merge_connected(group, components, 4)
    assert merged.tolist() == [0, 0, 0, 1, 0, 0]


def test_groups_share_no_edge(look_into):
    def look(stage):
        graph = stage.graph()
        history = AbortHistory()
        buckets = buckets_of(stage)
        history.learn(buckets, (buckets % 3 == 0).astype(np.int8))  # as if some keys always aborted
        owners = graph.operations.transaction[: graph.operation_count].copy()
        shares = balanced_shares(graph, 3)
        return find_groups(stage, history, 0.0, split_giant=True), shares, graph.edge_set(), owners

    [(grouping, shares, edges, owners)] = look_into(toll_processing.build(), toll_epochs(1), look)
    assert grouping.count > 1
    assert shares is not None
    for group in (grouping.of_transaction, shares):
        assert all(group[owners[a]] == group[owners[b]] for a, b, _ in edges)
        sizes = np.bincount(group)
        assert sizes.min() > 0
    work = np.bincount(shares, np.bincount(owners))
    assert work.max() < 1.3 * work.min()


def test_one_component_is_one_group(look_into):
    parameters = replace(make.STREAMING_LEDGER, transactions=500, states=5)
    epoch = next(make.streaming_ledger(parameters, 1, 1))
    look = lambda stage: (no_history(stage).count, balanced_shares(stage.graph(), 2))  # noqa: E731
    assert look_into(streaming_ledger.build(), [epoch], look, {"accounts": 5, "assets": 5}) == [(1, None)]


@pytest.mark.parametrize(
    ("ratios", "weights", "parts"),
    [
        ([0.01, 0.02, 0.8, 0.9], [1, 1, 1, 1], [0, 0, 1, 1]),
        ([0.4, 0.5, 0.6], [1, 1, 1], [0, 0, 0]),  # not clearly apart
        ([0.0, 0.9], [99, 1], [0, 0]),  # apart, but hardly any work
        ([0.9, 0.0, 0.95], [5, 5, 5], [1, 0, 1]),
    ],
)
def test_splitting_by_aborts(ratios, weights, parts):
    found, names = split_by_aborts(np.array(ratios), np.array(weights, np.float64))
    assert found.tolist() == parts
    assert len(names) == len(set(parts))


def test_history_remembers_keys_and_forgets():
    history = AbortHistory()
    buckets = np.array([5, 5, 9, -1])
    history.learn(buckets, np.array([1, 0, 0, 1], np.int8))
    group = np.array([0, 0, 1, 2])
    assert history.ratios(buckets, group, 3, 0.3).tolist() == [0.5, 0.0, 0.3]
    for _ in range(20):
        history.learn(buckets, np.zeros(4, np.int8))
    assert history.ratios(buckets, group, 3, 0.3)[0] < 0.01


def run_tolls(policy, threads, grouped=False):
    with Engine(
        toll_processing.build(grouped=grouped, dense_above=3, slow_below=60.0), threads=threads, policy=policy
    ) as e:
        results = [e.run_epoch(epoch) for epoch in toll_epochs(4)]
        return [result.outcomes() for result in results], e.snapshot(), results


@pytest.fixture(scope="module")
def serially():
    return run_tolls("serial", 1)[:2]


@pytest.mark.parametrize("model", ["paper", "cost"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_models_give_the_serial_answer(serially, model, threads, grouped):
    outcomes, state, results = run_tolls(model, threads, grouped)
    assert (outcomes, state) == serially
    assert [len(result.choices) for result in results] == [1] * 4
    assert all(result.choices[0].chosen for result in results)


@pytest.mark.parametrize("threads", [2, 4])
def test_the_cost_model_goes_parallel_and_gives_the_serial_answer(threads):
    """Functions of some microseconds: whatever it tries, groups side by side included, the bytes are serial's."""

    def run(policy, threads):
        with Engine(
            toll_processing.build(busy_iterations=2_000, grouped=True), threads=threads, policy=policy
        ) as engine:
            results = [engine.run_epoch(epoch) for epoch in toll_epochs(12)]
            return [result.outcomes() for result in results], engine.snapshot(), results

    outcomes, state, results = run(CostModel(cores=threads), threads)
    assert (outcomes, state) == run("serial", 1)[:2]
    assert any(result.choices[0].looked for result in results)
    assert any(result.policies != ["serial"] for result in results)
    told = next(result.choices[0] for result in results if result.choices[0].looked)
    assert len(told.predicted_ms) >= 13
    assert told.properties


@pytest.mark.parametrize("first", range(0, 13, 3))
def test_every_policy_in_a_group_gives_the_serial_answer(serially, first):
    """Whole components dealt out, each share under another policy, serial ones beside parallel ones."""
    policies = [all_policies()[(first + step) % 13] for step in (0, 5)]

    def choose(operations, graph):
        shares = balanced_shares(graph(), 2)
        return [(policy, np.flatnonzero(shares == number)) for number, policy in enumerate(policies)]

    outcomes, state, results = run_tolls(FromFunction(choose, "dealt", "in turn"), 2)
    assert (outcomes, state) == serially
    assert results[0].policies == [policy.name for policy in policies]


def test_serial_groups_side_by_side(serially):
    def choose(operations, graph):
        shares = balanced_shares(graph(), 4)
        return [(Policy(), np.flatnonzero(shares == number)) for number in range(4)]

    outcomes, state, results = run_tolls(choose, 4)
    assert (outcomes, state) == serially
    assert min(results[0].operations_per_thread) > 0
