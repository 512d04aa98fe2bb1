"""Events into messages, inside Spark's executors: what they need to know is a small value that travels to them.

Executors have no settings and no files: schema ids and the application's name come with the job. The codec is built once a
worker process, its kernels come from the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from engine.api.application import Application
from services.codec.errors import UnknownSchemaError
from services.codec.tree import Schema, canonical
from services.engine.command import ids_of, load_application
from services.engine.publishing import SourceEpoch
from services.engine.wire import RECORD, Wire, schemas_of
from services.errors import JobError
from services.settings import Settings

ROWS_A_CHUNK = 10_000
BATCH_BYTES = 4 << 20  # of messages in one Arrow batch on their way to Java


Known = tuple[int, str, str]  # a schema's id, its subject, its JSON


@dataclass(frozen=True)
class Target:
    """What is written: an application's messages, with these schema ids, to so many partitions."""

    application: str  # module:name
    ids: tuple[Known, ...]
    partitions: int

    @property
    def wire(self) -> Wire:
        """The codecs, this process's own."""
        return _wire(self.application, self.ids)

    def record_type(self, schema_id: int) -> tuple[str, Schema]:
        """Of a single record with this schema id: its type, and the schema that it was written with."""
        begin = f"{self.wire.application.name}.{RECORD}."
        for number, subject, schema in self.ids:
            if number == schema_id and subject.startswith(begin):
                return subject.removeprefix(begin), json.loads(schema)
        known = ", ".join(f"{number} ({subject})" for number, subject, _ in self.ids if subject.startswith(begin))
        raise JobError(f"a record has the schema id {schema_id}; those of records are {known or 'none'} (--schema-ids)")

    def source_epoch(self, source: int, epoch: int) -> SourceEpoch:
        return SourceEpoch(self.wire, source, epoch, self.partitions)


def known_ids(settings: Settings, application: Application) -> tuple[Known, ...]:
    """The ids that the engine with these settings uses, of all schemas that its topics may have."""
    ids = ids_of(settings.engine, application)
    found: dict[int, Known] = {}
    for subject, schema in schemas_of(application).items():
        versions = ids.versions_of(subject) | {ids.id_of(subject, schema): schema}
        found |= {number: (number, subject, json.dumps(version)) for number, version in versions.items()}
    return tuple(found.values())


@lru_cache(maxsize=4)
def _wire(application: str, ids: tuple[Known, ...]) -> Wire:
    return Wire(load_application(application), GivenIds(ids))


class GivenIds:
    """Schema ids that came with the job."""

    def __init__(self, known: tuple[Known, ...]) -> None:
        self._known = {number: (subject, json.loads(schema)) for number, subject, schema in known}

    def id_of(self, subject: str, schema: Schema) -> int:
        for number, written in self.versions_of(subject).items():
            if canonical(written) == canonical(schema):
                return number
        raise UnknownSchemaError(f"the job has no id for this schema of {subject}")

    def schema_of(self, schema_id: int) -> Schema:
        if schema_id not in self._known:
            raise UnknownSchemaError(
                f"schema id {schema_id} is none of {sorted(self._known)}; give the file of ids or the registry that has it"
            )
        found: Schema = self._known[schema_id][1]
        return found

    def versions_of(self, subject: str) -> dict[int, Schema]:
        return {number: schema for number, (name, schema) in self._known.items() if name == subject}


@dataclass(frozen=True)
class Published:
    """What a job wrote; what a task that failed had written already counts, too."""

    messages: int = 0
    events: int = 0
    bytes: int = 0

    def __add__(self, other: Published) -> Published:
        return Published(self.messages + other.messages, self.events + other.events, self.bytes + other.bytes)


class _Adding(AccumulatorParam[Published]):
    def zero(self, value: Published) -> Published:
        return Published()

    def addInPlace(self, value1: Published, value2: Published) -> Published:  # noqa: N802 (Spark's name)
        return value1 + value2


def counter(spark: SparkSession) -> Accumulator[Published]:
    """Counts what executors write. (Spark's `Observation` never answers for a Kafka sink.)"""
    return spark.sparkContext.accumulator(Published(), _Adding())


def batches(
    source_epochs: Iterable[tuple[SourceEpoch, int]], written: Accumulator[Published]
) -> Iterator[pa.RecordBatch]:
    """The messages of epochs, each with its punctuation's time: chunks, then punctuations, in batches for Spark."""
    waiting: list[tuple[int, bytes]] = []
    size = 0
    for made, ts in source_epochs:
        messages = made.close(ts)
        epoch_bytes = sum(len(value) for _, value in messages)
        written.add(Published(len(messages), sum(made.sizes), epoch_bytes))
        waiting += messages
        size += epoch_bytes
        if size >= BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(messages: list[tuple[int, bytes]]) -> pa.RecordBatch:
    partitions, values = zip(*messages, strict=True)
    return pa.RecordBatch.from_pydict(
        {"partition": pa.array(partitions, pa.int32()), "value": pa.array(values, pa.binary())}
    )
