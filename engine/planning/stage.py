"""One stage of an epoch as operations: the stream phase's decomposition of transactions (section 4.2), by columns.

`plan_stage` puts the events in the total order, decomposes each into its statements' operations, finds the rows of their keys
and links them. Rows of unknown keys are provisional: not live, and given back at the end of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import FieldReference, HandleSource, KeyExpression, Source, Statement, TableSpec
from engine.api.types import ListType
from engine.config import Limits
from engine.errors import InputError, LimitError
from engine.execution.layout import Ints
from engine.execution.operation_kernel import run_preparation
from engine.planning.epoch import Batch
from engine.planning.program import CompiledProgram, sources_in_order
from engine.state.columns import ListColumn, StringColumn
from engine.state.key_encoding import encode_keys
from engine.state.table import Table

GOES_ON, PREPARATION_FAILED, FILTERED = range(3)


@dataclass
class StageEvents:
    """The events of a stage in the total order, and what became of them before any transaction."""

    batches: list[Batch]
    batch: Ints
    row: Ints  # in its batch
    outcome: NDArray[np.int8]
    reason: NDArray[np.int8]
    transaction: Ints  # its number in the epoch, -1 where it has none
    stage: int = 0

    def of_batch(self, position: int) -> Ints:
        """Positions in the total order of a batch's events that go on to be transactions."""
        return np.flatnonzero((self.batch == position) & (self.outcome == GOES_ON))


@dataclass
class StagePlan:
    """Arrays of one stage's operations, numbered from the epoch's first free number."""

    transaction: Ints
    statement: Ints
    row: Ints
    slot: Ints
    each: Ints
    entry_begin: Ints
    entry_row: Ints
    entry_link: Ints
    first: Ints
    event: Ints
    ts: Ints
    slot_bytes: int
    list_bytes: int
    kept: list[Any] = field(default_factory=list)  # memory that addresses point to
    looked_up: list[tuple[int, Ints]] = field(default_factory=list)


def order_events(batches: list[Batch], stage: int) -> StageEvents:
    """The stage's events in the total order, derived columns and filters applied."""
    sizes = [batch.ts.size for batch in batches]
    batch = np.repeat(np.arange(len(batches)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes])
    keys = [np.concatenate([getattr(b, name) for b in batches]) for name in ("ts", "source", "seq")]
    for step in range(max(b.path.shape[1] for b in batches)):
        keys.append(np.concatenate([_step(b.path, step) for b in batches]))
    if len(batches) > 1 or not _is_sorted(keys):
        order = np.lexsort(keys[::-1])
        batch, row = batch[order], row[order]
    outcome, reason = np.zeros(row.size, np.int8), np.zeros(row.size, np.int8)
    for position, b in enumerate(batches):
        if b.template.derive or b.template.filter is not None:
            mine = batch == position
            outcome[mine], reason[mine] = (values[row[mine]] for values in _prepare(b))
    return StageEvents(batches, batch, row, outcome, reason, np.full(row.size, -1, np.int64), stage)


def _step(path: Ints, step: int) -> Ints:
    """One column of emission paths; a path that has ended comes before those that go on."""
    return path[:, step] if step < path.shape[1] else np.full(path.shape[0], -1, np.int64)


def _is_sorted(keys: list[Ints]) -> bool:
    """Whether rows rise strictly by these keys, the first counting most."""
    if keys[0].size < 2:
        return True
    equal = np.ones(keys[0].size - 1, np.bool_)
    for key in keys:
        if (equal & (key[1:] < key[:-1])).any():
            return False
        equal &= key[1:] == key[:-1]
    return not equal.any()


def _prepare(batch: Batch) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    template = batch.template
    outcome, reason = np.zeros(batch.ts.size, np.int8), np.zeros(batch.ts.size, np.int8)
    entries = np.array([entry.address for entry in template.derive_entries], np.int64)
    offsets = np.array([template.event_dtype.fields[name][1] for name, _ in template.derive], np.int64)  # type: ignore[index]
    filter_entry = template.filter_entry.address if template.filter_entry is not None else 0
    rows = batch.rows
    run_preparation(
        entries, filter_entry, rows.ctypes.data, template.event_dtype.itemsize, rows.size, offsets, outcome, reason
    )
    return outcome, reason


class StagePlanner:
    """Builds a `StagePlan`; one instance a stage."""

    def __init__(self, program: CompiledProgram, tables: list[Table], events: StageEvents, limits: Limits) -> None:
        self.program = program
        self.tables = tables
        self.events = events
        self.limits = limits
        self.kept: list[Any] = []
        self.looked_up: list[tuple[int, Ints]] = []
        self._rows: dict[tuple[int, int, KeyExpression], tuple[Ints, Ints | None]] = {}

    def plan(self, first_operation: int, first_transaction: int, first_entry: int, first_slot: int) -> StagePlan:
        events = self.events
        positions = [events.of_batch(b) for b in range(len(events.batches))]
        goes_on = np.flatnonzero(events.outcome == GOES_ON)
        events.transaction[goes_on] = first_transaction + np.arange(goes_on.size)
        chosen = [events.row[p] for p in positions]

        counts = np.zeros(goes_on.size, np.int64)
        sizes: list[list[Ints | int]] = []
        for batch, p, rows in zip(events.batches, positions, chosen, strict=True):
            of_batch = [self._statement_size(batch, rows, s) for s in batch.template.statements]
            sizes.append(of_batch)
            for size in of_batch:
                counts[events.transaction[p] - first_transaction] += size
        total = int(counts.sum())
        if total > self.limits.operations:
            raise LimitError(f"the epoch has {total} operations, the limit is {self.limits.operations}")
        first = np.zeros(goes_on.size + 1, np.int64)
        np.cumsum(counts, out=first[1:])

        statement, row = np.empty(total, np.int64), np.full(total, -1, np.int64)
        each, entries = np.zeros(total, np.int64), np.zeros(total, np.int64)
        event, ts = np.zeros(goes_on.size, np.int64), np.zeros(goes_on.size, np.int64)
        placed: list[tuple[Batch, Ints, Statement, list[Ints]]] = []
        for batch, p, rows, of_batch in zip(events.batches, positions, chosen, sizes, strict=True):
            number = events.transaction[p] - first_transaction
            event[number] = batch.rows.ctypes.data + rows * batch.template.event_dtype.itemsize
            ts[number] = batch.ts[rows]
            starts = self._place(batch, rows, first[number], of_batch, statement, row, each, entries)
            placed += [(batch, rows, s, starts) for s in batch.template.statements]
        entry_begin = np.zeros(total + 1, np.int64)
        np.cumsum(entries, out=entry_begin[1:])
        entry_row = np.zeros(int(entry_begin[-1]), np.int64)
        entry_link = np.full(entry_row.size, -1, np.int64)
        list_bytes = 8
        for batch, rows, s, starts in placed:
            list_bytes = max(
                list_bytes,
                self._fill_entries(batch, rows, s, starts, entry_begin, entry_row, entry_link, first_operation),
            )
        slot_sizes = self.program.arrays.slot_bytes[statement]
        slot = np.zeros(total + 1, np.int64)
        np.cumsum(slot_sizes, out=slot[1:])
        return StagePlan(
            transaction=np.repeat(np.arange(goes_on.size), counts) + first_transaction,
            statement=statement,
            row=row,
            slot=slot[:-1] + first_slot,
            each=each,
            entry_begin=entry_begin + first_entry,
            entry_row=entry_row,
            entry_link=entry_link,
            first=first + first_operation,
            event=event,
            ts=ts,
            slot_bytes=int(slot[-1]),
            list_bytes=list_bytes,
            kept=[*self.kept, *(batch.rows for batch in events.batches)],
            looked_up=self.looked_up,
        )

    def _place(
        self,
        batch: Batch,
        rows: Ints,
        first: Ints,
        sizes: list[Ints | int],
        statement: Ints,
        row: Ints,
        each: Ints,
        entries: Ints,
    ) -> list[Ints]:
        """Gives each statement its operation numbers; the result is where each statement's operations start."""
        at = first.copy()
        starts = []
        base = self.program.first_statement[batch.template.record_type]
        for s, size in zip(batch.template.statements, sizes, strict=True):
            starts.append(at.copy())
            numbers = at if isinstance(size, int) else _spread(at, size)
            statement[numbers] = base + s.index
            if s.access is not None and s.access.key is not None:
                row[numbers] = self.key_rows(batch, rows, s.access.table, s.access.key)[0]
            if s.each:
                each[numbers] = self._each_addresses(batch, rows, s)
            per_event = self._entries_of(batch, rows, s)
            entries[numbers] = per_event if isinstance(size, int) else np.repeat(per_event, size)
            at = at + size
        return starts

    def _statement_size(self, batch: Batch, rows: Ints, s: Statement) -> Ints | int:
        """Operations of the statement for each event: 1, or as many as its key list is long."""
        if not s.many:
            return 1
        assert s.access is not None and s.access.key is not None
        lengths = self._list_lengths(batch, rows, s.access.key.components)
        for reference in s.each:
            self._list_lengths(batch, rows, (*s.access.key.components, reference))
        return lengths

    def _list_lengths(self, batch: Batch, rows: Ints, components: tuple[Any, ...]) -> Ints:
        lengths: Ints | None = None
        for part in components:
            if not (isinstance(part, FieldReference) and isinstance(part.type, ListType)):
                continue
            column = batch.column(part.name)
            assert isinstance(column, ListColumn)
            found = (column.offsets[1:] - column.offsets[:-1])[rows]
            if lengths is not None and (found != lengths).any():
                at = int(np.flatnonzero(found != lengths)[0])
                raise InputError(
                    f"{batch.template.record_type} of source {batch.source[rows[at]]}, seq {batch.seq[rows[at]]}: list "
                    f"{part.name!r} has {found[at]} elements where another list of the same statement has {lengths[at]}"
                )
            lengths = found
        assert lengths is not None
        if lengths.size and lengths.max() > self.limits.list_length:
            raise LimitError(f"a list has {lengths.max()} elements, the limit is {self.limits.list_length}")
        return lengths

    def key_rows(self, batch: Batch, rows: Ints, table: TableSpec, key: KeyExpression) -> tuple[Ints, Ints | None]:
        """The table rows of a key expression for each event; with lists, flat, and their lengths."""
        cached = self._rows.get((id(batch), table.index, key))
        if cached is not None:
            return cached
        lengths = self._list_lengths(batch, rows, key.components) if key.many else None
        total = int(lengths.sum()) if lengths is not None else rows.size
        parts: list[Any] = []
        for part in key.components:
            if isinstance(part, FieldReference):
                column = batch.column(part.name)
                if isinstance(column, ListColumn):
                    parts.append(column.take(rows).values)
                else:
                    taken = column.take(rows)
                    if lengths is not None:
                        taken = taken.take(np.repeat(np.arange(rows.size), lengths))
                    parts.append(taken)
            elif isinstance(part, str):
                parts.append(StringColumn.from_strings([part]).take(np.zeros(total, np.int64)))
            else:
                parts.append(np.full(total, part, np.int64))
        found = self.tables[table.index].lookup_or_insert(encode_keys(table.key_types, parts))
        self.looked_up.append((table.index, found))
        self._rows[(id(batch), table.index, key)] = (found, lengths)
        return found, lengths

    def _each_addresses(self, batch: Batch, rows: Ints, s: Statement) -> Ints:
        """Where each operation finds its elements of the event's lists: one eight-byte word a list."""
        columns = []
        for reference in s.each:
            column = batch.column(reference.name)
            assert isinstance(column, ListColumn) and isinstance(column.values, np.ndarray)
            values = column.take(rows).values
            assert isinstance(values, np.ndarray)
            columns.append(values.view(np.int64) if values.dtype.itemsize == 8 else values.astype(np.int64))
        words = np.ascontiguousarray(np.stack(columns, axis=1))
        self.kept.append(words)
        return words.ctypes.data + 8 * len(columns) * np.arange(words.shape[0], dtype=np.int64)

    def _source_lengths(self, batch: Batch, rows: Ints, source: Source) -> Ints | None:
        """For a source that is a list: how many records each event reads from it."""
        if isinstance(source, HandleSource):
            size = self._statement_size(batch, rows, batch.template.statements[source.statement])
            return None if isinstance(size, int) else size
        return self._list_lengths(batch, rows, source.key.components) if source.key.many else None

    def _entries_of(self, batch: Batch, rows: Ints, s: Statement) -> Ints:
        """Entries an operation of the statement has, for each event: one a record, one more for each list's length."""
        count = np.zeros(rows.size, np.int64)
        for source in sources_in_order(s):
            lengths = self._source_lengths(batch, rows, source)
            count += 1 if lengths is None else lengths + 1
        candidates = s.access.computed.candidates if s.access is not None and s.access.computed is not None else None
        if candidates is not None:
            count += 1 + (self._list_lengths(batch, rows, candidates.components) if candidates.many else 1)
        return count

    def _fill_entries(
        self,
        batch: Batch,
        rows: Ints,
        s: Statement,
        starts: list[Ints],
        entry_begin: Ints,
        entry_row: Ints,
        entry_link: Ints,
        first_operation: int,
    ) -> int:
        """Fills the statement's entries; gives the bytes that its lists take at most when gathered."""
        sources: list[Source | KeyExpression] = list(sources_in_order(s))
        computed = s.access.computed if s.access is not None else None
        function_first = len(sources) - len(s.reads)
        if computed is not None and computed.candidates is not None:
            # After the computed key's reads, because the key is checked before the function's reads are looked at.
            sources.insert(function_first, computed.candidates)
        if not sources:
            return 0
        size = self._statement_size(batch, rows, s)
        operations = starts[s.index] if isinstance(size, int) else _spread(starts[s.index], size)
        event = np.arange(rows.size) if isinstance(size, int) else np.repeat(np.arange(rows.size), size)
        at = entry_begin[operations].copy()
        list_bytes = 0
        for source in sources:
            if isinstance(source, HandleSource):
                read = batch.template.statements[source.statement]
                lengths = self._source_lengths(batch, rows, source)
                values = starts[source.statement] + first_operation
                if lengths is not None:
                    values = _spread(values, lengths)
                target, record = (
                    entry_link,
                    8
                    * int(
                        self.program.arrays.slot_bytes[
                            self.program.first_statement[batch.template.record_type] + read.index
                        ]
                        // 8
                    ),
                )
            else:
                assert isinstance(source, KeyExpression) or source.table is not None
                if isinstance(source, KeyExpression):
                    assert s.access is not None
                    values, lengths = self.key_rows(batch, rows, s.access.table, source)
                    if lengths is None:
                        lengths = np.ones(rows.size, np.int64)
                    record = 0
                else:
                    values, lengths = self.key_rows(batch, rows, source.table, source.key)
                    record = source.table.dtype.itemsize
                target = entry_row
            if lengths is None:
                target[at] = values[event]
                at += 1
                continue
            entry_row[at] = lengths[event]
            begins = np.cumsum(lengths) - lengths
            target[_spread(at + 1, lengths[event])] = values[_spread(begins[event], lengths[event])]
            at += 1 + lengths[event]
            if lengths.size:
                list_bytes += record * int(lengths.max())
        return list_bytes


def _spread(starts: Ints, lengths: Ints) -> Ints:
    """starts[i], starts[i]+1, … lengths[i] of them, for each i."""
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    spread: Ints = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return spread
