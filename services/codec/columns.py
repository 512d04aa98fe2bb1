"""Decoded columns: numpy arrays, the engine's `StringColumn` and `ListColumn`, and two kinds of our own.

`BytesColumn` is a `StringColumn` without the UTF-8 rule. `NullableColumn` is a column with the rows that have a value marked;
the others hold zero or nothing. A column of type null is left out: there is nothing to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.state.columns import ListColumn, StringColumn, checked_offsets
from services.codec.errors import EncodeError
from services.codec.layout import DTYPES, LeafLayout


class BytesColumn:
    """Byte strings laid end to end."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def from_items(cls, items: Sequence[bytes]) -> BytesColumn:
        offsets = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(item) for item in items], out=offsets[1:])
        return cls(np.frombuffer(b"".join(items), np.uint8), offsets)

    def tolist(self) -> list[bytes]:
        joined = self.data.tobytes()
        return [joined[a:b] for a, b in pairwise(self.offsets.tolist())]

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def __len__(self) -> int:
        return int(self.offsets.size) - 1


@dataclass(frozen=True)
class NullableColumn:
    """`values` where `valid`; null elsewhere."""

    values: NDArray[Any] | StringColumn | BytesColumn
    valid: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.valid.size)


Column = NDArray[Any] | StringColumn | ListColumn | BytesColumn | NullableColumn


def column_items(column: Any) -> list[Any]:
    """A column as Python values, for people, tests and the slow path."""
    if isinstance(column, NullableColumn):
        return [
            item if valid else None
            for item, valid in zip(column_items(column.values), column.valid.tolist(), strict=True)
        ]
    if isinstance(column, ListColumn):
        items = column_items(column.values)
        return [items[a:b] for a, b in pairwise(column.offsets.tolist())]
    if isinstance(column, StringColumn):
        return column.to_list()
    found: list[Any] = column.tolist()
    return found


def column_bytes(column: Column) -> int:
    """What a column's arrays take in memory."""
    if isinstance(column, np.ndarray):
        return column.nbytes
    if isinstance(column, NullableColumn):
        return column_bytes(column.values) + column.valid.nbytes
    if isinstance(column, ListColumn):
        return column_bytes(column.values) + column.offsets.nbytes
    return column.data.nbytes + column.offsets.nbytes


def empty_arrays(each: LeafLayout, counts: NDArray[np.int64], rows: int) -> list[NDArray[Any]]:
    """Arrays for a leaf's column, as large as the counts say, in the order of its roles."""
    if each.is_plain:
        return [np.empty(rows, each.dtypes[1])]
    values = int(counts[each.items_slot]) if each.leaf.is_array else rows
    sizes = {"valid": rows, "items": rows + 1, "offsets": values + 1, "values": values}
    made = []
    for role in each.roles:
        size = int(counts[each.bytes_slot]) if role == "data" else sizes[role]
        array: NDArray[Any] = np.empty(size, each.kernel_dtype(role))
        if role in ("items", "offsets"):
            array[0] = 0
        made.append(array)
    return made


def column_of(each: LeafLayout, arrays: list[NDArray[Any]]) -> Column:
    """The column whose arrays the kernel filled."""
    if each.is_plain:
        stored, seen = each.dtypes
        return arrays[0] if stored is seen else arrays[0].view(stored)
    given = dict(zip(each.roles, arrays, strict=True))
    values: Any
    if each.leaf.is_text:
        make = StringColumn.trusted if each.leaf.kind == "string" else BytesColumn
        values = make(given["data"], given["offsets"])
    else:
        values = given["values"].view(DTYPES[each.leaf.kind][0])
    if each.leaf.is_nullable:
        return NullableColumn(values, given["valid"].view(np.bool_))
    if each.leaf.length:
        return values.reshape(-1, each.leaf.length)  # type: ignore[no-any-return]
    return ListColumn(values, given["items"]) if each.leaf.is_array else values


def arrays_of(each: LeafLayout, column: Any, rows: int) -> list[NDArray[Any]]:
    """The arrays of a column that is to be written, checked: the kernel trusts them."""
    leaf = each.leaf
    if each.is_plain and type(column) is np.ndarray and column.dtype == each.dtypes[0] and column.shape == (rows,):
        flags = column.flags
        if flags.c_contiguous and flags.aligned:
            return [column if each.dtypes[0] is each.dtypes[1] else column.view(each.dtypes[1])]
    if leaf.kind == "null":
        return []
    if column is None:
        raise EncodeError(f"column {leaf.name!r} is missing")
    found = len(column)
    if found != rows:
        raise EncodeError(f"column {leaf.name!r} has {found} rows, expected {rows}")
    made: list[NDArray[Any]] = []
    values = column
    if leaf.is_nullable:
        if isinstance(column, NullableColumn):
            made, values = [_as_bits(leaf.name, column.valid, "boolean")], column.values
            if not column.valid.any():  # nothing but nulls: whatever type they are of
                values = _nothing(leaf.kind, rows)
        else:
            made = [np.ones(rows, np.uint8)]
    elif leaf.length:
        values = _flat(leaf.name, column, leaf.length)
    elif leaf.is_array:
        column = _as_list(leaf.name, column)
        made, values = [_offsets(leaf.name, column.offsets, len(column.values))], column.values
    if len(values) != (rows if not leaf.is_array else rows * leaf.length or len(values)):
        raise EncodeError(f"column {leaf.name!r} has {len(values)} values, expected one for each of {rows} rows")
    if leaf.is_text:
        return [*made, *_text(leaf.name, values, leaf.kind)]
    return [*made, _as_bits(leaf.name, values, leaf.kind)]


def _nothing(kind: str, rows: int) -> Any:
    if kind in ("string", "bytes"):
        return StringColumn.trusted(np.empty(0, np.uint8), np.zeros(rows + 1, np.int64))
    return np.zeros(rows, DTYPES[kind][0])


def _as_bits(name: str, values: Any, kind: str) -> NDArray[Any]:
    dtype, bits = DTYPES[kind]
    array = np.asarray(values)
    if kind == "int" and array.dtype.kind in "iu" and array.size and not -(2**31) <= array.min() <= array.max() < 2**31:
        raise EncodeError(f"column {name!r} holds {array.min()} to {array.max()}, an Avro int has 32 bits")
    if kind == "long" and array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        raise EncodeError(f"column {name!r} holds {array.max()}, an Avro long has 64 bits with a sign")
    allowed = {"boolean": "b", "int": "iu", "long": "iu", "float": "f", "double": "fiu"}[kind]
    if array.dtype.kind not in allowed or array.ndim != 1:
        if array.size or array.ndim != 1:
            raise EncodeError(f"column {name!r} is an array of {array.dtype} {array.shape}, expected {kind}")
        array = array.astype(dtype)
    return np.require(array, dtype, ["C", "A"]).view(bits)


def _text(name: str, values: Any, kind: str) -> list[NDArray[Any]]:
    if not isinstance(values, StringColumn if kind == "string" else StringColumn | BytesColumn):
        try:
            values = StringColumn.from_strings(values) if kind == "string" else BytesColumn.from_items(values)
        except (InputError, TypeError) as error:
            raise EncodeError(f"column {name!r}: {error}") from error
    return [np.require(values.data, np.uint8, ["C"]), _offsets(name, values.offsets, values.data.size)]


def _offsets(name: str, offsets: Any, size: int) -> NDArray[np.int64]:
    try:
        return np.require(checked_offsets(offsets, size), np.int64, ["C", "A"])
    except InputError as error:
        raise EncodeError(f"column {name!r}: {error}") from error


def _as_list(name: str, column: Any) -> ListColumn:
    if isinstance(column, ListColumn):
        return column
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return ListColumn(column.reshape(-1), np.arange(column.shape[0] + 1, dtype=np.int64) * column.shape[1])
    raise EncodeError(f"column {name!r} is a {type(column).__name__}, expected a ListColumn or a two-dimensional array")


def _flat(name: str, column: Any, length: int) -> NDArray[Any]:
    array = np.asarray(column)
    if array.ndim != 2 or array.shape[1] != length:
        raise EncodeError(f"column {name!r} has shape {array.shape}, expected vectors of {length}")
    return array.reshape(-1)
