"""Rows with rare types: the shape of `RowCodec`, through fastavro, one Python value at a time.

Fields that could be compiled become the same columns; a field with a rare type becomes an array of Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.state.columns import ListColumn, StringColumn
from services.codec.columns import BytesColumn, Column, NullableColumn, column_items
from services.codec.errors import DecodeError, EncodeError, SchemaError
from services.codec.layout import DTYPES
from services.codec.objects import ObjectCodec
from services.codec.plan import Leaf, leaves_of
from services.codec.tree import Schema, expand


class SlowRowCodec:
    """`schema` is what the bytes were written with, `reader` what the columns shall look like (the same unless given)."""

    def __init__(self, schema: Schema, reader: Schema | None = None) -> None:
        self._objects = ObjectCodec(schema, reader)
        self._tree = expand(reader) if reader is not None else self._objects.tree
        if self._tree["type"] != "record":
            raise SchemaError(f"columns are made of records, the schema is a {self._tree['type']}; use ObjectCodec")

    def decode(self, bodies: Sequence[bytes] | BytesColumn) -> dict[str, Any]:
        given = bodies.tolist() if isinstance(bodies, BytesColumn) else bodies
        rows = []
        for message, body in enumerate(given):
            try:
                rows.append(self._objects.decode(body))
            except Exception as error:
                if hasattr(error, "message"):
                    error.message = message
                raise
        columns: dict[str, Any] = {}
        for field in self._tree["fields"]:
            values = [row[field["name"]] for row in rows]
            leaves = leaves_of(field["name"], field["type"])
            if leaves is None:
                columns[field["name"]] = object_column(values)
                continue
            for leaf in leaves:
                if leaf.kind != "null":
                    columns[leaf.name] = column_from(leaf, [_at(value, leaf.name) for value in values])
        return columns

    def malformed(self, bodies: Sequence[bytes]) -> list[DecodeError]:
        """Every message that cannot be read."""
        found: list[DecodeError] = []
        for message, body in enumerate(bodies):
            try:
                self._objects.decode(body)
            except DecodeError as error:
                error.message = message
                found.append(error)
        return found

    def encode(self, columns: Mapping[str, Any], rows: int | None = None) -> BytesColumn:
        if rows is None:
            if not columns:
                raise EncodeError(f"{self._tree['label']}: no column given; say how many rows there are")
            rows = len(next(iter(columns.values())))
        made: list[dict[str, Any]] = [{} for _ in range(rows)]
        known = set()
        for field in self._tree["fields"]:
            leaves = leaves_of(field["name"], field["type"])
            for leaf in leaves or [Leaf(field["name"], "object")]:
                known.add(leaf.name)
                for row, value in zip(made, self._values(leaf, columns, rows), strict=True):
                    _put(row, leaf.name, value)
        if unknown := set(columns) - known:
            raise EncodeError(f"{self._tree['label']} has no field {', '.join(sorted(map(repr, unknown)))}")
        return BytesColumn.from_items([self._objects.encode(row) for row in made])

    def _values(self, leaf: Leaf, columns: Mapping[str, Any], rows: int) -> list[Any]:
        if leaf.kind == "null":
            return [None] * rows
        if leaf.name not in columns or len(columns[leaf.name]) != rows:
            found = len(columns[leaf.name]) if leaf.name in columns else "none"
            raise EncodeError(f"{self._tree['label']}: column {leaf.name!r} has {found} rows, expected {rows}")
        column = columns[leaf.name]
        return list(column) if isinstance(column, list) else column_items(column)


def object_column(values: list[Any]) -> NDArray[np.object_]:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def column_from(leaf: Leaf, values: list[Any]) -> Column:
    """A leaf's column of Python values, as the compiled codec would have made it."""
    if leaf.is_nullable:
        nothing: Any = {"string": "", "bytes": b"", "boolean": False}.get(leaf.kind, 0)
        valid = np.array([value is not None for value in values], np.bool_)
        return NullableColumn(_values_from(leaf.kind, [nothing if v is None else v for v in values]), valid)
    if not leaf.is_array:
        return _values_from(leaf.kind, values)
    flat = _values_from(leaf.kind, [item for value in values for item in value])
    if leaf.length:
        assert isinstance(flat, np.ndarray)
        return flat.reshape(-1, leaf.length)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return ListColumn(flat, offsets)  # type: ignore[arg-type]  # bytes are laid out as strings are


def _values_from(kind: str, values: list[Any]) -> NDArray[Any] | StringColumn | BytesColumn:
    if kind == "string":
        return StringColumn.from_strings(values)
    if kind == "bytes":
        return BytesColumn.from_items([v.encode("iso-8859-1") if isinstance(v, str) else v for v in values])
    return np.array(values, DTYPES[kind][0])


def _at(value: Any, name: str) -> Any:
    """The part of a nested record that a dotted name says; the first name is the value itself."""
    for part in name.split(".")[1:]:
        value = value[part]
    return value


def _put(row: dict[str, Any], name: str, value: Any) -> None:
    *outer, last = name.split(".")
    for part in outer:
        row = row.setdefault(part, {})
    row[last] = value
