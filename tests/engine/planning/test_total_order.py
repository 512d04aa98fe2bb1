"""The total order, found in its short and its long ways, against a plain sort; and who the events are."""

import random

import numpy as np
import pytest

from engine import Application, Epoch, InputError, int64, udf
from engine.buffers import Buffers
from engine.config import Limits
from engine.planning.epoch import input_batches
from engine.planning.stage import order_events

app = Application("order")
sums = app.table("sums", key=int, value={"sum": int64})
KINDS = ("A", "B", "C")


@udf
def add(record, event):
    record.sum += event.value


def declare(kind):
    app.event(kind, {"value": int64})

    @app.transaction(kind)
    def _add(txn, event):
        txn.write(sums[event.value], add)


for each_kind in KINDS:
    declare(each_kind)


def make_events(draw, count, sources, numbered_by_time, ties):
    """(kind, ts, source, seq) in order of arrival."""
    times = sorted(draw.randrange(1, 2 + (count // 2 if ties else 50 * count)) for _ in range(count))
    owner = [draw.randrange(sources) for _ in range(count)]
    events, numbers = [], [list(range(owner.count(source))) for source in range(sources)]
    for each in numbers:
        if not numbered_by_time:
            draw.shuffle(each)
    for ts, source in zip(times, owner, strict=True):
        events.append((draw.choice(KINDS), ts, source, numbers[source].pop(0)))
    return events


def epoch_of(events, punctuation_ts):
    columns = {}
    for kind, ts, source, seq in events:
        for name, value in (("ts", ts), ("source", source), ("seq", seq), ("value", ts)):
            columns.setdefault(kind, {}).setdefault(name, []).append(value)
    return Epoch(0, punctuation_ts, columns)


@pytest.mark.parametrize("arrival", ["in order", "shuffled"])
@pytest.mark.parametrize("numbered_by_time", [True, False])
@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("ties", [True, False])
def test_the_order_is_by_time_source_and_number(arrival, numbered_by_time, sources, ties):
    found_on_the_way = 0
    for seed in range(40):
        draw = random.Random(seed)
        events = make_events(draw, draw.randrange(1, 60), sources, numbered_by_time, ties)
        if arrival == "shuffled":
            draw.shuffle(events)
        batches, turns = input_batches(app, epoch_of(events, 10_000), None, Limits(), Buffers())
        found_on_the_way += turns is not None
        order = order_events(batches, 0, turns)
        found = [
            (int(batches[b].ts[r]), int(batches[b].source[r]), int(batches[b].seq[r]))
            for b, r in zip(order.batch.tolist(), order.row.tolist(), strict=True)
        ]
        assert found == sorted((ts, source, seq) for _, ts, source, seq in events), f"seed {seed}"
    expected = 40 if (arrival, numbered_by_time, sources) == ("in order", True, 1) else 0
    assert found_on_the_way >= expected
    if sources > 1:
        assert found_on_the_way < 40


@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("wrong", ["twice", "missing", "negative", "late", "early"])
def test_wrong_events_are_refused_wherever_they_are(wrong, sources):
    for seed in range(40):
        draw = random.Random(seed)
        events = make_events(draw, draw.randrange(2, 40), sources, True, False)
        at = draw.randrange(len(events))
        kind, ts, source, seq = events[at]
        if wrong == "twice":
            events.insert(at, events[at])
        elif wrong == "missing":  # a gap before the last one of its source
            at = max(i for i, event in enumerate(events) if event[2] == source)
            kind, ts, source, seq = events[at]
            events[at] = (kind, ts, source, seq + 1)
        elif wrong == "negative":
            events[at] = (kind, ts, source, -1)
        else:
            events[at] = (kind, 10_001 if wrong == "late" else 0, source, seq)
        with pytest.raises(InputError):
            input_batches(app, epoch_of(events, 10_000), 0, Limits(), Buffers())


def test_buffers_are_used_again_and_given_back():
    buffers = Buffers()
    first = buffers.words("times", 100_000)
    assert np.shares_memory(first, buffers.words("times", 90_000))
    assert not np.shares_memory(first, buffers.words("others", 90_000))
    held = buffers.nbytes
    buffers.words("times", 100)
    assert buffers.nbytes < held
