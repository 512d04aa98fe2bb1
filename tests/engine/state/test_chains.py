"""Folds over runs of a version chain against folds that walk a plain list, version by version."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.execution.window_kernel import (
    count_in_range,
    float_extreme_in_range,
    int_extreme_in_range,
    total_in_range,
)
from engine.state.chain_kernels import (
    END,
    FLOAT_GREATEST,
    FLOAT_LEAST,
    FLOAT_TOTAL,
    INT_GREATEST,
    INT_LEAST,
    INT_TOTAL,
)
from engine.state.history import History
from engine.state.measures import lay_out

MEASURES = lay_out([(INT_TOTAL, 0), (FLOAT_TOTAL, 8), (INT_LEAST, 0), (FLOAT_LEAST, 8), (INT_GREATEST, 0),
                    (FLOAT_GREATEST, 8)])  # fmt: skip
PLACE = dict(zip(MEASURES.kind.tolist(), MEASURES.word.tolist(), strict=True))
RECORD_WORDS = 2
LARGEST = 2**63 - 1

ints = st.integers(-50, 50) | st.sampled_from([LARGEST, -LARGEST, -LARGEST - 1, 2**62])
floats = st.integers(-50, 50).map(float) | st.sampled_from([0.0, -0.0, 0.1, 2.0**53, -(2.0**53), math.nan, 1e300])
versions = st.lists(st.tuples(st.integers(0, 30), ints, floats), max_size=60)


def chain_of(entries, before_ts=0):
    """A history with one row: (the history, the base of its nodes, its newest node)."""
    history = History(8 * RECORD_WORDS, 100, MEASURES)
    ts = np.array([entry[0] for entry in entries], np.int64)
    records = np.empty((len(entries), RECORD_WORDS), np.int64)
    records[:, 0] = np.array([entry[1] for entry in entries], np.int64)
    records[:, 1] = np.array([entry[2] for entry in entries], np.float64).view(np.int64)
    half = len(entries) // 2  # in two parts, with pruning between them
    for part in (slice(0, half), slice(half, None)):
        history.append(np.zeros(ts[part].size, np.int64), ts[part], records[part].view(np.uint8))
        history.prune(before_ts)
    base = history.addresses[1]
    entry = int(history.head[0]) if history.head.size else -1
    return history, base, entry * (RECORD_WORDS + MEASURES.node_words) + RECORD_WORDS if entry >= 0 else END


def walked_total(values, limit):
    """The sum if no order of additions can exceed the limit, else None."""
    return sum(values) if sum(abs(value) for value in values) <= limit else None


def total(kind, base, node, oldest_ts):
    found = total_in_range(kind, base, node, oldest_ts, RECORD_WORDS, PLACE[kind], 8 * (kind == FLOAT_TOTAL), 0, 0, 0)
    return found[:2] if found[2] >= 0 else None


@settings(deadline=None, max_examples=300)
@given(entries=versions, sort=st.booleans(), oldest_ts=st.integers(0, 31), before_ts=st.integers(0, 31))
def test_runs_give_what_walking_gives(entries, sort, oldest_ts, before_ts):
    entries = sorted(entries, key=lambda entry: entry[0]) if sort else entries
    oldest_ts = max(oldest_ts, before_ts)
    _history, base, node = chain_of(entries, before_ts)
    inside = [entry for entry in entries if entry[0] >= oldest_ts]
    numbers = [entry[1] for entry in inside]
    assert count_in_range(base, node, oldest_ts)[0] == len(inside)

    expected = walked_total(numbers, LARGEST)
    assert total(INT_TOTAL, base, node, oldest_ts) == (None if expected is None else (len(inside), expected))
    shares = [entry[2] for entry in inside]
    whole = all(share == share and share == math.floor(share) and abs(share) <= 2**53 for share in shares)
    expected = walked_total([int(share) for share in shares], 2**53) if whole else None
    assert total(FLOAT_TOTAL, base, node, oldest_ts) == (None if expected is None else (len(inside), expected))
    if expected is not None:
        in_order = 0.0
        for share in shares:
            in_order += share
        assert float(expected).hex() == in_order.hex()

    for kind, pick, start in ((INT_LEAST, min, LARGEST), (INT_GREATEST, max, -LARGEST - 1)):
        found = int_extreme_in_range(kind, base, node, oldest_ts, RECORD_WORDS, PLACE[kind], 0, start)[0]
        assert found == pick([start, *numbers])
    for kind, pick, start in ((FLOAT_LEAST, min, math.inf), (FLOAT_GREATEST, max, -math.inf)):
        found = float_extreme_in_range(kind, base, node, oldest_ts, RECORD_WORDS, PLACE[kind], 8, start)[0]
        if any(math.isnan(share) for share in shares):
            assert math.isnan(found)
        else:
            # Python's min and max keep the first of equal ones, as the walking kernel does: it matters for -0.0.
            assert found.hex() == pick([start, *shares]).hex()


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_a_range_of_any_size_takes_few_steps(count):
    _history, base, node = chain_of([(ts, ts % 7, 1.0) for ts in range(count)])
    for oldest_ts in (0, 1, count // 3, count - 1000, count - 1, count):
        number, found, _magnitude, visited = total_in_range(
            INT_TOTAL, base, node, oldest_ts, RECORD_WORDS, PLACE[INT_TOTAL], 0, 0, 0, 0
        )
        assert (number, found) == (count - oldest_ts, sum(ts % 7 for ts in range(oldest_ts, count)))
        assert visited <= 3 * math.log2(count) + 3


def test_linking_anew_is_paid_for_by_what_died():
    """Entries that are copied together are never more than those that died since the last time."""
    history = History(8 * RECORD_WORDS, 100, MEASURES)
    died = linked_anew = 0
    for epoch in range(200):
        ts = np.arange(epoch * 100, epoch * 100 + 100)
        used_before = history.used
        history.append(np.zeros(100, np.int64), ts, np.zeros((100, 8 * RECORD_WORDS), np.uint8))
        kept = len(history)
        history.prune(epoch * 100 - 350)
        died += kept - len(history)
        if history.used < used_before + 100:
            linked_anew += history.used
    assert linked_anew <= died
