"""The window history against a plain list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvariantError
from engine.state import history as history_module
from engine.state.history import History

entries = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=40)


def records_of(numbers):
    return np.array(numbers, dtype=np.int64).view(np.uint8).reshape(-1, 8)


@pytest.mark.parametrize("batch_entries", [3, 16_384])
@settings(deadline=None)
@given(steps=st.lists(st.tuples(entries, st.integers(0, 80)), max_size=8))
def test_against_a_list(batch_entries, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_module, "BATCH_ENTRIES", batch_entries)
        history, model, number, before = History(8, 10), [], 0, -1
        for batch, before_ts in steps:
            numbers = list(range(number, number + len(batch)))
            number += len(batch)
            rows, ts = ([entry[part] for entry in batch] for part in (0, 1))
            history.append(np.array(rows, np.int64), np.array(ts, np.int64), records_of(numbers))
            model += [(r, t, n) for r, t, n in zip(rows, ts, numbers, strict=True) if t >= before]
            check(history, model)
            had = {row for row, _, _ in model}
            before = max(before, before_ts)
            model = [entry for entry in model if entry[1] >= before]
            emptied = history.prune(before_ts)
            assert sorted(emptied.tolist()) == sorted(had - {row for row, _, _ in model})
            assert 2 * history.dead <= history.used
            check(history, model)


def check(history, model):
    assert len(history) == len(model)
    for row in range(7):
        expected = [(t, n.to_bytes(8, "little")) for r, t, n in model if r == row]
        assert history.entries_of(row) == expected
    in_use = {row for row, _, _ in model}
    assert history.rows_in_use(np.arange(9)).tolist() == [row in in_use for row in range(9)]
    rows, ts, records = history.entries()
    numbers = records.reshape(-1).view(np.int64).tolist()
    assert list(zip(rows.tolist(), ts.tolist(), numbers, strict=True)) == model


def test_memory_follows_the_window():
    history = History(8, 1000)
    sizes = []
    for epoch in range(60):
        ts = np.arange(1000) + epoch * 1000
        history.append(ts % 100, ts, records_of(ts))
        history.prune((epoch + 1) * 1000 - 2000)
        sizes.append(history.nbytes)
    assert max(sizes[10:]) <= 2 * max(sizes[:5])
    history.prune(10**9)
    assert len(history) == 0
    assert history.nbytes < 10_000


def test_kernels_find_the_arrays_at_the_addresses():
    history = History(8, 10)
    history.append(np.array([3]), np.array([5]), records_of([1]))
    assert history.addresses == (history.head.ctypes.data, history.arena.ctypes.data)


def test_wrong_appends_are_noticed():
    history = History(8, 10)
    with pytest.raises(InvariantError, match="8-byte records"):
        history.append(np.array([0]), np.array([0]), np.zeros((1, 16), np.uint8))
    with pytest.raises(InvariantError, match="row -1"):
        history.append(np.array([-1]), np.array([0]), np.zeros((1, 8), np.uint8))
