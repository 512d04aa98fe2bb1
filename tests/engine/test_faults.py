"""What goes wrong inside user functions fails that transaction with its reason and leaves no trace; the others never notice.

`tests/engine/functions` holds checked arithmetic against Python, function by function; here it is the whole engine.
"""

import math
from typing import Any

import numpy as np
import pytest

from engine import (
    Application,
    Engine,
    Epoch,
    ExecutionOptions,
    Reason,
    all_policies,
    float64,
    int64,
    list_of,
    udf,
    vector,
)

# The serial mode compiled for the application, the same kernel on threads, the generic serial mode, and one parallel policy.
WAYS: dict[str, dict[str, Any]] = {
    "inlined": {"policy": "serial", "threads": 1, "wait": True},
    "ordered": {"policy": "ordered", "threads": 3, "wait": True},
    "serial": {"policy": "serial", "threads": 1, "options": ExecutionOptions(inlines=False)},
    "parallel": {"policy": "unstructured/fine/lazy", "threads": 2},
}
LEAST, MOST = -(2**63), 2**63 - 1
NAN, INFINITY = float("nan"), float("inf")
OVERFLOW, DIVISION, NOT_A_NUMBER = Reason.OVERFLOW, Reason.DIVISION_BY_ZERO, Reason.NOT_A_NUMBER

CELL = {"count": int64, "share": float64, "items": vector(int64, 3)}
FIELDS = {"what": int64, "key": int64, "a": int64, "b": int64, "x": float64, "y": float64, "others": list_of(int64)}


@udf
def add_one(cell, event):
    cell.count += 1


@udf
def go_wrong(cell, event, others):
    what, a, b, x, y = event.what, event.a, event.b, event.x, event.y
    if what == 0:
        cell.count = a + b
    elif what == 1:
        cell.count = a - b
    elif what == 2:
        cell.count = a * b
    elif what == 3:
        cell.count = a // b
    elif what == 4:
        cell.count = a % b
    elif what == 5:
        cell.count = -a
    elif what == 6:
        cell.count = abs(a)
    elif what == 7:
        cell.count = a**b
    elif what == 8:
        cell.count = a << b
    elif what == 9:
        cell.count = int(x)
    elif what == 10:
        cell.share = x / y
    elif what == 11:
        cell.share = x * y
    elif what == 12:
        cell.share = x
    elif what == 13:
        cell.share = math.sqrt(x)
    elif what == 14:
        cell.share = math.exp(x)
    elif what == 15:
        cell.share = x % y
    elif what == 16:
        cell.items[a] = 1
    elif what == 17:
        cell.count = cell.items[a]
    elif what == 18:
        cell.count = others[a].count


def declare_faults() -> Application:
    app = Application("faults")
    cells = app.table("cells", key=int, value=CELL)
    app.event("Fault", FIELDS)

    @app.transaction("Fault")
    def fault(txn, event):
        txn.write(cells[event.key], add_one)  # done before the fault, so that there is something to take back
        txn.write(cells[0], add_one)
        txn.write(cells[1], go_wrong, reads=[cells[event.others]])

    return app


faults = declare_faults()
# what, a, b, x, y, reason
CASES = [
    (0, MOST, 1, 0.0, 0.0, OVERFLOW),
    (0, LEAST, -1, 0.0, 0.0, OVERFLOW),
    (1, LEAST, 1, 0.0, 0.0, OVERFLOW),
    (2, 2**32, 2**31, 0.0, 0.0, OVERFLOW),
    (2, LEAST, -1, 0.0, 0.0, OVERFLOW),
    (3, 1, 0, 0.0, 0.0, DIVISION),
    (3, LEAST, -1, 0.0, 0.0, OVERFLOW),  # the one quotient that does not fit; the machine's division would trap
    (4, 1, 0, 0.0, 0.0, DIVISION),
    (5, LEAST, 0, 0.0, 0.0, OVERFLOW),
    (6, LEAST, 0, 0.0, 0.0, OVERFLOW),
    (7, 10, 19, 0.0, 0.0, OVERFLOW),
    (7, 10, -1, 0.0, 0.0, NOT_A_NUMBER),
    (8, 1, 63, 0.0, 0.0, OVERFLOW),
    (8, 1, -1, 0.0, 0.0, OVERFLOW),
    (9, 0, 0, 1e19, 0.0, OVERFLOW),
    (9, 0, 0, NAN, 0.0, NOT_A_NUMBER),
    (10, 0, 0, 1.0, 0.0, DIVISION),
    (10, 0, 0, 0.0, -0.0, DIVISION),
    (10, 0, 0, NAN, 1.0, NOT_A_NUMBER),
    (11, 0, 0, 1e200, 1e200, OVERFLOW),
    (11, 0, 0, INFINITY, 0.0, NOT_A_NUMBER),
    (12, 0, 0, NAN, 0.0, NOT_A_NUMBER),
    (12, 0, 0, -INFINITY, 0.0, OVERFLOW),
    (13, 0, 0, -1.0, 0.0, NOT_A_NUMBER),
    (14, 0, 0, 1e3, 0.0, OVERFLOW),
    (15, 0, 0, 1.0, 0.0, DIVISION),
    (16, 3, 0, 0.0, 0.0, Reason.BAD_INDEX),
    (16, -4, 0, 0.0, 0.0, Reason.BAD_INDEX),
    (17, MOST, 0, 0.0, 0.0, Reason.BAD_INDEX),
    (18, 2, 0, 0.0, 0.0, Reason.BAD_INDEX),
    (18, LEAST, 0, 0.0, 0.0, Reason.BAD_INDEX),
]
GOOD = (0, 20, 22, 0.0, 0.0, Reason.NONE)


def epoch_of(cases, number):
    """The cases one after another, each at its own new key and with two other cells to look at."""
    what, a, b, x, y, _ = map(list, zip(*cases, strict=True))
    first = 100 * number
    columns = {
        "ts": [first + 1 + at for at in range(len(cases))],
        "key": [first + 1000 + at for at in range(len(cases))],
    }
    others = [[1, 2000 + first + at] for at in range(len(cases))]
    return Epoch(
        number, first + 99, {"Fault": {**columns, "what": what, "a": a, "b": b, "x": x, "y": y, "others": others}}
    )


@pytest.mark.parametrize("way", WAYS)
def test_row_20_every_fault_fails_its_transaction_and_only_that(way):
    mixed = [case for fault in CASES for case in (fault, GOOD)]
    with Engine(faults, **WAYS[way]) as engine:
        engine.load("cells", [0, 1], {"count": [0, 7]})
        outcomes = engine.run_epoch(epoch_of(mixed, 0)).outcomes()
        expected = [("failed", case[-1], 2, 1) if case is not GOOD else ("committed", 0, -1, None) for case in mixed]
        assert [(each.verdict, each.reason, each.statement, each.key) for each in outcomes] == expected
        state = engine.state("cells")
    good_keys = [1000 + at for at, case in enumerate(mixed) if case is GOOD]
    zero = {"share": 0.0, "items": (0, 0, 0)}
    assert state.pop(0) == {"count": len(good_keys), **zero}
    assert state.pop(1) == {"count": 42, **zero}
    assert state == {key: {"count": 1, **zero} for key in good_keys}


@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_of_faults_alone_changes_nothing_but_time(way):
    with Engine(faults, **WAYS[way]) as engine, Engine(faults, threads=1) as spared:
        for each in (engine, spared):
            each.load("cells", [1], {"count": [7]})
            each.run_epoch(epoch_of([GOOD], 0))
        memory_bytes = engine.store.nbytes
        result = engine.run_epoch(epoch_of(CASES, 1))
        assert (result.failed, result.committed, result.changes.tables) == (len(CASES), 0, {})
        spared.run_epoch(Epoch(1, 199))
        assert engine.snapshot() == spared.snapshot()
        assert engine.store.nbytes <= 2 * memory_bytes
        for each in (engine, spared):
            each.run_epoch(epoch_of([GOOD], 2))
        assert engine.snapshot() == spared.snapshot()


@udf
def tenth(event):
    return 10 // event.divisor


@udf
def tenth_is_odd(event):
    return 10 // event.divisor % 2 == 1


@udf
def set_cell(cell, event):
    cell.count = event.amount


@udf
def note_tenth(output, event):
    output.count = 10 // event.divisor


@udf
def tenths_fit(cell):
    return 10 // cell.count > 0


@udf
def product(total, cell):
    total.product = (total.product + 1) * cell.count


@udf
def note_product(output, event, total):
    output.count = total.product


@udf
def note_sum(output, event, total):
    output.count = total


def declare_places(place: str) -> Application:
    """A transaction that divides by the event's divisor at one place beside its first write."""
    app = Application("fault-places")
    cells = app.table("cells", key=int, value={"count": int64})
    strict = app.table("strict", key=int, value={"count": int64}, constraint=tenths_fit)
    app.event("Sent", {"divisor": int64, "amount": int64})
    app.event("Derived", {"count": int64})
    derive = {"share": tenth} if place == "derive" else {}
    filters = tenth_is_odd if place == "filter" else None

    @app.transaction("Sent", derive=derive, filter=filters, output={"count": int64})
    def sent(txn, event):
        txn.write(cells[5], set_cell)
        if place == "when":
            txn.write(cells[6], set_cell, when=tenth_is_odd)
        elif place == "computed":
            txn.write(cells.computed(tenth), set_cell)
        elif place == "output":
            txn.output(note_tenth)
        elif place == "emit":
            txn.emit("Derived", note_tenth)
        elif place == "constraint":
            txn.write(strict[event.divisor], set_cell)
        elif place == "fold":
            txn.output(note_product, reads=[cells.fold(product, into={"product": int64})])
        elif place == "window":
            txn.output(note_sum, reads=[cells[5].window(100, "sum", "count")])

    @app.transaction("Derived")
    def derived(txn, event):
        txn.write(cells[7], add_one)

    return app


# place: (divisor, amount) of an event that goes wrong, its reason, the failing statement
PLACES = {
    "derive": (0, 3, DIVISION, -1),
    "filter": (0, 3, DIVISION, -1),
    "when": (0, 3, DIVISION, 1),
    "computed": (0, 3, DIVISION, 1),
    "output": (0, 3, DIVISION, 1),
    "emit": (0, 3, DIVISION, 1),
    "constraint": (2, 0, DIVISION, 1),
    "fold": (2, 3, OVERFLOW, 1),
    "window": (2, 3, OVERFLOW, 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_row_20_a_fault_anywhere_in_a_transaction_fails_it(place, way):
    divisor, amount, reason, statement = PLACES[place]
    with Engine(declare_places(place), **WAYS[way]) as engine:
        engine.load("cells", [1, 2], {"count": [MOST, MOST] if place == "fold" else [1, 2]})
        amounts = [MOST, MOST, amount] if place == "window" else [4, 4, amount]
        divisors = [2, 2, divisor] if place != "fold" else [2, divisor, divisor]
        events = {"ts": [1, 2, 3], "divisor": divisors, "amount": amounts}
        outcomes = engine.run_epoch(Epoch(0, 5, {"Sent": events})).outcomes()
        sent = [each for each in outcomes if each.record_type == "Sent"]
        told = (sent[2].verdict, sent[2].reason, sent[2].statement, sent[2].output)
        assert told == ("failed", reason, statement, None)
        if place == "fold":  # both loaded numbers together are too much for everyone
            assert engine.state("cells") == {1: {"count": MOST}, 2: {"count": MOST}}
        else:
            assert [each.verdict for each in sent[:2]] == ["committed", "committed"]
            assert engine.state("cells")[5] == {"count": amounts[1]}


one_key = Application("one-key")
counters = one_key.table("counters", key=int, value={"count": int64})
one_key.event("Bump", {"keys": list_of(int64), "times": list_of(int64), "limit": int64})


@udf
def bump(counter, event, times, before):
    counter.count += times
    return before[0].count < event.limit


@one_key.transaction("Bump")
def bump_all(txn, event):
    txn.write(counters[event.keys], bump, each=[event.times], reads=[counters[event.keys]])
    txn.read(counters[event.keys])


@pytest.mark.parametrize("policy", all_policies(), ids=lambda policy: policy.name)
def test_row_23_all_events_on_one_key_each_touching_it_a_hundred_times(policy):
    """24 transactions bump key 3 by 100, in 100 writes that read it 100 times; those that find 800 or more refuse."""
    count, repeats, limit = 24, 100, 800
    draw = np.random.default_rng(5)
    events = {
        "ts": draw.permutation(count) + 1,
        "keys": [[3] * repeats] * count,
        "times": [[1] * repeats] * count,
        "limit": [limit] * count,
    }
    with Engine(one_key, policy=policy, threads=2) as engine:
        result = engine.run_epoch(Epoch(0, count, {"Bump": events}))
        assert [each.verdict for each in result.outcomes()] == ["committed"] * 8 + ["failed"] * 16
        assert {(each.reason, each.key) for each in result.outcomes()[8:]} == {(Reason.REFUSED, 3)}
        assert engine.state("counters") == {3: {"count": 800}}
