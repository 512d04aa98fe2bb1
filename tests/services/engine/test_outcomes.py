"""Results that leave one by one: values, keys, order; the same as in chunks."""

import numpy as np
import pytest

from engine import Engine, Epoch
from services.apps.streaming_ledger import build
from services.codec import unframe
from services.engine.command import schema_ids
from services.engine.kafka_log import OutgoingBatch
from services.engine.outcomes import CHUNKS, ResultForm, outcome_records
from services.engine.wire import COMMITTED, FAILED, Wire, schemas_of
from services.kafka.topics import TopicNames

NAMES = TopicNames("streaming-ledger")


@pytest.fixture(scope="module")
def ran():
    app = build()
    with Engine(app, threads=1, policy="serial") as engine:
        for table in ("accounts", "assets"):
            engine.load(table, range(10), {"balance": np.full(10, 100)})
        keys = np.arange(12) % 10
        deposits = {"seq": np.arange(12) * 2, "ts": np.arange(12), "account": keys, "asset": keys, "amount": keys}
        transfers = {
            "seq": np.arange(12) * 2 + 1, "ts": np.arange(12), "sender_account": keys, "sender_asset": keys,
            "receiver_account": keys[::-1].copy(), "receiver_asset": keys[::-1].copy(), "amount": np.arange(12) * 30,
        }  # fmt: skip
        result = engine.run_epoch(Epoch(0, 100, {"Deposit": deposits, "Transfer": transfers}))
    return Wire(app, schema_ids(None, schemas_of(app))), result


def test_single_results_are_those_of_the_chunks_in_the_same_order(ran):
    wire, result = ran
    chunks = outcome_records(wire, NAMES, result, CHUNKS)
    for topic, name in ((NAMES.committed, COMMITTED), (NAMES.failed, FAILED)):
        bodies = [unframe(each.value)[1] for each in chunks if each.topic == topic]
        codec = wire.committed if name == COMMITTED else wire.failed
        expected = set()
        for body in bodies:
            decoded = codec.decode(body)
            for columns in decoded.columns.values():
                expected |= set(zip(columns["seq"].tolist(), columns["ts"].tolist(), strict=True))
        found = [row for _, row in rows(wire, result, ResultForm(single=True), topic)]
        assert {(row["seq"], row["ts"]) for row in found} == expected and len(found) == len(expected) > 5
        assert [row["seq"] for row in found] == sorted(row["seq"] for row in found), "the total order"
        assert all(row["epoch"] == 0 for row in found)


def test_the_key_is_the_first_field_or_the_one_asked_for(ran):
    wire, result = ran
    form = ResultForm(single=True)
    assert {key for key, _ in rows(wire, result, form, NAMES.committed)} <= {str(key) for key in range(10)}
    by_sender = [key for key, row in rows(wire, result, form, NAMES.failed) if row["record_type"] == "Transfer"]
    by_amount = rows(wire, result, ResultForm(True, "amount"), NAMES.failed)
    events = [wire.events[row["record_type"]].decode([row["event"]]) for _, row in by_amount]
    assert [key for key, _ in by_amount] == [str(event["amount"][0]) for event in events] and by_sender


def test_row_16_the_results_of_a_large_epoch_are_split_over_records():
    app = build()
    keys = np.zeros(45_000, np.int64)
    columns = {"ts": np.arange(45_000), "account": keys, "asset": keys, "amount": keys}
    with Engine(app, threads=1, policy="serial") as engine:
        for table in ("accounts", "assets"):
            engine.load(table, [0], {"balance": [100]})
        result = engine.run_epoch(Epoch(0, 50_000, {"Deposit": columns}))
    wire = Wire(app, schema_ids(None, schemas_of(app)))
    records = outcome_records(wire, NAMES, result, CHUNKS)
    assert len(records) == 3 and all(len(record.value) < 1_000_000 for record in records)
    assert sum(wire.committed.decode(unframe(record.value)[1]).rows["Deposit"] for record in records) == 45_000


def rows(wire, result, form, topic):
    """Keys and values, read by the schema that their ids name."""
    from services.codec import ObjectCodec

    found = []
    for batch in outcome_records(wire, NAMES, result, form):
        assert isinstance(batch, OutgoingBatch)
        for message in batch.messages if batch.topic == topic else ():
            number, body = unframe(message["value"])
            found.append((message["key"], ObjectCodec(wire.ids.schema_of(number)).decode(body)))
    return found
