"""Keys as the index stores them.

A single int key stays an int64. Every other key becomes bytes whose lexicographic order is the Python order of the
keys: an int is eight big-endian bytes with the sign bit flipped, a single string its UTF-8; inside a tuple a string
writes 0x00 as 0x00 0xFF and ends with 0x00 0x00, so that it sorts before every string it is a prefix of.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.types import INT64, STRING
from engine.errors import InputError
from engine.state.columns import StringColumn, scalar_column
from engine.state.encoding_kernels import (
    add_string_lengths,
    read_ints,
    read_strings,
    string_lengths,
    write_ints,
    write_strings,
)

SIGN = np.uint64(1 << 63)  # flipped, so that negative numbers come first

KeyTypes = tuple[str, ...]
KeyColumn = NDArray[Any] | StringColumn

_NO_BYTES: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
_NO_OFFSETS: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
_FIELD_TYPES = {"int": INT64, "string": STRING}
_PYTHON_TYPES = {"int": int, "string": str}


@dataclass(frozen=True, eq=False)
class EncodedKeys:
    """Many keys: `integers` for a single int key, else the bytes `data` cut by `offsets`."""

    integers: NDArray[np.int64] | None
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of_integers(cls, integers: NDArray[np.int64]) -> EncodedKeys:
        return cls(integers, _NO_BYTES, _NO_OFFSETS)

    @classmethod
    def of_bytes(cls, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> EncodedKeys:
        return cls(None, data, offsets)

    def __len__(self) -> int:
        return int(self.integers.size if self.integers is not None else self.offsets.size - 1)

    def take(self, indices: NDArray[np.int64]) -> EncodedKeys:
        if self.integers is not None:
            return EncodedKeys.of_integers(self.integers[indices])
        taken = StringColumn.trusted(self.data, self.offsets).take(indices)
        return EncodedKeys.of_bytes(taken.data, taken.offsets)


def encode_keys(key_types: KeyTypes, components: Sequence[KeyColumn]) -> EncodedKeys:
    """The keys whose components are the given columns, one column each, all equally long."""
    if len(components) != len(key_types):
        raise InputError(f"a key has {len(key_types)} components {key_types}, found {len(components)}")
    columns = [
        scalar_column(f"key component {position}", _FIELD_TYPES[kind], component)
        for position, (kind, component) in enumerate(zip(key_types, components, strict=True))
    ]
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"key components differ in length: {[len(column) for column in columns]}")
    if len(columns) == 1:
        only = columns[0]
        if isinstance(only, StringColumn):
            return EncodedKeys.of_bytes(only.data, only.offsets)
        return EncodedKeys.of_integers(only)
    return _encode_tuples(columns)


def _encode_tuples(columns: list[KeyColumn]) -> EncodedKeys:
    if not any(isinstance(column, StringColumn) for column in columns):
        words = np.empty((len(columns[0]), len(columns)), ">u8")
        for position, column in enumerate(columns):
            assert isinstance(column, np.ndarray)
            words[:, position] = column.view(np.uint64) ^ SIGN
        ends = np.arange(len(columns[0]) + 1, dtype=np.int64) * (8 * len(columns))
        return EncodedKeys.of_bytes(words.reshape(-1).view(np.uint8), ends)
    fixed = 8 * sum(1 for column in columns if isinstance(column, np.ndarray))
    lengths = np.full(len(columns[0]), fixed, dtype=np.int64)
    for column in columns:
        if isinstance(column, StringColumn):
            add_string_lengths(column.data, column.offsets, lengths)
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(offsets[-1], dtype=np.uint8)
    cursors = offsets[:-1].copy()
    for column in columns:
        if isinstance(column, StringColumn):
            write_strings(column.data, column.offsets, data, cursors)
        else:
            write_ints(column, data, cursors)
    return EncodedKeys.of_bytes(data, offsets)


def encode_python_keys(key_types: KeyTypes, keys: Sequence[Any]) -> EncodedKeys:
    """Many Python keys: ints or strings, or tuples of them."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence | Set):
        raise InputError(f"expected a list of keys, found {type(keys).__name__} {keys!r}")
    if len(key_types) == 1:
        return encode_keys(key_types, [list(keys)])  # type: ignore[list-item]
    for key in keys:
        if not isinstance(key, tuple) or len(key) != len(key_types):
            raise InputError(f"expected keys that are tuples of {key_types}, found {key!r}")
    columns = [list(column) for column in zip(*keys, strict=True)] if len(keys) else [[] for _ in key_types]
    return encode_keys(key_types, columns)  # type: ignore[arg-type]


def encode_key(key_types: KeyTypes, key: Any) -> EncodedKeys:
    """One Python key, checked."""
    parts = (key,) if len(key_types) == 1 else key
    if not isinstance(parts, tuple) or len(parts) != len(key_types):
        raise InputError(f"expected a key that is a tuple of {key_types}, found {key!r}")
    for kind, part in zip(key_types, parts, strict=True):
        if not isinstance(part, _PYTHON_TYPES[kind]) or isinstance(part, bool):
            raise InputError(f"expected a key of {' and '.join(key_types)}, found {key!r}")
    return encode_python_keys(key_types, [key])


def decode_columns(key_types: KeyTypes, keys: EncodedKeys) -> list[KeyColumn]:
    """The components of many keys, one column each."""
    if keys.integers is not None:
        return [keys.integers]
    if len(key_types) == 1:
        return [StringColumn.trusted(keys.data, keys.offsets)]
    cursors = keys.offsets[:-1].copy()
    columns: list[KeyColumn] = []
    for kind in key_types:
        if kind == "int":
            integers = np.empty(len(keys), dtype=np.int64)
            read_ints(keys.data, cursors, integers)
            columns.append(integers)
        else:
            offsets = np.zeros(len(keys) + 1, dtype=np.int64)
            string_lengths(keys.data, cursors, offsets[1:])
            np.cumsum(offsets, out=offsets)
            data = np.empty(offsets[-1], dtype=np.uint8)
            read_strings(keys.data, cursors, offsets, data)
            columns.append(StringColumn.trusted(data, offsets))
    return columns


def decode_keys(key_types: KeyTypes, keys: EncodedKeys) -> list[Any]:
    """Many keys as Python values."""
    lists = [
        column.to_list() if isinstance(column, StringColumn) else column.tolist()
        for column in decode_columns(key_types, keys)
    ]
    return lists[0] if len(key_types) == 1 else list(zip(*lists, strict=True))
