"""A stage's transactions as operations: addresses of the columns that the kernel reads, room for what it fills."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.api.model import HandleSource, KeyExpression, Source, Statement
from engine.errors import LimitError
from engine.execution.layout import INDEX, Columns, Operations, Tables
from engine.execution.shared import share
from engine.planning.decompose_kernel import count_stage, decompose
from engine.planning.epoch import Batch
from engine.planning.keys import KeyRows
from engine.planning.program import CompiledProgram, sources_in_order
from engine.planning.stage import StageEvents
from engine.state.columns import ListColumn


class Size(NamedTuple):
    """How large an epoch is so far, or a stage alone."""

    transactions: int = 0
    operations: int = 0
    entries: int = 0
    slot_bytes: int = 0


class StageColumns:
    """Resolves all columns of a stage's batches; keeps alive what addresses point to."""

    def __init__(self, program: CompiledProgram, events: StageEvents, keys: KeyRows) -> None:
        self.program, self.events, self.keys = program, events, keys
        self.kept: list[Any] = []
        self.list_bytes = 8  # that a function's lists take at most when gathered
        self.has_each = False
        self.is_fixed = np.ones(len(events.batches), np.int64)
        columns: dict[str, list[int]] = {name: [] for name in Columns._fields}
        for number, batch in enumerate(events.batches):
            self._add_batch(columns, number, batch)
        columns["statement_begin"].append(len(columns["rows_at"]))
        self.columns = Columns(**{name: np.array(values, np.int64) for name, values in columns.items()})

    def size(self) -> Size:
        totals = np.zeros(4, np.int64)
        events = self.events
        count_stage(
            self.program.shared, share(self.columns), events.batch, events.row, events.outcome, self.is_fixed, totals
        )
        return Size(*(int(total) for total in totals))

    def _address(self, array: NDArray[Any]) -> int:
        array = np.ascontiguousarray(array)
        self.kept.append(array)
        return int(array.ctypes.data)

    def _add_batch(self, columns: dict[str, list[int]], number: int, batch: Batch) -> None:
        columns["statement_begin"].append(len(columns["rows_at"]))
        columns["argument_begin"].append(len(columns["argument_rows_at"]))
        columns["first_statement"].append(self.program.first_statement[batch.template.record_type])
        columns["events_at"].append(self._address(batch.rows))
        columns["event_bytes"].append(batch.template.event_dtype.itemsize)
        columns["ts_at"].append(self._address(batch.ts))
        for s in batch.template.statements:
            key = s.access.key if s.access is not None else None
            candidates = (
                s.access.computed.candidates if s.access is not None and s.access.computed is not None else None
            )
            self._add_rows(columns, batch, s, key, "rows_at", "offsets_at")
            self._add_rows(columns, batch, s, candidates, "candidate_rows_at", "candidate_offsets_at")
            columns["each_at"].append(self._each(batch, s) if s.each else 0)
            columns["each_bytes"].append(8 * len(s.each))
            gathered = 0
            for source in sources_in_order(s):
                gathered += self._add_argument(columns, batch, source)
            self.list_bytes = max(self.list_bytes, gathered)
            if s.many or gathered or (candidates is not None and candidates.many):
                self.is_fixed[number] = 0

    def _add_rows(
        self,
        columns: dict[str, list[int]],
        batch: Batch,
        s: Statement,
        key: KeyExpression | None,
        rows: str,
        offsets: str,
    ) -> None:
        if key is None:
            columns[rows].append(0)
            columns[offsets].append(0)
            return
        assert s.access is not None
        columns[rows].append(self._address(self.keys.rows(batch, s.access.table, key)))
        columns[offsets].append(self._address(self.keys.offsets(batch, *key.components, *s.each)) if key.many else 0)

    def _add_argument(self, columns: dict[str, list[int]], batch: Batch, source: Source) -> int:
        """Gives the bytes that the argument takes at most when it is a list."""
        if isinstance(source, HandleSource):
            read = batch.template.statements[source.statement]
            columns["argument_rows_at"].append(0)
            key = read.access.key if read.many and read.access is not None else None
            record = int(self.program.arrays.slot_bytes[columns["first_statement"][-1] + read.index])
        else:
            columns["argument_rows_at"].append(self._address(self.keys.rows(batch, source.table, source.key)))
            key = source.key if source.key.many else None
            record = source.table.dtype.itemsize
        if key is None:
            columns["argument_offsets_at"].append(0)
            return 0
        offsets = self.keys.offsets(batch, *key.components)
        columns["argument_offsets_at"].append(self._address(offsets))
        return max(8, record * int(np.diff(offsets).max(initial=0)))

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


def decompose_stage(columns: StageColumns, tables: Tables, begin: Size, size: Size, operation_limit: int) -> Operations:
    """The stage's operations, numbered from `begin` on, linked to the newest earlier writes of their rows."""
    if begin.operations + size.operations > operation_limit:
        raise LimitError(
            f"the epoch has {begin.operations + size.operations} operations, the limit is {operation_limit}"
        )
    count, events = size.operations, columns.events
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
    cursors = np.array([begin.operations, begin.transactions, begin.entries, begin.slot_bytes // 8], np.int64)
    starts = np.zeros(max(len(b.template.statements) for b in events.batches), np.int64)
    decompose(
        columns.program.shared, share(tables), share(columns.columns), share(plan), events.batch, events.row,
        events.outcome, events.transaction, starts, cursors,
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
