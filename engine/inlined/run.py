"""Runs a stage through the application's inlined serial kernel: hands it the columns, takes verdicts, outputs and failures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import Kind
from engine.api.types import record_dtype
from engine.buffers import Buffers
from engine.config import Limits
from engine.execution.explore_kernel import read_cycles
from engine.execution.layout import Ints
from engine.inlined.kernel import InlinedKernel
from engine.inlined.layout import (
    BASE,
    BATCHES,
    CALL_WORDS,
    COUNT,
    CURSOR,
    FAILED,
    FAILED_WORDS,
    FAILURES,
    HEADS,
    LISTS,
    LIVE_UNTIL,
    ORDER,
    ORDER_BATCH,
    ORDER_ROW,
    SINK_COUNT,
    TABLE_WORDS,
    TABLES,
    VERDICT,
    WRITE_SEQUENCE,
    WRITES,
    Column,
    FieldColumn,
    OffsetColumn,
    OutcomeColumn,
    PackedColumn,
    RowColumn,
    TransactionLayout,
)
from engine.planning.batch import Batch
from engine.planning.keys import KeyRows
from engine.planning.stage import StageEvents, prepare
from engine.state.columns import ListColumn
from engine.state.store import Store


@dataclass(frozen=True)
class Inlining:
    """What every run of an engine's inlined mode has at hand."""

    kernel: InlinedKernel
    store: Store
    limits: Limits
    buffers: Buffers


@dataclass(frozen=True)
class InlinedResult:
    """What a stage came to; positions are those in the total order."""

    verdict: NDArray[np.int8]
    failed: Ints  # a row for each failure, as layout.FAILED_POSITION and the others say
    sinks: dict[tuple[int, int], tuple[Ints, NDArray[Any]]]  # (batch, statement): positions and records
    operations: int
    seconds: float
    cycles: int
    nbytes: int  # of working memory: order, undo logs, lists


class Given:
    """Everything a run is given by address, kept alive until it is over."""

    def __init__(self, kernel: InlinedKernel, store: Store, keys: KeyRows, events: StageEvents) -> None:
        self.kernel, self.store, self.keys = kernel, store, keys
        self.kept: list[Any] = []
        self.operations = 0
        self.list_bytes = 0
        self.writes_of_table = [0] * len(store.tables)
        self.longest_writes = 0
        self.blocks: list[Ints] = []
        self.sinks: list[tuple[int, int, int, Ints, NDArray[Any]]] = []
        for number, batch in enumerate(events.batches):
            self._add_batch(number, batch)

    def _add_batch(self, number: int, batch: Batch) -> None:
        layout, size = self.kernel.layout_of(batch.template), batch.ts.size
        block = [self.kernel.number_of(batch.template), size]
        for s in layout.sinks:
            records, positions = np.empty(size, record_dtype(s.result)), np.empty(size, np.int64)
            self.sinks.append((number, s.index, len(block) + SINK_COUNT, positions, records))
            block += [records.ctypes.data, positions.ctypes.data, 0]
        block += [self.address_of(self._column(batch, column)) for column in layout.columns]
        self.blocks.append(np.array(block, np.int64))
        self._measure(batch, layout)

    def filled_sinks(self) -> dict[tuple[int, int], tuple[Ints, NDArray[Any]]]:
        """After the run: (batch, statement) to positions and records."""
        filled = {}
        for batch, statement, word, positions, records in self.sinks:
            made = int(self.blocks[batch][word])
            filled[batch, statement] = positions[:made], records[:made]
        return filled

    def address_of(self, array: NDArray[Any]) -> int:
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self.kept.append(array)
        return int(array.ctypes.data)

    def _column(self, batch: Batch, column: Column) -> NDArray[Any]:
        if isinstance(column, PackedColumn):
            return batch.rows
        if isinstance(column, OutcomeColumn):
            return prepare(batch)[0]
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
        if not layout.has_lists:
            self.operations += batch.ts.size * len(batch.template.statements)
            for index in layout.written_tables:
                self.writes_of_table[index] += batch.ts.size
            self.longest_writes = max(self.longest_writes, len(layout.written_tables))
            return
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

    def tables(self, first_entries: list[int]) -> Ints:
        """The tables' blocks; so many entries of the undo logs are taken."""
        blocks = np.zeros(TABLE_WORDS * len(self.store.tables), np.int64)
        for index, table in enumerate(self.store.tables):
            undo = table.undo
            own = table.row_column("own").ctypes.data if self.kernel.is_wide else 0
            blocks[TABLE_WORDS * index : TABLE_WORDS * (index + 1)] = (
                table.address, table.live_address, table.live_until, undo.address - undo.base, undo.base,
                undo.base + first_entries[index] * undo.entry_bytes, own, self.address_of(table.default),
            )  # fmt: skip
        return blocks

    def rooms(self) -> list[int]:
        """How many entries a run may write into each table's undo log."""
        return [min(self.writes_of_table[index], table.row_capacity) for index, table in enumerate(self.store.tables)]


class Call:
    """One call of the kernel: its block, and what only this call fills. `name` keeps the buffers of two calls apart."""

    def __init__(
        self, inlining: Inlining, given: Given, events: StageEvents, verdict: NDArray[np.int8], tables: Ints, name: str
    ) -> None:
        buffers = inlining.buffers
        self.kernel, self.given, self.tables = inlining.kernel, given, tables
        self.failed = buffers.words(f"failed{name}", FAILED_WORDS * events.count)
        lists = buffers.words(f"lists{name}", given.list_bytes // 8 + 1)
        writes = buffers.words(f"writes{name}", 4 * given.longest_writes + 4)
        batches = np.array([block.ctypes.data for block in given.blocks], np.int64)
        self.words: Ints = np.zeros(CALL_WORDS, np.int64)
        self.words[COUNT], self.words[WRITE_SEQUENCE] = events.count, inlining.store.write_sequence
        self.kept = [lists, writes, batches, verdict]
        for word, array in (
            (BATCHES, batches), (TABLES, tables), (LISTS, lists), (WRITES, writes), (VERDICT, verdict),
            (FAILED, self.failed),
        ):  # fmt: skip
            self.words[word] = array.ctypes.data
        self.cycles = 0

    def run(self) -> None:
        first_cycle = read_cycles()
        self.kernel.run(self.words.ctypes.data)
        self.cycles = read_cycles() - first_cycle

    @property
    def failures(self) -> Ints:
        return self.failed.reshape(-1, FAILED_WORDS)[: int(self.words[FAILURES])]


def run_inlined(inlining: Inlining, keys: KeyRows, events: StageEvents) -> InlinedResult:
    """Runs the stage; the tables hold its outcome afterwards, their undo logs what was before."""
    kernel, store = inlining.kernel, inlining.store
    given = Given(kernel, store, keys, events)
    kernel.require(given.operations, inlining.limits.operations)
    verdict = np.zeros(events.count, np.int8)
    with store.lock:
        for table, room in zip(store.tables, given.rooms(), strict=True):
            table.undo.make_room(room)
        tables = given.tables([table.undo.count for table in store.tables])
    call = Call(inlining, given, events, verdict, tables, "")
    heads = np.zeros(len(given.blocks), np.int64)
    if events.turns is not None:
        call.words[ORDER], call.words[HEADS] = events.turns.ctypes.data, heads.ctypes.data
    else:
        call.words[ORDER_BATCH], call.words[ORDER_ROW] = given.address_of(events.batch), given.address_of(events.row)
    begin = time.perf_counter()
    call.run()
    seconds = time.perf_counter() - begin
    for table, block in zip(store.tables, tables.reshape(-1, TABLE_WORDS).tolist(), strict=True):
        table.undo.used = block[CURSOR] - block[BASE]
        table.live_until = block[LIVE_UNTIL]
    store.write_sequence = int(call.words[WRITE_SEQUENCE])
    return InlinedResult(
        verdict,
        call.failures.copy(),
        given.filled_sinks(),
        given.operations,
        seconds,
        call.cycles,
        inlining.buffers.nbytes + events.nbytes + verdict.nbytes + sum(table.undo.nbytes for table in store.tables),
    )
