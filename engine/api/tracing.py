"""Tracing: the objects a transaction function sees while it is declared, and the mistakes they refuse.

The function runs once, with an `EventProxy` and a `Transaction` that note what is asked of them. Nothing of the event is
known then, so anything that would need its value (a branch, a comparison, arithmetic) is an error that says what to use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from engine.api.model import (
    Access,
    Aggregation,
    Computed,
    EventSpec,
    FieldReference,
    Fold,
    HandleSource,
    KeyExpression,
    KeySource,
    Kind,
    RecordFields,
    Source,
    Statement,
    TableSpec,
)
from engine.api.types import FLOAT64, INT64, STRING, FieldType, ListType, ScalarType, VectorType, field_type
from engine.errors import DeclarationError
from engine.functions.udf import UserFunction


def caller() -> tuple[str, int, str]:
    """File, line and function of the nearest frame outside engine/api: the user's line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "/engine/api/" in frame.f_code.co_filename.replace("\\", "/"):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def refuse(message: str) -> NoReturn:
    """Raises a DeclarationError that names the user's function and line."""
    file, line, function = caller()
    raise DeclarationError(f"{function} ({file}:{line}): {message}")


def _no_value(self: object, *_: object) -> NoReturn:
    refuse(
        f"{self!r} has no value while the transaction is declared; to leave a write out use when=, "
        "to compute use a @udf, to derive a column use derive="
    )


class FieldProxy:
    """A field of the event, by name; only its use as key, `each`, `copy` or candidate is possible."""

    def __init__(self, record_type: str, name: str, kind: FieldType) -> None:
        self.record_type = record_type
        self.reference = FieldReference(name, kind)

    def __repr__(self) -> str:
        return f"event.{self.reference.name} of {self.record_type}"

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_value
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __mod__ = _no_value
    __iter__ = __len__ = __index__ = __int__ = __float__ = __getitem__ = __neg__ = __contains__ = _no_value
    __hash__ = object.__hash__


class EventProxy:
    """The event while tracing: its fields by name."""

    def __init__(self, spec: EventSpec, derived: RecordFields) -> None:
        self._spec = spec
        self._fields: dict[str, FieldType] = {"ts": INT64, **spec.fields, **derived}

    def __getattr__(self, name: str) -> FieldProxy:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._fields:
            refuse(f"{self._spec.name} has no field {name!r}; it has {', '.join(self._fields)}")
        return FieldProxy(self._spec.name, name, self._fields[name])


def key_expression(table: TableSpec, key: Any) -> KeyExpression:
    """The key expression `table[key]` stands for, checked against the table's key types."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(table.key_types):
        refuse(f"table {table.name} has keys of {len(table.key_types)} part(s), got {len(parts)}")
    components: list[FieldReference | int | str] = []
    many = False
    for part, expected in zip(parts, table.key_types, strict=True):
        if isinstance(part, FieldProxy):
            kind = part.reference.type
            element = kind.element if isinstance(kind, ListType) else kind
            found = "int" if element == INT64 else "string" if element == STRING else repr(element)
            many = many or isinstance(kind, ListType)
            components.append(part.reference)
        else:
            found = {int: "int", str: "string"}.get(type(part), type(part).__name__)
            components.append(part)
        if found != expected:
            refuse(f"table {table.name} has keys of type {expected}, {part!r} is of type {found}")
    return KeyExpression(tuple(components), many)


class TableProxy:
    """A declared table as transactions use it: `table[key]`, `table.fold(...)`, `table.computed(...)`."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        return self.spec.name

    def __getitem__(self, key: Any) -> Reference:
        """The record of `key`: an event's field, a constant, or a tuple of them; a list field gives a list of records."""
        return Reference(Access(self.spec, key=key_expression(self.spec, key)))

    def fold(self, fold: str | UserFunction, field: str | None = None, into: dict[str, Any] | None = None) -> Reference:
        """One value from all records of the (small) table, in key order: sum, count, min, max, mean or a user fold."""
        return Reference(Access(self.spec, aggregation=aggregation(self.spec, fold, field, into)))

    def computed(
        self, function: UserFunction, reads: Sequence[Any] = (), candidates: Reference | None = None
    ) -> Reference:
        """The record whose integer key `function(event, *reads)` computes; outside `candidates` the transaction fails."""
        if any(kind != "int" for kind in self.spec.key_types) or len(self.spec.key_types) != 1:
            refuse(f"computed keys need a table with integer keys; {self.spec.name} has {self.spec.key_types}")
        needs_udf(function, "computed")
        chosen = None
        if candidates is not None:
            if not isinstance(candidates, Reference) or candidates.access.key is None:
                refuse("candidates= takes keys of the same table, such as table[event.options]")
            if candidates.access.table is not self.spec:
                refuse(f"candidates= are keys of {candidates.access.table.name}, the access goes to {self.spec.name}")
            chosen = candidates.access.key
        return Reference(Access(self.spec, computed=Computed(function, _Pending(reads), chosen)))


class _Pending(tuple[Any, ...]):
    """Reads not yet turned into sources; the transaction that uses the reference does it."""


class Reference:
    """A place in the state: what `txn.read`, `txn.write`, `txn.delete` and `reads=` take."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def window(
        self, size: int, fold: str | UserFunction, field: str | None = None, into: dict[str, Any] | None = None
    ) -> Reference:
        """The versions written in the last `size` units of event time, folded (sum, count, min, max, mean or a udf)."""
        access = self.access
        if access.key is None or access.window_size >= 0:
            refuse("a window is taken of a key, such as table[event.key].window(...)")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            refuse(f"a window's size is a whole number of event time units, not {size!r}")
        if size >= 2**63:
            refuse(f"a window's size is below 2**63, not {size}")
        access.table.window_size = max(access.table.window_size, size)
        made = aggregation(access.table, fold, field, into)
        return Reference(Access(access.table, key=access.key, window_size=size, aggregation=made))

    def __bool__(self) -> bool:
        refuse("a record has no value while the transaction is declared; use when=")


class Handle:
    """What a statement read or wrote, to be given to later statements as `reads=`."""

    def __init__(self, transaction: Transaction, statement: Statement) -> None:
        self.transaction = transaction
        self.statement = statement

    def __bool__(self) -> bool:
        refuse("what a statement read has no value while the transaction is declared; use when=")


def needs_udf(function: object, where: str) -> None:
    if not isinstance(function, UserFunction):
        refuse(f"{where} takes a function decorated with @udf, got {function!r}")


def aggregation(table: TableSpec, fold: object, field: str | None, into: dict[str, Any] | None) -> Aggregation:
    """Checks and builds what `window` and `fold` were given."""
    if isinstance(fold, UserFunction):
        if not into:
            refuse(f"a user fold needs into=, the fields of its accumulator; {fold.name} has none")
        fields: RecordFields = {}
        for name, declared in into.items():
            kind = field_type(f"accumulator field {name}", declared)
            if isinstance(kind, ListType) or kind == STRING:
                refuse(f"accumulator field {name} has type {kind!r}; use int64, float64, boolean or vector")
            fields[name] = kind
        return Aggregation(Fold.USER, None, fold, fields)
    names = {f.name.lower(): f for f in Fold if f is not Fold.USER}
    if not isinstance(fold, str) or fold not in names:
        refuse(f"fold is {fold!r}; use sum, count, min, max, mean or a @udf with into=")
    chosen = names[fold]
    if chosen is Fold.COUNT:
        return Aggregation(chosen, None, None, {"value": INT64})
    if field is None or table.fields.get(field) not in (INT64, FLOAT64):
        refuse(f"fold {fold!r} needs field=, an int64 or float64 field of {table.name}; got {field!r}")
    kind = table.fields[field]
    assert isinstance(kind, ScalarType | VectorType)
    return Aggregation(chosen, field, None, {"value": FLOAT64 if chosen is Fold.MEAN else kind})


class Transaction:
    """`txn` while tracing: each call notes one statement."""

    def __init__(self, events: dict[str, EventSpec], output_fields: RecordFields) -> None:
        self._events = events
        self._output_fields = output_fields
        self.statements: list[Statement] = []

    def read(self, target: Reference) -> Handle:
        """Reads a record (a list of them, a window, a fold, a computed key) as of this transaction's place in the order."""
        return self._add(Kind.READ, self._access(target))

    def write(
        self,
        target: Reference,
        function: UserFunction,
        reads: Sequence[Any] = (),
        each: Sequence[Any] = (),
        when: UserFunction | None = None,
        when_reads: Sequence[Any] = (),
    ) -> Handle:
        """Writes a new version: `function(record, event, *each, *reads)` changes the record; False aborts.

        With a list of keys the function runs once a key; `each` gives it the matching elements of the event's lists.
        `when(event, *when_reads)` False leaves this write out and the transaction goes on.
        """
        needs_udf(function, "write")
        access = self._access(target)
        if access.aggregation is not None:
            refuse("a window or a fold can be read, not written; give it to a write as reads=[...]")
        return self._add(
            Kind.WRITE,
            access,
            function=function,
            reads=self._sources(reads),
            each=self._each(access, each),
            when=self._condition(when, when_reads),
            when_reads=self._sources(when_reads),
        )

    def delete(self, target: Reference, when: UserFunction | None = None, when_reads: Sequence[Any] = ()) -> None:
        """Deletes a key: afterwards it is unknown."""
        access = self._access(target)
        if access.aggregation is not None:
            refuse("a window or a fold cannot be deleted")
        self._add(Kind.DELETE, access, when=self._condition(when, when_reads), when_reads=self._sources(when_reads))

    def output(self, function: UserFunction, reads: Sequence[Any] = ()) -> None:
        """Fills the output record of the event: `function(output, event, *reads)`; once a transaction."""
        needs_udf(function, "output")
        if not self._output_fields:
            refuse("output needs the fields of the output: @app.transaction(..., output={...})")
        if any(s.kind is Kind.OUTPUT for s in self.statements):
            refuse("a transaction has one output")
        self._add(Kind.OUTPUT, None, function=function, reads=self._sources(reads), result=self._output_fields)

    def emit(
        self,
        record_type: str,
        function: UserFunction,
        reads: Sequence[Any] = (),
        when: UserFunction | None = None,
        when_reads: Sequence[Any] = (),
        copy: dict[str, Any] | None = None,
    ) -> None:
        """Emits a derived record: `function(record, event, *reads)` fills its numbers, `copy` takes fields of the event.

        The transaction it triggers runs in a later stage of the same epoch.
        """
        needs_udf(function, "emit")
        if record_type not in self._events:
            refuse(f"emit of {record_type!r}, which is not declared; declare it with app.event(...) first")
        spec = self._events[record_type]
        copies = []
        for name, given in (copy or {}).items():
            if name not in spec.fields:
                refuse(f"copy names {name!r}, which {record_type} does not have")
            if not isinstance(given, FieldProxy) or given.reference.type != spec.fields[name]:
                refuse(f"copy of {name!r} needs an event's field of type {spec.fields[name]!r}")
            copies.append((name, given.reference.name))
        copied = {name for name, _ in copies}
        result: RecordFields = {}
        for name, kind in spec.fields.items():
            if name in copied:
                continue
            if isinstance(kind, ListType) or kind == STRING:
                refuse(f"field {name!r} of {record_type} is {kind!r}: give it with copy=")
            assert isinstance(kind, ScalarType | VectorType)
            result[name] = kind
        self._add(
            Kind.EMIT,
            None,
            function=function,
            reads=self._sources(reads),
            when=self._condition(when, when_reads),
            when_reads=self._sources(when_reads),
            result=result,
            emits=record_type,
            copies=tuple(copies),
        )

    def _add(self, kind: Kind, access: Access | None, result: RecordFields | None = None, **fields: Any) -> Handle:
        if result is None:
            assert access is not None
            result = access.aggregation.into if access.aggregation is not None else access.table.fields
        statement = Statement(len(self.statements), kind, caller()[1], access, result=result, **fields)
        self.statements.append(statement)
        return Handle(self, statement)

    def _access(self, target: object) -> Access:
        if not isinstance(target, Reference):
            refuse(f"expected a record such as table[event.key], got {target!r}")
        access = target.access
        if access.computed is not None:
            pending = access.computed
            computed = Computed(pending.function, self._sources(pending.reads), pending.candidates)
            access = Access(access.table, computed=computed)
        return access

    def _sources(self, reads: Sequence[Any]) -> tuple[Source, ...]:
        if isinstance(reads, Reference | Handle) or not isinstance(reads, Sequence):
            refuse("reads= takes a list, such as reads=[sender]")
        sources: list[Source] = []
        for read in reads:
            if isinstance(read, Handle):
                if read.transaction is not self:
                    refuse("a handle of another transaction cannot be read")
                if read.statement.kind not in (Kind.READ, Kind.WRITE):
                    refuse("only what a read or a write gave can be read")
                sources.append(HandleSource(read.statement.index))
            elif isinstance(read, Reference):
                access = read.access
                if access.key is not None and access.aggregation is None:
                    sources.append(KeySource(access.table, access.key))
                else:  # a window, a fold or a computed key: its own operation, read through its handle
                    sources.append(HandleSource(self.read(read).statement.index))
            else:
                refuse(f"reads= takes records such as table[event.key] and what statements returned, got {read!r}")
        return tuple(sources)

    def _each(self, access: Access, each: Sequence[Any]) -> tuple[FieldReference, ...]:
        if not each:
            return ()
        if access.key is None or not access.key.many:
            refuse("each= goes with a list of keys")
        references = []
        for item in each:
            if not isinstance(item, FieldProxy) or not isinstance(item.reference.type, ListType):
                refuse(f"each= takes list fields of the event, got {item!r}")
            if item.reference.type.element == STRING:
                refuse(f"{item!r} is a list of strings; user functions work on numbers")
            references.append(item.reference)
        return tuple(references)

    def _condition(self, when: object, when_reads: Sequence[Any]) -> UserFunction | None:
        if when is None:
            if when_reads:
                refuse("when_reads= goes with when=")
            return None
        needs_udf(when, "when=")
        assert isinstance(when, UserFunction)
        return when
