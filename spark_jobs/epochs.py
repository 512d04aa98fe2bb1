"""Rows into epochs: where to cut, and each epoch's messages. Transforms only; nothing is written here.

Events are taken in the order of (ts, place), so `seq` and the epochs come from the input alone; later epochs have later times.
The driver learns where epochs begin (one number each); tasks gather each epoch's rows, in order, and encode it whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from engine.state.columns import ListColumn, StringColumn
from services.engine.publishing import SourceEpoch
from services.errors import JobError
from spark_jobs.kafka import MESSAGES
from spark_jobs.messages import ROWS_A_CHUNK, Published, Target, batches
from spark_jobs.rows import PLACE, TS, TYPE

EPOCH = "_epoch"
EPOCH_EVENTS = 10_240
EPOCHS_A_TASK = 16


@dataclass(frozen=True)
class Cut:
    """Where epochs end: after about so many events, or where the time passes multiples of `span`."""

    events: int = EPOCH_EVENTS
    span: int | None = None
    source: int = 0

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Cut:
        if arguments.epoch_events is not None and arguments.epoch_span is not None:
            raise JobError("epochs are cut by count (--epoch-events) or by event time (--epoch-span); give one of them")
        return cls(arguments.epoch_events or EPOCH_EVENTS, arguments.epoch_span, arguments.source)


@dataclass(frozen=True)
class Epochs:
    """The epochs of some rows: the first one's number, each one's first time, and its punctuation's."""

    first: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.begins)


def cut(rows: DataFrame, how: Cut, first: int) -> Epochs:
    """Where the epochs of these rows begin and end. Events of one time are never parted: a punctuation could not be."""
    begins = _by_time(rows, how.span) if how.span is not None else _by_count(rows, how.events)
    if not begins:
        return Epochs(first, (), ())
    last = int(rows.agg(F.max(TS)).first()[0])  # type: ignore[index]
    # An epoch ends just before the next one begins; the last where its events end: more may come before the multiple.
    return Epochs(first, tuple(begins), (*(begin - 1 for begin in begins[1:]), last))


def _by_time(rows: DataFrame, span: int) -> list[int]:
    """The least time of each stretch of event time that has events."""
    stretches = rows.groupBy(F.floor(F.col(TS) / F.lit(span)).alias("stretch")).agg(F.min(TS).alias("begin"))
    return sorted(row["begin"] for row in stretches.select("begin").collect())


def _by_count(rows: DataFrame, events: int) -> list[int]:
    """The times at every so many events of the order; exact, since epochs must not depend on Spark's partitioning."""
    ordered = rows.select(TS).orderBy(TS).withColumn("row", F.monotonically_increasing_id()).persist()
    try:
        task = F.shiftright("row", 33)
        sizes = {row["task"]: row["count"] for row in ordered.groupBy(task.alias("task")).count().collect()}
        before, bases = 0, {}
        for number, size in sorted(sizes.items()):
            bases[number] = before
            before += size
        if not before:
            return []
        base = F.element_at(F.create_map(*(F.lit(each) for pair in bases.items() for each in pair)), task)
        at = base + F.col("row").bitwiseAND(F.lit((1 << 33) - 1))
        return sorted({row[TS] for row in ordered.where(at % events == 0).select(TS).collect()})
    finally:
        ordered.unpersist()


def messages(
    rows: DataFrame, epochs: Epochs, target: Target, source: int, written: Accumulator[Published]
) -> DataFrame:
    """The epochs' messages (MESSAGES), each epoch's by one task, chunks first."""
    begins = np.array(epochs.begins, np.int64)

    def number(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            ts = np.asarray(batch.column(TS), np.int64)
            yield batch.append_column(EPOCH, pa.array(np.searchsorted(begins, ts, "right") - 1, pa.int64()))

    def encode(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = (
            (_source_epoch(table, target, source, epochs.first + at), epochs.ends[at]) for at, table in _by_epoch(given)
        )
        return batches(made, written)

    numbered = rows.mapInArrow(number, T.StructType([*rows.schema.fields, T.StructField(EPOCH, T.LongType())]))
    tasks = max(1, -(-len(epochs) // EPOCHS_A_TASK))
    return (
        numbered.repartitionByRange(tasks, EPOCH).sortWithinPartitions(EPOCH, TS, *PLACE).mapInArrow(encode, MESSAGES)
    )


def _by_epoch(given: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each epoch; they come sorted."""
    waiting: list[pa.RecordBatch] = []
    current = -1
    for batch in given:
        epoch = np.asarray(batch.column(EPOCH), np.int64)
        cuts = np.flatnonzero(np.diff(epoch)) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), epoch.size], strict=True):
            if begin == end:
                continue
            if waiting and epoch[begin] != current:
                yield current, pa.Table.from_batches(waiting)
                waiting = []
            current = int(epoch[begin])
            waiting.append(batch.slice(begin, end - begin))
    if waiting:
        yield current, pa.Table.from_batches(waiting)


def _source_epoch(table: pa.Table, target: Target, source: int, number: int) -> SourceEpoch:
    """An epoch's rows, in order, as a source's epoch; their positions are their seqs."""
    made = target.source_epoch(source, number)
    application = target.wire.application
    types = table.column(TYPE).combine_chunks()
    seq = np.arange(table.num_rows, dtype=np.int64)
    for name in types.unique().to_pylist():
        if name not in application.input_types:
            where = _place(table, int(np.flatnonzero([each == name for each in types.to_pylist()])[0]))
            raise JobError(f"record type {name!r} at {where} is none of {', '.join(application.input_types)}")
        mine = np.flatnonzero(np.array([each == name for each in types.to_pylist()], np.bool_))
        part = table.take(pa.array(mine))
        columns = {"seq": seq[mine], "ts": np.asarray(part.column(TS), np.int64)}
        for field in application.events[name].fields:
            columns[field] = _column(part, name, field)
        made.add(name, columns, ROWS_A_CHUNK)
    return made


def _column(table: pa.Table, record_type: str, field: str) -> Any:
    column = table.column(field).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise JobError(f"{record_type}.{field} has no value at {_place(table, row)}; every field of an event needs one")
    if pa.types.is_string(column.type):
        return StringColumn.from_strings(column.to_pylist())
    if pa.types.is_list(column.type):
        offsets = np.asarray(column.offsets, np.int64)
        values: NDArray[Any] = np.asarray(column.flatten())
        return ListColumn(values, offsets - offsets[0])
    return np.asarray(column)


def _place(table: pa.Table, row: int) -> str:
    path, block, at = (table.column(name)[row].as_py() for name in PLACE)
    return f"{path}, position {block}:{at & (1 << 33) - 1}, {TS[1:]} {table.column(TS)[row].as_py()}"
