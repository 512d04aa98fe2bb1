"""The service's HTTP port on a real broker."""

from __future__ import annotations

import json
import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from services.kafka.broker import Broker
from services.kafka.topics import TopicNames, create_topics
from tests.integration.running import APP, Service, deposits, ledger_wire

EPOCHS, EVENTS = 4, 300

pytestmark = pytest.mark.slow


def test_row_03_not_ready_while_the_broker_is_away_and_queries_still_answer(tmp_path):
    wire = ledger_wire()
    with Broker(tmp_path / "broker") as broker:
        create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), APP, 2, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})

        for number in range(EPOCHS):
            for partition, value in deposits(wire, number, EVENTS, 2, rows_a_chunk=50):
                producer.produce(TopicNames(APP).events, value, partition=partition)
        assert producer.flush(60) == 0
        del producer
        with Service(broker.bootstrap, tmp_path, "--tables", "tests.integration.running:first_tables") as service:
            status = service.wait_epochs(EPOCHS)
            assert status["tally"]["committed"] == EPOCHS * EVENTS and status["tally"]["failed"] == 0
            assert status["latency_seconds"]["p99"] > 0 and all(status["phase_seconds"].values())
            service.wait_for(lambda: service.status()["lag"]["messages"] == 0 and service.get("/ready")[0] == 200)
            before = service.get("/state/accounts?key=1&key=2")
            assert json.loads(before[1])["epoch"] == EPOCHS - 1
            broker.stop()
            service.wait_for(lambda: service.get("/ready")[0] == 503)
            assert service.get("/state/accounts?key=1&key=2") == before and service.get("/health")[0] == 200
            broker.start()
            service.wait_for(lambda: service.get("/ready")[0] == 200, timeout_s=300)
            assert b"millrace_ready 1.0" in service.get("/metrics")[1]
            service.process.send_signal(signal.SIGTERM)
            assert service.wait_ended() == 0, service.said
