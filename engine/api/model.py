"""What a declared application is: plain data, built once by tracing, read by the engine (and by the test oracle).

A `Template` is one transaction function traced into statements. A statement becomes one operation per event (or one per
element, where its key is a list). Compiled entries hang beside the user's functions; nothing here runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine.api.types import FieldType, ScalarType, VectorType
from engine.functions.udf import UserFunction

if TYPE_CHECKING:
    from engine.functions.entry import Entry

RecordFields = dict[str, ScalarType | VectorType]


class Kind(IntEnum):
    """What a statement does."""

    READ = 0
    WRITE = 1
    DELETE = 2
    OUTPUT = 3  # fills the event's output record
    EMIT = 4  # fills a derived record


class Fold(IntEnum):
    """How the versions of a window, or the records of a table, become one value."""

    USER = 0
    SUM = 1
    COUNT = 2
    MIN = 3
    MAX = 4
    MEAN = 5


@dataclass(frozen=True)
class FieldReference:
    """A field of the triggering event."""

    name: str
    type: FieldType


@dataclass(frozen=True)
class KeyExpression:
    """A key, or with a list field in it a list of keys: one component each part of the key, a field or a constant."""

    components: tuple[FieldReference | int | str, ...]
    many: bool

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: rows are looked up by key expression in every epoch."""
        return hash((self.components, self.many))


@dataclass(frozen=True)
class Aggregation:
    """A fold with its field (built-in) or function and accumulator (user fold)."""

    fold: Fold
    field: str | None
    function: UserFunction | None
    into: RecordFields  # the accumulator; for built-in folds one field `value`


@dataclass(frozen=True)
class KeySource:
    """A read of other keys by a statement's function: a virtual operation for each key."""

    table: TableSpec
    key: KeyExpression


@dataclass(frozen=True)
class HandleSource:
    """What an earlier statement of the same transaction read or wrote."""

    statement: int


Source = KeySource | HandleSource


@dataclass(frozen=True)
class Computed:
    """A key that a function computes from the event and its reads (the paper's non-deterministic access)."""

    function: UserFunction
    reads: tuple[Source, ...]
    candidates: KeyExpression | None


@dataclass(frozen=True)
class Access:
    """What a READ, WRITE or DELETE goes to: a key (or keys), a computed key, a key's window, or a whole table."""

    table: TableSpec
    key: KeyExpression | None = None
    computed: Computed | None = None
    window_size: int = -1  # in units of event time; -1: no window
    aggregation: Aggregation | None = None  # with a window, or over the whole table


@dataclass
class Statement:
    """One line of a transaction. `entry`, `when_entry`, `key_entry` and `fold_entry` are filled once traced."""

    index: int
    kind: Kind
    line: int
    access: Access | None = None
    function: UserFunction | None = None
    reads: tuple[Source, ...] = ()
    each: tuple[FieldReference, ...] = ()
    when: UserFunction | None = None
    when_reads: tuple[Source, ...] = ()
    result: RecordFields = field(default_factory=dict)  # what the operation's slot holds
    emits: str | None = None
    copies: tuple[tuple[str, str], ...] = ()  # EMIT: derived field ← the event's field
    entry: Entry | None = None
    when_entry: Entry | None = None
    key_entry: Entry | None = None
    fold_entry: Entry | None = None

    @property
    def many(self) -> bool:
        return self.access is not None and self.access.key is not None and self.access.key.many

    @property
    def is_fence(self) -> bool:
        """Whether the keys it touches are not known before it runs."""
        access = self.access
        return access is not None and (access.computed is not None or access.key is None)


@dataclass(eq=False)
class TableSpec:
    """A declared table. `window_size` is the longest window any transaction takes of it (-1: none)."""

    name: str
    index: int
    key_types: tuple[str, ...]  # "int" or "string", one a component
    fields: RecordFields
    dtype: np.dtype
    default: np.void
    creates_keys: bool
    constraint: UserFunction | None
    constraint_entry: Entry | None = None
    window_size: int = -1


@dataclass(frozen=True)
class EventSpec:
    """A declared record type: what producers send, or what transactions emit."""

    name: str
    fields: dict[str, FieldType]


@dataclass
class Template:
    """One traced transaction."""

    record_type: str
    function_name: str
    event: EventSpec
    statements: list[Statement]
    event_fields: RecordFields  # the event's row as user functions see it: ts, numbers, vectors, derived, maybe random
    event_dtype: np.dtype
    derive: tuple[tuple[str, UserFunction], ...] = ()
    derive_entries: tuple[Entry, ...] = ()
    filter: UserFunction | None = None
    filter_entry: Entry | None = None
    output_fields: RecordFields = field(default_factory=dict)
    period: int = 0  # > 0: fires by itself at each multiple of the period, no event triggers it
    group_key: str | None = None
    stage: int = 0

    @property
    def uses_random(self) -> bool:
        return "random" in self.event_fields

    @property
    def emitted_types(self) -> tuple[str, ...]:
        return tuple(s.emits for s in self.statements if s.emits is not None)
