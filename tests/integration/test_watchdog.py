"""The watchdog on a real broker and real processes: an epoch that never ends, and what becomes of it."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine import Application, Engine, Epoch
from services.engine.attempts import Attempted, KeptAttempts
from services.engine.command import schema_ids
from services.engine.publishing import SourceEpoch
from services.engine.rules import EXIT_ENDLESS
from services.engine.wire import Wire, schemas_of
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings
from tests.brokers import running_broker
from tests.integration.endless import ENDLESS, build
from tests.integration.running import Service

pytestmark = pytest.mark.slow


def epoch(wire: Wire, number: int, amounts: list[int]):
    source = SourceEpoch(wire, 0, number, 1)
    count = len(amounts)
    columns = {"seq": np.arange(count), "ts": np.arange(count) + 100 * number, "cell": np.zeros(count, np.int64)}
    source.add("Add", {**columns, "amount": np.array(amounts)})
    return source.close(100 * number + 99)


def compile_kernels(application: Application) -> None:
    """Into the cache on disk, so that no epoch of the service waits for a compiler on a busy machine."""
    columns = {"seq": np.arange(1), "ts": np.arange(1), "cell": np.arange(1), "amount": np.arange(1)}
    with Engine(application, threads=1, wait=True) as engine:
        for number, careful in enumerate((False, True)):
            moved = {**columns, "ts": columns["ts"] + 10 * number}
            engine.run_epoch(Epoch(number, 10 * number + 9, {"Add": moved}), careful=careful)


def test_row_21_an_endless_epoch_ends_the_process_and_is_quarantined(tmp_path):
    application = build()
    compile_kernels(application)
    wire = Wire(application, schema_ids(None, schemas_of(application)))
    with running_broker(tmp_path / "broker") as broker:
        create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), application.name, 1, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number, amounts in enumerate([[1, 2], [3, ENDLESS, 4], [5]]):
            for partition, value in epoch(wire, number, amounts):
                producer.produce(TopicNames(application.name).events, value, partition=partition)
        assert producer.flush(60) == 0

        def service() -> Service:
            flags = ("--epoch-timeout-s", "30", "--attempts", "2", "--log-format", "json")
            return Service(broker.bootstrap, tmp_path, *flags, application="tests.integration.endless:build")

        def last_words(dead: Service) -> dict:
            (line,) = [line for line in dead.said.splitlines() if '"event": "endless_epoch"' in line]
            return json.loads(line)

        with service() as first:
            assert first.wait_ended() == EXIT_ENDLESS, first.said
            said = last_words(first)
            assert (said["epoch"], said["attempts"], said["exit_code"]) == (1, 1, EXIT_ENDLESS) and "Add" in said[
                "message"
            ]
        with service() as second:
            assert second.wait_ended() == EXIT_ENDLESS, second.said
            said = last_words(second)
            assert said["attempts"] == 2 and "add_slowly (" in said["message"] and "seq 1, ts 101" in said["message"]
        kept = KeptAttempts(KafkaSettings(bootstrap=broker.bootstrap), "endless-0", TopicNames("endless").events)
        assert kept.last() == Attempted(1, 2)
        with service() as third:
            tally = third.wait_epochs(3)["tally"]
            assert (tally["committed"], tally["dead_lettered"]) == (3, 3), "epochs 0 and 2; epoch 1 whole"
            assert "quarantined" in third.said
            cells = json.loads(third.get("/state/cells?key=0")[1])["tables"]["cells"]
            assert cells == [{"key": 0, "value": {"total": 8}}]
            third.process.send_signal(signal.SIGTERM)
            assert third.wait_ended() == 0, third.said
