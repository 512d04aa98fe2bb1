"""Row 04 of the faults, what a pause hits only by chance: a broker that stood still says for a moment that there are none.

librdkafka 2.16 then drops the only broker it has (its issue 5301): who reads must read on, who writes must write on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from services.engine import kafka_log, standstill
from services.engine.facts import Cursor, Memory
from services.engine.kafka_log import KafkaLog, Outgoing
from services.errors import KafkaClientError
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings
from services.verify.crash import topics
from services.verify.crash.subject import Sent
from services.verify.crash.topics import Feeder
from tests.integration.no_brokers import denied_broker

pytestmark = pytest.mark.slow
APP, PARTITIONS, TRANSACTION_S = "denied", 2, 4.0
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Where the broker may be denied, and a sender that goes straight to it."""
    with denied_broker(tmp_path_factory.mktemp("denied")) as (broker, address, denier):
        create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), APP, PARTITIONS, 1)
        kafka = replace(KafkaSettings(), bootstrap=address, request_timeout_s=3.0, transaction_timeout_s=TRANSACTION_S)
        sender = Producer({"bootstrap.servers": broker.bootstrap})
        found = SimpleNamespace(kafka=kafka, denier=denier, sender=sender, topic=TopicNames(APP).events)
        send(found, b"first")  # what was just made may have no leaders yet
        yield found


def deny(place: SimpleNamespace, client: Any) -> None:
    """The client asks and is told that there are no brokers."""
    before, place.denier.denies = place.denier.denied, True
    try:
        client.list_topics(timeout=1)
    finally:
        place.denier.denies = False
    assert place.denier.denied > before, "it asked"


def send(place: SimpleNamespace, value: bytes) -> None:
    for partition in range(PARTITIONS):
        place.sender.produce(place.topic, value, partition=partition)
    assert place.sender.flush(10) == 0


def read(log: KafkaLog, value: bytes) -> list[tuple[int, int]]:
    """Until every partition gave this value; the places of all that came."""
    found, left = [], set(range(PARTITIONS))
    deadline_s = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline_s, f"nothing more of partitions {left}"
        for at, each in log.poll(0.05):
            found.append((at.partition, at.offset))
            left -= {at.partition} if each == value else set()
    return found


@pytest.fixture
def log(place: SimpleNamespace) -> Iterator[KafkaLog]:
    made = KafkaLog(place.kafka, APP)
    made.seek(Memory(cursors={p: Cursor(reach.end) for p, reach in made.reach().items()}))
    yield made
    made.close()


def test_a_reader_that_was_told_of_no_brokers_reads_on(place: SimpleNamespace, log: KafkaLog) -> None:
    send(place, b"before")
    first = read(log, b"before")
    deny(place, log._input)
    send(place, b"after")
    found = first + read(log, b"after")
    assert len(found) == 2 * PARTITIONS and len(set(found)) == len(found), "each message once"


def test_a_reader_that_never_asks_again_is_replaced(
    place: SimpleNamespace, log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client does that begins again is a race in librdkafka; one that does not stands for those that lose it."""
    monkeypatch.setattr(standstill, "QUIET_S", 0.5)
    monkeypatch.setattr(standstill, "GRACE_S", 0.5)
    healthy, dying = kafka_log.committed_consumer, {"metadata.recovery.strategy": "none"}
    monkeypatch.setattr(kafka_log, "committed_consumer", lambda *a, **b: {**healthy(*a, **b), **dying})
    log._reopen_input()
    log._assign()
    send(place, b"one")
    first = read(log, b"one")
    log.pause(frozenset({1}))
    reopened = _counted(monkeypatch, log, "_reopen_input")
    until_s = time.monotonic() + 3
    while time.monotonic() < until_s:
        assert not log.poll(0.05)
    assert not reopened, "an input that has ended is left alone"
    deny(place, log._input)
    place.sender.produce(place.topic, b"two", partition=0)
    send(place, b"three")
    until_s = time.monotonic() + PATIENCE_S
    while not reopened:
        assert time.monotonic() < until_s, "nobody noticed"
        first += [(at.partition, at.offset) for at, _ in log.poll(0.05)]
    log.pause(frozenset())
    found = first + read(log, b"three")
    assert len(found) == 2 * PARTITIONS + 1 and len(set(found)) == len(found), "each message once"


def test_a_transaction_of_a_producer_that_was_told_of_no_brokers_is_done_by_the_next_one(
    place: SimpleNamespace, log: KafkaLog
) -> None:
    log.new_producer()
    memory = Memory(epoch=0, cursors={0: Cursor(1)})
    log.commit([Outgoing(log.names.epochs, b"first")], memory)
    deny(place, log._producer)
    began_s = time.monotonic()
    with pytest.raises(KafkaClientError):
        log.commit([Outgoing(log.names.epochs, b"lost")], memory)
    assert time.monotonic() - began_s < 3 * TRANSACTION_S, "it is noticed within the time that a transaction may take"
    log.new_producer()
    log.commit([Outgoing(log.names.epochs, b"again")], memory)
    end = log._end_of(log.names.epochs, 0)
    assert [value for _, value in log.read_single(log.names.epochs, 0)] == [b"first", b"again"] and end > 2


def test_a_new_reader_begins_where_it_is_told_and_stays_there(place: SimpleNamespace, log: KafkaLog) -> None:
    for round_number in range(3):
        begin = {partition: Cursor(reach.end) for partition, reach in log.reach().items()}
        log._reopen_input()
        log.seek(Memory(cursors=begin))
        for number in range(10):  # while it finds the leaders
            send(place, b"%d" % number)
            time.sleep(0.07)
        found = read(log, b"9")
        assert sorted(found) == [(p, at.low + n) for p, at in begin.items() for n in range(10)], round_number


def test_the_sender_of_crash_runs_that_never_asks_again_is_replaced(
    place: SimpleNamespace, log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "SILENCE_S", 1.0)
    monkeypatch.setattr(topics, "EPOCH_S", 0.0)
    healthy, dying = topics.producer, {"metadata.recovery.strategy": "none"}
    monkeypatch.setattr(topics, "producer", lambda kafka: {**healthy(kafka), **dying})
    epochs = [[Sent(number, p, b"%d" % number, False, 0, False) for p in range(PARTITIONS)] for number in range(3)]
    feeder = Feeder(place.kafka, place.topic, iter(epochs))
    feeder.feed(-1)
    first = read(log, b"0")
    deny(place, feeder._producer)
    feeder.feed(0)
    feeder.feed(0)
    feeder.close()
    assert not feeder.errors and feeder.unacknowledged == 0
    assert sorted(first + read(log, b"2")) == sorted(feeder.places), "each message once"


def _counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Callable[..., Any]]:
    """Calls of the method from now on."""
    calls: list[Callable[..., Any]] = []
    method = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda: (calls.append(method), method()))
    return calls


def test_a_consumer_that_knows_no_broker_is_closed_at_once(place: SimpleNamespace, log: KafkaLog) -> None:
    consumer: Consumer = log._input
    deny(place, consumer)
    began_s = time.monotonic()
    log._reopen_input()
    assert time.monotonic() - began_s < 5
