"""What the service does not start with, and what it halts for, on a real broker."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from services.engine.rules import EXIT_HALTED
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import RunningBroker, running_broker
from tests.integration.running import APP, Service, deposits, ledger_wire

EVENTS = 40
EXIT_REFUSED = 2
INPUT = TopicNames(APP).events

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def admin(broker):
    """The topics are made anew for each test, with two epochs in them."""
    made = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = TopicNames(APP)
    for future in made.delete_topics([*names.partitioned, *names.single]).values():
        with contextlib.suppress(KafkaException):  # none was there
            future.result()
    while any(name.startswith(APP) for name in made.list_topics(timeout=30).topics):
        time.sleep(0.2)
    create_topics(made, APP, 1, 1)
    publish(broker, range(2))
    return made


def publish(broker: RunningBroker, epochs: range) -> None:
    wire, producer = ledger_wire(), Producer({"bootstrap.servers": broker.bootstrap})
    for number in epochs:
        for partition, value in deposits(wire, number, EVENTS, 1, rows_a_chunk=10):
            producer.produce(INPUT, value, partition=partition)
    assert producer.flush(60) == 0


def start(broker: RunningBroker, folder: Path, *flags: str, **more: str) -> Service:
    flags = ("--snapshots", str(folder / "snapshots"), *flags)
    return Service(broker.bootstrap, folder, "--tables", "tests.integration.running:first_tables", *flags, **more)


def run_two_epochs(broker: RunningBroker, folder: Path, *flags: str) -> None:
    with start(broker, folder, *flags) as service:
        service.wait_epochs(2)
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said


def test_row_25_retention_passed_our_offset(broker, admin, tmp_path):
    run_two_epochs(broker, tmp_path)
    publish(broker, range(2, 4))  # each epoch is 4 chunks and a punctuation: offsets 10 to 19
    admin.delete_records([TopicPartition(INPUT, 0, 13)])[TopicPartition(INPUT, 0)].result()
    with start(broker, tmp_path) as service:
        assert service.wait_ended() == EXIT_HALTED, service.said
        assert "partition 0: offsets 10 to 12 are gone, 3 of them were never dealt with" in service.said


def test_row_25_the_input_topic_is_deleted_while_it_is_read(broker, admin, tmp_path):
    with start(broker, tmp_path) as service:
        service.wait_epochs(2)
        admin.delete_topics([INPUT])[INPUT].result()
        assert service.wait_ended(300) == EXIT_HALTED, service.said
        assert f"{INPUT} was deleted; dealt with: partition 0 up to offset 10" in service.said


def test_row_26_partitions_are_added_while_it_is_read(broker, admin, tmp_path):
    with start(broker, tmp_path) as service:
        service.wait_epochs(2)
        admin.create_partitions([NewPartitions(INPUT, 2)])[INPUT].result()
        assert service.wait_ended(300) == EXIT_HALTED, service.said
        assert f"{INPUT} has 2 partitions now, it had 1" in service.said


@pytest.mark.parametrize("snapshots", [(), ("--snapshot-every", "1")])
def test_row_26_partitions_were_added(broker, admin, tmp_path, snapshots):
    run_two_epochs(broker, tmp_path, *snapshots)
    admin.create_partitions([NewPartitions(INPUT, 3)])[INPUT].result()
    with start(broker, tmp_path) as service:
        assert service.wait_ended() == EXIT_REFUSED, service.said
        assert f"{INPUT} has 3 partitions, the state was made with 1" in service.said


@pytest.mark.parametrize("snapshots", [(), ("--snapshot-every", "1")])
def test_row_26_the_application_was_changed(broker, admin, tmp_path, snapshots):
    run_two_epochs(broker, tmp_path, *snapshots)
    with start(broker, tmp_path, application="tests.integration.running:changed_ledger") as service:
        assert service.wait_ended() == EXIT_REFUSED, service.said
        assert "table notes is new" in service.said and "table accounts" not in service.said
