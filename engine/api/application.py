"""`Application`: where a user declares tables, events and transactions. Declaring runs nothing; it checks everything.

Each transaction function is traced once into a `Template`; its user functions are compiled right away, so that a
mistake shows at the line that made it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.api.compiling import compile_constraint, compile_template
from engine.api.model import EventSpec, Kind, RecordFields, TableSpec, Template
from engine.api.tracing import EventProxy, Handle, TableProxy, Transaction, needs_udf, refuse
from engine.api.types import INT64, STRING, ListType, ScalarType, VectorType, field_type, record_dtype
from engine.errors import DeclarationError
from engine.functions.udf import UserFunction

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED = ("ts", "random", "source", "seq")


class Application:
    """One application: its tables, its record types, and the transaction each record type triggers."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(
                f"an application's name is letters, digits, - and _, starting with a letter: {name!r}"
            )
        self.name = name
        self.tables: dict[str, TableSpec] = {}
        self.events: dict[str, EventSpec] = {}
        self.templates: dict[str, Template] = {}
        self._input_types: tuple[int, list[str]] = (0, [])  # found when there were so many templates

    def table(
        self,
        name: str,
        *,
        key: Any,
        value: dict[str, Any],
        default: dict[str, Any] | None = None,
        constraint: UserFunction | None = None,
        create: bool = True,
    ) -> TableProxy:
        """Declares a table. `key`: int, str or a tuple of them; `value`: the record's fields.

        `default` is what an unknown key reads as (zeros unless given); with create=False an unknown key fails the
        transaction. `constraint(record)` is checked after each write; False aborts the transaction.
        """
        if name in self.tables:
            refuse(f"table {name!r} is declared twice")
        parts = key if isinstance(key, tuple) else (key,)
        names = {int: "int", str: "string", INT64: "int", STRING: "string"}
        if not parts or any(part not in names for part in parts):
            refuse(f"table {name!r} has key type {key!r}; keys are int, str or tuples of them")
        fields = self._record_fields(f"table {name!r}", value)
        dtype = record_dtype(fields)
        spec = TableSpec(
            name,
            len(self.tables),
            tuple(names[part] for part in parts),
            fields,
            dtype,
            _default_record(name, fields, dtype, default or {}),
            create,
            constraint,
        )
        if constraint is not None:
            needs_udf(constraint, "constraint=")
            compile_constraint(spec)
        self.tables[name] = spec
        return TableProxy(spec)

    def event(self, name: str, fields: dict[str, Any]) -> EventSpec:
        """Declares a record type: what producers send, or what transactions emit."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            refuse(f"a record type's name is letters, digits, - and _, starting with a letter: {name!r}")
        if name in self.events:
            refuse(f"record type {name!r} is declared twice")
        for field in fields:
            if field in _RESERVED:
                refuse(f"{name}.{field}: every event has ts, source, seq and random already; use another name")
        spec = EventSpec(name, {f: field_type(f"{name}.{f}", kind) for f, kind in fields.items()})
        self.events[name] = spec
        return spec

    def transaction(
        self,
        record_type: str,
        *,
        derive: dict[str, UserFunction] | None = None,
        filter: UserFunction | None = None,
        output: dict[str, Any] | None = None,
        group_key: str | None = None,
    ) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
        """Declares the transaction that each event of `record_type` triggers.

        `derive` adds columns (`name: function(event)`), `filter(event)` False leaves an event out (it counts as
        filtered), `output` names the fields of the output record. `group_key`, a field, declares that events with
        different values touch disjoint keys, so that groups may be scheduled on their own.
        """
        if record_type not in self.events:
            refuse(f"no record type {record_type!r}; declare its fields with app.event({record_type!r}, {{...}})")
        if record_type in self.templates:
            refuse(f"record type {record_type!r} already triggers {self.templates[record_type].function_name}")
        if group_key is not None and self.events[record_type].fields.get(group_key) not in (INT64, STRING):
            refuse(f"group_key={group_key!r} is not an int64 or str field of {record_type}")
        spec = self.events[record_type]

        def declare(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
            template = self._trace(function, spec, dict(derive or {}), filter, output or {})
            template.group_key = group_key
            self._adopt(template)
            return function

        return declare

    def every(
        self, name: str, period: int, *, output: dict[str, Any] | None = None
    ) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
        """Declares a transaction that fires by itself at every multiple of `period` in event time (its `ts`).

        It runs after all events with an earlier ts and before those with its own; its identity is (name, ts).
        """
        if name in self.events or name in self.templates:
            refuse(f"{name!r} is already a record type")
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            refuse(f"period= is a whole number of event time units of at least 1, not {period!r}")
        spec = EventSpec(name, {})

        def declare(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
            template = self._trace(function, spec, {}, None, output or {})
            template.period = period
            self.events[name] = spec
            self._adopt(template)
            return function

        return declare

    def table_at(self, index: int) -> TableSpec:
        """The table that was declared so many tables after the first."""
        return list(self.tables.values())[index]

    @property
    def input_types(self) -> list[str]:
        """The record types that may arrive: those with a transaction, not emitted and not firing by themselves."""
        declared, found = self._input_types
        if declared != len(self.templates):  # asked for in every epoch, declared once
            found = self._find_input_types()
            self._input_types = len(self.templates), found
        return found

    def _find_input_types(self) -> list[str]:
        emitted = {name for t in self.templates.values() for name in t.emitted_types}
        return [name for name, t in self.templates.items() if name not in emitted and not t.period]

    def fingerprint(self) -> str:
        """A hash of what state depends on: table layouts, windows and firing transactions."""
        tables = [
            (t.name, t.key_types, str(t.dtype), t.default.tobytes().hex(), t.creates_keys, t.window_size)
            for t in self.tables.values()
        ]
        fires = sorted((t.record_type, t.period) for t in self.templates.values() if t.period)
        return hashlib.blake2b(repr((self.name, tables, fires)).encode(), digest_size=16).hexdigest()

    def state_declaration(self) -> dict[str, Any]:
        """The same as what it is a hash of, for saying what changed."""
        tables = {
            t.name: {
                "key": ", ".join(t.key_types),
                "value": ", ".join(f"{field} {t.dtype[field]}" for field in t.fields),
                "default": t.default.tobytes().hex(),
                "creates_keys": t.creates_keys,
                "window": t.window_size,
            }
            for t in self.tables.values()
        }
        fires = {t.record_type: {"period": t.period} for t in self.templates.values() if t.period}
        return {"tables": tables, "fires": fires}

    def check_complete(self) -> None:
        """Every emitted record type has a transaction. Called when an engine is made for the application."""
        for template in self.templates.values():
            for emitted in template.emitted_types:
                if emitted not in self.templates:
                    raise DeclarationError(
                        f"{template.function_name} emits {emitted!r}, which triggers no transaction; "
                        f"declare one with @app.transaction({emitted!r})"
                    )
        folded = {
            s.access.table.name: t.function_name
            for t in self.templates.values()
            for s in t.statements
            if s.access is not None and s.access.key is None and s.access.computed is None
        }
        for template in self.templates.values():
            for s in template.statements:
                creates = s.kind is Kind.WRITE and s.access is not None and s.access.computed is not None
                if creates and s.access.table.creates_keys and s.access.table.name in folded:  # type: ignore[union-attr]
                    name = s.access.table.name  # type: ignore[union-attr]
                    raise DeclarationError(
                        f"{template.function_name} may create a computed key in {name}, which "
                        f"{folded[name]} folds whole; declare {name} with create=False"
                    )
        self._assign_stages()

    def _trace(
        self,
        function: Callable[[Any, Any], None],
        spec: EventSpec,
        derive: dict[str, UserFunction],
        filter: UserFunction | None,
        output: dict[str, Any],
    ) -> Template:
        output_fields = self._record_fields("output", output) if output else {}
        for name, derived in derive.items():
            needs_udf(derived, f"derive {name}")
            if name in spec.fields or name in _RESERVED:
                refuse(f"derive {name!r}: {spec.name} has this field already")
        if filter is not None:
            needs_udf(filter, "filter=")
        template = Template(
            spec.name, function.__name__, spec, [], {}, np.dtype([]), tuple(derive.items()), filter=filter,
            output_fields=output_fields,
        )  # fmt: skip
        derived_fields = compile_template(template, before_trace=True)
        transaction = Transaction(self.events, output_fields)
        traced: Callable[[Any, Any], Any] = function
        returned = traced(transaction, EventProxy(spec, derived_fields))
        if returned is not None and not isinstance(returned, Handle):
            refuse(f"{function.__name__} returned {returned!r}; a transaction declares statements and returns nothing")
        if not transaction.statements:
            refuse(f"{function.__name__} declares no statement")
        template.statements = transaction.statements
        compile_template(template, before_trace=False)
        return template

    def _adopt(self, template: Template) -> None:
        self.templates[template.record_type] = template
        try:
            self._assign_stages()
        except DeclarationError:
            del self.templates[template.record_type]
            raise

    def _assign_stages(self) -> None:
        """A record type's stage is the longest chain of emissions that leads to it; a cycle is refused."""
        stages: dict[str, int] = dict.fromkeys(self.templates, 0)
        for _ in range(len(self.templates) + 1):
            changed = False
            for name, template in self.templates.items():
                for emitted in template.emitted_types:
                    if emitted in stages and stages[emitted] < stages[name] + 1:
                        stages[emitted] = stages[name] + 1
                        changed = True
            if not changed:
                break
        else:
            raise DeclarationError(f"record types emit each other in a cycle: {', '.join(sorted(stages))}")
        for name, template in self.templates.items():
            template.stage = stages[name]

    @staticmethod
    def _record_fields(where: str, declared: dict[str, Any]) -> RecordFields:
        if not declared:
            refuse(f"{where} has no fields")
        fields: RecordFields = {}
        for name, given in declared.items():
            kind = field_type(f"{where} field {name!r}", given)
            if isinstance(kind, ListType) or kind == STRING:
                refuse(f"{where} field {name!r} is {kind!r}; records hold int64, float64, boolean and vector")
            fields[name] = kind
        return fields


def _default_record(table: str, fields: RecordFields, dtype: np.dtype, given: dict[str, Any]) -> np.void:
    record = np.zeros(1, dtype)
    for name, value in given.items():
        if name not in fields:
            refuse(f"default of table {table!r} names {name!r}, which is not one of {', '.join(fields)}")
        kind = fields[name]
        element = kind.element if isinstance(kind, VectorType) else kind
        assert isinstance(element, ScalarType)
        array = np.asarray(value)
        allowed = {"int64": "i", "float64": "if", "boolean": "b"}[element.name]
        if array.dtype.kind not in allowed or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            refuse(f"default of {table}.{name} is {value!r}, the field is {kind!r}")
        try:
            record[name][0] = value
        except (ValueError, OverflowError):
            refuse(f"default of {table}.{name} is {value!r}, the field is {kind!r}")
    made: np.void = record[0]
    return made
