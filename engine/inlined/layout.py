"""What an inlined serial kernel is given: which columns of a batch, in which order, and what a table's block holds.

The generated text and the code that calls it read the same `TransactionLayout`, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.api.model import KeyExpression, Kind, Statement, TableSpec, Template
from engine.api.types import ListType

# A table's block of addresses and numbers, one word each.
RECORDS, LIVE, UNDO_ROWS, UNDO_LIVE, UNDO_RECORDS, UNDO_BASE, UNDO_COUNT, OWN, DEFAULT = range(9)
TABLE_WORDS = 9

# What a run counts and continues (`counters`).
FAILURES, WRITE_SEQUENCE = range(2)
COUNTERS = 2


@dataclass(frozen=True)
class FieldColumn:
    """A field of the event."""

    name: str


@dataclass(frozen=True)
class PackedColumn:
    """The packed event rows, where columns were derived into them."""


@dataclass(frozen=True)
class RowColumn:
    """The table rows of a key expression; flat where it is a list."""

    table: int
    key: KeyExpression


@dataclass(frozen=True)
class OffsetColumn:
    """Where each event's part of a flat column begins."""

    field: str


Column = FieldColumn | PackedColumn | RowColumn | OffsetColumn


@dataclass
class TransactionLayout:
    """One template's columns and sinks (where outputs and derived records go), in the order the kernel takes them."""

    template: Template
    columns: list[Column] = field(default_factory=list)
    sinks: list[Statement] = field(default_factory=list)

    def column(self, wanted: Column) -> int:
        """The position of a column, asked for now or before."""
        if wanted not in self.columns:
            self.columns.append(wanted)
        return self.columns.index(wanted)

    def rows_of(self, table: TableSpec, key: KeyExpression) -> int:
        return self.column(RowColumn(table.index, key))

    def offsets_of(self, key: KeyExpression) -> int:
        return self.column(OffsetColumn(list_field(key)))

    @property
    def is_packed(self) -> bool:
        return bool(self.template.derive) or self.template.filter is not None

    @property
    def is_wide(self) -> bool:
        """Whether it writes lists of keys, so that its writes are not known one by one."""
        return any(s.many and s.kind in (Kind.WRITE, Kind.DELETE) for s in self.template.statements)


def list_field(key: KeyExpression) -> str:
    """The (first) list field that says how many keys there are."""
    for part in key.components:
        if not isinstance(part, int | str) and isinstance(part.type, ListType):
            return part.name
    raise AssertionError("a list of keys has a list field")


def why_not(templates: list[Template], tables: list[TableSpec]) -> str | None:
    """Why an application cannot run inlined; None if it can."""
    for table in tables:
        if table.window_size >= 0:
            return f"windows are taken of {table.name}"
    for template in templates:
        for s in template.statements:
            if s.is_fence:
                return f"{template.function_name} computes keys or folds a whole table"
    return None
