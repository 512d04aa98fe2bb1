"""An epoch's result as messages: committed and failed transactions in the total order, cut into chunks, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import Reason
from engine.planning.batch import Batch
from engine.planning.stage import StageEvents
from engine.result import COMMITTED, FAILED, EpochResult, StageResult
from engine.state.columns import ListColumn, StringColumn, take_rows
from services.codec import BytesColumn, NullableColumn
from services.codec.chunks import ChunkCodec
from services.engine.key_texts import key_texts
from services.engine.results_kernel import find_positions, gather_words, sort_by_kind
from services.engine.wire import Wire

RESULTS_A_CHUNK = 20_000  # a few hundred kilobytes, well below what a message may have

Ints = NDArray[np.int64]
Columns = dict[str, Any]
_REASONS = StringColumn.from_strings([reason.name.lower() for reason in Reason])


def committed_bodies(wire: Wire, result: EpochResult) -> list[bytes]:
    """The bodies of the epoch's committed chunks."""
    return _bodies(wire.committed, result, COMMITTED, lambda stage, at: committed_columns(wire, stage, at))


def failed_bodies(wire: Wire, result: EpochResult) -> list[bytes]:
    """The bodies of the epoch's failed chunks."""
    return _bodies(wire.failed, result, FAILED, lambda stage, at: ({"Failed": failed_columns(wire, stage, at)}, None))


def _bodies(
    codec: ChunkCodec,
    result: EpochResult,
    verdict: int,
    columns_of: Callable[[StageResult, Ints], tuple[dict[str, Columns], NDArray[np.uint8] | None]],
) -> list[bytes]:
    bodies: list[bytes] = []
    for stage in result.stages:
        positions = np.empty(stage.verdict.size, np.int64)
        positions = positions[: find_positions(stage.verdict, verdict, positions)]
        for begin in range(0, positions.size, RESULTS_A_CHUNK):
            columns, kinds = columns_of(stage, positions[begin : begin + RESULTS_A_CHUNK])
            bodies.append(codec.encode({"epoch": result.epoch, "chunk": len(bodies)}, columns, kinds))
    return bodies


def _identity(events: StageEvents, positions: Ints) -> Columns:
    """The columns that say which transactions stand at these positions."""
    columns: Columns = {name: _gathered(events, positions, name) for name in ("source", "seq", "ts")}
    columns["stage"] = np.full(positions.size, events.stage, np.int64)
    columns["path"] = _paths(events, positions)
    return columns


def _gathered(events: StageEvents, positions: Ints, name: str) -> Ints:
    parts = [np.ascontiguousarray(getattr(batch, name), np.int64) for batch in events.batches]
    found = np.empty(positions.size, np.int64)
    gather_words(positions, events.batch, events.row, np.array([part.ctypes.data for part in parts]), found)
    return found


def _paths(events: StageEvents, positions: Ints) -> ListColumn:
    widths = np.array([batch.path.shape[1] for batch in events.batches], np.int64)
    offsets = np.zeros(positions.size + 1, np.int64)
    if not widths.any():
        return ListColumn(np.empty(0, np.int64), offsets)
    batch, row = events.batch[positions], events.row[positions]
    np.cumsum(widths[batch], out=offsets[1:])
    values = np.empty(int(offsets[-1]), np.int64)
    for number in np.flatnonzero(widths):
        mine = np.flatnonzero(batch == number)
        places = offsets[mine][:, None] + np.arange(widths[number])
        values[places] = events.batches[number].path[row[mine]]
    return ListColumn(values, offsets)


def committed_columns(wire: Wire, stage: StageResult, positions: Ints) -> tuple[dict[str, Columns], NDArray[np.uint8]]:
    events = stage.events
    numbers = {record.name: number for number, record in enumerate(wire.committed.plan.records)}
    kind_of_batch = np.array([numbers[batch.template.record_type] for batch in events.batches], np.uint8)
    kinds, order = np.empty(positions.size, np.uint8), np.empty(positions.size, np.int64)
    begins = np.zeros(len(numbers) + 1, np.int64)
    sort_by_kind(positions, events.batch, kind_of_batch, kinds, begins, order)
    columns, outputs = {}, _outputs(stage)
    for name, number in numbers.items():
        mine = order[begins[number] : begins[number + 1]]
        if mine.size == 0:
            continue
        columns[name] = _identity(events, mine)
        if name in outputs:
            at, records = outputs[name]
            chosen = records[np.searchsorted(at, mine)]
            for field in wire.application.templates[name].output_fields:
                columns[name][f"output.{field}"] = np.ascontiguousarray(chosen[field])
    return columns, kinds


def _outputs(stage: StageResult) -> dict[str, tuple[Ints, NDArray[Any]]]:
    """Positions, in order, and output records by record type."""
    parts: dict[str, list[tuple[Ints, NDArray[Any]]]] = {}
    for number, made in stage.outputs.items():
        parts.setdefault(stage.events.batches[number].template.record_type, []).append(made)
    found = {}
    for name, given in parts.items():
        positions = np.concatenate([at for at, _ in given])
        order = np.argsort(positions, kind="stable")
        found[name] = positions[order], np.concatenate([records for _, records in given])[order]
    return found


def failed_columns(wire: Wire, stage: StageResult, positions: Ints) -> Columns:
    events = stage.events
    types = StringColumn.from_strings([batch.template.record_type for batch in events.batches])
    return {
        **_identity(events, positions),
        "record_type": types.take(events.batch[positions]),
        "reason": _REASONS.take(stage.reason[positions].astype(np.int64)),
        "statement": stage.statement[positions],
        "key": _keys(stage, positions),
        "event": _bodies_of_events(wire, events, positions),
    }


def _keys(stage: StageResult, positions: Ints) -> NullableColumn:
    """The keys to blame as JSON."""
    parts = [StringColumn.from_strings([""])]
    chosen = np.zeros(positions.size, np.int64)  # of all parts' texts; the first is for those without a key
    begin = 1
    for column in stage.failed_key_columns:
        places = np.searchsorted(positions, column.positions)
        mine = np.flatnonzero(positions[np.minimum(places, positions.size - 1)] == column.positions)
        chosen[places[mine]] = begin + np.arange(mine.size)
        parts.append(key_texts(column.key_types, column.keys.take(mine)))
        begin += mine.size
    return NullableColumn(_joined(parts).take(chosen), chosen > 0)


def _joined(parts: Sequence[StringColumn | BytesColumn]) -> StringColumn:
    """One part after another."""
    bases = np.cumsum([0, *(part.data.size for part in parts)])
    offsets = [part.offsets[:-1] + base for part, base in zip(parts, bases[:-1], strict=True)]
    return StringColumn.trusted(
        np.concatenate([part.data for part in parts]), np.append(np.concatenate(offsets), bases[-1])
    )


def _bodies_of_events(wire: Wire, events: StageEvents, positions: Ints) -> BytesColumn:
    """Each event as its own record type's schema has it; empty for transactions that no input event triggered."""
    in_batch, row = events.batch[positions], events.row[positions]
    parts: list[BytesColumn] = []
    places: list[Ints] = []
    for number, batch in enumerate(events.batches):
        mine = np.flatnonzero(in_batch == number)
        codec = wire.events.get(batch.template.record_type)
        if mine.size == 0:
            continue
        places.append(mine)
        if codec is None:
            parts.append(BytesColumn(np.empty(0, np.uint8), np.zeros(mine.size + 1, np.int64)))
        else:
            parts.append(codec.encode(_event_columns(batch, row[mine])))
    if not parts:
        return BytesColumn(np.empty(0, np.uint8), np.zeros(1, np.int64))
    order = np.argsort(np.concatenate(places), kind="stable")
    taken = _joined(parts).take(order)
    return BytesColumn(taken.data, taken.offsets)


def _event_columns(batch: Batch, rows: Ints) -> Columns:
    columns: Columns = {"seq": batch.seq[rows], "ts": batch.ts[rows]}
    for name in batch.template.event.fields:
        columns[name] = take_rows(batch.column(name), rows)
    return columns
