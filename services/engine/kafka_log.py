"""The service's side of Kafka: input messages in, one transaction a commit out, and the log that recovery reads.

A producer that failed in any way is dropped, never used again: a request of its that is still on the way must not end a later
transaction. A new one aborts whatever the old one left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from services.engine.facts import Memory, Place
from services.errors import TopicError
from services.kafka.clients import ClientErrors, committed_consumer, connection, transactional_producer, typed_errors
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings

MESSAGES_A_POLL = 64
COMMIT_TIMEOUT_S = 60.0
RECOVERY_POLL_S = 10.0


@dataclass(frozen=True)
class Outgoing:
    """One record of a transaction."""

    topic: str
    value: bytes
    key: bytes | None = None


class KafkaLog:
    """One engine's topics."""

    def __init__(self, settings: KafkaSettings, app: str, shard: int = 0) -> None:
        self.names = TopicNames(app)
        self._settings = settings
        self._id = f"{app}-{shard}"
        self._errors = ClientErrors()
        self._producer: Producer | None = None
        self.written: dict[str, int] = {}  # by topic: the offset after the last record that a broker took
        self._input = Consumer(committed_consumer(settings, self._id, self._errors))
        # Asked for once: while another thread polls the consumer, the call never returns (confluent-kafka 2.16).
        self._group = self._input.consumer_group_metadata()
        self.partitions = self._count_partitions()

    def _count_partitions(self) -> int:
        admin = AdminClient(connection(self._settings, self._errors))
        with typed_errors("asking Kafka for its topics", self._errors):
            topics = admin.list_topics(timeout=self._settings.request_timeout_s).topics
        missing = [name for name in (*self.names.partitioned, *self.names.single) if name not in topics]
        if missing:
            raise TopicError(
                f"topic {missing[0]} does not exist; make the topics with `millrace topics create --app {self.names.app}`"
            )
        return len(topics[self.names.events].partitions)

    # --- input ----------------------------------------------------------------------------------------------------

    def seek(self, memory: Memory) -> None:
        """Reads on from where the memory ends."""
        wanted = []
        for partition in range(self.partitions):
            cursor = memory.cursors.get(partition)
            offset = cursor.low if cursor is not None and cursor.low > 0 else OFFSET_BEGINNING
            wanted.append(TopicPartition(self.names.events, partition, offset))
        with typed_errors(f"reading {self.names.events}", self._errors):
            self._input.assign(wanted)

    def poll(self, timeout_s: float) -> list[tuple[Place, bytes | None]]:
        """Messages that have arrived. The first wait is the whole time-out, what is there already comes at once."""
        self._errors.raise_serious()
        with typed_errors(f"reading {self.names.events}", self._errors):
            first = self._input.poll(timeout_s)
            messages: list[Message] = [] if first is None else [first, *self._input.consume(MESSAGES_A_POLL, 0)]
            for message in messages:
                error = message.error()
                if error is not None and not error.retriable():
                    raise KafkaException(error)
            messages = [message for message in messages if message.error() is None]
        return [(_place(message), message.value()) for message in messages]

    def pause(self, partitions: frozenset[int]) -> None:
        everything = range(self.partitions)
        self._input.resume([TopicPartition(self.names.events, p) for p in everything if p not in partitions])
        self._input.pause([TopicPartition(self.names.events, p) for p in partitions])

    def behind(self) -> frozenset[int]:
        """Partitions that are known to have more messages than were read."""
        found = set()
        for at in self._input.position([TopicPartition(self.names.events, p) for p in range(self.partitions)]):
            high = self._input.get_watermark_offsets(at, cached=True)[1]
            if high > max(at.offset, 0):
                found.add(at.partition)
        return frozenset(found)

    # --- output ---------------------------------------------------------------------------------------------------

    def new_producer(self) -> None:
        """Drops the producer and makes another: what the old one left open is aborted, its late requests are fenced."""
        self._producer = None
        producer = Producer(transactional_producer(self._settings, self._id, self._errors))
        with typed_errors("beginning as the only engine with this id", self._errors):
            producer.init_transactions(COMMIT_TIMEOUT_S)
        self._producer = producer

    def commit(self, records: Sequence[Outgoing], memory: Memory) -> None:
        """One transaction: all records and the consumer's offsets, or nothing."""
        producer = self._producer
        assert producer is not None, "a producer is made before the first commit"
        with typed_errors("committing", self._errors):
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record)
            offsets = [
                TopicPartition(self.names.events, partition, cursor.low) for partition, cursor in memory.cursors.items()
            ]
            if offsets:  # advisory: what counts is the marker
                producer.send_offsets_to_transaction(offsets, self._group, COMMIT_TIMEOUT_S)
            producer.commit_transaction(COMMIT_TIMEOUT_S)

    def _produce(self, producer: Producer, record: Outgoing) -> None:
        while True:
            try:
                producer.produce(record.topic, record.value, record.key, partition=0, on_delivery=self._delivered)
                producer.poll(0)
                return
            except BufferError:  # the queue is full: wait until some of it is sent
                producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:  # else the commit fails
            self.written[message.topic() or ""] = _place(message).offset + 1

    # --- recovery -------------------------------------------------------------------------------------------------

    def read_single(self, topic: str, offset: int) -> Iterator[tuple[int, bytes]]:
        """The committed records of a topic of one partition, from an offset to its end, each with its offset."""
        consumer = Consumer(committed_consumer(self._settings, f"{self._id}-recovery", self._errors, report_end=True))
        try:
            with typed_errors(f"reading {topic} to recover", self._errors):
                consumer.assign([TopicPartition(topic, 0, offset if offset > 0 else OFFSET_BEGINNING)])
                while True:
                    self._errors.raise_serious()
                    message = consumer.poll(RECOVERY_POLL_S)
                    if message is None:
                        continue
                    error = message.error()
                    if error is None:
                        yield _place(message).offset, message.value() or b""
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()

    def close(self) -> None:
        self._producer = None
        self._input.close()


def _place(message: Message) -> Place:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a message that was read has a place"
    return Place(partition, offset)
