"""A stage's transactions as operations: what the kernel needs of each statement, and room for what it fills."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.api.model import HandleSource, KeyExpression, KeySource, Kind, Source, Statement
from engine.errors import LimitError
from engine.execution.layout import INDEX, KEY, WINDOW, Ints, Operations, Tables
from engine.planning.batch import Batch
from engine.planning.decompose_kernel import (
    ARGUMENT_LAST_WRITE_AT,
    ARGUMENT_WORDS,
    BATCH_WORDS,
    LAST_WRITE_AT,
    NO_CANDIDATES,
    STATEMENT_WORDS,
    count_stage,
    decompose,
)
from engine.planning.keys import KeyRows
from engine.planning.program import CompiledProgram, sources_in_order, target_of
from engine.planning.stage import StageEvents
from engine.state.columns import ListColumn

NO_TABLE = -1
ENTRIES_AN_OPERATION = 8  # records that functions read, over the limit of operations: an epoch's memory stays bounded


class Size(NamedTuple):
    """How large an epoch is so far, or a stage alone."""

    transactions: int = 0
    operations: int = 0
    entries: int = 0
    slot_words: int = 0


class StageColumns:
    """Resolves all columns of a stage's batches into the kernel's rows; keeps alive what addresses point to."""

    def __init__(self, program: CompiledProgram, events: StageEvents, keys: KeyRows) -> None:
        self.program, self.events, self.keys = program, events, keys
        self.kept: list[Any] = []
        self.list_bytes = 8  # that a function's lists take at most when gathered
        self.has_each = False
        self.is_fixed = np.ones(len(events.batches), np.int64)
        self._batches: list[tuple[int, ...]] = []
        self._statements: list[tuple[int, ...]] = []
        self._arguments: list[tuple[int, ...]] = []
        self._statement_tables: list[int] = []
        self._argument_tables: list[int] = []
        for number, batch in enumerate(events.batches):
            self._add_batch(number, batch)
        self.batches, self.statements, self.arguments = (
            np.array(rows, np.int64).reshape(-1, words)
            for rows, words in (
                (self._batches, BATCH_WORDS),
                (self._statements, STATEMENT_WORDS),
                (self._arguments, ARGUMENT_WORDS),
            )
        )

    def size(self) -> Size:
        totals = np.zeros(4, np.int64)
        events = self.events
        count_stage(
            self.batches,
            self.statements,
            self.arguments,
            events.batch,
            events.row,
            events.outcome,
            self.is_fixed,
            totals,
        )
        return Size(*(int(total) for total in totals))

    def locate(self, tables: Tables) -> None:
        """Notes where the tables' last-writer cells are, once no table grows any more."""
        for rows, column, of in (
            (self.statements, LAST_WRITE_AT, self._statement_tables),
            (self.arguments, ARGUMENT_LAST_WRITE_AT, self._argument_tables),
        ):
            rows[:, column] = [0 if table == NO_TABLE else tables.last_write[table] for table in of]

    def _address(self, array: NDArray[Any]) -> int:
        array = np.ascontiguousarray(array)
        self.kept.append(array)
        return int(array.ctypes.data)

    def _add_batch(self, number: int, batch: Batch) -> None:
        template = batch.template
        events_at, ts_at = self._address(batch.rows), self._address(batch.ts)
        first = len(self._statements)
        self._batches.append((first, len(template.statements), events_at, template.event_dtype.itemsize, ts_at))
        for s in template.statements:
            access = s.access
            candidates = access.computed.candidates if access is not None and access.computed is not None else None
            rows_at, offsets_at = self._rows(batch, s, access.key if access is not None else None)
            candidate_rows_at, candidate_offsets_at = self._rows(batch, s, candidates)
            first_argument = len(self._arguments)
            gathered = sum(self._add_argument(batch, s, source) for source in sources_in_order(s))
            self.list_bytes = max(self.list_bytes, gathered)
            if s.many or gathered or (candidates is not None and candidates.many):
                self.is_fixed[number] = 0
            arguments = len(self._arguments) - first_argument
            program_number = self.program.first_statement[template.record_type] + s.index
            self._statement_tables.append(access.table.index if access is not None else NO_TABLE)
            self._statements.append((
                program_number, int(self.program.arrays.slot_bytes[program_number]) // 8, rows_at, offsets_at, 0,
                int(target_of(s) in (KEY, WINDOW)), int(s.kind in (Kind.WRITE, Kind.DELETE)),
                self._each(batch, s) if s.each else 0, 8 * len(s.each), first_argument, arguments,
                NO_CANDIDATES if candidates is None else arguments - len(s.reads),
                candidate_rows_at, candidate_offsets_at,
            ))  # fmt: skip

    def _rows(self, batch: Batch, s: Statement, key: KeyExpression | None) -> tuple[int, int]:
        """Where the rows of a key are, and where its lists begin."""
        if key is None:
            return 0, 0
        assert s.access is not None
        rows_at = self._address(self.keys.rows(batch, s.access.table, key))
        return rows_at, self._address(self.keys.offsets(batch, *key.components, *s.each)) if key.many else 0

    def _add_argument(self, batch: Batch, s: Statement, source: Source) -> int:
        """Gives the bytes that the argument takes at most when it is a list."""
        if isinstance(source, HandleSource):
            read = batch.template.statements[source.statement]
            handle, same, rows_at, table = source.statement, -1, 0, NO_TABLE
            key = read.access.key if read.many and read.access is not None else None
            first = self.program.first_statement[batch.template.record_type]
            record = int(self.program.arrays.slot_bytes[first + read.index])
        else:
            handle, same = -1, _statement_of(batch.template.statements[: s.index], source)
            rows_at = self._address(self.keys.rows(batch, source.table, source.key))
            table, record = source.table.index, source.table.dtype.itemsize
            key = source.key if source.key.many else None
        offsets = self.keys.offsets(batch, *key.components) if key is not None else None
        self._argument_tables.append(table)
        self._arguments.append((handle, same, rows_at, self._address(offsets) if offsets is not None else 0, 0))
        return 0 if offsets is None else max(8, record * int(np.diff(offsets).max(initial=0)))

    def _each(self, batch: Batch, s: Statement) -> int:
        """The elements of the event's lists, one eight-byte word a list side by side."""
        self.has_each = True
        columns = []
        for reference in s.each:
            column = batch.column(reference.name)
            assert isinstance(column, ListColumn) and isinstance(column.values, np.ndarray)
            values = column.values
            columns.append(values.view(np.int64) if values.dtype.itemsize == 8 else values.astype(np.int64))
        return self._address(np.stack(columns, axis=1))


def _statement_of(earlier: list[Statement], source: KeySource) -> int:
    """The first statement that goes to the same single key; -1 if none does."""
    for s in earlier:
        if (
            s.access is not None
            and s.access.table is source.table
            and s.access.key == source.key
            and not source.key.many
        ):
            return s.index
    return -1


def decompose_stage(columns: StageColumns, tables: Tables, begin: Size, size: Size, operation_limit: int) -> Operations:
    """The stage's operations, numbered from `begin` on, linked to the newest earlier writes of their rows."""
    if begin.operations + size.operations > operation_limit:
        raise LimitError(
            f"the epoch has {begin.operations + size.operations} operations, the limit is {operation_limit}"
        )
    if begin.entries + size.entries > ENTRIES_AN_OPERATION * operation_limit:
        raise LimitError(
            f"the epoch's functions read {begin.entries + size.entries} records, the limit is "
            f"{ENTRIES_AN_OPERATION} times that of operations, {ENTRIES_AN_OPERATION * operation_limit}"
        )
    count, events = size.operations, columns.events
    columns.locate(tables)
    transaction, statement, row, link, slot = (np.empty(count, INDEX) for _ in range(5))
    plan = Operations(
        transaction,
        statement,
        row,
        link,
        slot,
        each=np.zeros(count if columns.has_each else 0, np.int64),
        entry_begin=np.empty(count + 1, INDEX),
        entry_row=np.empty(size.entries, INDEX),
        entry_link=np.full(size.entries, -1, INDEX),
        first=np.empty(size.transactions + 1, INDEX),
        event=np.empty(size.transactions, np.int64),
        ts=np.empty(size.transactions, np.int64),
    )
    cursors: Ints = np.array([begin.operations, begin.transactions, begin.entries, begin.slot_words], np.int64)
    starts = np.zeros(max(len(b.template.statements) for b in events.batches), np.int64)
    decompose(
        columns.batches, columns.statements, columns.arguments, events.batch, events.row, events.outcome,
        events.transaction, starts, cursors, *plan,
    )  # fmt: skip
    return plan


def stage_operations(events: StageEvents, keys: KeyRows) -> int:
    """How many operations a stage has, before they are made; events that are filtered out are counted too."""
    total = 0
    for batch in events.batches:
        for s in batch.template.statements:
            key = s.access.key if s.many and s.access is not None else None
            total += batch.ts.size if key is None else int(keys.offsets(batch, *key.components, *s.each)[-1])
    return total
