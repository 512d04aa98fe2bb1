"""State over many epochs: changes, restarts, windows and fires, memory. `test_running_epoch.py` looks into a running one."""

import gc
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Application, Engine, Epoch, ExecutionOptions, InputError, int64, udf
from engine.state.changes import EpochChanges
from engine.state.key_encoding import decode_keys

# The serial mode compiled for the application, the same kernel on threads, the generic serial mode, and one parallel policy.
WAYS: dict[str, dict[str, Any]] = {
    "inlined": {"policy": "serial", "threads": 1, "wait": True},
    "ordered": {"policy": "ordered", "threads": 3, "wait": True},
    "serial": {"policy": "serial", "threads": 1, "options": ExecutionOptions(inlines=False)},
    "parallel": {"policy": "unstructured/fine/eager", "threads": 2},
}

# Everything that can happen to a key, for changes, memory and restarts

WINDOW = 12


@udf
def add_amount(record, event):
    record.count += event.amount
    return event.amount >= 0


@udf
def note_order(order, event, item):
    order.count += event.amount
    order.last = item.count
    return order.count % 7 != 0


@udf
def enough(event, item):
    return item.count >= event.least


@udf
def note_numbers(output, event, total, largest):
    output.total = total
    output.largest = largest


@udf
def add_one(record, event):
    record.count += 1


@udf
def add_total(record, event, total):
    record.count += total


@udf
def note_counts(output, event, item, order):
    output.total = item.count
    output.largest = order.count


def declare_shop(has_windows: bool) -> Application:
    """With windows no application is inlined, so there are two shops."""
    shop = Application("state-shop")
    stock = shop.table("stock", key=str, value={"count": int64})
    orders = shop.table("orders", key=(int, str), value={"count": int64, "last": int64})
    numbers = {"total": int64, "largest": int64}
    shop.event("Add", {"name": str, "shop": int64, "amount": int64})
    shop.event("Remove", {"name": str, "shop": int64, "least": int64})
    shop.event("Ask", {"name": str})

    @shop.transaction("Add")
    def add(txn, event):
        item = stock[event.name]
        txn.write(item, add_amount)
        txn.write(orders[event.shop, event.name], note_order, reads=[item])

    @shop.transaction("Remove")
    def remove(txn, event):
        item = stock[event.name]
        txn.delete(item, when=enough, when_reads=[item])
        txn.delete(orders[event.shop, event.name])

    @shop.transaction("Ask", output=numbers)
    def ask(txn, event):
        item = stock[event.name]
        if has_windows:
            txn.output(note_numbers, reads=[item.window(WINDOW, "sum", "count"), item.window(5, "max", "count")])
        else:
            txn.output(note_counts, reads=[item, orders[0, event.name]])

    @shop.every("Report", 8, output=numbers)
    def report(txn, event):
        if has_windows:
            total = txn.read(stock["a"].window(WINDOW, "sum", "count"))
            txn.write(stock["reports"], add_total, reads=[total])
            txn.output(note_numbers, reads=[total, stock["b"].window(WINDOW, "max", "count")])
        else:
            txn.write(stock["reports"], add_one)
            txn.output(note_counts, reads=[stock["a"], orders[0, "b"]])

    return shop


shop = declare_shop(has_windows=True)
plain_shop = declare_shop(has_windows=False)
SHOPS = {"inlined": plain_shop, "ordered": plain_shop, "serial": shop, "parallel": shop}


def shop_events(seed, count, until):
    """Random events with distinct times from 1 to `until`, as (ts, record type, fields)."""
    draw = random.Random(seed)
    events = []
    for ts in sorted(draw.sample(range(1, until + 1), count)):
        fields = {"name": draw.choice("abcdeé"), "shop": draw.randrange(3)}
        kind = draw.choices(["Add", "Remove", "Ask"], [6, 2, 2])[0]
        if kind == "Add":
            fields["amount"] = draw.randrange(-2, 9)
        elif kind == "Remove":
            fields["least"] = draw.randrange(20)
        else:
            del fields["shop"]
        events.append((ts, kind, fields))
    return events


def shop_epoch(number, punctuation_ts, events):
    columns: dict[str, dict[str, list[object]]] = {}
    for seq, (ts, kind, fields) in enumerate(events):
        for name, value in {"ts": ts, "seq": seq, **fields}.items():
            columns.setdefault(kind, {}).setdefault(name, []).append(value)
    return Epoch(number, punctuation_ts, columns)


def cut_epochs(events, cuts):
    """The events in epochs that end at the cuts."""
    bounds = [0, *cuts]
    return [
        shop_epoch(number, end, [event for event in events if begin < event[0] <= end])
        for number, (begin, end) in enumerate(pairwise(bounds))
    ]


def apply_changes(state, changes):
    """A copy of the state, brought up to date by what an epoch says it changed."""
    for table, changed in changes.items():
        keys = decode_keys(shop.tables[table].key_types, changed.keys)
        assert len(set(keys)) == len(keys)
        for key, live, record in zip(keys, changed.live, changed.records, strict=True):
            if live:
                state[table][key] = {name: record[name].item() for name in record.dtype.names}
            else:
                state[table].pop(key, None)


def versions_of(table, keys, ts, records):
    values = np.ascontiguousarray(records).view(shop.tables[table].dtype).reshape(-1)["count"]
    return list(zip(decode_keys(shop.tables[table].key_types, keys), ts.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_changes_of_an_epoch_make_the_state_before_the_state_after(seed, way):
    epochs = cut_epochs(shop_events(seed, 220, 300), range(10, 301, 10))
    with Engine(SHOPS[way], **WAYS[way]) as engine:
        assert engine.inlines == (way in ("inlined", "ordered"))
        engine.load("stock", ["a", "z"], {"count": [5, 6]})
        copy = {table: engine.state(table) for table in shop.tables}
        versions, seen = [], {"created": 0, "deleted": 0}
        for epoch in epochs:
            before = {table: set(keys) for table, keys in copy.items()}
            changes = engine.run_epoch(epoch).changes.tables
            apply_changes(copy, changes)
            assert copy == {table: engine.state(table) for table in shop.tables}, f"seed {seed}, epoch {epoch.number}"
            seen["created"] += sum(len(set(copy[table]) - before[table]) for table in copy)
            seen["deleted"] += sum(len(before[table] - set(copy[table])) for table in copy)
            if "stock" in changes and (added := changes["stock"]).history_keys is not None:
                versions += versions_of("stock", added.history_keys, added.history_ts, added.history_records)
            versions = [each for each in versions if each[1] > epoch.punctuation_ts - WINDOW]
            if way not in ("inlined", "ordered"):
                table, history = engine.store.tables[0], engine.store.histories[0]
                rows, ts, records = history.entries()
                assert versions_of("stock", table.index.encoded_keys_of(rows), ts, records) == versions
        assert min(seen.values()) > 10, seen
        assert list(engine.store.histories) == (
            [] if way in ("inlined", "ordered") else [0]
        )  # only windows need versions


@pytest.mark.parametrize("way", WAYS)
def test_changes_are_there_until_the_next_epoch_or_for_good(way):
    app, epochs = SHOPS[way], cut_epochs(shop_events(1, 80, 90), [30, 60, 90])
    with Engine(app, collect_changes=True, **WAYS[way]) as keeping, Engine(app, **WAYS[way]) as engine:
        kept = [keeping.run_epoch(epoch) for epoch in epochs]
        for epoch, other in zip(epochs, kept, strict=True):
            result = engine.run_epoch(epoch)
            states: list[dict[str, dict[Any, Any]]] = [{"stock": {}, "orders": {}} for _ in range(2)]
            for state, changes in zip(states, (result.changes, other.changes), strict=True):
                apply_changes(state, changes.tables)
            assert states[0] == states[1] != {"stock": {}, "orders": {}}
        missed = engine.run_epoch(Epoch(3, 99))
        assert result.changes.tables.keys() == other.changes.tables.keys()  # asked for in time
        engine.run_epoch(Epoch(4, 109))
        with pytest.raises(InputError, match=r"epoch 3's changes .* collect_changes=True"):
            _ = missed.changes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [4, 5])
def test_going_on_from_a_snapshot_is_going_on(seed, way):
    """Restarted before every epoch, with versions in windows and fires pending, against an engine that just runs."""
    epochs = cut_epochs(shop_events(seed, 120, 150), range(7, 151, 7))
    with Engine(SHOPS[way], threads=1, options=ExecutionOptions(inlines=False)) as steady:
        steady.load("stock", ["a"], {"count": [5]})
        saved, fired = steady.snapshot(), 0
        for epoch in epochs:
            with Engine.restore(SHOPS[way], saved, **WAYS[way]) as restarted:
                assert restarted.snapshot() == saved
                outcomes = restarted.run_epoch(epoch).outcomes()
                saved = restarted.snapshot()
            assert outcomes == steady.run_epoch(epoch).outcomes(), f"seed {seed}, epoch {epoch.number}"
            assert saved == steady.snapshot(), f"seed {seed}, epoch {epoch.number}"
            fired += sum(each.record_type == "Report" for each in outcomes)
        assert fired >= 15


@pytest.mark.parametrize("seed", [6, 7])
def test_windows_and_fires_follow_event_time_however_the_epochs_are_cut(seed):
    events = shop_events(seed, 60, 200)
    events = [event for event in events if not 70 < event[0] <= 130]  # a long silence: only fires

    def run(cuts):
        with Engine(shop, threads=1) as engine:
            told = [each for epoch in cut_epochs(events, cuts) for each in engine.run_epoch(epoch).outcomes()]
            state = {table: engine.state(table) for table in shop.tables}
        return [(each.record_type, each.ts, each.verdict, each.reason, each.output) for each in told], state

    whole = run([200])
    assert run(range(1, 201)) == whole  # most of these epochs are empty
    assert run([3, 3, 64, 71, 90, 104, 104, 200]) == whole
    reports = [ts for kind, ts, *_ in whole[0] if kind == "Report"]
    first = events[0][0] // 8 * 8 + 8
    assert reports == list(range(first, 201, 8))
    quiet = [output for kind, ts, _, _, output in whole[0] if kind == "Report" and 70 + WINDOW < ts <= 130]
    assert quiet and {each["total"] for each in quiet} == {0}


# Memory

KEYS_AN_EPOCH = 3000
churn = Application("state-churn")
names = churn.table("names", key=str, value={"count": int64})
churn.event("Make", {"name": str, "amount": int64})
churn.event("Drop", {"name": str})


@udf
def read_window(record, event, total):
    record.count = event.amount + total
    return event.amount >= 0


@churn.transaction("Make")
def make(txn, event):
    txn.write(names[event.name], read_window, reads=[names[event.name].window(3, "sum", "count")])


@churn.transaction("Drop")
def drop(txn, event):
    txn.delete(names[event.name])


def churn_epoch(number):
    """New keys, as many that fail to be made, and the keys of the epoch before deleted."""
    new = [f"name {number:04} {at:04}" for at in range(KEYS_AN_EPOCH)]
    refused = [f"refused {number:04} {at:04}" for at in range(KEYS_AN_EPOCH)]
    old = [f"name {number - 1:04} {at:04}" for at in range(KEYS_AN_EPOCH)] if number else []
    make = {
        "ts": [number + 1] * 2 * KEYS_AN_EPOCH,
        "name": new + refused,
        "amount": [1] * KEYS_AN_EPOCH + [-1] * KEYS_AN_EPOCH,
        "seq": np.arange(2 * KEYS_AN_EPOCH),
    }
    drop = {"ts": [number + 1] * len(old), "name": old, "seq": np.arange(len(old)) + 2 * KEYS_AN_EPOCH}
    return Epoch(number, number + 1, {"Make": make, "Drop": drop})


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
@pytest.mark.parametrize("way", ["serial", "parallel"])  # with windows it cannot be inlined
def test_memory_returns_to_its_level_after_every_epoch(way):
    stored, resident, working_bytes = [], [], 0
    with Engine(churn, **WAYS[way]) as engine:
        for number in range(40):
            result = engine.run_epoch(churn_epoch(number))
            assert (result.committed, result.failed) == (KEYS_AN_EPOCH * (2 if number else 1), KEYS_AN_EPOCH)
            working_bytes = max(working_bytes, result.working_bytes)
            del result
            gc.collect()
            stored.append(engine.store.nbytes)
            resident.append(resident_bytes())
        assert len(engine.store.tables[0]) == KEYS_AN_EPOCH
        assert max(stored[20:]) <= max(stored[:20])
        # A leak of an epoch's working memory would have added it thirty times since.
        assert max(resident[20:]) - max(resident[:10]) < 6 * working_bytes
        for number, ts in ((40, 41), (41, 60)):  # delete the last keys, then let the windows pass
            last = {"ts": [41] * KEYS_AN_EPOCH, "name": [f"name 0039 {at:04}" for at in range(KEYS_AN_EPOCH)]}
            engine.run_epoch(Epoch(number, ts, {"Drop": last} if number == 40 else {}))
        assert (engine.state("names"), len(engine.store.histories[0]), len(engine.store.tables[0].index)) == ({}, 0, 0)
        assert engine.store.nbytes < max(stored) / 4


@udf
def set_value(cell, event):
    cell.value = event.value


def test_an_engine_follows_the_changes_of_another() -> None:
    """Created, changed and deleted keys arrive; epochs out of order and unknown tables are refused, with nothing changed."""
    app = Application("followed")
    app.event("Set", {"key": int64, "value": int64})
    app.event("Drop", {"key": int64})
    cells = app.table("cells", key=int, value={"value": int64}, create=True)

    @app.transaction("Set")
    def _set(txn, event):
        txn.write(cells[event.key], set_value)

    @app.transaction("Drop")
    def _drop(txn, event):
        txn.delete(cells[event.key])

    with Engine(app, threads=1, collect_changes=True) as leader, Engine(app, threads=1) as follower:
        first = leader.run_epoch(Epoch(0, 9, {"Set": {"ts": [1, 2], "key": [1, 2], "value": [10, 20]}}))
        drop = {"ts": [11], "seq": [0], "key": [1]}
        change = {"ts": [12], "seq": [1], "key": [2], "value": [5]}
        second = leader.run_epoch(Epoch(1, 19, {"Drop": drop, "Set": change}))
        follower.follow(first.changes)
        assert follower.state("cells") == {1: {"value": 10}, 2: {"value": 20}}
        with pytest.raises(InputError, match="epoch 0 come after epoch 0"):
            follower.follow(first.changes)
        follower.follow(second.changes)
        assert follower.state("cells") == leader.state("cells") == {2: {"value": 5}}
        assert follower.snapshot() == leader.snapshot()
        with pytest.raises(InputError, match="no table 'nowhere'"):
            follower.follow(EpochChanges(2, 29, {"nowhere": second.changes.tables["cells"]}))
        assert follower.snapshot() == leader.snapshot()
