"""The service's side of Kafka: input messages in, one transaction a commit out, and the log that recovery reads.

A producer that failed in any way is dropped, never used again: a request of its that is still on the way must not end a later
transaction. A new one aborts whatever the old one left open. The input's consumer is renewed with it, and if it stands still.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicMetadata

from services.engine.belonging import Reach, check_reach
from services.engine.facts import Cursor, Memory, Place
from services.engine.logs import log_event
from services.engine.ownership import Ownership
from services.engine.standstill import Standstill
from services.errors import InputGoneError, KafkaClientError, StateError, TopicError
from services.kafka.clients import ClientErrors, committed_consumer, connection, transactional_producer, typed_errors
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings

MESSAGES_A_POLL = 64
RECORDS_A_CALL = 10_000  # of produce_batch
QUEUE_RECORDS = 100_000  # what librdkafka queues, unless told otherwise
RECORDS_A_POLL = 20_000  # each a few dozen bytes; decoded in one call
RECOVERY_POLL_S = 0.5
TOPICS_S = ENDS_S = 2.0
_GONE = {
    KafkaError(code).name()
    for code in (
        KafkaError._AUTO_OFFSET_RESET, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Outgoing:
    """One record of a transaction."""

    topic: str
    value: bytes
    key: bytes | None = None


@dataclass(frozen=True)
class OutgoingBatch:
    """Many records of a transaction for one topic, in order: `{"value": …, "key": …}` each. The key chooses the partition."""

    topic: str
    messages: list[dict[str, Any]]


class KafkaLog:
    """One engine's topics."""

    def __init__(self, settings: KafkaSettings, app: str, shard: int = 0, *, records: bool = False) -> None:
        """`records`: input is the topic of single records, not that of chunks."""
        self.names = TopicNames(app)
        self.input_topic = self.names.records if records else self.names.events
        self.reads_records = records
        self._messages_a_poll = RECORDS_A_POLL if records else MESSAGES_A_POLL
        self._settings = settings
        self.transactional_id = f"{app}-{shard}"
        self._errors = ClientErrors()
        self._producer: Producer | None = None
        self._had_producer = False
        self.message_age_s = 0.0  # how long ago a broker took the last message that was polled
        self.written: dict[str, int] = {}  # by topic: the offset after the last record that a broker took
        self._ended: set[int] = set()  # partitions that were read to their end
        self._more_waits = False  # messages of any partition, already fetched
        self._reached: dict[int, int] = {}  # by partition: the offset to read next
        self._paused: frozenset[int] = frozenset()
        self._standstill = Standstill(time.monotonic())
        self._admin = AdminClient(connection(settings, self._errors))
        self.partitions = self._count_partitions()
        self._input = self._open_input()
        self._ownership = Ownership(self.transactional_id, self._input, self.input_topic, self._errors)

    def _open_input(self) -> Consumer:
        """To be assigned once, and at offsets: if Kafka does not say at once where a beginning or an end is, librdkafka 2.16 asks
        again half a second later and goes there, even where another place was assigned meanwhile."""
        return Consumer(committed_consumer(self._settings, self.transactional_id, self._errors, report_end=True))

    def _reopen_input(self) -> None:
        """A consumer that knows nothing of what the one before knew, for reading and for asking who owns the id."""
        before, self._input = self._input, self._open_input()
        self._ownership.group = self._input
        before.close()

    def _count_partitions(self) -> int:
        topics = self._topics()
        missing = [name for name in (*self.names.partitioned, *self.names.single) if name not in topics]
        if missing:
            raise TopicError(
                f"topic {missing[0]} does not exist; make the topics with `millrace topics create --app {self.names.app}`"
            )
        return len(topics[self.input_topic].partitions)

    def _topics(self) -> dict[str, TopicMetadata]:
        """Asked in short turns: who refuses us says so beside the call, and the call would wait all the same."""
        deadline_s = time.monotonic() + self._settings.request_timeout_s
        while True:
            try:
                with typed_errors("asking Kafka for its topics", self._errors):
                    found: dict[str, TopicMetadata] = self._admin.list_topics(timeout=TOPICS_S).topics
                return found
            except KafkaClientError:
                self._admin.poll(0)  # only now does it say what it found
                self._errors.raise_serious()
                if time.monotonic() > deadline_s:
                    raise

    # --- input ----------------------------------------------------------------------------------------------------

    def seek(self, memory: Memory) -> None:
        """Reads on from where the memory ends."""
        reach = self.reach()
        check_reach(self.input_topic, memory.cursors, reach)
        cut = {partition: held.first for partition, held in reach.items() if held.first > 0}
        if cut and not memory.cursors:
            text = f"{self.input_topic} is read for the first time, and what it began with is gone"
            log_event(logging.WARNING, "input_begins_late", text, first_offsets=cut)
        for partition in range(self.partitions):
            cursor = memory.cursors.get(partition)
            first = reach[partition].first
            self._reached[partition] = cursor.low if cursor is not None and cursor.low > 0 else first
        self._paused = frozenset()
        self._assign()

    def _assign(self) -> None:
        """From where was reached."""
        with typed_errors(f"reading {self.input_topic}", self._errors):
            self._input.assign([TopicPartition(self.input_topic, each, at) for each, at in self._reached.items()])
        self._ended.clear()
        self._more_waits = False
        self._standstill.begins(time.monotonic())

    def poll(self, timeout_s: float) -> list[tuple[Place, bytes | None]]:
        """Messages that have arrived. The first wait is the whole time-out, what is there already comes at once."""
        self._errors.raise_serious()
        with self._input_here():
            first = self._input.poll(timeout_s)
            messages: list[Message] = [] if first is None else [first, *self._input.consume(self._messages_a_poll, 0)]
            self._more_waits = len(messages) > self._messages_a_poll
            for message in messages:
                self._note(message)
            if not messages:
                self._look_for_standstill(time.monotonic())
            messages = [message for message in messages if message.error() is None]
        if messages:
            self.message_age_s = time.time() - messages[-1].timestamp()[1] / 1000
        return [(_place(message), message.value()) for message in messages]

    def _look_for_standstill(self, now_s: float) -> None:
        """A consumer that gets nothing although there is something is given up."""
        if self._standstill.asks(now_s):
            self._standstill.told(self._committed_ends(), time.monotonic())
        read = {partition: at for partition, at in self._reached.items() if partition not in self._paused}
        if self._standstill.stands(read, now_s):
            text = f"{self.input_topic} has more, but nothing comes: it is read with a new consumer"
            log_event(logging.WARNING, "input_reopened", text, reached=self._reached)
            self._reopen_input()
            self._assign()
            self.pause(self._paused)

    def _committed_ends(self) -> dict[int, int]:
        """By partition where the input ends for readers, asked by a client of its own; nothing if nobody answers."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(self.input_topic, partition): latest for partition in range(self.partitions)}
        committed = IsolationLevel.READ_COMMITTED
        try:
            admin = AdminClient(connection(self._settings, ClientErrors()))
            asked = admin.list_offsets(wanted, isolation_level=committed, request_timeout=ENDS_S)
            return {each.partition: future.result(ENDS_S + 1).offset for each, future in asked.items()}
        except (KafkaException, TimeoutError):
            return {}

    def reach(self) -> dict[int, Reach]:
        """What the input's partitions hold now."""
        partitions = [TopicPartition(self.input_topic, partition) for partition in range(self.partitions)]
        ends = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
            with typed_errors(f"asking what {self.input_topic} holds", self._errors):
                asked = self._admin.list_offsets(
                    {each: spec for each in partitions}, request_timeout=self._settings.request_timeout_s
                )
                ends.append({each.partition: future.result().offset for each, future in asked.items()})
        return {partition: Reach(first, ends[1][partition]) for partition, first in ends[0].items()}

    @contextmanager
    def _input_here(self) -> Iterator[None]:
        """Errors of reading; those that say that messages are gone become InputGoneError."""
        try:
            with typed_errors(f"reading {self.input_topic}", self._errors):
                yield
        except KafkaClientError as error:
            if error.code not in _GONE:
                raise
            at = self._input.position([TopicPartition(self.input_topic, p) for p in range(self.partitions)])
            places = {each.partition: Cursor(max(each.offset, 0)) for each in at}
            if error.code == KafkaError(KafkaError._AUTO_OFFSET_RESET).name():
                check_reach(self.input_topic, places, self.reach())
            read = ", ".join(f"partition {partition} up to offset {at.low}" for partition, at in places.items())
            raise InputGoneError(f"{error}; it was read in {read}; restore it, or begin under another name") from error

    def _note(self, message: Message) -> None:
        """How far its partition is read now, and whether that is the end."""
        error = message.error()
        if error is None:
            partition, offset = _place(message)
            self._ended.discard(partition)
            self._reached[partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            partition, offset = _place(message)
            self._ended.add(partition)
            self._reached[partition] = offset
        elif not error.retriable():
            raise KafkaException(error)
        else:
            return
        self._standstill.came(time.monotonic())

    def pause(self, partitions: frozenset[int]) -> None:
        self._paused = partitions
        self._standstill.begins(time.monotonic())
        everything = range(self.partitions)
        self._input.resume([TopicPartition(self.input_topic, p) for p in everything if p not in partitions])
        self._input.pause([TopicPartition(self.input_topic, p) for p in partitions])

    def behind(self) -> frozenset[int]:
        """Partitions that may have more messages than were read. What Kafka says of a partition's end cannot be compared with
        our place in it: its own records of transactions have offsets, too."""
        return frozenset(range(self.partitions)) - (frozenset() if self._more_waits else self._ended)

    # --- output ---------------------------------------------------------------------------------------------------

    def new_producer(self) -> None:
        """Drops the producer and makes another: what the old one left open is aborted, its late requests are fenced.

        TakenOverError if another engine with our id has begun since."""
        self._producer = None
        if self._had_producer:  # what made that one fail may have made the consumer useless
            self._reopen_input()
        self._had_producer = True
        # Anew as well: it keeps the leaders' epochs that it knew at first, and after a change of leaders is refused for ever.
        self._admin = AdminClient(connection(self._settings, self._errors))
        self._ownership.glance()
        timeout_s = self._settings.transaction_timeout_s
        errors = ClientErrors()  # its own: what is fatal to one producer is nothing to the next
        producer = Producer(transactional_producer(self._settings, self.transactional_id, errors))
        with typed_errors("beginning as the only engine with this id", errors):
            producer.init_transactions(timeout_s)
        self._ownership.take(producer, timeout_s)
        self._producer = producer

    def commit(self, records: Sequence[Outgoing | OutgoingBatch], memory: Memory) -> None:
        """One transaction: all records and the consumer's offsets, or nothing."""
        producer, timeout_s = self._producer, self._settings.transaction_timeout_s
        assert producer is not None, "a producer is made before the first commit"
        with typed_errors("committing", self._errors):
            producer.begin_transaction()
            for record in records:
                if isinstance(record, OutgoingBatch):
                    _produce_batch(producer, record)
                else:
                    self._produce(producer, record)
            offsets = [
                TopicPartition(self.input_topic, partition, cursor.low, metadata=self._ownership.claim)
                for partition, cursor in memory.cursors.items()
            ]
            if offsets:  # advisory: what counts is the marker
                self._ownership.send_offsets(producer, offsets, timeout_s)
            producer.commit_transaction(timeout_s)

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
        """The committed records of a topic of one partition, from an offset to its end, each with its offset.

        KafkaClientError where they cannot be read to the end now; StateError where they are gone."""
        end = self._end_of(topic, offset)
        form = committed_consumer(self._settings, f"{self.transactional_id}-recovery", self._errors, report_end=True)
        consumer = Consumer(
            {**form, "fetch.wait.max.ms": 20}
        )  # what comes after the last record is no record: see the end
        try:
            with typed_errors(f"reading {topic} to recover", self._errors):
                consumer.assign([TopicPartition(topic, 0, offset if offset > 0 else OFFSET_BEGINNING)])
                reached, waiting_since_s = offset, time.monotonic()
                while reached < end:
                    self._errors.raise_serious()
                    message = consumer.poll(RECOVERY_POLL_S)
                    error = message.error() if message is not None else None
                    if message is not None and error is None:
                        yield _place(message).offset, message.value() or b""
                    elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    if message is not None and (at := _place(message).offset + (error is None)) > reached:
                        reached, waiting_since_s = at, time.monotonic()
                    elif time.monotonic() - waiting_since_s > self._settings.request_timeout_s:
                        raise KafkaClientError(
                            f"{topic} was read to offset {reached}, but it ends at {end}: Kafka does not answer, or a "
                            "transaction hangs there; list those with `kafka-transactions.sh find-hanging` and end it "
                            "with its `abort`"
                        )
        finally:
            consumer.close()

    def _end_of(self, topic: str, offset: int) -> int:
        """Where the topic ends for writers. A consumer's own view of the end goes back when a partition's leader changes,
        and what was committed would be missed; Kafka never answers this question with less than it acknowledged."""
        at = TopicPartition(topic, 0)
        bounds = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
            asked = self._admin.list_offsets(
                {at: spec},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._settings.request_timeout_s,
            )
            with typed_errors(f"asking for the end of {topic}", self._errors):
                bounds.append(asked[at].result().offset)
        begin, end = bounds
        if not begin <= offset <= end:
            raise StateError(
                f"{topic} has offsets {begin} to {end}, but the state goes on at {offset}: it was cut, or made anew; restore "
                "the topic, or a snapshot that fits it"
            )
        return int(end)

    def close(self) -> None:
        self._producer = None
        self._input.close()


def _produce_batch(producer: Producer, batch: OutgoingBatch) -> None:
    """One call for thousands of records. There must be room for all of a call: those after a refused one would overtake it."""
    for begin in range(0, len(batch.messages), RECORDS_A_CALL):
        some = batch.messages[begin : begin + RECORDS_A_CALL]
        while len(producer) + len(some) > QUEUE_RECORDS:
            producer.poll(0.05)
        if producer.produce_batch(batch.topic, some) != len(some):
            raise KafkaException(next(each["_error"] for each in some if "_error" in each))


def _place(message: Message) -> Place:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a message that was read has a place"
    return Place(partition, offset)
