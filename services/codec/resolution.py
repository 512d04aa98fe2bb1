"""Reading what was written with another schema, by Avro's rules.

`check_readable` refuses what can never be read, with the names of the fields, before the first byte. What is readable is
decoded by the writer's schema on the compiled path; then columns are dropped, promoted or filled with defaults. Tests hold
both against fastavro's `schemaless_reader` with a reader's schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import InputError
from engine.state.columns import ListColumn, StringColumn
from services.codec.columns import BytesColumn, Column, NullableColumn
from services.codec.errors import DecodeError, Malformed, SchemaError
from services.codec.layout import DTYPES
from services.codec.plan import Leaf, leaves_of
from services.codec.slow_rows import column_from

_PROMOTIONS = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip


def check_readable(writer: dict[str, Any], reader: dict[str, Any]) -> None:
    """Raises SchemaError with every field that keeps the reader's schema from reading the writer's."""
    wrong = list(_differences(writer, reader, reader.get("label", "value")))
    if wrong:
        raise SchemaError("the schemas do not go together: " + "; ".join(wrong))


def _differences(writer: dict[str, Any], reader: dict[str, Any], where: str) -> Iterator[str]:
    written, wanted = writer["type"], reader["type"]
    if written == "union":
        for branch in writer["branches"]:
            yield from _differences(branch, reader, where)
    elif wanted == "union":
        if not any(readable(writer, branch) for branch in reader["branches"]):
            yield f"{where} is written as {_shown(writer)}, the reader has {_shown(reader)}"
    elif written != wanted:
        if wanted not in _PROMOTIONS.get(written, ()):
            yield f"{where} is written as {_shown(writer)}, expected {_shown(reader)}"
    elif written == "record":
        yield from _record_differences(writer, reader, where)
    elif written == "array":
        if reader.get("length") is not None and writer.get("length") != reader["length"]:
            yield f"{where} has vectors of {writer.get('length', 'any length')}, expected {reader['length']}"
        yield from _differences(writer["items"], reader["items"], f"{where}[]")
    elif written == "map":
        yield from _differences(writer["values"], reader["values"], f"{where}{{}}")
    elif written == "enum" and (missing := set(writer["symbols"]) - set(reader["symbols"])):
        yield f"{where} may hold {', '.join(sorted(missing))}, which the reader does not know"
    elif written == "fixed" and writer["size"] != reader["size"]:
        yield f"{where} has {writer['size']} bytes, expected {reader['size']}"


def _record_differences(writer: dict[str, Any], reader: dict[str, Any], where: str) -> Iterator[str]:
    if not same_name(writer, reader):
        yield f"{where} is written as record {_shown(writer)}, expected {_shown(reader)}"
        return
    for field in reader["fields"]:
        found = written_field(writer, field)
        if found is not None:
            yield from _differences(found["type"], field["type"], f"{where}.{field['name']}")
        elif "default" not in field:
            yield f"{where}.{field['name']} was not written and has no default"


def readable(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    return next(_differences(writer, reader, ""), None) is None


def same_name(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    names = {name.rpartition(".")[2] for name in (reader["name"], *reader["aliases"])}
    return writer["name"].rpartition(".")[2] in names


def written_field(writer: dict[str, Any], field: dict[str, Any]) -> dict[str, Any] | None:
    """The writer's field that a reader's field is read from: by its name, else by an alias."""
    fields = {each["name"]: each for each in writer["fields"]}
    return next((fields[name] for name in (field["name"], *field["aliases"]) if name in fields), None)


def _shown(node: dict[str, Any]) -> str:
    if node["type"] == "union":
        return " or ".join(_shown(branch) for branch in node["branches"])
    return str(node.get("name", node["type"]))


@dataclass(frozen=True)
class _Step:
    """How one of the reader's columns is made: from a written column, or (None) from its default."""

    leaf: Leaf
    written: Leaf | None
    default: Any = None


class ColumnResolution:
    """From a record's columns as written to the columns that the reader's schema has."""

    def __init__(self, writer: dict[str, Any], reader: dict[str, Any]) -> None:
        self.steps = list(_steps(writer, reader, "", ""))

    def apply(self, columns: dict[str, Any], rows: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for step in self.steps:
            if step.leaf.kind == "null":
                continue
            if step.written is None or step.written.kind == "null":
                made[step.leaf.name] = column_from(step.leaf, [step.default] * rows)
            else:
                made[step.leaf.name] = _promoted(step.leaf, columns[step.written.name])
        return made


def _steps(writer: dict[str, Any], reader: dict[str, Any], written: str, wanted: str) -> Iterator[_Step]:
    for field in reader["fields"]:
        name = wanted + field["name"]
        found = written_field(writer, field)
        if found is None:
            for leaf in leaves_of(name, field["type"]) or ():
                yield _Step(leaf, None, _part(field["default"], leaf.name[len(name) + 1 :], field["type"]))
        elif field["type"]["type"] == found["type"]["type"] == "record":
            yield from _steps(found["type"], field["type"], f"{written}{found['name']}.", f"{name}.")
        else:
            leaves, sources = leaves_of(name, field["type"]), leaves_of(written + found["name"], found["type"])
            assert leaves and sources  # both are compiled, and neither is a record
            yield _Step(leaves[0], sources[0])


def _part(default: Any, path: str, node: dict[str, Any]) -> Any:
    """The part of a record's default for one of its columns; a record's own fields' defaults fill what it leaves out."""
    if not path:
        return default
    first, _, rest = path.partition(".")
    field = next(each for each in node["fields"] if each["name"] == first)
    return _part(default[first] if first in default else field["default"], rest, field["type"])


def _promoted(leaf: Leaf, column: Any) -> Column:
    if leaf.is_nullable:
        if isinstance(column, NullableColumn):
            return NullableColumn(_promoted_values(leaf.kind, column.values), column.valid)
        return NullableColumn(_promoted_values(leaf.kind, column), np.ones(len(column), np.bool_))
    if isinstance(column, ListColumn):
        return ListColumn(_promoted_values(leaf.kind, column.values), column.offsets)
    promoted: Column = _promoted_values(leaf.kind, column)
    return promoted


def _promoted_values(kind: str, values: Any) -> Any:
    if kind == "bytes":
        return BytesColumn(values.data, values.offsets)
    if kind == "string":
        try:
            return StringColumn(values.data, values.offsets)
        except InputError as error:
            raise DecodeError(Malformed.BAD_UTF8, 0, str(error)) from error
    return values.astype(DTYPES[kind][0], copy=False)
