"""From traced statements to compiled entries: which parameters each user function gets, in which order.

write, output, emit   function(record, event, *each, *reads)
when, computed, derive, filter   function(event, *reads)
constraint            function(record)
user fold             function(accumulator, version)
"""

from __future__ import annotations

import numpy as np

from engine.api.model import Fold, HandleSource, Kind, RecordFields, Source, Statement, TableSpec, Template
from engine.api.types import FLOAT64, INT64, ListType, ScalarType, VectorType, record_dtype
from engine.errors import DeclarationError
from engine.functions.entry import Parameter, compile_entry
from engine.functions.udf import UserFunction


def compile_constraint(table: TableSpec) -> None:
    assert table.constraint is not None
    table.constraint_entry = compile_entry(table.constraint, (Parameter("own", table.dtype),), "verdict")


def compile_template(template: Template, before_trace: bool) -> RecordFields:
    """Compiles derive and filter before tracing (their columns are fields then), the statements after it."""
    if before_trace:
        return _compile_preparation(template)
    functions = _functions_of(template)
    if any(_mentions_random(function) for function in functions):
        template.event_fields = {**template.event_fields, "random": INT64}
        template.event_dtype = record_dtype(template.event_fields)
    for statement in template.statements:
        _compile_statement(template, statement)
    return {}


def _compile_preparation(template: Template) -> RecordFields:
    fields: RecordFields = {"ts": INT64}
    for name, kind in template.event.fields.items():
        if isinstance(kind, VectorType) or (isinstance(kind, ScalarType) and kind.name != "string"):
            fields[name] = kind
    if any(_mentions_random(f) for f in (*(f for _, f in template.derive), template.filter) if f is not None):
        fields["random"] = INT64
    derived: RecordFields = {}
    entries = []
    for name, function in template.derive:
        entry = compile_entry(function, (Parameter("event", record_dtype(fields)),), "value")
        if isinstance(entry.result, int):
            raise DeclarationError(f"derive {name!r}: {function.name} returns a tuple, expected a number")
        derived[name] = FLOAT64 if entry.result == np.dtype("<f8") else INT64
        fields[name] = derived[name]
        entries.append(entry)
    template.derive_entries = tuple(entries)
    template.event_fields = fields
    template.event_dtype = record_dtype(fields)
    if template.filter is not None:
        template.filter_entry = compile_entry(template.filter, (Parameter("event", template.event_dtype),), "verdict")
    return derived


def _functions_of(template: Template) -> list[UserFunction]:
    functions = []
    for s in template.statements:
        computed = s.access.computed.function if s.access is not None and s.access.computed is not None else None
        functions += [f for f in (s.function, s.when, computed) if f is not None]
    return functions


def _mentions_random(function: UserFunction) -> bool:
    return "random" in function.python.__code__.co_names


def _compile_statement(template: Template, s: Statement) -> None:
    event = Parameter("event", template.event_dtype)
    statements = template.statements
    if s.kind in (Kind.WRITE, Kind.OUTPUT, Kind.EMIT):
        assert s.function is not None
        own = Parameter("own", record_dtype(s.result), writable=True)
        each = []
        for position, reference in enumerate(s.each):
            assert isinstance(reference.type, ListType)
            each.append(Parameter("each", reference.type.element.dtype, offset=8 * position))
        reads = _source_parameters(statements, s.reads)
        s.entry = compile_entry(s.function, (own, event, *each, *reads), "verdict")
    if s.when is not None:
        s.when_entry = compile_entry(s.when, (event, *_source_parameters(statements, s.when_reads)), "verdict")
    if s.access is None:
        return
    if s.access.computed is not None:
        computed = s.access.computed
        parameters = (event, *_source_parameters(statements, computed.reads))
        s.key_entry = compile_entry(computed.function, parameters, "value")
        if s.key_entry.result != np.dtype("<i8"):
            raise DeclarationError(
                f"{computed.function.name} ({computed.function.file}:{computed.function.line}) computes a key of "
                f"{s.access.table.name} and must return an int, it returns {s.key_entry.result}"
            )
    aggregation = s.access.aggregation
    if aggregation is not None and aggregation.fold is Fold.USER:
        assert aggregation.function is not None
        accumulator = Parameter("own", record_dtype(aggregation.into), writable=True)
        version = Parameter("record", s.access.table.dtype, argument=0)
        s.fold_entry = compile_entry(aggregation.function, (accumulator, version), "verdict")


def _source_parameters(statements: list[Statement], sources: tuple[Source, ...]) -> list[Parameter]:
    parameters = []
    for argument, source in enumerate(sources):
        if isinstance(source, HandleSource):
            read = statements[source.statement]
            aggregation = read.access.aggregation if read.access is not None else None
            if aggregation is not None and aggregation.fold is not Fold.USER and not read.many:
                value = aggregation.into["value"]
                parameters.append(Parameter("scalar", value.dtype, argument=argument))
                continue
            dtype, many = record_dtype(read.result), read.many
        else:
            dtype, many = source.table.dtype, source.key.many
        parameters.append(Parameter("records" if many else "record", dtype, argument=argument))
    return parameters
