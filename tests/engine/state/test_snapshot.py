"""Snapshots: equal states are equal bytes, and no damaged byte passes."""

import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api.types import BOOLEAN, INT64, record_dtype
from engine.errors import InvariantError, SnapshotError
from engine.state.history import History
from engine.state.snapshot import dump, load
from engine.state.table import Table

DTYPE = record_dtype({"balance": INT64, "open": BOOLEAN})  # seven bytes of padding
META = {"epoch": 7, "punctuation": 123, "fire_times": {"hourly": 3600}}
KEYS = {
    ("int",): st.integers(-(2**63), 2**63 - 1),
    ("string",): st.text(max_size=8),
    ("int", "string"): st.tuples(st.integers(-5, 5), st.text(max_size=4)),
}


def make_state(key_types=("string",), size=DTYPE.itemsize):
    table = Table("accounts", key_types, DTYPE, bytes(size), create=True)
    return {"accounts": table}, {"accounts": History(size, 100)}


def small_state():
    tables, histories = make_state()
    rows = tables["accounts"].load(["b", "a", "c\0é"], {"balance": [1, 2, 3], "open": [True, False, True]})
    table, history = tables["accounts"], histories["accounts"]
    history.append(rows[[0, 1, 0]], np.array([10, 11, 9]), table.records[rows[[0, 1, 0]]])
    table.drop_rows(rows[1:2], history)
    return tables, histories


def contents(tables, histories):
    table, history = tables["accounts"], histories["accounts"]
    rows = table.index.sorted_rows()
    keys = table.index.keys_of(rows)
    return list(zip(keys, table.get(keys), [history.entries_of(int(row)) for row in rows], strict=True))


def test_what_is_dumped_comes_back():
    tables, histories = small_state()
    data = dump("ledger-1", META, tables, histories)
    again = make_state()
    assert load(data, "ledger-1", *again) == META
    assert contents(*again) == contents(tables, histories)
    assert [entry[0] for entry in contents(*again)] == ["a", "b", "c\0é"]
    assert len(again[0]["accounts"]) == 2
    assert dump("ledger-1", META, *again) == data
    # The deleted key's row is freed once its history is gone, as in the state that was dumped.
    again[0]["accounts"].release_rows(again[1]["accounts"].prune(1000))
    assert len(again[0]["accounts"].index) == 2


@pytest.mark.parametrize("key_types", list(KEYS), ids="-".join)
@settings(deadline=None)
@given(data=st.data())
def test_equal_states_are_equal_bytes(key_types, data):
    keys = data.draw(st.lists(KEYS[key_types], unique=True, max_size=30))
    value_of = {key: number for number, key in enumerate(keys)}
    extra = [key for key in data.draw(st.lists(KEYS[key_types], unique=True, max_size=30)) if key not in value_of]
    versions = data.draw(st.lists(st.tuples(st.sampled_from(keys), st.integers(0, 50)), max_size=30)) if keys else []
    bound = data.draw(st.integers(0, 50))
    dumps = []
    for shuffled in (keys, data.draw(st.permutations(keys))):
        tables, histories = make_state(key_types)
        table, history = tables["accounts"], histories["accounts"]
        noise = table.load(extra, {}) if len(dumps) else np.empty(0, dtype=np.int64)
        table.load(shuffled, {"balance": [value_of[key] for key in shuffled]})
        table.records[:, 12] = len(dumps)  # padding is no state
        table.drop_rows(noise)
        table.lookup_or_insert(table.encode(extra[:3]))  # planned, never committed: no state either
        rows = table.index.lookup(table.encode([key for key, _ in versions]))
        history.append(rows, np.array([ts for _, ts in versions], dtype=np.int64), table.records[rows])
        history.prune(bound)
        dumps.append(dump("app", META, tables, histories))
    assert dumps[0] == dumps[1]
    again = make_state(key_types)
    load(dumps[0], "app", *again)
    assert dump("app", META, *again) == dumps[0]


def test_every_truncation_is_noticed():
    data = dump("ledger-1", META, *small_state())
    for length in range(len(data)):
        with pytest.raises(SnapshotError):
            load(data[:length], "ledger-1", *make_state())
    with pytest.raises(SnapshotError):
        load(data + b"\0", "ledger-1", *make_state())


def test_every_flipped_bit_is_noticed():
    data = bytearray(dump("ledger-1", META, *small_state()))
    state = make_state()
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(SnapshotError):
                load(bytes(data), "ledger-1", *state)
            data[position] ^= 1 << bit
    assert len(state[0]["accounts"].index) == 0
    load(bytes(data), "ledger-1", *state)


def test_the_error_says_what_is_wrong():
    data = dump("ledger-1", META, *small_state())
    version_2 = data[:8] + struct.pack("<I", 2) + data[12:]
    for broken, message in [
        (b"PARQUET1" + data[8:], "not a Millrace snapshot"),
        (version_2, "format version 2, this Millrace reads 1"),
        (data[:100], "cut off inside section 0"),
        (data[:60] + b"\xff" + data[61:], "'header'.*CRC32"),
        (data[:-1] + bytes([data[-1] ^ 1]), "digest"),
    ]:
        with pytest.raises(SnapshotError, match=message):
            load(broken, "ledger-1", *make_state())
    with pytest.raises(SnapshotError, match="application 'ledger-1', this is 'ledger-2'"):
        load(data, "ledger-2", *make_state())
    with pytest.raises(SnapshotError, match="declared differently: accounts"):
        load(data, "ledger-1", *make_state(("int",)))
    with pytest.raises(InvariantError, match="empty tables"):
        load(data, "ledger-1", *small_state())


@pytest.mark.slow
@pytest.mark.parametrize("key_types", [("int",), ("string",)], ids="-".join)
def test_a_million_keys(key_types):
    """Under a second each way was measured on two cores; the bound leaves room for a busy machine."""
    count = 1_000_000
    numbers = np.random.default_rng(3).permutation(count)
    keys = numbers if key_types == ("int",) else [f"user{number:07d}" for number in numbers]
    tables, histories = make_state(key_types)
    tables["accounts"].load(keys, {"balance": numbers})
    dump("app", META, *make_state(key_types))  # compile first
    started = time.perf_counter()
    data = dump("app", META, tables, histories)
    dumped = time.perf_counter()
    again = make_state(key_types)
    load(data, "app", *again)
    loaded = time.perf_counter()
    print(f"dump {dumped - started:.2f} s, load {loaded - dumped:.2f} s, {len(data) / 1e6:.0f} MB")
    assert len(again[0]["accounts"]) == count
    assert loaded - started < 10
