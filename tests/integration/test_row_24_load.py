"""Ten times the load on a real broker: what waits in memory stays under the cap, lag grows and drains, nothing is lost."""

from __future__ import annotations

import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from services.engine.kafka_log import MESSAGES_A_POLL
from services.engine.reading import POLLS_WAITING_MAX
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker
from tests.integration.running import APP, Service, deposits, ledger_wire

EPOCHS, EVENTS, ROWS = 120, 20_000, 200
CAP_MB = 4

pytestmark = pytest.mark.slow


def test_row_24_ten_times_the_load_stays_under_the_cap_and_drains(tmp_path):
    """One partition runs far ahead of the other, as when the service cannot keep up: it is read no further than the cap."""
    wire = ledger_wire()
    sizes, late = [], []
    with running_broker(tmp_path / "broker") as broker:
        create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), APP, 2, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(EPOCHS):
            for partition, value in deposits(wire, number, EVENTS, 2, ROWS):
                item, _ = wire.read(value)
                sizes.append(getattr(item, "size_bytes", 0))
                if partition == 1:
                    producer.produce(TopicNames(APP).events, value, partition=1)
                else:
                    late.append(value)
            producer.poll(0)
        assert producer.flush(60) == 0
        # Each partition may be some polls ahead when it is paused, and the epoch that comes next is needed whole.
        polls = 2 * (POLLS_WAITING_MAX + 1) * (MESSAGES_A_POLL + 1) * max(sizes)
        decoded, slack = sum(sizes) / 2, polls + sum(sizes) / EPOCHS
        cap = CAP_MB << 20
        assert decoded > 5 * (cap + slack), "without a cap it would be seen"
        flags = ("--tables", "tests.integration.running:first_tables", "--memory-mb", str(CAP_MB))
        with Service(broker.bootstrap, tmp_path, *flags) as service:
            held = []

            def ahead() -> bool:
                status = service.status()
                held.append(status.get("waiting_bytes", 0))
                return (
                    status.get("paused_partitions") == [1]
                    and (status["lag"]["messages"] or 0) > EPOCHS * EVENTS / ROWS / 4
                )

            service.wait_for(ahead, timeout_s=300)
            for _ in range(20):
                ahead()
            for value in late:
                producer.produce(TopicNames(APP).events, value, partition=0)
            assert producer.flush(60) == 0

            def drained() -> bool:
                ahead()
                status = service.status()
                return status["epochs"] == EPOCHS and status["lag"]["messages"] == 0

            service.wait_for(drained, timeout_s=300)
            assert max(held) <= cap + slack, f"{max(held)} bytes of {decoded:.0f}"
            assert max(held) > cap / 2, "it was used"
            status = service.status()
            assert status["tally"]["committed"] + status["tally"]["failed"] == EPOCHS * EVENTS
            assert status["paused_partitions"] == []
            service.process.send_signal(signal.SIGTERM)
            assert service.wait_ended() == 0, service.said
