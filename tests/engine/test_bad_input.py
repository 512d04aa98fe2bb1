"""Bad input: refused with a typed error before anything ran, or failed as data; either way without a trace.

"Without a trace" is checked the hard way: the snapshot's bytes before and after are equal, and a good epoch afterwards gives
what it gives on an engine that never saw the bad one.
"""

from typing import Any

import numpy as np
import pytest

from engine import (
    Application,
    Engine,
    Epoch,
    ExecutionOptions,
    InputError,
    LimitError,
    Limits,
    boolean,
    float64,
    int64,
    list_of,
    udf,
    vector,
)
from engine.state.columns import ListColumn

# The serial mode compiled for the application, the same kernel on threads, the generic serial mode, and one parallel policy.
WAYS: dict[str, dict[str, Any]] = {
    "inlined": {"policy": "serial", "threads": 1, "wait": True},
    "ordered": {"policy": "ordered", "threads": 3, "wait": True},
    "serial": {"policy": "serial", "threads": 1, "options": ExecutionOptions(inlines=False)},
    "parallel": {"policy": "unstructured/fine/lazy", "threads": 2},
}


@udf
def set_all(record, event):
    record.count = event.count
    record.share = event.share
    record.pair[0] = event.pair[1]


@udf
def add_amount(record, event, amount):
    record.count += amount


@udf
def add_one(record, event):
    record.count += 1


@udf
def fill_sequel(sequel, event):
    sequel.times = 2


@udf
def note_number(output, event, number):
    output.number = number


@udf
def note_count(output, event, item):
    output.number = item.count


def declare(has_windows: bool) -> Application:
    """With windows no application is inlined, so there are two of them."""
    app = Application("bad-input")
    items = app.table("items", key=int, value={"count": int64, "share": float64, "pair": vector(int64, 2)})
    names = app.table("names", key=(str, int), value={"count": int64})
    app.event(
        "Put",
        {
            "key": int64,
            "count": int64,
            "share": float64,
            "open": boolean,
            "name": str,
            "pair": vector(int64, 2),
            "keys": list_of(int64),
            "amounts": list_of(int64),
        },
    )
    app.event("Look", {"key": int64})
    app.event("Sequel", {"times": int64})
    app.event("Chain", {"keys": list_of(int64), "amounts": list_of(int64)})
    app.event("Link", {"times": int64, "keys": list_of(int64), "amounts": list_of(int64)})

    @app.transaction("Put")
    def put(txn, event):
        txn.write(items[event.key], set_all)
        txn.write(names[event.name, event.keys], add_amount, each=[event.amounts])
        txn.emit("Sequel", fill_sequel)

    @app.transaction("Look", output={"number": int64})
    def look(txn, event):
        if has_windows:
            txn.output(note_number, reads=[items[event.key].window(10, "count")])
        else:
            txn.output(note_count, reads=[items[event.key]])

    @app.transaction("Sequel")
    def sequel(txn, event):
        txn.write(names["sequel", event.times], add_one)

    @app.transaction("Chain")
    def chain(txn, event):
        txn.write(items[77], add_one)
        txn.emit("Link", fill_sequel, copy={"keys": event.keys, "amounts": event.amounts})

    @app.transaction("Link")
    def link(txn, event):
        txn.write(names["link", event.keys], add_amount, each=[event.amounts])

    @app.every("Tick", 10)
    def tick(txn, event):
        txn.write(names["tick", 0], add_one)

    return app


app = declare(has_windows=True)
small_app = declare(has_windows=False)
APPLICATIONS = {"inlined": small_app, "ordered": small_app, "serial": app, "parallel": app}
PUT = {
    "ts": [11, 12],
    "key": [1, 3],
    "count": [3, 4],
    "share": [0.5, 1.5],
    "open": [True, False],
    "name": ["a", "é"],
    "pair": [[1, 2], [3, 4]],
    "keys": [[7, 8], [7]],
    "amounts": [[5, 6], [7]],
}
LEFT_OUT = object()


def put(**changed):
    """An epoch with two Puts, some columns changed."""
    columns = {**PUT, **changed}
    return Epoch(1, 15, {"Put": {name: column for name, column in columns.items() if column is not LEFT_OUT}})


def bent_lists():
    """A column of lists whose offsets were spoiled after it was made; making it so is refused at once."""
    column = ListColumn(np.array([1, 2, 3]), np.array([0, 1, 3]))
    column.offsets[:] = [0, 5, 3]
    return column


def fresh_snapshot(way="serial"):
    """Loaded keys, one epoch behind, window history, and a fire that is due at 10."""
    with Engine(APPLICATIONS[way], threads=1) as engine:
        engine.load("items", [1, 2], {"count": [10, 20]})
        engine.run_epoch(Epoch(0, 9, {"Put": {**PUT, "ts": [5, 9], "key": [1, 2]}}))
        return engine.snapshot()


def finish(engine, app):
    """What good epochs give, and the state after them."""
    small = {"Look": {"ts": [11], "key": [1]}}
    good = {"Put": {**PUT, "ts": [17, 18], "seq": [0, 2]}, "Look": {"ts": [19], "key": [1], "seq": [1]}}
    ran = [engine.run_epoch(Epoch(1, 15, small)).outcomes()]
    after_small = engine.snapshot()
    with Engine.restore(app, after_small, threads=1) as unlimited:
        ran.append(unlimited.run_epoch(Epoch(2, 20, good)).outcomes())
        return ran, after_small, unlimited.snapshot()


def refuses(epoch, error, message, way="serial", limits=None):
    app, base, options = APPLICATIONS[way], fresh_snapshot(way), {**WAYS[way], "limits": limits}
    with Engine.restore(app, base, **options) as engine, Engine.restore(app, base, **options) as spared:
        assert engine.inlines == (way in ("inlined", "ordered"))
        memory_bytes = engine.store.nbytes
        with pytest.raises(error, match=message) as caught:
            engine.run_epoch(epoch)
        assert type(caught.value) is error
        assert engine.snapshot() == base
        assert engine.store.nbytes <= 2 * memory_bytes
        assert finish(engine, app) == finish(spared, app)


COLUMNS = {
    "missing": (put(count=LEFT_OUT), "column 'count' .int64. is missing"),
    "missing ts": (put(ts=LEFT_OUT), "column 'ts' is missing"),
    "all missing": (Epoch(1, 15, {"Put": {}}), "column 'ts' is missing"),
    "extra": (put(colour=[1, 2]), "column 'colour' is not a field"),
    "derived as extra": (put(random=[1, 2]), "column 'random' is not a field"),
    "short": (put(count=[1]), "'count' has 1 rows, 'ts' has 2"),
    "long": (put(name=["a", "b", "c"]), "'name' has 3 rows, 'ts' has 2"),
    "long lists": (put(keys=[[1], [1], [1]]), "'keys' has 3 rows"),
    "float for int": (put(count=[1.0, 2]), "count': expected int64, found items of type float"),
    "float array for int": (put(count=np.array([1.0, 2.0])), "expected int64, found an array of float64"),
    "string for int": (put(count=["1", "2"]), "expected int64, found items of type str"),
    "string for float": (put(share=["1", "2"]), "expected float64, found items of type str"),
    "bool for int": (put(count=[True, False]), "expected int64, found items of type bool"),
    "bool array for int": (put(count=np.array([True, False])), "expected int64, found an array of bool"),
    "int for bool": (put(open=[0, 1]), "expected boolean"),
    "mixed objects": (put(count=np.array([1, "a"], object)), "expected int64, found items of type int, str"),
    "missing value": (put(count=np.array([1, None], object)), "found items of type NoneType, int"),
    "masked value": (put(count=np.ma.masked_array([1, 2], mask=[False, True])), "masked"),
    "masked vector": (put(pair=np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])), "masked"),
    "too large": (put(count=[2**63, 0]), "does not fit"),
    "too large, unsigned": (put(count=np.array([2**63, 0], np.uint64)), "above the largest int64"),
    "dates": (put(count=np.array(["2020-01-01", "2020-01-02"], "datetime64[s]")), "datetime64"),
    "complex": (put(share=np.array([1j, 2j])), "complex128"),
    "two dimensions": (put(count=np.zeros((2, 1), np.int64)), "one dimension"),
    "one number": (put(count=1), "an array or list of int64, found int"),
    "nothing": (put(count=None), "found NoneType"),
    "a set": (put(count={1, 2}), "found set"),
    "bytes for string": (put(name=[b"a", b"b"]), "expected string, found items of type bytes"),
    "one string": (put(name="ab"), "an array or list of string, found str"),
    "half a character": (put(name=["a", "\ud800"]), "cannot be written as UTF-8"),
    "short vector": (put(pair=[[1, 2], [3]]), "vectors of 2 int64, found 1 elements in item 1"),
    "flat vector": (put(pair=np.array([1, 2])), "an array of shape"),
    "lists of unequal length": (put(keys=[[7], [7]]), "seq 0: list 'amounts' has 2 elements .* has 1"),
    "a number for a list": (put(keys=[1, 2]), "lists of int64, found an item of type int"),
    "nested lists": (put(keys=[[[1]], [[2]]]), "expected int64, found items of type list"),
    "floats in a list": (put(amounts=[[1.5, 2], [1]]), "expected int64"),
    "ts of floats": (put(ts=[11.0, 12.0]), "ts': expected int64"),
    "falling offsets": (put(keys=bent_lists()), "item 1 has a negative length"),
    "columns not by name": (Epoch(1, 15, {"Put": None}), "expected columns by name, found NoneType"),
}
IDENTITIES = {
    "an id twice": (put(seq=[0, 0]), "source 0 has event 0 twice"),
    "an id twice in two types": (
        Epoch(1, 15, {"Put": {**PUT, "seq": [0, 1]}, "Look": {"ts": [13], "key": [1], "seq": [1]}}),
        "source 0 has event 1 twice",
    ),
    "an id missing": (put(seq=[0, 2]), r"misses event 1 .next is 2."),
    "ids not from 0": (put(seq=[1, 2]), r"misses event 0 .next is 1."),
    "negative id": (put(seq=[-1, 0]), r"misses event 0 .next is -1."),
    "ids of another source": (put(source=[0, 1], seq=[0, 1]), r"source 1 misses event 0"),
    "ids of floats": (put(seq=[0.0, 1.0]), "seq': expected int64"),
    "no ids with sources": (put(source=[0, 1]), "column 'seq' is missing"),
    "no ids with two types": (Epoch(1, 15, {"Put": PUT, "Look": {"ts": [], "key": []}}), "column 'seq' is missing"),
    "negative source": (put(source=[-1, 0], seq=[0, 0]), "source -1; sources count from 0"),
    "after the punctuation": (put(ts=[11, 16]), "punctuated at 15 but has an event at 16"),
    "at the last punctuation": (put(ts=[9, 12]), "event at 9, not after the last punctuation at 9"),
    "before the last punctuation": (put(ts=[-5, 12]), "event at -5, not after the last punctuation at 9"),
    "punctuation goes back": (Epoch(1, 8), "punctuated at 8, before the last one at 9"),
    "unknown type": (Epoch(1, 15, {"Nothing": {"ts": []}}), "'Nothing' triggers no transaction; send Put, Look, Chain"),
    "emitted type": (Epoch(1, 15, {"Sequel": {"ts": [11]}}), "'Sequel' is emitted .* cannot be sent"),
    "firing type": (Epoch(1, 15, {"Tick": {"ts": [11]}}), "'Tick' .* fires by itself, it cannot be sent"),
    "not a type": (Epoch(1, 15, {3: {"ts": []}}), "record type 3 triggers no transaction"),
    "events as a list": (Epoch(1, 15, [PUT]), "events= maps record types to columns, found list"),
    "negative number": (Epoch(-1, 15), "whole number from 0"),
    "number of a float": (Epoch(1.0, 15), "whole number from 0"),
    "number of a bool": (Epoch(True, 15), "whole number from 0"),
    "number beyond int64": (Epoch(2**63, 15, {"Put": PUT}), "whole number from 0"),
    "punctuation of a float": (Epoch(1, 15.5, {"Put": PUT}), "punctuated at 15.5, expected a whole number"),
    "no punctuation": (Epoch(1, None), "punctuated at None"),
    "punctuation of a bool": (Epoch(1, True), "punctuated at True"),
    "punctuation beyond int64": (Epoch(1, 2**63), "expected a whole number"),
    "punctuation at the end of time": (Epoch(1, 2**63 - 1), "expected a whole number"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_wrong_columns_are_refused(case):
    refuses(COLUMNS[case][0], InputError, COLUMNS[case][1])


@pytest.mark.parametrize("case", IDENTITIES)
def test_wrong_identities_and_times_are_refused(case):
    refuses(IDENTITIES[case][0], InputError, IDENTITIES[case][1])


LIMITS = {
    "events": (put(), Limits(events=1), "has 2 events, the limit is 1"),
    "operations": (put(), Limits(operations=7), "has 8 operations, the limit is 7"),
    "list length": (put(), Limits(list_length=1), "list has 2 elements, the limit is 1"),
    "fires": (Epoch(1, 1_000_010), Limits(), "Tick would fire 100001 times .*the limit is 100000"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", LIMITS)
def test_an_epoch_beyond_the_limits_is_refused(case, way):
    epoch, limits, message = LIMITS[case]
    refuses(epoch, LimitError, message, way, limits)


def test_lists_that_the_next_stage_cannot_use_leave_no_trace():
    refuses(
        Epoch(1, 15, {"Chain": {"ts": [11], "keys": [[1, 2]], "amounts": [[1]]}}), InputError, "list 'amounts' has 1"
    )


EMPTY = {
    "no record types": {},
    "no rows": {"Put": {name: [] for name in PUT}},
    "no rows, two types": {"Put": {**{name: [] for name in PUT}, "seq": []}, "Look": {"ts": [], "key": [], "seq": []}},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_epoch_only_moves_time(case, way):
    with Engine.restore(APPLICATIONS[way], fresh_snapshot(way), **WAYS[way]) as engine:
        before = engine.state("items"), engine.state("names")
        for number, ts in ((1, 9), (2, 9)):  # time may stand still
            result = engine.run_epoch(Epoch(number, ts, EMPTY[case]))
            assert (result.outcomes(), result.changes.tables, result.committed) == ([], {}, 0)
        assert (engine.state("items"), engine.state("names")) == before
        fired = engine.run_epoch(Epoch(3, 25, EMPTY[case]))
        assert [(each.record_type, each.ts) for each in fired.outcomes()] == [("Tick", 10), ("Tick", 20)]
        assert engine.read({"names": [("tick", 0)]}) == (3, {"names": [{"count": 2}]})
        with pytest.raises(InputError, match="not after the last punctuation at 25"):
            engine.run_epoch(Epoch(4, 30, {"Look": {"ts": [25], "key": [1]}}))


def test_an_engine_that_saw_no_event_runs_empty_epochs():
    with Engine(app, threads=2, policy="unstructured/fine/eager") as engine:
        for number in range(3):
            assert engine.run_epoch(Epoch(number, 10 * number)).outcomes() == []
        assert engine.state("items") == engine.state("names") == {}


def test_numpy_numbers_are_numbers_everywhere():
    arrays = {name: np.array(PUT[name]) for name in ("ts", "count", "share", "open", "name", "pair")}
    lists = {"key": np.array([1, 3], np.uint8), "keys": PUT["keys"], "amounts": [np.array([5, 6]), (7,)]}
    base = fresh_snapshot()
    with Engine.restore(app, base, threads=1) as engine, Engine.restore(app, base, threads=1) as other:
        engine.run_epoch(Epoch(np.int64(1), np.int32(15), {"Put": arrays | lists}))
        other.run_epoch(put())
        assert engine.snapshot() == other.snapshot()


def test_times_at_the_ends_of_int64():
    first, last = -(2**63) + 10, 2**63 - 2  # the window is 10 long
    with Engine(app, threads=1) as engine:
        with pytest.raises(InputError, match="too early for a window of 10"):
            engine.run_epoch(Epoch(0, first, {"Look": {"ts": [first - 1], "key": [1]}}))
        columns = {name: column[:1] for name, column in PUT.items()}
        events = {"Put": {**columns, "ts": [first], "seq": [0]}, "Look": {"ts": [first + 1], "key": [1], "seq": [1]}}
        assert [each.output for each in engine.run_epoch(Epoch(0, first + 1, events)).outcomes()][1] == {"number": 1}
    with Engine(app, threads=1) as engine:
        events = {"Put": {**columns, "ts": [last - 1], "seq": [0]}, "Look": {"ts": [last], "key": [1], "seq": [1]}}
        assert [each.output for each in engine.run_epoch(Epoch(0, last, events)).outcomes()][1] == {"number": 1}


@pytest.mark.parametrize(
    ("table", "keys", "values", "message"),
    [
        ("nothing", [1], {}, "no table 'nothing'; the application has items, names"),
        ("items", [5, 5], {}, "key 5 appears more than once"),
        ("items", [9, 1], {}, "key 1 is in the table already"),
        ("items", [5], {"colour": [1]}, "no field 'colour'; its fields are count, share, pair"),
        ("items", [5], {"count": [1.5]}, "'items.count': expected int64"),
        ("items", [5], {"count": [1, 2]}, "1 keys, but 2 values"),
        ("items", [5], {"count": 1}, "an array or list of int64, found int"),
        ("items", [5], {"pair": [[1]]}, "vectors of 2 int64"),
        ("items", [5], {"share": np.ma.masked_array([1.0], mask=[True])}, "masked"),
        ("items", [5], {"share": [float("nan")]}, "finite numbers, found NaN or infinity"),
        ("items", 5, {}, "expected a list of keys, found int 5"),
        ("items", "5", {}, "expected a list of keys, found str '5'"),
        ("items", ["5"], {}, "expected int64, found items of type str"),
        ("items", [True], {}, "expected int64, found items of type bool"),
        ("items", [2**63], {}, "does not fit"),
        ("names", ["a"], {}, "tuples of"),
        ("names", [("a", 1, 2)], {}, "tuples of"),
        ("names", [(1, "a")], {}, "key component 0': expected string"),
    ],
)
def test_a_bad_load_leaves_no_trace(table, keys, values, message):
    with Engine(app, threads=1) as engine, Engine(app, threads=1) as spared:
        for each in (engine, spared):
            each.load("items", [1, 2], {"count": [10, 20]})
        before = engine.snapshot()
        with pytest.raises(InputError, match=message):
            engine.load(table, keys, values)
        assert engine.snapshot() == before
        for each in (engine, spared):
            each.load("items", [5], {"count": [50]})
            each.run_epoch(put())
        assert engine.snapshot() == spared.snapshot()


def test_a_load_after_the_first_epoch_is_refused():
    with Engine(app, threads=1) as engine:
        engine.run_epoch(Epoch(0, 5))
        before = engine.snapshot()
        with pytest.raises(InputError, match="'items' can be loaded before the first epoch only"):
            engine.load("items", [1], {})
        assert engine.snapshot() == before
