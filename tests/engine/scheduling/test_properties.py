"""The measured properties against slow twins: plain Python over the events and over the graph's edge set."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.scheduling.policy import Granularity
from engine.scheduling.properties import gini, measure, measure_shapes
from services.apps import grep_sum, streaming_ledger, toll_processing
from services.apps import workloads as make
from services.apps.workloads import Parameters

STATES = 40
SMALL = Parameters(theta=0.6, abort_share=0.1, transactions=150, states=STATES, length=4)
GROUPS = 3


def slow_gini(values):
    differences = sum(abs(a - b) for a in values for b in values)
    return differences / (2 * len(values) * sum(values)) if values else 0.0


def accesses_of(epoch, group_of):
    """(group, table) → accesses of each state that is written: by the ledger's own rules, event by event."""
    events = []
    for record_type, columns in epoch.events.items():
        for at in range(len(columns["ts"])):
            events.append((int(columns["ts"][at]), record_type, {name: int(c[at]) for name, c in columns.items()}))
    counts, written = Counter(), set()
    for number, (_, record_type, event) in enumerate(sorted(events, key=lambda e: e[0])):
        group = group_of[number]
        if record_type == "Deposit":
            touched = [("accounts", event["account"]), ("assets", event["asset"])]
        else:
            # The receivers' functions read the senders: counted where an earlier transaction has written them.
            senders = [("accounts", event["sender_account"]), ("assets", event["sender_asset"])]
            touched = [*senders, *(sender for sender in senders if sender in written)]
            touched += [("accounts", event["receiver_account"]), ("assets", event["receiver_asset"])]
        for table, key in touched:
            counts[group, table, key] += 1
        written.update(touched)
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_skew_against_twins(look_into, seed):
    epoch = next(make.streaming_ledger(SMALL, 1, seed))
    group = np.random.default_rng(seed).integers(0, GROUPS, SMALL.transactions)

    def look(stage):
        graph = stage.graph()
        owners = graph.operations.transaction[: graph.operation_count]
        return measure(graph, group, GROUPS, 1.5, np.full(GROUPS, 0.25), None), graph.edge_set(), owners.copy()

    tables = {"accounts": STATES, "assets": STATES}
    [(found, edges, owners)] = look_into(streaming_ledger.build(), [epoch], look, tables)
    counts = accesses_of(epoch, group)
    for g in range(GROUPS):
        kinds = Counter(kind for _, target, kind in edges if group[owners[target]] == g)
        mine = [t for t in owners.tolist() if group[t] == g]
        assert (found[g].temporal, found[g].parametric) == (kinds["TD"], kinds["PD"]), f"seed {seed} group {g}"
        assert found[g].operations == len(mine)
        assert found[g].transactions == len(set(mine))
        assert found[g].logical == len(mine) - len(set(mine))
        assert (found[g].complexity_us, found[g].abort_ratio, found[g].cyclic) == (1.5, 0.25, None)
    # A state may be written by several groups here, which disjoint groups cannot; so skew is compared for all as one.
    whole = np.zeros(SMALL.transactions, np.int64)
    [skew] = look_into(
        streaming_ledger.build(), [epoch], lambda s: measure(s.graph(), whole, 1, 0, np.zeros(1), None)[0], tables
    )
    expected = 0.0
    for table in ("accounts", "assets"):
        of_table = Counter()
        for (_, each, key), count in counts.items():
            if each == table:
                of_table[key] += count
        expected += sum(of_table.values()) * slow_gini(list(of_table.values()))
    assert skew.degree_skew == pytest.approx(expected / sum(counts.values())), f"seed {seed}"
    assert 0 <= skew.degree_skew <= 1


def test_skew_rises_with_theta(look_into):
    def skew_at(theta):
        epoch = next(make.streaming_ledger(replace(SMALL, theta=theta, transactions=2_000, states=1_000), 1, 1))
        whole = np.zeros(2_000, np.int64)
        tables = {"accounts": 1_000, "assets": 1_000}
        look = lambda s: measure(s.graph(), whole, 1, 0, np.zeros(1), None)[0].degree_skew  # noqa: E731
        return look_into(streaming_ledger.build(), [epoch], look, tables)[0]

    found = [skew_at(theta) for theta in (0.0, 0.4, 0.8, 1.2)]
    assert all(low < high for low, high in pairwise(found)), found


@pytest.mark.parametrize("values", [[1], [2, 2, 2], [1, 9], [1, 1, 1, 97], [3, 1, 4, 1, 5, 9, 2, 6]])
def test_gini_against_all_pairs(values):
    assert gini(np.array(values)) == pytest.approx(slow_gini(values))


def test_an_output_reads_like_a_read(look_into):
    """A toll notification has no key: what it reads are temporal dependencies, as the paper's READs would have."""
    epoch = next(make.toll_processing(Parameters(transactions=300, states=10), 1, 1))
    whole = np.zeros(300, np.int64)

    def look(stage):
        graph = stage.graph()
        return measure(graph, whole, 1, 0, np.zeros(1), None)[0], Counter(k for *_, k in graph.edge_set())

    [(found, kinds)] = look_into(toll_processing.build(), [epoch], look)
    assert found.temporal + found.parametric == kinds["TD"] + kinds["PD"]
    assert found.parametric < 0.2 * found.transactions < kinds["PD"]


@pytest.mark.parametrize("granularity", list(Granularity))
@pytest.mark.parametrize("seed", range(3))
def test_shapes_against_a_twin(look_into, granularity, seed):
    epoch = next(make.grep_sum(replace(SMALL, length=2, reads=3), 1, seed))

    def look(stage):
        graph, units = stage.graph(), stage.units(granularity)
        arrays = units.units
        members = [arrays.member[a:b].tolist() for a, b in pairwise(arrays.member_begin.tolist())]
        before = [arrays.predecessor[a:b].tolist() for a, b in pairwise(arrays.predecessor_begin.tolist())]
        shapes = measure_shapes(graph, units, np.zeros(stage.transactions, np.int64), [2.0])
        return shapes[0], members, before, arrays.stratum.tolist()

    [(shape, members, before, stratum)] = look_into(grep_sum.build(), [epoch], look)
    paths: dict[int, int] = {}

    def longest(unit):
        if unit not in paths:
            paths[unit] = len(members[unit]) + max((longest(each) for each in before[unit]), default=0)
        return paths[unit]

    weights: dict[int, list[int]] = {}
    for unit, level in enumerate(stratum):
        weights.setdefault(level, []).append(len(members[unit]))
    assert shape.units == len(members)
    assert shape.edges == sum(map(len, before))
    assert shape.strata == len(weights)
    assert shape.span == max(map(longest, range(len(members))))
    assert shape.steps == pytest.approx(sum(max(sum(w) / 2, max(w)) for w in weights.values())), f"seed {seed}"
