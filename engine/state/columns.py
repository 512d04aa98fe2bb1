"""Columns of variable-length items, and the way from what a user hands in to checked columns.

Invariants: offsets are int64, start at 0, never fall, and end at the number of values. A `StringColumn` is valid UTF-8,
item by item. Columns are values: nobody writes to them after they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.types import BOOLEAN, FLOAT64, INT64, STRING, FieldType, ListType, ScalarType, VectorType
from engine.errors import InputError
from engine.state.column_kernels import flat_indices, starts_inside_character, take_offsets, take_values

INT64_MAX = np.iinfo(np.int64).max


def checked_offsets(offsets: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """`offsets` as contiguous int64, or InputError if they do not cut `size` values into items."""
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    if offsets.ndim != 1 or offsets.size == 0:
        raise InputError(f"column offsets must be one row of n + 1 numbers, found shape {offsets.shape}")
    if offsets[0] != 0 or offsets[-1] != size:
        raise InputError(f"column offsets must run from 0 to {size}, found {offsets[0]} to {offsets[-1]}")
    falling = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falling.size:
        raise InputError(f"column offsets must not fall: item {falling[0]} has a negative length")
    return offsets


class StringColumn:
    """Strings as UTF-8 laid end to end."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.data = np.ascontiguousarray(data, dtype=np.uint8)
        self.offsets = checked_offsets(offsets, self.data.size)
        if self.data.size and self.data.max() >= 0x80:
            self._check_utf8()

    def _check_utf8(self) -> None:
        try:
            self.data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            item = int(np.searchsorted(self.offsets, error.start, side="right")) - 1
            raise InputError(f"string {item} of the column is not valid UTF-8: {error.reason}") from error
        item = starts_inside_character(self.data, self.offsets)
        if item >= 0:
            raise InputError(f"string {item} of the column begins inside a UTF-8 character")

    @classmethod
    def trusted(cls, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> StringColumn:
        """A column of parts that came from checked columns: no second look."""
        column = cls.__new__(cls)
        column.data = data
        column.offsets = offsets
        return column

    @classmethod
    def from_strings(cls, strings: Sequence[str]) -> StringColumn:
        items = list(strings)
        try:
            joined = "".join(items)
            encoded = joined.encode("utf-8")
            if len(encoded) == len(joined):
                lengths: Iterable[int] = map(len, items)
            else:
                lengths = (len(item.encode("utf-8")) for item in items)
            offsets = np.zeros(len(items) + 1, dtype=np.int64)
            np.cumsum(np.fromiter(lengths, dtype=np.int64, count=len(items)), out=offsets[1:])
        except TypeError as error:
            raise InputError(f"expected strings, found {type_names(items)}") from error
        except UnicodeEncodeError as error:
            raise InputError(f"a string cannot be written as UTF-8: {error.reason}") from error
        return cls.trusted(np.frombuffer(encoded, dtype=np.uint8), offsets)

    def to_list(self) -> list[str]:
        encoded = self.data.tobytes()
        bounds = self.offsets.tolist()
        text = encoded.decode("utf-8")
        if len(text) == len(encoded):
            return [text[a:b] for a, b in pairwise(bounds)]
        return [encoded[a:b].decode("utf-8") for a, b in pairwise(bounds)]

    def take(self, indices: NDArray[np.int64]) -> StringColumn:
        chosen = checked_indices(indices, len(self))
        offsets = np.empty(chosen.size + 1, dtype=np.int64)
        take_offsets(self.offsets, chosen, offsets)
        data = np.empty(offsets[-1], dtype=np.uint8)
        take_values(self.data, self.offsets, chosen, offsets, data)
        return StringColumn.trusted(data, offsets)

    def __len__(self) -> int:
        return int(self.offsets.size) - 1


class ListColumn:
    """Lists of numbers, booleans or strings; the values laid end to end."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: NDArray[Any] | StringColumn, offsets: NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = checked_offsets(offsets, len(values))

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[Any]], element: ScalarType, field_name: str = "list") -> ListColumn:
        items = [item.tolist() if isinstance(item, np.ndarray) else item for item in lists]
        for item in items:
            if not isinstance(item, list | tuple):
                raise wrong(field_name, f"lists of {element.name}", f"an item of type {type(item).__name__}")
        offsets = np.zeros(len(items) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, items), dtype=np.int64, count=len(items)), out=offsets[1:])
        return cls(scalar_column(field_name, element, list(chain.from_iterable(items))), offsets)

    def to_list(self) -> list[list[Any]]:
        values = self.values.to_list() if isinstance(self.values, StringColumn) else self.values.tolist()
        bounds = self.offsets.tolist()
        return [values[a:b] for a, b in pairwise(bounds)]

    def take(self, indices: NDArray[np.int64]) -> ListColumn:
        chosen = checked_indices(indices, len(self))
        offsets = np.empty(chosen.size + 1, dtype=np.int64)
        take_offsets(self.offsets, chosen, offsets)
        flat = np.empty(offsets[-1], dtype=np.int64)
        flat_indices(self.offsets, chosen, offsets, flat)
        values = self.values.take(flat) if isinstance(self.values, StringColumn) else self.values[flat]
        return ListColumn(values, offsets)

    def __len__(self) -> int:
        return int(self.offsets.size) - 1


def take_rows(column: NDArray[Any] | StringColumn | ListColumn, rows: NDArray[np.int64]) -> Any:
    """These rows of a column of any kind."""
    return column.take(rows, axis=0) if isinstance(column, np.ndarray) else column.take(rows)


def checked_indices(indices: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """`indices` as contiguous int64 within [0, length), checked once so that the kernel need not."""
    chosen = np.ascontiguousarray(indices, dtype=np.int64)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= length):
        raise InputError(f"an index outside the column's {length} items: {chosen.min()} to {chosen.max()}")
    return chosen


def as_column(field_name: str, field_type: FieldType, raw: Any) -> NDArray[Any] | StringColumn | ListColumn:
    """`raw` as a checked column of the declared type, or InputError naming the field, what it wants and what came."""
    if isinstance(field_type, VectorType):
        return vector_column(field_name, field_type, raw)
    if isinstance(field_type, ListType):
        return list_column(field_name, field_type, raw)
    return scalar_column(field_name, field_type, raw)


def list_column(field_name: str, field_type: ListType, raw: Any) -> ListColumn:
    element = field_type.element
    if isinstance(raw, ListColumn):
        return ListColumn(scalar_column(field_name, element, raw.values), raw.offsets)
    if isinstance(raw, np.ndarray) and raw.ndim == 2:
        offsets = np.arange(raw.shape[0] + 1, dtype=np.int64) * raw.shape[1]
        return ListColumn(scalar_column(field_name, element, raw.reshape(-1)), offsets)
    if not isinstance(raw, list | tuple | np.ndarray):
        raise wrong(field_name, f"lists of {element.name}", type(raw).__name__)
    return ListColumn.from_lists(list(raw), element, field_name)


def vector_column(field_name: str, field_type: VectorType, raw: Any) -> NDArray[Any]:
    element, length = field_type.element, field_type.length
    expected = f"vectors of {length} {element.name}"
    if isinstance(raw, np.ndarray) and raw.dtype != object:
        if raw.ndim != 2 or raw.shape[1] != length:
            raise wrong(field_name, expected, f"an array of shape {raw.shape}")
        flat = scalar_column(field_name, element, raw.reshape(-1))
    else:
        lists = list_column(field_name, ListType(element), raw)
        lengths = np.diff(lists.offsets)
        if (lengths != length).any():
            item = int(np.flatnonzero(lengths != length)[0])
            raise wrong(field_name, expected, f"{lengths[item]} elements in item {item}")
        flat = lists.values
    assert isinstance(flat, np.ndarray)
    return flat.reshape(-1, length)


_DTYPES = {INT64: np.dtype(np.int64), FLOAT64: np.dtype(np.float64), BOOLEAN: np.dtype(np.bool_)}


def scalar_column(field_name: str, field_type: ScalarType, raw: Any) -> NDArray[Any] | StringColumn:
    if type(raw) is np.ndarray and raw.dtype == _DTYPES.get(field_type) and raw.ndim == 1 and raw.flags.c_contiguous:
        return raw  # the usual case, checked first: twenty columns an epoch come this way
    if isinstance(raw, StringColumn):
        if field_type != STRING:
            raise wrong(field_name, field_type.name, "a column of strings")
        return raw
    if hasattr(raw, "__array__") and not isinstance(raw, np.ndarray):
        raw = np.asarray(raw)
    if isinstance(raw, np.ndarray):
        if raw.ndim != 1:
            raise wrong(field_name, f"{field_type.name} in one dimension", f"an array of shape {raw.shape}")
        if np.ma.is_masked(raw):
            raise wrong(field_name, field_type.name, "an array with masked values; drop or fill missing values first")
        if raw.dtype.kind not in "OUT":
            return numeric_column(field_name, field_type, raw)
        items = raw.tolist()
        if raw.dtype.kind == "O" and any(isinstance(item, float) and item != item for item in items):
            raise wrong(field_name, field_type.name, "an object array with NaN; drop or fill missing values first")
    elif isinstance(raw, list | tuple):
        items = list(raw)
    else:
        raise wrong(field_name, f"an array or list of {field_type.name}", type(raw).__name__)
    return column_of_items(field_name, field_type, items)


def numeric_column(field_name: str, field_type: ScalarType, raw: NDArray[Any]) -> NDArray[Any]:
    kinds, dtype = {INT64: ("iu", np.int64), FLOAT64: ("fiu", np.float64), BOOLEAN: ("b", np.bool_)}.get(
        field_type, ("", np.void)
    )
    if raw.dtype.kind not in kinds or raw.dtype.itemsize > 8:
        raise wrong(field_name, field_type.name, f"an array of {raw.dtype}")
    if field_type == INT64 and raw.dtype == np.uint64 and raw.size and raw.max() > INT64_MAX:
        raise wrong(field_name, "int64", f"{raw.max()}, above the largest int64 {INT64_MAX}")
    return np.ascontiguousarray(raw, dtype=dtype)


def column_of_items(field_name: str, field_type: ScalarType, items: list[Any]) -> NDArray[Any] | StringColumn:
    accepted: dict[ScalarType, tuple[type, ...]] = {
        INT64: (int, np.integer),
        FLOAT64: (float, np.floating, int, np.integer),
        BOOLEAN: (bool, np.bool_),
        STRING: (str,),
    }
    for found in set(map(type, items)):
        boolean_as_number = field_type != BOOLEAN and issubclass(found, bool | np.bool_)
        if boolean_as_number or not issubclass(found, accepted[field_type]):
            raise wrong(field_name, field_type.name, type_names(items))
    if field_type == STRING:
        try:
            return StringColumn.from_strings(items)
        except InputError as error:
            raise InputError(f"field {field_name!r}: {error}") from error
    try:
        if field_type == INT64:
            # int() first: a uint64 scalar would wrap around silently inside np.array.
            return np.array(list(map(int, items)), dtype=np.int64)
        return np.array(items, dtype=np.float64 if field_type == FLOAT64 else np.bool_)
    except OverflowError as error:
        raise wrong(field_name, field_type.name, "a number that does not fit") from error


def type_names(items: Iterable[Any]) -> str:
    return "items of type " + ", ".join(sorted({type(item).__name__ for item in items}))


def wrong(field_name: str, expected: str, found: str) -> InputError:
    return InputError(f"field {field_name!r}: expected {expected}, found {found}")
