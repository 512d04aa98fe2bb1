"""Results on the wire, read back by the reference library, are the engine's outcomes one by one, in the total order."""

import json

import numpy as np
import pytest

from engine import Application, Engine, Epoch, int64, udf
from services.codec import ObjectCodec, unframe
from services.engine import results
from services.engine.command import schema_ids
from services.engine.facts import Memory
from services.engine.records import ROWS_A_RECORD, changelog_of, changes_of
from services.engine.wire import CHANGELOG, Wire, schemas_of

EVENTS = 400


def application() -> Application:
    """Two record types in each of two stages; outputs; keys that are strings, and numbers."""
    app = Application("results")
    names = app.table("names", key=str, value={"total": int64})
    numbers = app.table("numbers", key=int, value={"total": int64})
    app.event("Named", {"name": str, "amount": int64})
    app.event("Numbered", {"number": int64, "amount": int64})
    app.event("Echo", {"name": str, "amount": int64})

    @udf
    def add(record, event):
        record.total += event.amount
        return record.total >= 0

    @udf
    def fill(echo, event, record):
        echo.amount = record.total

    @udf
    def tell(output, event, record):
        output.total = record.total

    @app.transaction("Named", output={"total": int64})
    def named(txn, event):
        after = txn.write(names[event.name], add)
        txn.emit("Echo", fill, reads=[after], copy={"name": event.name})
        txn.output(tell, reads=[after])

    @app.transaction("Numbered")
    def numbered(txn, event):
        txn.write(numbers[event.number], add)

    @app.transaction("Echo", output={"total": int64})
    def echo(txn, event):
        txn.output(tell, reads=[names[event.name]])

    return app


@pytest.fixture(scope="module")
def app():
    return application()


@pytest.fixture(params=["serial", "unstructured/fine/eager"])
def ran(app, request):
    chance = np.random.default_rng(3)
    seq, ts = chance.permutation(2 * EVENTS), chance.integers(0, 1_000, 2 * EVENTS)
    amounts = chance.integers(-20, 20, 2 * EVENTS)
    names = [("plain", 'quo"ted', "é")[each] for each in chance.integers(0, 3, EVENTS)]
    half, rest = slice(0, EVENTS), slice(EVENTS, None)
    events = {
        "Named": {"seq": seq[half], "ts": ts[half], "name": names, "amount": amounts[half]},
        "Numbered": {
            "seq": seq[rest], "ts": ts[rest], "number": chance.integers(-5, 5, EVENTS), "amount": amounts[rest],
        },
    }  # fmt: skip
    with Engine(app, threads=2, policy=request.param, wait=True) as engine:
        result = engine.run_epoch(Epoch(4, 1_000, events))
    return Wire(app, schema_ids(None, schemas_of(app))), result, events


def test_every_outcome_is_there_in_order_whatever_the_size_of_chunks(ran, monkeypatch):
    wire, result, events = ran
    monkeypatch.setattr(results, "RESULTS_A_CHUNK", 33)
    schemas = schemas_of(wire.application)
    committed, failed = (
        [item for body in bodies(wire, result) for item in ObjectCodec(schemas[f"results.{name}"]).decode(body)[items]]
        for bodies, name, items in (
            (results.committed_bodies, "committed", "results"), (results.failed_bodies, "failed", "failures"),
        )
    )  # fmt: skip
    identity = ("source", "seq", "ts", "stage")
    expected = [each for each in result.outcomes() if each.verdict == "committed"]
    found = [
        (*(item[name] for name in identity), tuple(item["path"]), item.get("output")) for item in map(plain, committed)
    ]
    assert found == [(o.source, o.seq, o.ts, o.stage, o.emission, o.output) for o in expected]
    assert {o.stage for o in expected} == {0, 1} and len(expected) > EVENTS

    expected = [each for each in result.outcomes() if each.verdict == "failed"]
    found = [(*(item[n] for n in identity), item["record_type"], item["reason"], item["statement"]) for item in failed]
    assert found == [
        (o.source, o.seq, o.ts, o.stage, o.record_type, o.reason.name.lower(), o.statement) for o in expected
    ]
    assert [item["key"] for item in failed] == [json.dumps(o.key) for o in expected] and len(expected) > 50
    for item in failed:
        event = wire.events[item["record_type"]].decode([item["event"]])
        given = events[item["record_type"]]
        row = given["seq"].tolist().index(item["seq"])
        assert int(event["amount"][0]) == given["amount"][row]


def plain(item):
    """fastavro names a union's record with its value."""
    return item[1] if isinstance(item, tuple) else item


def test_changes_come_back_from_the_changelog_as_they_were(ran):
    wire, result, _ = ran
    records = [wire.decode(CHANGELOG, wire.encode(CHANGELOG, each)) for each in changelog_of(result.changes)]
    found = changes_of(wire.application, records, Memory(4, 1_000), None)
    assert found.tables.keys() == result.changes.tables.keys() == {"names", "numbers"}
    for name, made in result.changes.tables.items():
        assert same(found.tables[name].keys, made.keys)
        assert found.tables[name].live.tolist() == made.live.tolist()
        assert found.tables[name].records.tolist() == made.records.tolist()


@pytest.mark.parametrize("wide", [0, 2**40], ids=["narrow keys", "wide keys"])
def test_many_changes_are_cut_into_records_that_fit(app, wide):
    rows = ROWS_A_RECORD + 7
    wire = Wire(app, schema_ids(None, schemas_of(app)))
    columns = {
        "seq": np.arange(rows),
        "ts": np.arange(rows),
        "number": np.arange(rows) + wide,
        "amount": np.arange(rows),
    }
    with Engine(app, threads=1, policy="serial") as engine:
        changes = engine.run_epoch(Epoch(0, rows, {"Numbered": columns})).changes
    values = [wire.encode(CHANGELOG, each) for each in changelog_of(changes)]
    assert len(values) == 2 and all(unframe(value) for value in values)
    with Engine(app, threads=1) as follower:
        follower.follow(changes_of(app, [wire.decode(CHANGELOG, value) for value in values], Memory(0, rows), None))
        state = follower.state("numbers")
    assert state == {number + wide: {"total": number} for number in range(rows)}


def same(one, two):
    if one.integers is not None:
        return one.integers.tolist() == two.integers.tolist()
    return one.data.tolist() == two.data.tolist() and one.offsets.tolist() == two.offsets.tolist()
