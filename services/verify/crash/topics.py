"""The run's own Kafka clients: one that sends the input, one that reads the results all along, and one at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from services.engine.wire import MARKER, Wire
from services.kafka.clients import committed_consumer, producer
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings
from services.verify.crash.subject import Sent

AHEAD = 8  # epochs that are sent beyond the last one committed
EPOCH_S = 0.15  # between epochs, so that an input lasts
END_TIMEOUT_S = 60.0
SILENCE_S = 20.0  # without an acknowledgement; longer than any trouble lasts


class Record(NamedTuple):
    """A record of a result topic."""

    topic: str
    partition: int
    offset: int
    value: bytes


def result_topics(names: TopicNames) -> list[str]:
    return [names.committed, names.failed, names.dead_letter, names.epochs]


class Feeder:
    """Sends epochs, a few ahead of what is committed."""

    def __init__(self, kafka: KafkaSettings, topic: str, epochs: Iterator[list[Sent]]) -> None:
        self._kafka, self._topic, self._epochs = kafka, topic, epochs
        self._producer = Producer(producer(kafka))
        self._never_left: list[Sent] = []  # messages of a producer that was given up
        self._heard_s = time.monotonic()  # when a broker last took one
        self.sent: list[Sent] = []
        self.last = -1  # the newest epoch that was sent
        self.ended = False  # there is no more
        self.places: dict[tuple[int, int], Sent] = {}
        self.errors: list[str] = []
        self._sent_s = 0.0

    def feed(self, committed: int) -> None:
        """Sends the next epoch if it is time."""
        self._hear(0)
        if self.ended or self.last - committed >= AHEAD or time.monotonic() - self._sent_s < EPOCH_S:
            return
        messages = next(self._epochs, None)
        if messages is None:
            self.ended = True
            return
        for message in messages:
            self.sent.append(message)
            self._send(message)
        self.last, self._sent_s = self.last + 1, time.monotonic()

    def _send(self, message: Sent) -> None:
        def delivered(error: KafkaError | None, given: Message) -> None:
            if error is None:
                self.places[given.partition() or 0, given.offset() or 0] = message
                self._heard_s = time.monotonic()
            elif error.code() == KafkaError._PURGE_QUEUE:
                self._never_left.append(message)
            else:
                self.errors.append(f"an input message could not be sent: {error}")

        self._producer.produce(self._topic, message.value, partition=message.partition, on_delivery=delivered)

    def _hear(self, timeout_s: float) -> None:
        """Takes acknowledgements. A producer that gets none has forgotten its brokers (librdkafka issue 5301): another one sends
        what never left it; whatever else it had is an error."""
        self._producer.poll(timeout_s)
        if self.unacknowledged and time.monotonic() - max(self._heard_s, self._sent_s) > SILENCE_S:
            self._producer.purge()
            self._producer.flush(1)
            self._producer, self._heard_s = Producer(producer(self._kafka)), time.monotonic()
            again, self._never_left = self._never_left, []
            for message in again:
                self._send(message)

    @property
    def unacknowledged(self) -> int:
        """Messages that were sent and that no broker has taken yet."""
        return len(self.sent) - len(self.places) - len(self.errors)

    def is_handled(self, cursors: dict[int, int]) -> bool:
        """Whether everything that was sent lies below these cursors."""
        return all(cursors.get(partition, 0) > offset for partition, offset in self.places)

    def close(self) -> None:
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while self.unacknowledged and time.monotonic() < deadline_s:
            self._hear(0.1)
        if self.unacknowledged:
            self.errors.append("some input messages were never acknowledged")


class Watcher(threading.Thread):
    """A read_committed reader all along. `epoch` is the last one whose marker it saw."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, wire: Wire) -> None:
        super().__init__(daemon=True)
        self.records: list[Record] = []
        self.epoch = -1
        self.handled: dict[int, int] = {}  # by partition of the input: everything below is dealt with
        self.failure: str | None = None
        self._kafka, self._names, self._wire = kafka, names, wire
        self._stopped = threading.Event()

    def run(self) -> None:
        consumer = Consumer(committed_consumer(self._kafka, "watcher"))
        try:
            partitions = partitions_of(consumer, result_topics(self._names))
            consumer.assign([TopicPartition(at.topic, at.partition, 0) for at in partitions])
            while not self._stopped.is_set():
                message = consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._take(record_of(message))
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise RuntimeError(f"reading results: {error}")
        except Exception as error:  # whatever ends this thread must end the run
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            consumer.close()

    def _take(self, record: Record) -> None:
        self.records.append(record)
        if record.topic == self._names.epochs:
            marker = self._wire.decode(MARKER, record.value)
            self.handled = {each["partition"]: each["offset"] for each in marker["offsets"]}
            self.epoch = max(self.epoch, int(marker["epoch"]))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def partitions_of(consumer: Consumer, topics: list[str]) -> list[TopicPartition]:
    """All their partitions, once the brokers know of all topics: those just made are not known everywhere at once."""
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while True:
        known = consumer.list_topics(timeout=30).topics
        if all(topic in known and known[topic].partitions for topic in topics):
            return [TopicPartition(topic, partition) for topic in topics for partition in known[topic].partitions]
        assert time.monotonic() < deadline_s, f"there are no topics {topics}"
        time.sleep(0.1)


def record_of(message: Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a message that was read has a place"
    return Record(topic, partition, offset, message.value() or b"")


def read_all(kafka: KafkaSettings, topics: list[str]) -> list[Record]:
    """Every committed record of the topics, in order within each partition."""
    consumer = Consumer({**committed_consumer(kafka, "reader", report_end=True), "fetch.wait.max.ms": 20})
    found: list[Record] = []
    try:
        open_partitions = {(at.topic, at.partition) for at in partitions_of(consumer, topics)}
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in open_partitions])
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while open_partitions:
            assert time.monotonic() < deadline_s, f"no end of {sorted(open_partitions)}: does a transaction hang?"
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(record_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard((message.topic() or "", message.partition() or 0))
    finally:
        consumer.close()
    return found
