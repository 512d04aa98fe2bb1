"""An epoch's outcomes as records of the result topics: in chunks, or one keyed record a transaction.

A record's key is an event field as text (`results_key`, or the first declared field of its type), so that all outcomes of one
key are in one partition, in the total order. Its value is a plain Avro record in Confluent framing, of a schema for each type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import EpochResult
from engine.planning.batch import Batch
from engine.result import COMMITTED as IS_COMMITTED
from engine.result import FAILED as IS_FAILED
from engine.result import StageResult
from engine.state.columns import StringColumn, take_rows
from services.codec import BytesColumn
from services.codec.framing import frame_head
from services.engine.kafka_log import Outgoing, OutgoingBatch
from services.engine.results import committed_bodies, committed_columns, failed_bodies, failed_columns
from services.engine.wire import COMMITTED, FAILED, Wire
from services.kafka.topics import TopicNames

Ints = NDArray[np.int64]
Message = dict[str, Any]


@dataclass(frozen=True)
class ResultForm:
    """How results leave. `key`: the event field that is the key, where a record type has it."""

    single: bool = False
    key: str | None = None


CHUNKS = ResultForm()


def outcome_records(
    wire: Wire, names: TopicNames, result: EpochResult, form: ResultForm
) -> list[Outgoing | OutgoingBatch]:
    """All that leaves of an epoch, committed transactions first."""
    if not form.single:
        committed = [wire.frame(COMMITTED, body) for body in committed_bodies(wire, result)]
        failed = [wire.frame(FAILED, body) for body in failed_bodies(wire, result)]
        return [
            *(Outgoing(names.committed, value) for value in committed),
            *(Outgoing(names.failed, value) for value in failed),
        ]
    made: list[Outgoing | OutgoingBatch] = []
    for stage in result.stages:
        made.append(OutgoingBatch(names.committed, _committed(wire, result.epoch, stage, form)))
        made.append(OutgoingBatch(names.failed, _failed(wire, result.epoch, stage, form)))
    return [each for each in made if not isinstance(each, OutgoingBatch) or each.messages]


def _committed(wire: Wire, epoch: int, stage: StageResult, form: ResultForm) -> list[Message]:
    positions = np.flatnonzero(stage.verdict == IS_COMMITTED)
    values: list[bytes] = [b""] * positions.size
    columns, kinds = committed_columns(wire, stage, positions)
    order = [record.name for record in wire.committed.plan.records]
    for name, given in columns.items():
        rows = np.flatnonzero(kinds == order.index(name))
        bodies = wire.results[name].encode({"epoch": np.full(rows.size, epoch), **given})
        _place(values, rows, frame_head(wire.result_id(name)), bodies)
    return _messages(values, _keys(stage, positions, form))


def _failed(wire: Wire, epoch: int, stage: StageResult, form: ResultForm) -> list[Message]:
    positions = np.flatnonzero(stage.verdict == IS_FAILED)
    if positions.size == 0:
        return []
    values: list[bytes] = [b""] * positions.size
    given = failed_columns(wire, stage, positions)
    bodies = wire.failure.encode({"epoch": np.full(positions.size, epoch), **given})
    _place(values, np.arange(positions.size), frame_head(wire.failure_id()), bodies)
    return _messages(values, _keys(stage, positions, form))


def _place(values: list[bytes], rows: Ints, head: bytes, bodies: BytesColumn) -> None:
    """Framed bodies at their rows."""
    data, bounds = bodies.data.tobytes(), bodies.offsets.tolist()
    for row, begin, end in zip(rows.tolist(), bounds, bounds[1:], strict=False):
        values[row] = head + data[begin:end]


def _messages(values: list[bytes], keys: list[str | None]) -> list[Message]:
    return [{"value": value, "key": key} for value, key in zip(values, keys, strict=True)]


def _keys(stage: StageResult, positions: Ints, form: ResultForm) -> list[str | None]:
    keys: list[str | None] = [None] * positions.size
    batch_of, row_of = stage.events.batch[positions], stage.events.row[positions]
    for number, batch in enumerate(stage.events.batches):
        field = key_field(batch, form.key)
        mine = np.flatnonzero(batch_of == number)
        if field is None or mine.size == 0:
            continue
        column = take_rows(batch.column(field), row_of[mine])
        texts = column.to_list() if isinstance(column, StringColumn) else [str(each) for each in column.tolist()]
        for row, text in zip(mine.tolist(), texts, strict=True):
            keys[row] = text
    return keys


def key_field(batch: Batch, wanted: str | None) -> str | None:
    """The field that is the key of a record type: the one wanted, else its first; none where it has no field."""
    fields = batch.template.event.fields
    return wanted if wanted in fields else next(iter(fields), None)
