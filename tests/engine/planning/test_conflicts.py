"""Who waits for whom under the ordered policy, held against all pairs of transactions that touch the same key."""

# mypy: allow-untyped-defs

import random

import numpy as np
import pytest

from engine import Application, Engine, Epoch, Limits, int64, list_of, udf
from engine.buffers import Buffers
from engine.planning.conflict_kernel import NOBODY, PENDING
from engine.planning.conflicts import link_transactions
from engine.planning.epoch import input_batches
from engine.planning.keys import KeyRows
from engine.planning.stage import order_events
from engine.state.columns import ListColumn


@udf
def add(record, event):
    record.value += 1


@udf
def add_all(record, event, others):
    for other in others:
        record.value += other.value


def declare():
    """Transactions that write one key, write one list and read another, or only read."""
    app = Application("conflicts")
    cells = app.table("cells", key=int, value={"value": int64})
    more = app.table("more", key=int, value={"value": int64})
    app.event("Put", {"key": int64, "other": int64})
    app.event("Merge", {"keys": list_of(int64), "others": list_of(int64)})
    app.event("Look", {"keys": list_of(int64)})

    @udf
    def look_at(output, event, found):
        output.seen = len(found)

    @app.transaction("Put")
    def put(txn, event):
        txn.write(cells[event.key], add)
        txn.write(more[event.other], add)

    @app.transaction("Merge")
    def merge(txn, event):
        txn.write(cells[event.keys], add_all, reads=[cells[event.others]])

    @app.transaction("Look", output={"seen": int64})
    def look(txn, event):
        txn.output(look_at, reads=[cells[event.keys]])

    return app


app = declare()


def lists(chance, rows, keys):
    lengths = [chance.randint(0, 3) for _ in range(rows)]
    values = np.array([chance.randrange(keys) for _ in range(sum(lengths))], np.int64)
    return ListColumn(values, np.cumsum([0, *lengths]))


def random_epoch(chance, number, keys):
    """An epoch, and (reads, writes) of each of its transactions in the total order."""
    counts = [chance.randint(1, 12) for _ in range(3)]
    times = list(range(number * 100 + 1, number * 100 + 1 + sum(counts)))
    chance.shuffle(times)
    seqs = list(range(sum(counts)))
    puts, merges, looks = (
        {"ts": sorted(times[a:b]), "seq": seqs[a:b]}
        for a, b in ((0, counts[0]), (counts[0], counts[0] + counts[1]), (counts[0] + counts[1], sum(counts)))
    )
    puts["key"], puts["other"] = ([chance.randrange(keys) for _ in range(counts[0])] for _ in range(2))
    merges["keys"], merges["others"] = lists(chance, counts[1], keys), lists(chance, counts[1], keys)
    looks["keys"] = lists(chance, counts[2], keys)
    touched = {}
    for row, ts in enumerate(puts["ts"]):
        touched[ts] = set(), {("cells", puts["key"][row]), ("more", puts["other"][row])}
    for row, ts in enumerate(merges["ts"]):
        touched[ts] = tuple({("cells", key) for key in merges[name].to_list()[row]} for name in ("others", "keys"))
    for row, ts in enumerate(looks["ts"]):
        touched[ts] = {("cells", key) for key in looks["keys"].to_list()[row]}, set()
    epoch = Epoch(number, number * 100 + 99, {"Put": puts, "Merge": merges, "Look": looks})
    return epoch, [touched[ts] for ts in sorted(touched)]


def plan(engine, epoch):
    batches, turns = input_batches(app, epoch, None, Limits(), Buffers())
    events = order_events(batches, 0, turns)
    return link_transactions(engine.store, events, KeyRows(engine.store, Limits()))


def do_conflict(one, other):
    (reads, writes), (other_reads, other_writes) = one, other
    return bool(writes & other_writes or writes & other_reads or reads & other_writes)


@pytest.mark.parametrize("seed", range(40))
def test_conflicting_transactions_wait_and_no_others(seed):
    chance = random.Random(seed)
    keys = chance.choice([2, 5, 40])
    with Engine(app, threads=1) as engine:
        for number in range(3):  # cells are not cleared between epochs
            epoch, touched = random_epoch(chance, number, keys)
            found = plan(engine, epoch)
            before: list[set[int]] = []  # all that a transaction waits for, also through others
            awaited = set()
            for place, mine in enumerate(touched):
                direct = set(found.waits[found.wait_begin[place] : found.wait_begin[place + 1]].tolist())
                assert all(other < place and do_conflict(touched[other], mine) for other in direct)
                before.append(direct.union(*(before[other] for other in direct)))
                missing = [o for o in range(place) if o not in before[place] and do_conflict(touched[o], mine)]
                assert missing == [], f"{place} does not wait for {missing}"
                awaited |= direct
            expected = [PENDING if place in awaited else NOBODY for place in range(len(touched))]
            assert found.done.tolist() == expected


def test_readers_of_one_key_do_not_wait_for_each_other():
    looks = {"ts": list(range(1, 9)), "keys": ListColumn(np.zeros(8, np.int64), np.arange(9))}
    with Engine(app, threads=1) as engine:
        assert plan(engine, Epoch(0, 9, {"Look": looks})).waits.size == 0


def test_the_path_is_the_heaviest_chain():
    """Three writes of one key, each of two operations, then one of another."""
    puts = {"ts": [1, 2, 3, 4], "key": [7, 7, 7, 8], "other": [1, 2, 3, 4]}
    with Engine(app, threads=1) as engine:
        found = plan(engine, Epoch(0, 9, {"Put": puts}))
    assert (found.path, found.operations) == (6, 8)
    assert found.waits.tolist() == [0, 1]
