"""Order without an oracle: list-append histories. Every transaction appends its number to one key's list and tells what it saw
of another; from that alone follow all dependency edges, and each must point forward in event order."""

import random
from itertools import pairwise

import pytest

from engine import Application, Epoch, int64, udf, vector

KEYS, EPOCHS, EVENTS = 6, 2, 60
LENGTH = 96  # of a list; a key gets far fewer appends

histories = Application("contract-histories")
lists = histories.table("lists", key=int, value={"count": int64, "items": vector(int64, LENGTH)})
histories.event("Append", {"number": int64, "key": int64, "other": int64, "refused": int64})


@udf
def append(entry, event, other):
    entry.items[entry.count] = event.number
    entry.count += 1
    return other.count % 5 != event.refused  # whether it fails hangs on what others did


@udf
def tell(seen, event, other):
    seen.count = other.count
    for at in range(other.count):
        seen.items[at] = other.items[at]


@histories.transaction("Append", output={"count": int64, "items": vector(int64, LENGTH)})
def append_one(txn, event):
    other = lists[event.other]
    txn.write(lists[event.key], append, reads=[other])
    txn.output(tell, reads=[other])


def items(record):
    return list(record["items"][: record["count"]])


def random_epochs(seed):
    draw = random.Random(seed)
    for epoch in range(EPOCHS):
        yield Epoch(
            epoch,
            100 * epoch + 99,
            {
                "Append": {
                    "ts": [100 * epoch + draw.randrange(1, 99) for _ in range(EVENTS)],
                    "number": [EVENTS * epoch + at for at in range(EVENTS)],
                    "key": [draw.randrange(KEYS) for _ in range(EVENTS)],
                    "other": [draw.randrange(KEYS) for _ in range(EVENTS)],
                    "refused": [draw.randrange(8) for _ in range(EVENTS)],
                }
            },
        )


@pytest.mark.parametrize("seed", [1, 2])
def test_every_dependency_points_forward_in_event_order(drive, seed):
    driver = drive(histories)
    place, committed, seen, other = {}, set(), {}, {}
    for epoch in random_epochs(seed):
        columns = epoch.events["Append"]
        for outcome in driver.engine.run_epoch(epoch).outcomes():
            number = columns["number"][outcome.seq]
            place[number] = len(place)  # outcomes come in event order, which the next line makes sure of
            assert (outcome.ts, outcome.seq) == (columns["ts"][outcome.seq], number - EVENTS * epoch.number)
            if outcome.verdict == "committed":
                committed.add(number)
                seen[number], other[number] = items(outcome.output), columns["other"][outcome.seq]
    by_place = sorted(place, key=place.__getitem__)
    final = {key: items(record) for key, record in driver.state("lists").items()}

    assert 20 < len(committed) < len(place) - 5
    assert sorted(number for written in final.values() for number in written) == sorted(committed)
    for written in final.values():
        assert all(place[earlier] < place[later] for earlier, later in pairwise(written))  # write → write
    for reader in (number for number in by_place if number in committed):
        written = final.get(other[reader], [])
        count = len(seen[reader])
        assert seen[reader] == written[:count]  # it saw committed versions only, all of one moment
        if count:
            assert place[written[count - 1]] < place[reader]  # write → read
        if count < len(written):
            assert place[reader] <= place[written[count]]  # read → write; its own write comes after its read
