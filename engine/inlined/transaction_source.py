"""The text of one transaction inside an inlined serial kernel.

Names end in the transaction's and the statement's number, so that numba gives each its own type. `while True` … `break` stands
for one pass that a failure leaves early. A narrow transaction (no list is written) knows its writes when it is compiled and
finds a key that it wrote before by comparing rows; a wide one keeps a log of its writes and finds them by marks.
"""

from __future__ import annotations

from engine.api.model import HandleSource, KeySource, Kind, Source, Statement
from engine.api.types import BOOLEAN, FLOAT64, ListType, ScalarType, VectorType, record_dtype
from engine.errors import Reason
from engine.inlined.commit_source import CommitText, row_bytes
from engine.inlined.layout import (
    FieldColumn,
    OutcomeColumn,
    PackedColumn,
    RowColumn,
)

AHEAD = 16  # events of the same batch that rows are fetched ahead of their use


class TransactionText(CommitText):
    """Writes one template's code; `lines` gives it, indented from 0."""

    def lines(self) -> list[str]:
        if self.layout.is_packed:
            self.add(f"if {self.column(self.layout.column(OutcomeColumn()), '_uint8')}[row] != 0:", "    continue")
        self._fetch_ahead()
        self._load_event()
        self.add("while True:")
        self.depth += 1
        for s in self.template.statements:
            if s.many:
                self._many(s)
            else:
                self._single(s)
        if self.layout.is_wide:
            self.commit_log()
        else:
            self.commit_writes()
        self.commit_sinks()
        self.add("break")
        return self.text

    def _fetch_ahead(self) -> None:
        """Asks for the rows of an event to come: most of a small transaction's time goes into waiting for them."""
        for s in self.template.statements:
            keys = [(source.table, source.key) for source in (*s.when_reads, *s.reads) if isinstance(source, KeySource)]
            if s.access is not None and s.access.key is not None:
                keys.append((s.access.table, s.access.key))
            for table, key in keys:
                if not key.many and RowColumn(table.index, key) not in self.layout.columns:
                    row = f"{self.column(self.layout.rows_of(table, key))}[ahead]"
                    self.add(f"_memory.prefetch(t{table.index}_records + {row} * {row_bytes(table)})")

    def _load_event(self) -> None:
        kind = self.module.type_of(self.template.event_dtype)
        if self.layout.is_packed:
            packed = self.layout.column(PackedColumn())
            size = self.template.event_dtype.itemsize
            self.add(f"{self.event} = _memory.record_at(block[{packed}] + row * {size}, {kind})")
            return
        self.add(f"{self.event} = _memory.stack_record({kind})")
        for name, field in self.template.event_fields.items():
            place = self.layout.column(FieldColumn(name))
            target = f"{self.event}.{name}"
            if isinstance(field, VectorType):
                values = f"vector{self.number}_{name}"
                self.add(f"{values} = {self.column(place, _scalar(field.element))}")
                self.add(f"for item in range({field.length}):")
                self.add(f"    {target}[item] = {values}[row * {field.length} + item]")
            elif field == BOOLEAN:
                self.add(f"{target} = {self.column(place, '_int8')}[row] != 0")
            else:
                self.add(f"{target} = {self.column(place, _scalar(field))}[row]")

    # Statements

    def _single(self, s: Statement) -> None:
        if s.access is None:
            self._sink(s)
            return
        table = s.access.table
        assert s.access.key is not None
        row = self.name("row", s)
        self.add(f"{row} = {self.column(self.layout.rows_of(table, s.access.key))}[row]")
        if s.kind is Kind.READ:
            if not table.creates_keys:
                self.fail(f"not {self.is_live(table, row)}", s, Reason.UNKNOWN_KEY, table.index, row)
            self.add(f"{self.name('record', s)} = {self.record_of(table, row)}")
            return
        skipped = self._condition(s)
        self._begin_write(s, row, self.name("record", s))
        if skipped:
            self.add(f"if not {self.name('skipped', s)}:")
            self.depth += 1
        self._finish_write(s, row, self.name("record", s))
        if skipped:
            self.depth -= 1

    def _many(self, s: Statement) -> None:
        """A statement over a list of keys: an operation for each, in order."""
        assert s.access is not None and s.access.key is not None
        table, key = s.access.table, s.access.key
        rows, begin, count = self.name("rows", s), self.name("begin", s), self.name("count", s)
        self.add(f"{rows} = {self.column(self.layout.rows_of(table, key))}")
        offsets = self.column(self.layout.offsets_of(key))
        self.add(f"{begin} = {offsets}[row]", f"{count} = {offsets}[row + 1] - {begin}")
        place, size = self.name("place", s), table.dtype.itemsize
        self.add(f"{place} = lists + used", f"used += {count} * {size}")
        self.add(f"for item in range({count}):")
        self.depth += 1
        row, record = self.name("row", s), self.name("record", s)
        self.add(f"{row} = {rows}[{begin} + item]")
        if s.kind is Kind.READ:
            if not table.creates_keys:
                self.fail(f"not {self.is_live(table, row)}", s, Reason.UNKNOWN_KEY, table.index, row)
            self.add(f"_memory.copy_at({place} + item * {size}, {self.record_of(table, row)})")
        else:
            skipped = self._condition(s)
            self.add(f"{record} = _memory.record_at({place} + item * {size}, {self.module.type_of(table.dtype)})")
            self._begin_write(s, row, record, allocated=True)
            if skipped:
                self.add(f"if {self.name('skipped', s)}:", "    continue")
            self._finish_write(s, row, record)
        self.depth -= 1
        self.add("if failed >= 0:", "    break")

    def _condition(self, s: Statement) -> bool:
        """Evaluates when=; gives whether there is one."""
        if s.when is None:
            return False
        assert s.when_entry is not None
        arguments = [self.event, *self._sources(s, s.when_reads, "when")]
        verdict, table, row = self.name("holds", s), *self._place(s)
        self.add(f"{verdict} = {self.module.function_of(s.when_entry, len(arguments))}({', '.join(arguments)})")
        self.fail(f"{verdict} < 0", s, f"-{verdict}", table, row)
        self.add(f"{self.name('skipped', s)} = {verdict} == 0")
        return True

    def _place(self, s: Statement) -> tuple[int, str]:
        """Table and row that a failure of the statement itself is reported at."""
        return (s.access.table.index, self.name("row", s)) if s.access is not None else (-1, "-1")

    def _begin_write(self, s: Statement, row: str, record: str, allocated: bool = False) -> None:
        """The record that the write starts from, and whether its key is known."""
        assert s.access is not None
        table, known = s.access.table, self.name("known", s)
        kind = self.module.type_of(table.dtype)
        if not allocated:
            self.add(f"{record} = _memory.stack_record({kind})")
        self.add(f"_memory.copy_record({record}, {self.record_of(table, row)})")
        if self.needs_known(s):
            self.add(f"{known} = {self.is_live(table, row)}")
        if self.layout.is_wide:
            mark = self.name("mark", s)
            self.add(f"{mark} = _memory.pointer_at(t{table.index}_own, _int64)[{row}] - write_base")
            self.add(f"if {mark} >= 0:")
            self.add(f"    _memory.copy_record({record}, _memory.record_at(log[4 * {mark}], {kind}))")
            if self.needs_known(s):
                self.add(f"    {known} = log[4 * {mark} + 1] != 0")
            return
        for earlier in self.earlier_writes(s):
            unless = f" and not {self.name('skipped', earlier)}" if self.may_skip(earlier) else ""
            self.add(f"if {self.name('row', earlier)} == {row}{unless}:")
            self.add(f"    _memory.copy_record({record}, {self.name('record', earlier)})")
            if self.needs_known(s):
                self.add(f"    {known} = {earlier.kind is Kind.WRITE}")

    def _finish_write(self, s: Statement, row: str, record: str) -> None:
        """Runs the write's function on its record; or makes the record of a deleted key."""
        assert s.access is not None
        table, known = s.access.table, self.name("known", s)
        if not table.creates_keys:
            self.fail(f"not {known}", s, Reason.UNKNOWN_KEY, table.index, row)
        if s.kind is Kind.DELETE:
            default = f"_memory.record_at(t{table.index}_default, {self.module.type_of(table.dtype)})"
            if s.many:
                self.add(f"if not {known}:", "    continue")
            else:
                self.add(f"{self.name('skipped', s)} = not {known}")
            self.add(f"_memory.copy_record({record}, {default})")
        else:
            assert s.entry is not None
            arguments = [record, self.event, *self._each(s), *self._sources(s, s.reads, "read")]
            verdict = self.name("verdict", s)
            self.add(f"{verdict} = {self.module.function_of(s.entry, len(arguments))}({', '.join(arguments)})")
            self.fail(f"{verdict} <= 0", s, f"-{verdict} if {verdict} < 0 else 1", table.index, row)
            if table.constraint_entry is not None:
                checked = self.module.function_of(table.constraint_entry, 1)
                self.add(f"{verdict} = {checked}({record})")
                self.fail(f"{verdict} <= 0", s, f"-{verdict} if {verdict} < 0 else 2", table.index, row)
        if self.layout.is_wide:
            unless = f"if not {self.name('skipped', s)}:" if s.kind is Kind.DELETE and not s.many else "if True:"
            self.add(unless)
            self.add(f"    log[4 * written] = _memory.address_of({record})")
            self.add(f"    log[4 * written + 1] = {int(s.kind is Kind.WRITE)}")
            self.add(f"    log[4 * written + 2] = {table.index}", f"    log[4 * written + 3] = {row}")
            self.add(f"    _memory.pointer_at(t{table.index}_own, _int64)[{row}] = write_base + written")
            self.add("    written += 1")

    def _sink(self, s: Statement) -> None:
        """An output or a derived record."""
        record, kind = self.name("record", s), self.module.type_of(record_dtype(s.result))
        skipped = self._condition(s)
        self.add(f"{record} = _memory.stack_record({kind})")
        self.add(f"_memory.copy_record({record}, _memory.zero_record({kind}))")
        if skipped:
            self.add(f"if not {self.name('skipped', s)}:")
            self.depth += 1
        assert s.entry is not None
        arguments = [record, self.event, *self._sources(s, s.reads, "read")]
        verdict = self.name("verdict", s)
        self.add(f"{verdict} = {self.module.function_of(s.entry, len(arguments))}({', '.join(arguments)})")
        self.fail(f"{verdict} <= 0", s, f"-{verdict} if {verdict} < 0 else 1", -1, "-1")
        if skipped:
            self.depth -= 1

    # What functions are given

    def _each(self, s: Statement) -> list[str]:
        arguments = []
        for reference in s.each:
            assert isinstance(reference.type, ListType)
            element = reference.type.element
            place, at = self.layout.column(FieldColumn(reference.name)), f"[{self.name('begin', s)} + item]"
            if element == BOOLEAN:
                arguments.append(f"{self.column(place, '_int8')}{at} != 0")
            else:
                arguments.append(f"{self.column(place, _scalar(element))}{at}")
        return arguments

    def _sources(self, s: Statement, sources: tuple[Source, ...], what: str) -> list[str]:
        """Arguments for the sources; a key that is unknown where keys are not created fails the statement."""
        arguments = []
        for position, source in enumerate(sources):
            if isinstance(source, HandleSource):
                arguments.append(self._handle(self.template.statements[source.statement]))
                continue
            name = f"{what}{self.number}_{s.index}_{position}"
            arguments.append(self._read_list(s, source, name) if source.key.many else self._read_key(s, source, name))
        return arguments

    def _handle(self, read: Statement) -> str:
        if not read.many:
            return self.name("record", read)
        assert read.access is not None
        kind = self.module.type_of(read.access.table.dtype)
        return f"_memory.records_at({self.name('place', read)}, {self.name('count', read)}, {kind})"

    def _read_key(self, s: Statement, source: KeySource, name: str) -> str:
        table = source.table
        self.add(f"{name} = {self.column(self.layout.rows_of(table, source.key))}[row]")
        if not table.creates_keys:
            self.fail(f"not {self.is_live(table, name)}", s, Reason.UNKNOWN_KEY, table.index, name)
        return self.record_of(table, name)

    def _read_list(self, s: Statement, source: KeySource, name: str) -> str:
        """Gathers the records of a list of keys; once for all elements where the statement is over a list itself."""
        table, size = source.table, source.table.dtype.itemsize
        offsets = self.column(self.layout.offsets_of(source.key))
        self.add(f"{name}_begin = {offsets}[row]", f"{name}_count = {offsets}[row + 1] - {name}_begin")
        if s.many:
            self.add("if item == 0:")
            self.depth += 1
        self.add(f"{name}_place = lists + used", f"used += {name}_count * {size}")
        self.add(f"{name}_rows = {self.column(self.layout.rows_of(table, source.key))}")
        self.add(f"for element in range({name}_count):")
        self.depth += 1
        self.add(f"{name} = {name}_rows[{name}_begin + element]")
        if not table.creates_keys:
            self.fail(f"not {self.is_live(table, name)}", s, Reason.UNKNOWN_KEY, table.index, name)
        self.add(f"_memory.copy_at({name}_place + element * {size}, {self.record_of(table, name)})")
        self.depth -= 2 if s.many else 1
        self.add("if failed >= 0:", "    break")
        return f"_memory.records_at({name}_place, {name}_count, {self.module.type_of(table.dtype)})"


def _scalar(kind: ScalarType) -> str:
    return "_float64" if kind == FLOAT64 else "_int64"
