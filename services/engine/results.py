"""An epoch's result as messages: committed and failed transactions in the total order, cut into chunks, column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import Reason
from engine.planning.epoch import Batch
from engine.result import COMMITTED, FAILED, EpochResult, StageResult
from engine.state.columns import ListColumn, StringColumn, take_rows
from services.codec import BytesColumn, NullableColumn
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
    codec: Any,
    result: EpochResult,
    verdict: int,
    columns_of: Callable[[StageResult, Ints], tuple[dict[str, Columns], NDArray[np.uint8] | None]],
) -> list[bytes]:
    bodies: list[bytes] = []
    for stage in result.stages:
        positions = np.flatnonzero(stage.verdict == verdict)
        for begin in range(0, positions.size, RESULTS_A_CHUNK):
            columns, kinds = columns_of(stage, positions[begin : begin + RESULTS_A_CHUNK])
            bodies.append(codec.encode({"epoch": result.epoch, "chunk": len(bodies)}, columns, kinds))
    return bodies


class _Rows:
    """The events at some positions of a stage, gathered from its batches."""

    def __init__(self, stage: StageResult, positions: Ints) -> None:
        events = stage.events
        self.batches = events.batches
        sizes = np.cumsum([0, *(batch.ts.size for batch in self.batches)])
        self.batch, self.row = events.batch[positions], events.row[positions]
        self.at = sizes[self.batch] + self.row

    def gather(self, name: str) -> Ints:
        found: Ints = np.concatenate([getattr(batch, name) for batch in self.batches])[self.at]
        return found

    def identity(self, stage: int) -> Columns:
        """The columns that say which transaction it was."""
        return {
            "source": self.gather("source"),
            "seq": self.gather("seq"),
            "ts": self.gather("ts"),
            "stage": np.full(self.at.size, stage, np.int64),
            "path": self._paths(),
        }

    def _paths(self) -> ListColumn:
        widths = np.array([batch.path.shape[1] for batch in self.batches], np.int64)
        offsets = np.zeros(self.at.size + 1, np.int64)
        np.cumsum(widths[self.batch], out=offsets[1:])
        values = np.empty(int(offsets[-1]), np.int64)
        for number in np.flatnonzero(widths):
            mine = np.flatnonzero(self.batch == number)
            places = offsets[mine][:, None] + np.arange(widths[number])
            values[places] = self.batches[number].path[self.row[mine]]
        return ListColumn(values, offsets)

    def by_type(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Record types and which of the rows are of each."""
        types = [batch.template.record_type for batch in self.batches]
        for name in dict.fromkeys(types):
            yield name, np.flatnonzero(np.array([each == name for each in types])[self.batch])


def committed_columns(wire: Wire, stage: StageResult, positions: Ints) -> tuple[dict[str, Columns], NDArray[np.uint8]]:
    """The columns of the results at these positions, by record type, and which type each is of."""
    rows = _Rows(stage, positions)
    identity = rows.identity(stage.events.stage)
    order = {record.name: number for number, record in enumerate(wire.committed.plan.records)}
    kinds = np.zeros(positions.size, np.uint8)
    columns = {}
    outputs = _outputs(stage)
    for name, mine in rows.by_type():
        kinds[mine] = order[name]
        columns[name] = {field: take_rows(column, mine) for field, column in identity.items()}
        if name in outputs:
            at, records = outputs[name]
            chosen = records[np.searchsorted(at, positions[mine])]
            for field in wire.application.templates[name].output_fields:
                columns[name][f"output.{field}"] = np.ascontiguousarray(chosen[field])
    return {name: given for name, given in columns.items() if len(given["seq"])}, kinds


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
    """The columns of the failures at these positions."""
    rows = _Rows(stage, positions)
    types = StringColumn.from_strings([batch.template.record_type for batch in rows.batches])
    return {
        **rows.identity(stage.events.stage),
        "record_type": types.take(rows.batch),
        "reason": _REASONS.take(stage.reason[positions].astype(np.int64)),
        "statement": stage.statement[positions],
        "key": _keys(stage, positions),
        "event": _bodies_of_events(wire, rows),
    }


def _keys(stage: StageResult, positions: Ints) -> NullableColumn:
    """The keys to blame as JSON; they are decoded one by one, as failures are few."""
    keys = [""] * positions.size
    valid = np.zeros(positions.size, np.bool_)
    for at, decode in stage.failed_key_columns:
        places = np.searchsorted(positions, at)
        for place, position, key in zip(places.tolist(), at.tolist(), decode(), strict=True):
            if place < positions.size and positions[place] == position:
                keys[place], valid[place] = json.dumps(key), True
    return NullableColumn(StringColumn.from_strings(keys), valid)


def _bodies_of_events(wire: Wire, rows: _Rows) -> BytesColumn:
    """Each event as its own record type's schema has it; empty for transactions that no input event triggered."""
    parts: list[BytesColumn] = []
    places: list[Ints] = []
    for number, batch in enumerate(rows.batches):
        mine = np.flatnonzero(rows.batch == number)
        codec = wire.events.get(batch.template.record_type)
        if mine.size == 0:
            continue
        places.append(mine)
        if codec is None:
            parts.append(BytesColumn(np.empty(0, np.uint8), np.zeros(mine.size + 1, np.int64)))
        else:
            parts.append(codec.encode(_event_columns(batch, rows.row[mine])))
    if not parts:
        return BytesColumn(np.empty(0, np.uint8), np.zeros(1, np.int64))
    bases = np.cumsum([0, *(part.data.size for part in parts)])
    joined = np.concatenate([part.offsets[:-1] + base for part, base in zip(parts, bases[:-1], strict=True)])
    everything = StringColumn.trusted(np.concatenate([part.data for part in parts]), np.append(joined, bases[-1]))
    order = np.argsort(np.concatenate(places), kind="stable")
    taken = everything.take(order)
    return BytesColumn(taken.data, taken.offsets)


def _event_columns(batch: Batch, rows: Ints) -> Columns:
    columns: Columns = {"seq": batch.seq[rows], "ts": batch.ts[rows]}
    for name in batch.template.event.fields:
        columns[name] = take_rows(batch.column(name), rows)
    return columns
