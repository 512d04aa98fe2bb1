"""A topic's committed records from given offsets to where it ends now, for commands that look into topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from services.errors import KafkaClientError, TopicError
from services.kafka.clients import ClientErrors, committed_consumer, typed_errors
from services.settings import KafkaSettings


def read_topic(
    settings: KafkaSettings, topic: str, starts: Mapping[int, int] | None = None, group: str = "millrace-reading"
) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and value of each record, partition by partition; `starts` by partition, else from the beginning."""
    errors = ClientErrors()
    consumer = Consumer(committed_consumer(settings, group, errors, report_end=True))
    try:
        with typed_errors(f"reading {topic}", errors):
            found = consumer.list_topics(topic, settings.request_timeout_s).topics[topic]
            if found.error is not None:
                raise TopicError(f"topic {topic} cannot be read: {found.error.str()}; see `millrace topics create`")
            for partition in sorted(found.partitions):
                first = (starts or {}).get(partition, OFFSET_BEGINNING)
                consumer.assign([TopicPartition(topic, partition, first)])
                yield from _read_partition(consumer, topic, settings.request_timeout_s)
    finally:
        consumer.close()


def _read_partition(consumer: Consumer, topic: str, timeout_s: float) -> Iterator[tuple[int, int, bytes]]:
    while True:
        message = consumer.poll(timeout_s)
        if message is None:
            raise KafkaClientError(
                f"{topic} does not end within {timeout_s:g} s: Kafka does not answer, or a transaction hangs"
            )
        error = message.error()
        if error is None:
            yield message.partition() or 0, message.offset() or 0, message.value() or b""
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
