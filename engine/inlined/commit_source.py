"""The text of one transaction inside an inlined serial kernel: how it is written, and the commit at its end.

The commit copies new records over the old ones. Below a table's `live_until` all rows are live, so that nobody has to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.api.model import Kind, Statement, TableSpec
from engine.api.types import record_dtype
from engine.errors import Reason
from engine.inlined.layout import (
    BATCH_WORDS,
    SINK_COUNT,
    SINK_POSITIONS,
    SINK_RECORDS,
    SINK_WORDS,
    TransactionLayout,
)
from engine.state.table import MARK_BYTES

if TYPE_CHECKING:
    from engine.inlined.source import ModuleText

WRITERS = (Kind.WRITE, Kind.DELETE)


class CommitText:
    """Collects a transaction's lines; knows where things lie."""

    def __init__(self, number: int, layout: TransactionLayout, module: ModuleText, deletes: set[int]) -> None:
        self.number, self.layout, self.module = number, layout, module
        self.deletes = deletes  # tables from which any transaction deletes
        self.template = layout.template
        self.event = f"event{number}"
        self.text: list[str] = []
        self.depth = 0

    def add(self, *lines: str) -> None:
        self.text += [f"{'    ' * self.depth}{line}" for line in lines]

    def name(self, what: str, s: Statement) -> str:
        return f"{what}{self.number}_{s.index}"

    def fail(self, condition: str, s: Statement, reason: Reason | str, table: int | str, row: str) -> None:
        """Ends the transaction (or, inside a list, its loop) with a failure of this statement."""
        why = reason if isinstance(reason, str) else int(reason)
        self.add(f"if {condition}:")
        self.add(f"    failed = _int64({s.index})", f"    why = _int64({why})")
        self.add(f"    at_table = _int64({table})", f"    at_row = _int64({row})", "    break")

    def column(self, position: int, kind: str = "_int64") -> str:
        return f"_memory.pointer_at(block[{position}], {kind})"

    def record_of(self, table: TableSpec, row: str) -> str:
        kind = self.module.type_of(table.dtype)
        return f"_memory.record_at(t{table.index}_records + {row} * {row_bytes(table)}, {kind})"

    def is_live(self, table: TableSpec, row: str) -> str:
        return f"({row} < t{table.index}_live_until or _commit.is_live(t{table.index}_live, {row}))"

    def earlier_writes(self, s: Statement) -> list[Statement]:
        assert s.access is not None
        return [
            earlier
            for earlier in self.template.statements[: s.index]
            if earlier.kind in WRITERS and earlier.access is not None and earlier.access.table is s.access.table
        ]

    def may_skip(self, s: Statement) -> bool:
        return s.when is not None or s.kind is Kind.DELETE

    def needs_known(self, s: Statement) -> bool:
        assert s.access is not None
        return s.kind is Kind.DELETE or not s.access.table.creates_keys

    def commit_writes(self) -> None:
        for s in self.template.statements:
            if s.kind not in WRITERS:
                continue
            assert s.access is not None
            if self.may_skip(s):
                self.add(f"if not {self.name('skipped', s)}:")
                self.depth += 1
            self._commit_one(s.access.table, self.name("row", s), self.name("record", s), s.kind)
            if self.may_skip(s):
                self.depth -= 1

    def commit_log(self) -> None:
        self.add("for entry in range(written):")
        self.depth += 1
        row = f"row{self.number}_log"
        self.add(f"{row} = log[4 * entry + 3]")
        tables = {
            s.access.table.index: s.access.table for s in self.template.statements if s.access and s.kind in WRITERS
        }
        for index, table in sorted(tables.items()):
            self.add(f"if log[4 * entry + 2] == {index}:")
            self.depth += 1
            record = f"_memory.record_at(log[4 * entry], {self.module.type_of(table.dtype)})"
            self._commit_one(table, row, record, "log[4 * entry + 1]")
            self.depth -= 1
        self.depth -= 1

    def _commit_one(self, table: TableSpec, row: str, record: str, kind: Kind | str) -> None:
        """Saves what the row held if the epoch has not touched it before, then changes it.

        `kind` of a write in a log is a number that is not zero, of a deletion zero. Below `live_until` all rows are live,
        so that nobody has to look, as long as nobody deletes.
        """
        t = f"t{table.index}"
        place, live = f"place{self.number}", f"_memory.pointer_at({t}_live, _uint8)[{row}]"
        record_type, size = self.module.type_of(table.dtype), table.dtype.itemsize
        self.add(f"{place} = {t}_records + {row} * {row_bytes(table)}")
        self.add(f"lives = {row} < {t}_live_until", f"head = 2 * {row} + (1 if lives else _int64({live}))")
        saved = f"{place}, {t}_log, {t}_base, {t}_cursor, head, {size}, {record_type}"
        self.add(f"{t}_cursor = _commit.save({saved})", f"_memory.copy_at({place}, {record})")
        if kind is not Kind.DELETE:
            written = "" if kind is Kind.WRITE else f" and {kind} != 0"
            self.add(f"if not lives{written}:", f"    {live} = 1")
        if kind is not Kind.WRITE and table.index in self.deletes:
            depth = 0 if kind is Kind.DELETE else 1
            if depth:
                self.add(f"if {kind} == 0:")
            self.depth += depth
            self.add(f"{live} = 0", f"{t}_live_until = min({t}_live_until, {row})")
            self.depth -= depth

    def commit_sinks(self) -> None:
        for number, s in enumerate(self.layout.sinks):
            if s.when is not None:
                self.add(f"if not {self.name('skipped', s)}:")
                self.depth += 1
            sink, size = BATCH_WORDS + SINK_WORDS * number, record_dtype(s.result).itemsize
            made = self.name("made", s)
            self.add(f"{made} = block[{sink + SINK_COUNT}]")
            self.add(f"_memory.copy_at(block[{sink + SINK_RECORDS}] + {made} * {size}, {self.name('record', s)})")
            self.add(f"_memory.pointer_at(block[{sink + SINK_POSITIONS}], _int64)[{made}] = position")
            self.add(f"block[{sink + SINK_COUNT}] = {made} + 1")
            if s.when is not None:
                self.depth -= 1


def row_bytes(table: TableSpec) -> int:
    """From one record of a table to the next: each has its undo mark before it."""
    return table.dtype.itemsize + MARK_BYTES
