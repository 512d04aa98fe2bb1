"""Single records between Kafka and the engine: what is told of them, what is refused, and the epochs they become."""

import io
import random

import fastavro
import numpy as np
import pytest

from engine import Engine
from schemas.application import event_schemas, record_schemas
from services.apps.streaming_ledger import build
from services.codec import FileIds, UnknownSchemaError, frame
from services.engine.facts import Execute, Place
from services.engine.single_records import SingleRecords
from services.engine.wire import schemas_of

APP = build()
SCHEMAS = record_schemas(APP)
# As a producer has it that keeps a number of its own, in another order.
NUMBERED = {**event_schemas(APP)["Deposit"], "fields": event_schemas(APP)["Deposit"]["fields"][::-1]}


@pytest.fixture
def ids(tmp_path) -> FileIds:
    return FileIds.add(tmp_path / "ids.json", {**schemas_of(APP), "numbered": NUMBERED})


def value(ids: FileIds, record_type: str, subject: str = "", **event: int) -> bytes:
    schema = NUMBERED if subject else SCHEMAS[record_type]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return frame(ids.id_of(subject or f"{APP.name}.record.{record_type}", schema), out.getvalue())


def deposit(ids: FileIds, ts: int, account: int = 1, **more) -> bytes:
    return value(ids, "Deposit", ts=ts, account=account, asset=2, amount=3, **more)


def transfer(ids: FileIds, ts: int) -> bytes:
    keys = {"sender_account": 1, "sender_asset": 1, "receiver_account": 2, "receiver_asset": 2}
    return value(ids, "Transfer", ts=ts, amount=1, **keys)


def test_times_and_places_of_several_types_and_writers_in_one_poll(ids):
    records = SingleRecords(SCHEMAS, ids)
    numbered = value(ids, "Deposit", "numbered", seq=77, ts=9, account=4, asset=5, amount=6)
    messages = [
        (Place(1, 5), deposit(ids, 11)), (Place(0, 2), transfer(ids, 7)), (Place(1, 8), numbered),
        (Place(0, 3), deposit(ids, -4)),
    ]  # fmt: skip
    found = {fact.partition: fact for fact in records.arrive(messages)}
    assert (found[0].offsets.tolist(), found[0].ts.tolist()) == ([2, 3], [7, -4])
    assert (found[1].offsets.tolist(), found[1].ts.tolist()) == ([5, 8], [11, 9])
    assert found[1].sizes.tolist() == [len(messages[0][1]), len(numbered)] and found[1].undecodable == ()

    work = Execute(3, 20, (), {0: np.array([2, 3]), 1: np.array([5, 8])})
    with Engine(APP, threads=1, policy="serial") as engine:
        epoch = records.gather(engine, work)
    events = {
        (batch.template.record_type, source, seq, ts)
        for batch in epoch.arrived
        for source, seq, ts in zip(batch.source.tolist(), batch.seq.tolist(), batch.ts.tolist(), strict=True)
    }
    assert events == {("Transfer", 0, 0, 7), ("Deposit", 0, 1, -4), ("Deposit", 1, 0, 11), ("Deposit", 1, 1, 9)}
    accounts = [batch.columns["account"].tolist() for batch in epoch.arrived if "account" in batch.columns]
    assert sorted(accounts) == [[1, 1], [4]], "each writer's fields by their names"


def test_row_13_each_message_that_cannot_be_read_is_named_and_the_others_are_taken(ids):
    chance, records = random.Random(4), SingleRecords(SCHEMAS, ids)
    good = deposit(ids, 5)
    broken = {
        b"": "no Confluent framing", b"text!": "no Confluent framing", good[:-1]: "end inside", good + b"\0": "left over",
        good[:5] + b"\x80\0" + good[6:]: "more bytes than it needs",
        frame(ids.id_of(f"{APP.name}.punctuation", schemas_of(APP)[f"{APP.name}.punctuation"]), b"\0"): "triggers no transaction",
        deposit(ids, 2**62 + 1): "its time is",
    }  # fmt: skip
    values = [*[good] * 20, *list(broken) * 3]
    chance.shuffle(values)
    (fact,) = records.arrive([(Place(0, offset), each) for offset, each in enumerate(values)])
    assert [values[offset] for offset in fact.offsets.tolist()] == [good] * 20
    named = dict(fact.undecodable)
    assert len(named) == 3 * len(broken)
    assert all(broken[values[offset]] in reason for offset, reason in named.items())
    assert list(named) == sorted(named), "in the order of their offsets"
    assert all(records.value(Place(0, offset)) == values[offset] for offset in named), "kept for their dead letters"


def test_nothing_is_kept_of_a_poll_with_an_unknown_schema(ids):
    records = SingleRecords(SCHEMAS, ids)
    messages = [(Place(0, 0), deposit(ids, 5)), (Place(0, 1), frame(9_999, b"?"))]
    with pytest.raises(UnknownSchemaError, match="9999"):
        records.arrive(messages)
    assert records.value(Place(0, 0)) is None


def test_what_is_forgotten_is_gone(ids):
    records = SingleRecords(SCHEMAS, ids)
    records.arrive([(Place(0, offset), deposit(ids, offset)) for offset in range(4)])
    records.forget({0: np.array([0, 2, 9])})
    records.forget_places([Place(0, 1), Place(1, 1)])
    assert [records.value(Place(0, offset)) is None for offset in range(4)] == [True, True, True, False]
    records.clear()
    assert records.value(Place(0, 3)) is None
