"""The engine service on a real broker: results, state and counts equal the engine's own, also after kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from engine import Engine, Epoch
from services.apps.streaming_ledger import build
from services.codec import ObjectCodec, unframe
from services.engine.command import schema_ids
from services.engine.publishing import SourceEpoch
from services.engine.wire import MARKER, Wire, schemas_of
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker

KEYS = 200
EPOCHS = 6
PARTITIONS = 2
EVENTS = 500

pytestmark = pytest.mark.slow


def first_tables():
    """What `--tables` names below."""
    return {name: (range(KEYS), {"balance": np.full(KEYS, 1_000)}) for name in ("accounts", "assets")}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), "streaming-ledger", PARTITIONS, 1)
        yield running


def make_epoch(number: int) -> dict[str, dict[str, np.ndarray]]:
    chance = np.random.default_rng(number)
    seq = chance.permutation(2 * EVENTS)
    ts = 1_000 * number + chance.integers(1, 1_000, 2 * EVENTS)

    def keys() -> np.ndarray:
        return chance.integers(0, KEYS, EVENTS)

    amounts = np.where(chance.random(EVENTS) < 0.1, 10**9, chance.integers(1, 300, EVENTS))
    return {
        "Deposit": {"seq": seq[:EVENTS], "ts": ts[:EVENTS], "account": keys(), "asset": keys(), "amount": keys()},
        "Transfer": {
            "seq": seq[EVENTS:], "ts": ts[EVENTS:], "sender_account": keys(), "sender_asset": keys(),
            "receiver_account": keys(), "receiver_asset": keys(), "amount": amounts,
        },
    }  # fmt: skip


def publish(wire: Wire, bootstrap: str, epochs: range, chance: random.Random) -> int:
    """Chunks and punctuations, some twice, shuffled within their epoch; gives how many messages were repeated."""
    producer = Producer({"bootstrap.servers": bootstrap})
    repeated = 0
    for number in epochs:
        source = SourceEpoch(wire, 0, number, PARTITIONS)
        for record_type, columns in make_epoch(number).items():
            source.add(record_type, columns, rows_a_chunk=70)
        messages = source.close(1_000 * number + 1_000)
        again = [message for message in messages if chance.random() < 0.2]
        repeated += len(again)
        messages += again
        chance.shuffle(messages)
        for partition, value in messages:
            producer.produce("streaming-ledger.events.v1", value, partition=partition)
    producer.flush()
    return repeated


def start(bootstrap: str, snapshots: Path) -> subprocess.Popen:
    command = [
        sys.executable, "-c", "import sys; from services.cli import main; sys.exit(main())", "run",
        "--app", "services.apps.streaming_ledger:build", "--tables", "tests.integration.test_service:first_tables",
        "--kafka-bootstrap", bootstrap, "--snapshots", str(snapshots), "--snapshot-every", "2", "--threads", "2",
    ]  # fmt: skip
    with (snapshots.parent / "service.log").open("a") as log:
        return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=log)


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed",
         "enable.partition.eof": True, "enable.auto.commit": False}
    )  # fmt: skip
    partitions = len(consumer.list_topics(topic).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values, ends = [], 0
    while ends < partitions:
        message = consumer.poll(10)
        assert message is not None, "the topic does not end: is a transaction open?"
        if message.error() is None:
            values.append(message.value())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ends += 1
    consumer.close()
    return values


def markers(wire: Wire, bootstrap: str) -> list[dict]:
    return [wire.decode(MARKER, value) for value in read_all(bootstrap, TopicNames("streaming-ledger").epochs)]


def wait_for(wire: Wire, bootstrap: str, process: subprocess.Popen, epoch: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while not any(marker["epoch"] >= epoch for marker in markers(wire, bootstrap)):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"epoch {epoch} was not committed"
        time.sleep(0.3)


def test_row_01_killed_and_started_again_the_results_are_those_of_the_engine(broker, tmp_path):
    app = build()
    wire = Wire(app, schema_ids(None, schemas_of(app)))
    chance, log = random.Random(5), tmp_path / "service.log"
    repeated = publish(wire, broker.bootstrap, range(3), chance)
    process = start(broker.bootstrap, tmp_path / "snapshots")
    try:
        wait_for(wire, broker.bootstrap, process, 1, log)
        process.send_signal(signal.SIGKILL)
        process.wait()
        repeated += publish(wire, broker.bootstrap, range(3, EPOCHS), chance)
        process = start(broker.bootstrap, tmp_path / "snapshots")
        wait_for(wire, broker.bootstrap, process, EPOCHS - 1, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    expected_committed, expected_failed = set(), set()
    with Engine(app, threads=1) as engine:
        for table, (keys, columns) in first_tables().items():
            engine.load(table, keys, columns)
        for number in range(EPOCHS):
            result = engine.run_epoch(Epoch(number, 1_000 * number + 1_000, make_epoch(number)))
            for outcome in result.outcomes():
                if outcome.verdict == "committed":
                    expected_committed.add((number, outcome.seq, outcome.ts))
                else:
                    expected_failed.add((number, outcome.seq, outcome.ts, outcome.reason.name.lower()))
    names = TopicNames("streaming-ledger")
    committed = [chunk_of(wire, wire.committed, value) for value in read_all(broker.bootstrap, names.committed)]
    found = [(h["epoch"], s, t) for h, columns in committed for c in columns.values() for s, t in rows(c)]
    assert len(found) == len(set(found)) and set(found) == expected_committed
    failed = [chunk_of(wire, wire.failed, value) for value in read_all(broker.bootstrap, names.failed)]
    found = [
        (h["epoch"], s, t, reason)
        for h, columns in failed
        for c in columns.values()
        for (s, t), reason in zip(rows(c), c["reason"].to_list(), strict=True)
    ]
    assert len(found) == len(set(found)) and set(found) == expected_failed and len(found) > 100
    last = markers(wire, broker.bootstrap)[-1]
    closing = [marker["epoch"] for marker in markers(wire, broker.bootstrap) if marker["closes"]]
    assert closing == list(range(EPOCHS)), "each epoch once, in order"
    assert (last["committed"], last["failed"]) == (len(expected_committed), len(expected_failed))
    assert (last["repeated"], last["dead_lettered"], last["undecodable"], last["conflicts"]) == (repeated, 0, 0, 0)
    assert read_all(broker.bootstrap, names.dead_letter) == []
    failing = ObjectCodec(wire._schema("failed")).decode(unframe(read_all(broker.bootstrap, names.failed)[0])[1])
    event = failing["failures"][0]
    assert wire.events[event["record_type"]].decode([event["event"]])["seq"].tolist() == [event["seq"]]


def chunk_of(wire: Wire, codec, value: bytes):
    decoded = codec.decode(unframe(value)[1])
    return decoded.header, {name: columns for name, columns in decoded.columns.items() if decoded.rows[name]}


def rows(columns) -> list[tuple[int, int]]:
    return list(zip(columns["seq"].tolist(), columns["ts"].tolist(), strict=True))
