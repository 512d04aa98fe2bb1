"""Input as rows: files or a topic of single Avro records as a DataFrame of events, each with where it stood.

Columns are the application's fields by name, `TYPE` (the record type), `TS` (the event time) and `PLACE`: positions in the
input that order its rows whatever Spark's partitioning, because they are the files' and topic's own. A split of a file begins
at its `block`; within it rows are read in order by one task, so that task's counter orders them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from engine.api.application import Application
from engine.api.types import ListType, ScalarType, VectorType
from engine.state.columns import ListColumn, StringColumn
from schemas.application import record_schemas
from services.codec import compile_reader, unframe
from services.errors import JobError
from services.settings import KafkaSettings
from spark_jobs.kafka import cause_of, options
from spark_jobs.messages import Target

TYPE, TS = "_type", "_ts"
PLACE = ("_path", "_block", "_row")
RECORDS = "records"
_SCALARS = {"int64": T.LongType(), "float64": T.DoubleType(), "boolean": T.BooleanType(), "string": T.StringType()}


@dataclass(frozen=True)
class Input:
    """What to read."""

    format: str  # csv, json, parquet, records
    path: str  # a directory or pattern of files; a topic, for records
    record_type: str | None = None
    type_column: str | None = None
    ts_column: str = "ts"
    files_a_batch: int | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Input:
        return cls(
            arguments.format, arguments.input, arguments.type, arguments.type_column, arguments.ts_column,
            arguments.files_a_batch,
        )  # fmt: skip

    def check(self, application: Application) -> None:
        """JobError where the options and the application do not fit."""
        types = ", ".join(application.input_types)
        if self.record_type is not None and self.record_type not in application.input_types:
            raise JobError(f"{application.name} has no record type {self.record_type!r}; it has {types} (--type)")
        given = [name for name in (self.record_type, self.type_column) if name is not None]
        if self.format == RECORDS and given:
            raise JobError("records say their own types; leave out --type and --type-column")
        if self.format != RECORDS and len(given) != 1:
            raise JobError(f"give --type (one of {types}) or --type-column, the column that says it")


def field_types(application: Application, record_type: str | None) -> dict[str, T.DataType]:
    """Spark's types of the fields of one record type, or of all together."""
    found: dict[str, tuple[str, T.DataType]] = {}
    for name in [record_type] if record_type else application.input_types:
        for field, kind in application.events[name].fields.items():
            spark_type = _spark_type(kind)
            owner, before = found.setdefault(field, (name, spark_type))
            if before != spark_type:
                raise JobError(
                    f"{field} is {before.simpleString()} in {owner} and {spark_type.simpleString()} in {name}: "
                    "publish the two record types from inputs of their own (--type)"
                )
    return {field: spark_type for field, (_, spark_type) in found.items()}


def _spark_type(kind: Any) -> T.DataType:
    if isinstance(kind, VectorType | ListType):
        return T.ArrayType(_SCALARS[kind.element.name], containsNull=False)
    assert isinstance(kind, ScalarType)
    return _SCALARS[kind.name]


def rows(spark: SparkSession, given: Input, target: Target, kafka: KafkaSettings, *, stream: bool) -> DataFrame:
    """The input's rows, as they are now or as a stream; `placed` completes a batch of them."""
    application = target.wire.application
    given.check(application)
    types = field_types(application, given.record_type)
    try:
        if given.format == RECORDS:
            return _records(spark, given, target, kafka, types, stream)
        return _files(spark, given, types, stream)
    except PySparkException as error:
        raise JobError(f"{given.path}: {cause_of(error)}") from error


def _files(spark: SparkSession, given: Input, types: dict[str, T.DataType], stream: bool) -> DataFrame:
    reader: Any = spark.readStream if stream else spark.read
    read: DataFrame
    if given.files_a_batch is not None and stream:
        reader = reader.option("maxFilesPerTrigger", given.files_a_batch)
    if given.format == "json":
        wanted = [T.StructField(name, kind) for name, kind in types.items()]
        wanted.append(T.StructField(given.ts_column, T.LongType()))
        if given.type_column is not None:
            wanted.append(T.StructField(given.type_column, T.StringType()))
        read = reader.schema(T.StructType(wanted)).option("mode", "FAILFAST").json(given.path)
    else:
        # The files say which columns there are, and in what order; the types are the application's.
        sample = spark.read.option("header", True)
        schema = sample.csv(given.path).schema if given.format == "csv" else sample.parquet(given.path).schema
        reader = reader.schema(schema)
        if given.format == "csv":
            read = (
                reader.option("header", True).option("enforceSchema", False).option("mode", "FAILFAST").csv(given.path)
            )
        else:
            read = reader.parquet(given.path)
    needed = [given.ts_column, *((given.type_column,) if given.type_column else ())]
    needed += types if given.record_type else ()
    missing = [name for name in needed if name not in read.columns]
    if missing:
        raise JobError(
            f"{given.path} has no column {', '.join(missing)}; it has {', '.join(read.columns)}, and columns are to be named "
            "as the event's fields"
        )
    record_type = F.lit(given.record_type) if given.record_type else F.col(f"`{given.type_column}`")
    return read.select(
        record_type.alias(TYPE),
        F.col(f"`{given.ts_column}`").cast("bigint").alias(TS),
        F.col("_metadata.file_path").alias(PLACE[0]),
        F.col("_metadata.file_block_start").cast("bigint").alias(PLACE[1]),
        *(_cast(name, kind, read.columns) for name, kind in types.items()),
    )


def placed(given: DataFrame) -> DataFrame:
    """The rows of a batch with their whole place: rows of files are counted here, because Spark counts no stream's rows."""
    return given if PLACE[2] in given.columns else given.withColumn(PLACE[2], F.monotonically_increasing_id())


def _cast(name: str, kind: T.DataType, columns: list[str]) -> Column:
    column = F.col(f"`{name}`") if name in columns else F.lit(None)
    return column.cast(kind).alias(name)


def _records(
    spark: SparkSession, given: Input, target: Target, kafka: KafkaSettings, types: dict[str, T.DataType], stream: bool
) -> DataFrame:
    reader: Any = spark.readStream if stream else spark.read
    reader = reader.format("kafka").options(**options(kafka)).option("subscribe", given.path)
    reader = reader.option("kafka.isolation.level", "read_committed").option("startingOffsets", "earliest")
    messages: DataFrame = reader.load().select(F.col("topic"), F.col("partition").cast("bigint"), "offset", "value")
    schema = T.StructType(
        [
            T.StructField(TYPE, T.StringType()),
            T.StructField(TS, T.LongType()),
            T.StructField(PLACE[0], T.StringType()),
            T.StructField(PLACE[1], T.LongType()),
            T.StructField(PLACE[2], T.LongType()),
            *(T.StructField(name, kind) for name, kind in types.items()),
        ]
    )
    arrow_schema = to_arrow_schema(schema)

    def decode(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield from _decoded(target, batch, arrow_schema)

    return messages.mapInArrow(decode, schema)


def _decoded(target: Target, messages: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages as rows, those of one schema together."""
    by_schema: dict[int, tuple[list[int], list[bytes]]] = {}
    for number, value in enumerate(messages.column("value").to_pylist()):
        schema_id, body = unframe(value)
        rows, bodies = by_schema.setdefault(schema_id, ([], []))
        rows.append(number)
        bodies.append(bytes(body))
    for schema_id, (rows, bodies) in by_schema.items():
        record_type, written = target.record_type(schema_id)
        codec: Any = compile_reader(written, record_schemas(target.wire.application)[record_type])
        found = {name: _as_arrow(column) for name, column in codec.decode(bodies).items()}
        found[TYPE], found[TS] = pa.repeat(record_type, len(rows)), found["ts"]
        for name, given in zip(PLACE, ("topic", "partition", "offset"), strict=True):
            found[name] = messages.column(given).take(pa.array(rows))
        columns = [found.get(field.name, pa.nulls(len(rows), field.type)) for field in schema]
        yield pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )


def _as_arrow(column: Any) -> pa.Array:
    """A decoded column."""
    if isinstance(column, StringColumn):
        offsets = pa.py_buffer(column.offsets.astype(np.int32))
        return pa.StringArray.from_buffers(len(column), offsets, pa.py_buffer(column.data))
    if isinstance(column, ListColumn):
        return pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), _as_arrow(column.values))
    if column.ndim == 2:
        offsets = np.arange(len(column) + 1, dtype=np.int32) * column.shape[1]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(column.reshape(-1)))
    return pa.array(column)
