"""One transaction of the oracle: its statements in order, on the state as it stands and a dict of its own writes.

Within one operation: when's reads, when; the computed key's reads, its function, its candidates; whether the target is
known; whether the reads are known; the function; the constraint. The first problem is the transaction's failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from engine.api.model import (
    Access,
    Aggregation,
    FieldReference,
    Fold,
    HandleSource,
    KeyExpression,
    Kind,
    Source,
    Statement,
    TableSpec,
    Template,
)
from engine.api.types import FLOAT64, FieldType, ListType, ScalarType, VectorType
from engine.errors import Reason
from services.verify.checked_values import (
    HIGHEST,
    LOWEST,
    CheckedVector,
    Fault,
    PlainRecord,
    Record,
    checked,
    executable,
    plain,
    presented,
)

if TYPE_CHECKING:
    from services.verify.oracle import Address, Key, Oracle


class Failure(Exception):  # noqa: N818 - the contract's word
    """The operation that ends a transaction."""

    def __init__(self, reason: Reason, statement: int, key: Key | None) -> None:
        super().__init__(reason.name)
        self.reason, self.statement, self.key = reason, statement, key


class UnknownKey(Exception):  # noqa: N818
    """A key that a table without creation does not hold."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key


class TransactionRun:
    """One transaction under way. `own` holds what it wrote: a record, or None where it deleted."""

    def __init__(self, oracle: Oracle, template: Template, epoch: int, values: dict[str, Any]) -> None:
        self.oracle, self.template, self.epoch, self.values = oracle, template, epoch, values
        event_fields = {name: kind for name, kind in template.event_fields.items() if name in values}
        self.event = Record(event_fields, values)
        self.own: dict[Address, PlainRecord | None] = {}
        self.touched: set[Address] = set()
        self.handles: dict[int, Any] = {}  # by statement: what it read or wrote, or a list of those
        self.output: PlainRecord | None = None
        self.emitted: list[tuple[int, str, dict[str, Any]]] = []
        self.rewrites = 0
        self.windows_across_epochs = 0

    def execute(self) -> None:
        for statement in self.template.statements:
            if statement.many:
                assert statement.access is not None and statement.access.key is not None
                keys = self.keys_of(statement.access.key)
                results = [self.operation(statement, key, element) for element, key in enumerate(keys)]
                self.handles[statement.index] = results
            else:
                key = None
                if statement.access is not None and statement.access.key is not None:
                    (key,) = self.keys_of(statement.access.key)
                self.handles[statement.index] = self.operation(statement, key, 0)

    def operation(self, statement: Statement, key: Key | None, element: int) -> Any:
        """Runs one operation and gives what its handle holds."""
        access = statement.access
        try:
            if statement.when is not None:
                condition = executable(statement.when)(self.event, *self.arguments(statement.when_reads))
                if condition is False:
                    return None if access is None else self.current(access.table, key)
            if access is None:
                return self.fill(statement)
            if access.computed is not None:
                computed = access.computed
                key = int(executable(computed.function)(self.event, *self.arguments(computed.reads)))
                if computed.candidates is not None and key not in self.keys_of(computed.candidates):
                    raise Fault(Reason.NOT_A_CANDIDATE)
            if statement.kind is Kind.READ:
                return self.read(access, key)
            self.require_known(access.table, key, self.exists_now(access.table, key))
            if statement.kind is Kind.DELETE:
                self.put(access.table, key, None)
                return None
            return self.write(statement, access.table, key, element)
        except Fault as fault:
            raise Failure(fault.reason, statement.index, key) from None
        except UnknownKey as unknown:
            raise Failure(Reason.UNKNOWN_KEY, statement.index, unknown.key) from None

    def fill(self, statement: Statement) -> None:
        """Runs an output or an emit: a record of zeros that the function fills."""
        assert statement.function is not None
        record = Record(statement.result, {name: _zero(kind) for name, kind in statement.result.items()}, writable=True)
        self.call(statement, record, ())
        if statement.kind is Kind.OUTPUT:
            self.output = record.plain()
        else:
            assert statement.emits is not None
            copied = {name: self.values[field] for name, field in statement.copies}
            self.emitted.append((statement.index, statement.emits, {**record.plain(), **copied}))

    def write(self, statement: Statement, table: TableSpec, key: Key, element: int) -> PlainRecord:
        record = Record(table.fields, self.current(table, key), writable=True)
        each = []
        for reference in statement.each:
            assert isinstance(reference.type, ListType)
            each.append(presented(reference.type.element, self.values[reference.name][element]))
        self.call(statement, record, each)
        if table.constraint is not None:
            holds = executable(table.constraint)(Record(table.fields, record.plain()))
            if holds is False:
                raise Fault(Reason.CONSTRAINT)
        self.put(table, key, record.plain())
        return record.plain()

    def call(self, statement: Statement, record: Record, each: Iterable[Any]) -> None:
        assert statement.function is not None
        reads = self.arguments(statement.reads)
        if executable(statement.function)(record, self.event, *each, *reads) is False:
            raise Fault(Reason.REFUSED)

    def read(self, access: Access, key: Key | None) -> Any:
        """The record, window or fold that a READ gives: the state before the transaction's own writes."""
        table = access.table
        if access.aggregation is None:
            return self.before(table, key)
        records: list[PlainRecord]
        if access.window_size >= 0:
            self.before(table, key)
            earliest = self.values["ts"] - access.window_size
            inside = [v for v in self.oracle.versions.get((table.name, key), ()) if v.ts >= earliest]
            self.windows_across_epochs += any(version.epoch != self.epoch for version in inside)
            records = [version.record for version in inside]
        else:
            stored = self.oracle.tables[table.name]
            self.touched.update((table.name, each) for each in stored)
            records = [stored[each] for each in sorted(stored)]
        return folded(access.aggregation, table, records)

    def arguments(self, sources: Iterable[Source]) -> list[Any]:
        """The values of `reads=`, in order, as user functions see them."""
        found: list[Any] = []
        for source in sources:
            if isinstance(source, HandleSource):
                statement = self.template.statements[source.statement]
                held = self.handles[source.statement]
                if statement.many:
                    found.append(CheckedVector(Record(statement.result, record) for record in held))
                elif statement.access is not None and _gives_a_number(statement.access):
                    found.append(presented(statement.result["value"], held["value"]))
                else:
                    found.append(Record(statement.result, held))
            else:
                fields = source.table.fields
                records = [Record(fields, self.before(source.table, key)) for key in self.keys_of(source.key)]
                found.append(CheckedVector(records) if source.key.many else records[0])
        return found

    def keys_of(self, expression: KeyExpression) -> list[Key]:
        """The keys that an expression gives for this event."""
        parts: list[Any] = [self.values[c.name] if isinstance(c, FieldReference) else c for c in expression.components]
        lists = [
            list(part) if isinstance(component, FieldReference) and isinstance(component.type, ListType) else None
            for component, part in zip(expression.components, parts, strict=True)
        ]
        count = max((len(items) for items in lists if items is not None), default=1) if expression.many else 1
        if expression.many and not any(lists):
            return []
        rows = [
            tuple(part if items is None else items[row] for part, items in zip(parts, lists, strict=True))
            for row in range(count)
        ]
        return [row if len(row) > 1 else row[0] for row in rows]

    def before(self, table: TableSpec, key: Key) -> PlainRecord:
        """A key's record as of the transaction's place, before its own writes."""
        self.touched.add((table.name, key))
        stored = self.oracle.tables[table.name].get(key)
        self.require_known(table, key, stored is not None)
        return stored if stored is not None else default_record(table)

    def current(self, table: TableSpec, key: Key | None) -> PlainRecord:
        """A key's record with the transaction's own earlier writes; the default where there is none."""
        self.touched.add((table.name, key))
        stored = self.own.get((table.name, key), self.oracle.tables[table.name].get(key))
        return stored if stored is not None else default_record(table)

    def exists_now(self, table: TableSpec, key: Key) -> bool:
        return self.own.get((table.name, key), self.oracle.tables[table.name].get(key)) is not None

    def require_known(self, table: TableSpec, key: Key, known: bool) -> None:
        if not known and not table.creates_keys:
            raise UnknownKey(key)

    def put(self, table: TableSpec, key: Key, record: PlainRecord | None) -> None:
        self.touched.add((table.name, key))
        self.rewrites += (table.name, key) in self.own
        self.own[table.name, key] = record


def folded(aggregation: Aggregation, table: TableSpec, records: list[PlainRecord]) -> PlainRecord:
    """The fold of `records`, taken in the order given."""
    fold, into = aggregation.fold, aggregation.into
    if fold is Fold.USER:
        assert aggregation.function is not None
        accumulator = Record(into, {name: _zero(kind) for name, kind in into.items()}, writable=True)
        for record in records:
            if executable(aggregation.function)(accumulator, Record(table.fields, record)) is False:
                raise Fault(Reason.REFUSED)
        return accumulator.plain()
    if fold is Fold.COUNT:
        return {"value": len(records)}
    assert aggregation.field is not None
    field, kind = aggregation.field, table.fields[aggregation.field]
    values: list[Any] = [presented(kind, record[field]) for record in records]
    if fold is Fold.MIN:
        return {"value": plain(min(values, default=float("inf") if kind == FLOAT64 else HIGHEST))}
    if fold is Fold.MAX:
        return {"value": plain(max(values, default=float("-inf") if kind == FLOAT64 else LOWEST))}
    total = checked(0.0 if kind == FLOAT64 else 0)
    for value in values:
        total = total + value
    if fold is Fold.SUM:
        return {"value": plain(total)}
    return {"value": plain(total / len(values)) if values else 0.0}


def _gives_a_number(access: Access) -> bool:
    return access.aggregation is not None and access.aggregation.fold is not Fold.USER


def _zero(kind: FieldType) -> Any:
    if isinstance(kind, VectorType):
        return (0,) * kind.length
    assert isinstance(kind, ScalarType)
    return False if kind.name == "boolean" else 0


def default_record(table: TableSpec) -> PlainRecord:
    """What an unknown key reads as."""
    return {name: plain(table.default[name].tolist()) for name in table.fields}
