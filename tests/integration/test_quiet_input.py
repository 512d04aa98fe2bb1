"""An input that is quiet for long is assigned anew where it is: nothing is lost by that, nothing is read twice."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from services.engine import kafka_log
from services.engine.facts import Cursor, Memory
from services.engine.kafka_log import KafkaLog
from services.kafka.broker import Broker
from services.kafka.topics import create_topics
from services.settings import KafkaSettings

pytestmark = pytest.mark.slow
PARTITIONS = 2
QUIET_S = 0.8


def test_a_quiet_input_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_log, "QUIET_S", QUIET_S)
    with Broker(tmp_path) as broker:
        kafka = replace(KafkaSettings(), bootstrap=broker.bootstrap)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create_topics(admin, "quiet", PARTITIONS, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        log = KafkaLog(kafka, "quiet")
        assigned = []
        monkeypatch.setattr(log, "_assign", lambda assign=log._assign: (assigned.append(dict(log._next)), assign()))

        def send(value: bytes) -> None:
            for partition in range(PARTITIONS):
                producer.produce(log.names.events, value, partition=partition)
            assert producer.flush(10) == 0

        def read(seconds: float) -> list[tuple[int, int]]:
            found, until_s = [], time.monotonic() + seconds
            while time.monotonic() < until_s:
                found += [tuple(place) for place, _ in log.poll(0.02)]
            return sorted(found)

        send(b"before the memory's cursor in one partition")
        log.seek(Memory(cursors={0: Cursor(1)}))
        assert read(4 * QUIET_S) == [(1, 0)]
        assert len(assigned) > 1, "assigned anew while it was quiet"
        assert assigned[-1] == {0: 1, 1: 1}
        log.pause(frozenset({1}))
        send(b"second")
        assert read(4 * QUIET_S) == [(0, 1)], "what is paused stays so"
        log.pause(frozenset())
        assert read(4 * QUIET_S) == [(1, 1)]
        log.close()
