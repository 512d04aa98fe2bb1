"""Spark's own Kafka source and sink, set up from our settings, and what is written: messages by partition.

The sink is at-least-once: a task that is tried again writes its messages again. They are the same bytes, so the engine counts
them as repeated and nothing else happens.
"""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from services.errors import JobError, TopicError
from services.kafka.clients import RECORD_BYTES_MAX, connection, typed_errors
from services.settings import KafkaSettings

MESSAGES = "partition int, value binary"  # one message a row


def options(settings: KafkaSettings) -> dict[str, str]:
    """How to reach Kafka, in the words of Java's client."""
    values: dict[str, str | None] = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.client_id,
        "security.protocol": settings.security_protocol,
        "request.timeout.ms": str(round(settings.request_timeout_s * 1000)),
    }
    if settings.sasl_mechanism and settings.sasl_username and settings.sasl_password:
        module = "plain.PlainLoginModule" if settings.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = _quoted(settings.sasl_username), _quoted(settings.sasl_password.reveal())
        values["sasl.mechanism"] = settings.sasl_mechanism
        values["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        )
    if settings.ca_file:
        values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(settings.ca_file)}
    if settings.certificate_file and settings.key_file:
        values |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": settings.certificate_file.read_text("utf-8"),
            "ssl.keystore.key": settings.key_file.read_text("utf-8"),
            "ssl.key.password": settings.key_password.reveal() if settings.key_password else None,
        }
    return {f"kafka.{name}": value for name, value in values.items() if value is not None}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(messages: DataFrame, settings: KafkaSettings, topic: str) -> None:
    """Writes the messages (MESSAGES), those of one task and partition in their order."""
    writer = messages.write.format("kafka").options(**options(settings)).option("topic", topic)
    writer = writer.option("kafka.acks", "all").option("kafka.enable.idempotence", "true")
    # Chunks are large: a request holds several, and they leave when they are there.
    writer = writer.option("kafka.max.request.size", str(RECORD_BYTES_MAX)).option("kafka.batch.size", "1048576")
    try:
        writer.save()
    except PySparkException as error:
        raise JobError(f"writing to {topic} at {settings.bootstrap}: {cause_of(error)}") from error


def read(spark: SparkSession, settings: KafkaSettings, topic: str, tasks: int) -> DataFrame:
    """All committed messages of a topic as they are now, read by about so many tasks."""
    reader = spark.read.format("kafka").options(**options(settings)).option("subscribe", topic)
    reader = reader.option("kafka.isolation.level", "read_committed").option("minPartitions", str(tasks))
    reader = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest")
    return reader.option("kafka.max.partition.fetch.bytes", str(RECORD_BYTES_MAX)).load()


def partitions_of(settings: KafkaSettings, *topics: str) -> list[int]:
    """How many partitions each topic has; TopicError if one is not there."""
    with typed_errors("asking Kafka for its topics"):
        known = AdminClient(connection(settings)).list_topics(timeout=settings.request_timeout_s).topics
    for topic in topics:
        if topic not in known:
            raise TopicError(f"topic {topic} does not exist; make it with `millrace topics create`")
    return [len(known[topic].partitions) for topic in topics]


def cause_of(error: BaseException) -> str:
    """The line of a Spark error that says what went wrong: a sentence of ours, else the innermost cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("services.", "engine.errors."))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    said = (ours or causes or lines or [type(error).__name__])[-1 if ours or causes else 0]
    _, colon, sentence = said.partition(": ")
    return sentence if ours and colon else said[:500]
