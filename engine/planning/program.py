"""An application's statements as the arrays that kernels read. Built once for an engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.api.application import Application
from engine.api.model import Fold, HandleSource, Kind, Source, Statement, Template
from engine.api.types import FLOAT64, record_dtype
from engine.execution.layout import COMPUTED, HANDLE, KEY, NO_TARGET, WHOLE_TABLE, WINDOW, Program
from engine.execution.shared import Shared, share
from engine.functions.entry import Entry
from engine.state.measures import NO_MEASURE, measures_of


@dataclass(frozen=True)
class CompiledProgram:
    """The arrays, and which positions each template's statements have in them."""

    arrays: Program
    shared: Shared
    first_statement: dict[str, int]
    statements: list[tuple[Template, Statement]]
    largest_arguments: int

    @property
    def computes_keys(self) -> bool:
        return any(s.access is not None and s.access.computed is not None for _, s in self.statements)


def target_of(statement: Statement) -> int:
    access = statement.access
    if access is None:
        return NO_TARGET
    if access.computed is not None:
        return COMPUTED
    if access.key is None:
        return WHOLE_TABLE
    return WINDOW if access.window_size >= 0 else KEY


def source_bytes(template: Template, source: Source) -> int:
    if isinstance(source, HandleSource):
        return record_dtype(template.statements[source.statement].result).itemsize
    return source.table.dtype.itemsize


def source_is_many(template: Template, source: Source) -> bool:
    if isinstance(source, HandleSource):
        return template.statements[source.statement].many
    return source.key.many


def sources_in_order(statement: Statement) -> list[Source]:
    """A statement's sources as its operations' entries hold them: when's, the computed key's, the function's."""
    computed = statement.access.computed if statement.access is not None else None
    return [*statement.when_reads, *(computed.reads if computed is not None else ()), *statement.reads]


def compile_program(application: Application) -> CompiledProgram:
    columns: dict[str, list[int]] = {name: [] for name in Program._fields}
    first_statement: dict[str, int] = {}
    statements: list[tuple[Template, Statement]] = []
    largest = 1
    for template in application.templates.values():
        first_statement[template.record_type] = len(statements)
        for s in template.statements:
            _add_statement(columns, template, s)
            statements.append((template, s))
            largest = max(largest, len(s.reads), len(s.when_reads), columns["key_arguments"][-1])
    _add_measures(columns, application, statements)
    arrays = Program(**{name: np.array(values, np.int64) for name, values in columns.items()})
    return CompiledProgram(arrays, share(arrays), first_statement, statements, largest)


def _add_measures(
    columns: dict[str, list[int]], application: Application, statements: list[tuple[Template, Statement]]
) -> None:
    """What versions of tables with windows keep ready, behind their records in their slots."""
    measures = {
        spec.index: measures_of(application, spec) for spec in application.tables.values() if spec.window_size >= 0
    }
    columns["measure_begin"].append(0)
    for index in range(len(application.tables)):
        if index in measures:
            columns["measure_kind"] += measures[index].kind.tolist()
            columns["measure_offset"] += measures[index].offset.tolist()
            columns["measure_word"] += measures[index].word.tolist()
        columns["measure_begin"].append(len(columns["measure_kind"]))
        columns["node_words"].append(measures[index].node_words if index in measures else 0)
    for number, (_, s) in enumerate(statements):
        access = s.access
        word = NO_MEASURE
        if access is not None and access.table.index in measures:
            if access.window_size >= 0 and access.aggregation is not None:
                word = measures[access.table.index].word_of(access.table, access.aggregation)
            elif s.kind in (Kind.WRITE, Kind.DELETE):
                room = access.table.dtype.itemsize + 8 * measures[access.table.index].node_words
                columns["slot_bytes"][number] = room
        columns["measure"].append(word)


def _address(entry: Entry | None) -> int:
    return 0 if entry is None else entry.address


def _add_statement(columns: dict[str, list[int]], template: Template, s: Statement) -> None:
    access = s.access
    computed = access.computed if access is not None else None
    aggregation = access.aggregation if access is not None else None
    values = {
        "kind": int(s.kind),
        "table": access.table.index if access is not None else -1,
        "target": target_of(s),
        "function": _address(s.entry),
        "when_function": _address(s.when_entry),
        "key_function": _address(s.key_entry),
        "fold_function": _address(s.fold_entry),
        "fold": int(aggregation.fold) if aggregation is not None else -1,
        "fold_offset": 0,
        "fold_is_float": 0,
        "window_size": access.window_size if access is not None else -1,
        "slot_bytes": 0 if s.kind is Kind.DELETE else record_dtype(s.result).itemsize,
        "has_candidates": int(computed is not None and computed.candidates is not None),
        "argument_begin": len(columns["argument_table"]),
        "when_arguments": len(s.when_reads),
        "key_arguments": len(computed.reads) if computed is not None else 0,
        "function_arguments": len(s.reads),
    }
    if aggregation is not None and aggregation.fold not in (Fold.USER, Fold.COUNT):
        assert access is not None and aggregation.field is not None
        values["fold_offset"] = access.table.dtype.fields[aggregation.field][1]  # type: ignore[index]
        values["fold_is_float"] = int(access.table.fields[aggregation.field] == FLOAT64)
    if s.kind is Kind.DELETE or computed is not None:
        values["slot_bytes"] = max(values["slot_bytes"], 8)  # a computed key is first written into the slot
    for name, value in values.items():
        columns[name].append(value)
    for source in sources_in_order(s):
        columns["argument_table"].append(HANDLE if isinstance(source, HandleSource) else source.table.index)
        columns["argument_many"].append(int(source_is_many(template, source)))
        columns["argument_bytes"].append(source_bytes(template, source))
