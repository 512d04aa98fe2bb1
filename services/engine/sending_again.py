"""Failed events and dead letters: out of their topics for people to read, and into the input again as new events.

An event that is sent again is a new one: a single record, whose identity is its place in `<app>.records.v1`, at a time after the
last punctuation (else it would be late). So only an engine that reads single records can be given one. Each outcome is sent again
once at most: for every reason a consumer group of its own remembers how far it got, in the transaction that sends the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from engine.errors import Reason
from schemas import load
from schemas.application import event_schemas, record_schemas
from services.codec import ObjectCodec, frame, unframe
from services.engine.facts import LetterReason
from services.engine.wire import DEAD_LETTER, MARKER, RECORD, Wire
from services.kafka.clients import ClientErrors, committed_consumer, transactional_producer, typed_errors
from services.kafka.topic_reading import read_topic
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings

FAILED_REASONS = tuple(reason.name.lower() for reason in Reason if reason is not Reason.NONE)
LETTER_REASONS = tuple(str(reason) for reason in LetterReason)
# A conflict's other copy counted, and a message of an unknown source never was an input.
REPLAYED = tuple(
    map(str, (LetterReason.LATE, LetterReason.QUARANTINED, LetterReason.INCOMPLETE, LetterReason.UNDECODABLE))
)
_MARKERS_BACK = (30, 3_000)  # records before the topic's end, to look for the last committed marker


@dataclass(frozen=True)
class Outcome:
    """A failed transaction or a dead letter, and where its record is."""

    partition: int
    offset: int
    reason: str
    what: dict[str, Any]  # for people
    record_type: str | None = None
    body: bytes = b""  # of the event, or the letter's payload

    def shown(self) -> dict[str, Any]:
        """For people and programs."""
        return {"reason": self.reason, **self.what}


class Outcomes:
    """One application's failed transactions and dead letters."""

    def __init__(self, kafka: KafkaSettings, wire: Wire) -> None:
        self._kafka, self._wire = kafka, wire
        self._names = TopicNames(wire.application.name)
        self._events = {name: ObjectCodec(schema) for name, schema in event_schemas(wire.application).items()}
        self._records = {name: ObjectCodec(schema) for name, schema in record_schemas(wire.application).items()}
        self._failed = ObjectCodec(load("failed"))

    def failed(self, starts: dict[int, int] | None = None) -> Iterator[Outcome]:
        """Failed transactions, whether they left in chunks or one by one."""
        for partition, offset, value in read_topic(self._kafka, self._names.failed, starts):
            number, body = unframe(value)
            if number == self._wire.failure_id():
                failures = [ObjectCodec(self._wire.ids.schema_of(number)).decode(body)]
                epoch = failures[0]["epoch"]
            else:
                chunk = self._failed.decode(body)
                failures, epoch = chunk["failures"], chunk["epoch"]
            for failure in failures:
                kind, event = failure["record_type"], failure["event"]
                named = {key: failure[key] for key in ("source", "seq", "ts", "record_type", "statement", "stage")}
                key = json.loads(failure["key"]) if failure["key"] is not None else None
                fields = self._events[kind].decode(event) if event and kind in self._events else None
                what = {"epoch": epoch, **named, "key": key, "event": fields}
                yield Outcome(partition, offset, failure["reason"], what, kind if fields is not None else None, event)

    def letters(self, starts: dict[int, int] | None = None) -> Iterator[Outcome]:
        for partition, offset, value in read_topic(self._kafka, self._names.dead_letter, starts):
            letter = self._wire.decode(DEAD_LETTER, value)
            where = {key: letter[key] for key in ("topic", "partition", "offset", "detail", "epoch", "source")}
            what = {**where, "bytes": len(letter["payload"])}
            yield Outcome(partition, offset, letter["reason"], what, None, letter["payload"])

    # --- sending again --------------------------------------------------------------------------------------------------

    def time_after_all(self) -> int:
        """The first time that is not late: after the last punctuation that is committed."""
        topic = self._names.epochs
        consumer = Consumer(committed_consumer(self._kafka, "millrace-reading"))
        try:
            with typed_errors(f"asking for the end of {topic}"):
                low, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), self._kafka.request_timeout_s)
        finally:
            consumer.close()
        for back in (*_MARKERS_BACK, end - low):
            last = None
            for _, _, value in read_topic(self._kafka, topic, {0: max(end - back, low)}):
                last = self._wire.decode(MARKER, value)
            if last is not None:
                return int(last["punctuation_ts"] or 0) + 1
        return 0

    def resubmit(self, reason: str, ts: int) -> int:
        """Failed input events of a reason, as new events at this time; gives how many. Derived ones come of their parents."""
        return self._send(f"failed-{reason}", reason, self.failed, lambda outcome: self._again(outcome, ts))

    def replay(self, reason: str, ts: int) -> int:
        """Dead letters of a reason the same way; bytes that could not be read as they were, for they may be readable now."""
        return self._send(
            f"dead-letter-{reason}", reason, self.letters, lambda outcome: self._letter_again(outcome, ts)
        )

    def _again(self, outcome: Outcome, ts: int) -> bytes | None:
        if outcome.record_type is None or outcome.what.get("stage"):
            return None
        event = self._events[outcome.record_type].decode(outcome.body)
        return self._framed(outcome.record_type, {**event, "ts": ts})

    def _letter_again(self, outcome: Outcome, ts: int) -> bytes | None:
        if outcome.reason == LetterReason.UNDECODABLE:
            return outcome.body
        number, body = unframe(outcome.body)
        for name, codec in self._records.items():
            if self._wire.id_of(f"{RECORD}.{name}") == number:
                return self._framed(name, {**codec.decode(body), "ts": ts})
        return None  # a chunk of an earlier time, when this engine read chunks

    def _framed(self, record_type: str, event: dict[str, Any]) -> bytes:
        fields = {name: value for name, value in event.items() if name != "seq"}
        return frame(self._wire.id_of(f"{RECORD}.{record_type}"), self._records[record_type].encode(fields))

    def _send(
        self,
        name: str,
        reason: str,
        read: Callable[[dict[int, int]], Iterator[Outcome]],
        again: Callable[[Outcome], bytes | None],
    ) -> int:
        """One transaction: the records, and how far this reason was read."""
        app, timeout_s = self._names.app, self._kafka.transaction_timeout_s
        topic = self._names.failed if read == self.failed else self._names.dead_letter
        errors = ClientErrors()
        group = Consumer(committed_consumer(self._kafka, f"{app}-{name}", errors))
        producer = Producer(transactional_producer(self._kafka, f"{app}-{name}", errors))
        try:
            with typed_errors(f"sending {topic} again", errors):
                producer.init_transactions(timeout_s)  # of two that do the same at once, the first is fenced
                count = len(group.list_topics(topic, timeout_s).topics[topic].partitions)
                places = [TopicPartition(topic, partition) for partition in range(count)]
                starts = {at.partition: max(at.offset, 0) for at in group.committed(places, timeout_s)}
                producer.begin_transaction()
                sent, ends = 0, dict(starts)
                for outcome in read(starts):
                    ends[outcome.partition] = outcome.offset + 1
                    value = again(outcome) if outcome.reason == reason else None
                    if value is not None:
                        sent += 1
                        producer.produce(self._names.records, value)
                        producer.poll(0)
                ended = [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]
                producer.send_offsets_to_transaction(ended, group.consumer_group_metadata(), timeout_s)
                producer.commit_transaction(timeout_s)
            return sent
        finally:
            group.close()
