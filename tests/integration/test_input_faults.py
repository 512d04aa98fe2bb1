"""What can be wrong with the input, on a real broker: copies, conflicts, late and broken messages, unknown schema ids."""

import random
import signal
import zlib

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine import Engine, Epoch
from schemas.application import event_chunk_schema
from services.apps.streaming_ledger import build
from services.codec import ChunkDecoder, ChunkEncoder, FileIds, frame, unframe
from services.engine.publishing import SourceEpoch
from services.engine.wire import CHUNK, DEAD_LETTER, Wire, schemas_of
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker
from tests.integration.running import KEYS, Service, first_tables, ledger_wire
from tests.integration.test_service import chunk_of, markers, read_all, rows

NAMES = TopicNames("streaming-ledger")
PARTITIONS, EVENTS = 2, 400
TABLES = ("--tables", "tests.integration.running:first_tables", "--policy", "serial")

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker") as running:
        create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), NAMES.app, PARTITIONS, 1)
        yield running


def deposits(number: int) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(number)
    columns = {name: chance.integers(0, KEYS, EVENTS) for name in ("account", "asset", "amount")}
    return {"seq": chance.permutation(EVENTS), "ts": 1_000 * number + chance.integers(1, 1_000, EVENTS), **columns}


def messages_of(wire: Wire, number: int) -> list[tuple[int, bytes]]:
    source = SourceEpoch(wire, 0, number, PARTITIONS)
    source.add("Deposit", deposits(number), rows_a_chunk=50)
    return source.close(1_000 * number + 1_000)


def changed(wire: Wire, value: bytes, **header: int) -> bytes:
    """The chunk with other amounts; in a chunk or epoch with another number, if told."""
    schema = event_chunk_schema(wire.application)
    found = ChunkDecoder(schema).decode(unframe(value)[1])
    columns = {**found.columns["Deposit"], "amount": found.columns["Deposit"]["amount"] + 1}
    numbers = {"source": 0, "epoch": found.epoch, "chunk": found.chunk, **header}
    return frame(wire.id_of(CHUNK), ChunkEncoder(schema).encode(**numbers, columns={"Deposit": columns}))


def test_rows_07_08_10_12_13_shuffled_copied_contradicted_late_and_broken_messages(broker, tmp_path):
    wire, chance = ledger_wire(), random.Random(3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    garbage = [b"", b"hello", b"\0\0\0\0\1", frame(wire.id_of(CHUNK), b"\0\0\0" + b"\xff" * 9 + b"\1"), None]
    chunks = messages_of(wire, 0)[:-PARTITIONS]
    conflicting = [(partition, changed(wire, value)) for partition, value in chunks[:2]]
    late = chunks[0][0], changed(wire, chunks[0][1], chunk=99)
    repeated = 0
    with Service(broker.bootstrap, tmp_path, *TABLES) as service:
        for number in range(3):
            messages = messages_of(wire, number)
            again = [message for message in messages if chance.random() < 0.3]
            repeated += len(again)
            messages += again
            chance.shuffle(messages)
            for partition, value in messages:
                producer.produce(NAMES.events, value, partition=partition)
            if number == 0:
                for partition, value in conflicting:
                    producer.produce(NAMES.events, value, partition=partition)
                for value in garbage:
                    producer.produce(NAMES.events, value, partition=0)
            producer.flush()
            service.wait_epochs(number + 1)
        for partition, value in (late, late, chunks[2]):
            producer.produce(NAMES.events, value, partition=partition)
        producer.flush()
        repeated += 2  # one late chunk and one of those known
        service.wait_for(lambda: service.status()["tally"]["repeated"] == repeated)
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said

    expected = set()
    with Engine(wire.application, threads=1, policy="serial") as engine:
        for table, (keys, columns) in first_tables().items():
            engine.load(table, keys, columns)
        for number in range(3):
            result = engine.run_epoch(Epoch(number, 1_000 * number + 1_000, {"Deposit": deposits(number)}))
            expected |= {(number, outcome.seq, outcome.ts) for outcome in result.outcomes()}
    found = []
    for value in read_all(broker.bootstrap, NAMES.committed):
        header, types = chunk_of(wire, wire.committed, value)
        found += [(header["epoch"], seq, ts) for columns in types.values() for seq, ts in rows(columns)]
    assert len(found) == len(set(found)) == 3 * EVENTS and set(found) == expected
    last = markers(wire, broker.bootstrap)[-1]
    # A conflicting chunk that its epoch closed before is one as a whole; in time, each of its events is.
    assert (last["committed"], last["failed"], last["conflicts"]) == (3 * EVENTS, 0, 100)
    assert (last["dead_lettered"], last["undecodable"], last["repeated"]) == (50, len(garbage), repeated)
    letters = [wire.decode(DEAD_LETTER, value) for value in read_all(broker.bootstrap, NAMES.dead_letter)]
    assert sorted(letter["reason"] for letter in letters) == ["conflict"] * 2 + ["late"] + ["undecodable"] * len(
        garbage
    )
    assert all(letter["detail"] and letter["partition"] in (0, 1) and letter["offset"] >= 0 for letter in letters)


def test_row_14_an_unknown_schema_id_is_waited_for_and_then_halts_by_name(broker, tmp_path):
    app, path = build(), tmp_path / "ids.json"
    FileIds.add(path, schemas_of(app))
    newer = event_chunk_schema(app) | {"doc": "of a later version, whose ids came later"}
    number = max(entry for entry in range(1, 100) if entry in known_ids(path)) + 1
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    wire = Wire(app, FileIds(path))
    *chunks, first, second = messages_of(wire, 0)
    for partition, value in chunks:
        producer.produce(NAMES.events, frame(number, bytes(unframe(value)[1])), partition=partition)
    for partition, value in (first, second):
        producer.produce(NAMES.events, value, partition=partition)
    producer.flush()
    flags = ("--schema-ids", str(path), "--schema-timeout-s")
    with Service(broker.bootstrap, tmp_path, *TABLES, *flags, "60") as service:
        service.wait_for(lambda: f"schema id {number} is not in" in service.said)
        assert service.process.poll() is None and service.status()["epochs"] == 0
        FileIds.add(path, {"streaming-ledger.event-chunk": newer})
        service.wait_epochs(1)
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said
    producer.produce(NAMES.events, frame(9_999, b"?"), partition=0)
    producer.flush()
    with Service(broker.bootstrap, tmp_path, *TABLES, *flags, "1") as service:
        assert service.wait_ended() == 1
        assert "schema id 9999 is not in" in service.said.splitlines()[-1]
    assert markers(wire, broker.bootstrap)[-1]["committed"] == EVENTS


def known_ids(path) -> set[int]:
    ids = FileIds(path)
    return {number for subject in schemas_of(build()) for number in ids.versions_of(subject)}


def test_the_checksum_of_a_punctuation_is_over_the_bodies_alone():
    wire = ledger_wire()
    *chunks, _, last = messages_of(wire, 0)
    bodies = [unframe(value)[1] for partition, value in chunks if partition == last[0]]
    item, _ = wire.read(last[1])
    assert item.checksum == sum(zlib.crc32(body) for body in bodies) % 2**32
