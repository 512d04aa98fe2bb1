"""What an inlined serial kernel is given: which columns of a batch, in which order, and what a table's block holds.

The generated text and the code that calls it read the same `TransactionLayout`, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from engine.api.model import KeyExpression, KeySource, Kind, Statement, TableSpec, Template
from engine.api.types import ListType

# A table's block of addresses and numbers, one word each. `LIVE_UNTIL`: every row below it is live. `CURSOR` is the mark of
# the undo log's next entry, which lies at `CURSOR` + `LOG`; marks from `BASE` on are this epoch's.
RECORDS, LIVE, LIVE_UNTIL, LOG, BASE, CURSOR, OWN, DEFAULT = range(8)
TABLE_WORDS = 8

# A batch's block: its template's number and its rows, then three words for each sink (records, positions, how many), then
# the addresses of its columns.
TEMPLATE, ROWS = range(2)
BATCH_WORDS = 2
SINK_RECORDS, SINK_POSITIONS, SINK_COUNT = range(3)
SINK_WORDS = 3

# The call's block. The order is two bytes an event, the batch whose next row it is; or, where ORDER is 0, batch and row.
# BATCHES has the addresses of the batches' blocks, HEADS a zero for each. FAILED is where failures are put, and
# counted. LANE is 0 but where threads share the transactions (`lane_kernel`).
(
    COUNT,
    ORDER,
    HEADS,
    ORDER_BATCH,
    ORDER_ROW,
    BATCHES,
    TABLES,
    LISTS,
    WRITES,
    VERDICT,
    FAILED,
    FAILURES,
    WRITE_SEQUENCE,
    LANE,
) = range(14)
CALL_WORDS = 14

# A failure: where in the order, why, in which statement, at which table and row (-1 where there is none).
FAILED_POSITION, FAILED_REASON, FAILED_STATEMENT, FAILED_TABLE, FAILED_ROW = range(5)
FAILED_WORDS = 5


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


@dataclass(frozen=True)
class OutcomeColumn:
    """What became of each event before any transaction: not zero where it has none."""


Column = FieldColumn | PackedColumn | RowColumn | OffsetColumn | OutcomeColumn


@dataclass
class TransactionLayout:
    """One template's columns and sinks (where outputs and derived records go), in the order the kernel takes them."""

    template: Template
    columns: list[Column] = field(default_factory=list)
    sinks: list[Statement] = field(init=False)

    def __post_init__(self) -> None:
        self.sinks = [s for s in self.template.statements if s.kind in (Kind.OUTPUT, Kind.EMIT)]

    def column(self, wanted: Column) -> int:
        """The word in the batch's block with a column's address, asked for now or before."""
        if wanted not in self.columns:
            self.columns.append(wanted)
        return self.first_column + self.columns.index(wanted)

    @property
    def first_column(self) -> int:
        """The word after the sinks'."""
        return BATCH_WORDS + SINK_WORDS * len(self.sinks)

    def rows_of(self, table: TableSpec, key: KeyExpression) -> int:
        return self.column(RowColumn(table.index, key))

    def offsets_of(self, key: KeyExpression) -> int:
        return self.column(OffsetColumn(list_field(key)))

    @cached_property
    def has_lists(self) -> bool:
        """Whether any statement goes over a list of keys or reads one."""
        reads = [source for s in self.template.statements for source in (*s.when_reads, *s.reads)]
        return any(s.many for s in self.template.statements) or any(
            isinstance(source, KeySource) and source.key.many for source in reads
        )

    @cached_property
    def written_tables(self) -> list[int]:
        """The table of each writing statement."""
        return [
            s.access.table.index for s in self.template.statements if s.kind in (Kind.WRITE, Kind.DELETE) and s.access
        ]

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
