"""Runs a stage through the application's inlined serial kernel: hands it the columns, takes verdicts, outputs and failures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import Kind
from engine.api.types import record_dtype
from engine.execution.explore_kernel import read_cycles
from engine.execution.layout import OPERATIONS, TOTAL_CYCLES, USEFUL_CYCLES, Ints, Scratch
from engine.inlined.kernel import InlinedKernel
from engine.inlined.layout import (
    COUNTERS,
    FAILURES,
    TABLE_WORDS,
    UNDO_COUNT,
    WRITE_SEQUENCE,
    Column,
    FieldColumn,
    OffsetColumn,
    PackedColumn,
    RowColumn,
    TransactionLayout,
)
from engine.planning.epoch import Batch
from engine.planning.keys import KeyRows
from engine.planning.stage import StageEvents
from engine.state.columns import ListColumn
from engine.state.store import Store


@dataclass(frozen=True)
class InlinedResult:
    """What a stage came to; positions are those in the total order."""

    verdict: NDArray[np.int8]
    reason: NDArray[np.int8]
    statement: Ints
    failed_position: Ints
    failed_table: Ints
    failed_row: Ints
    sinks: dict[tuple[int, int], tuple[Ints, NDArray[Any]]]  # (batch, statement): positions and records
    seconds: float
    nbytes: int  # of working memory: order, undo logs, lists


class _Given:
    """Everything a run is given by address, kept alive until it is over."""

    def __init__(self, kernel: InlinedKernel, store: Store, keys: KeyRows, events: StageEvents) -> None:
        self.kernel, self.store, self.keys, self.events = kernel, store, keys, events
        self.kept: list[Any] = []
        self.operations = 0
        self.list_bytes = 0
        self.writes_of_table = [0] * len(store.tables)
        self.longest_writes = 0
        self.columns: list[int] = []
        self.column_begin: list[int] = []
        self.sinks: list[tuple[int, int, Ints, NDArray[Any]]] = []
        self.sink_begin: list[int] = []
        for number, batch in enumerate(events.batches):
            self._add_batch(number, batch)

    def _add_batch(self, number: int, batch: Batch) -> None:
        layout = self.kernel.layout_of(batch.template)
        self.column_begin.append(len(self.columns))
        self.columns += [self._address(self._column(batch, column)) for column in layout.columns]
        self.sink_begin.append(len(self.sinks))
        for s in layout.sinks:
            records = np.empty(batch.ts.size, record_dtype(s.result))
            self.sinks.append((number, s.index, np.empty(batch.ts.size, np.int64), records))
        self._measure(batch, layout)

    def _address(self, array: NDArray[Any]) -> int:
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self.kept.append(array)
        return int(array.ctypes.data)

    def _column(self, batch: Batch, column: Column) -> NDArray[Any]:
        if isinstance(column, PackedColumn):
            return batch.rows
        if isinstance(column, RowColumn):
            spec = self.store.application.table_at(column.table)
            return self.keys.rows(batch, spec, column.key)
        if isinstance(column, OffsetColumn):
            found = batch.column(column.field)
            assert isinstance(found, ListColumn)
            return found.offsets
        assert isinstance(column, FieldColumn)
        if column.name == "ts":
            return batch.ts
        if column.name == "random":
            return batch.random
        values = batch.column(column.name)
        if isinstance(values, ListColumn):
            values = values.values
        assert isinstance(values, np.ndarray)
        return values

    def _measure(self, batch: Batch, layout: TransactionLayout) -> None:
        """How many operations there are, how many writes each table may get, and how long lists are."""
        rows, writes, list_bytes = batch.ts.size, 0, 0
        for s in batch.template.statements:
            total, longest = rows, 1
            if s.many:
                assert s.access is not None and s.access.key is not None
                offsets = self.keys.offsets(batch, *s.access.key.components, *s.each)
                total, longest = int(offsets[-1]), int(np.diff(offsets).max(initial=0))
                list_bytes += longest * s.access.table.dtype.itemsize
            self.operations += total
            if s.kind in (Kind.WRITE, Kind.DELETE):
                assert s.access is not None
                self.writes_of_table[s.access.table.index] += total
                writes += longest
            for source in (*s.when_reads, *s.reads):
                key = getattr(source, "key", None)
                if key is not None and key.many:
                    offsets = self.keys.offsets(batch, *key.components)
                    list_bytes += int(np.diff(offsets).max(initial=0)) * source.table.dtype.itemsize  # type: ignore[union-attr]
        self.longest_writes = max(self.longest_writes, writes)
        self.list_bytes = max(self.list_bytes, list_bytes)

    def tables(self) -> Ints:
        """The tables' blocks, with room in their undo logs; taken last, when no table grows any more."""
        blocks = np.zeros(TABLE_WORDS * len(self.store.tables), np.int64)
        with self.store.lock:
            for index, table in enumerate(self.store.tables):
                undo = table.undo
                undo.make_room(min(self.writes_of_table[index], table.row_capacity))
                own = table.row_column("own").ctypes.data if self.kernel.is_wide else 0
                blocks[TABLE_WORDS * index : TABLE_WORDS * (index + 1)] = (
                    table.address, table.live_address, undo.rows.ctypes.data,
                    undo.live.ctypes.data, undo.records.ctypes.data, undo.base, int(undo.count[0]), own,
                    self._address(table.default),
                )  # fmt: skip
        return blocks


def run_inlined(
    kernel: InlinedKernel, store: Store, keys: KeyRows, events: StageEvents, limit: int, scratch: Scratch
) -> InlinedResult:
    """Runs the stage; the tables hold its outcome afterwards, their undo logs what was before."""
    given = _Given(kernel, store, keys, events)
    kernel.require(given.operations, limit)
    count = events.row.size
    verdict, reason, statement = np.zeros(count, np.int8), np.zeros(count, np.int8), np.full(count, -1, np.int64)
    failed = np.empty((3, count), np.int64)
    counters = np.zeros(COUNTERS, np.int64)
    counters[WRITE_SEQUENCE] = store.write_sequence
    tables = given.tables()
    sink_counts = np.zeros(len(given.sinks), np.int64)
    lists, log = np.empty(given.list_bytes // 8 + 1, np.int64), np.empty(4 * given.longest_writes + 4, np.int64)
    begin, first_cycle = time.perf_counter(), read_cycles()
    kernel.run(
        events.batch, events.row, events.outcome,
        np.array([kernel.number_of(batch.template) for batch in events.batches], np.int64),
        np.array(given.column_begin, np.int64), np.array(given.columns, np.int64),
        np.array(given.sink_begin, np.int64),
        np.array([records.ctypes.data for _, _, _, records in given.sinks], np.int64),
        np.array([positions.ctypes.data for _, _, positions, _ in given.sinks], np.int64),
        sink_counts, tables, lists.ctypes.data, log, verdict, reason, statement, failed[0], failed[1], failed[2], counters,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    working = sum(array.nbytes for array in (events.batch, events.row, verdict, reason, statement, failed, lists, log))
    for counter in (USEFUL_CYCLES, TOTAL_CYCLES):
        scratch.counters[counter] += read_cycles() - first_cycle
    scratch.counters[OPERATIONS] += given.operations
    for index, table in enumerate(store.tables):
        table.undo.count[0] = tables[TABLE_WORDS * index + UNDO_COUNT]
    store.write_sequence = int(counters[WRITE_SEQUENCE])
    failures = int(counters[FAILURES])
    sinks = {
        (batch, number): (positions[:filled], records[:filled])
        for (batch, number, positions, records), filled in zip(given.sinks, sink_counts.tolist(), strict=True)
    }
    return InlinedResult(
        verdict, reason, statement, failed[0, :failures], failed[1, :failures], failed[2, :failures], sinks,
        seconds, working + sum(table.undo.nbytes for table in store.tables),
    )  # fmt: skip
