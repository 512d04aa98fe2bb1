"""Between a table's records and the columns and dicts that users see."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.types import BOOLEAN, FLOAT64, INT64, ScalarType, VectorType
from engine.errors import InputError
from engine.state.columns import as_column

_SCALARS = {"i": INT64, "f": FLOAT64, "b": BOOLEAN}


def field_types(record_dtype: np.dtype[Any]) -> dict[str, ScalarType | VectorType]:
    """The declared types, read back from the record's layout."""
    types: dict[str, ScalarType | VectorType] = {}
    for name in record_dtype.names or ():
        dtype = record_dtype[name]
        element = _SCALARS[dtype.base.kind]
        types[name] = VectorType(element, dtype.shape[0]) if dtype.shape else element
    return types


def field_columns(
    table_name: str, record_dtype: np.dtype[Any], values: Mapping[str, Any], length: int
) -> dict[str, NDArray[Any]]:
    """The user's `values` as checked columns, each `length` long."""
    types = field_types(record_dtype)
    columns: dict[str, NDArray[Any]] = {}
    for name, raw in values.items():
        if name not in types:
            raise InputError(f"table {table_name!r} has no field {name!r}; its fields are {', '.join(types)}")
        column = as_column(f"{table_name}.{name}", types[name], raw)
        assert isinstance(column, np.ndarray)
        if len(column) != length:
            raise InputError(f"field '{table_name}.{name}': {length} keys, but {len(column)} values")
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            raise InputError(f"field '{table_name}.{name}': records hold finite numbers, found NaN or infinity")
        columns[name] = column
    return columns


def field_lists(records: NDArray[Any]) -> list[dict[str, Any]]:
    """Records as dicts of Python values; vectors as tuples."""
    names = records.dtype.names or ()
    columns = [records[name].tolist() for name in names]
    columns = [
        [tuple(v) for v in column] if records[name].ndim > 1 else column
        for name, column in zip(names, columns, strict=True)
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def padding_mask(record_dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """0xFF for each byte of a record that belongs to a field, 0 for padding."""
    mask = np.zeros(record_dtype.itemsize, dtype=np.uint8)
    assert record_dtype.fields is not None
    for dtype, offset, *_ in record_dtype.fields.values():
        mask[offset : offset + dtype.itemsize] = 0xFF
    return mask
