"""The index of a table: key to row, row to key, rows in key order. Nothing here runs Python per key.

Invariants: a key has one row and a row one key; rows come from the `RowAllocator` the caller passes. Lookups may run
beside one kernel that inserts after `reserve` (int keys only); everything else that changes the index runs alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DeclarationError
from engine.state.byte_keys import ByteKeys
from engine.state.int_kernels import dense_prefix, int_index_find, int_index_insert
from engine.state.int_keys import IntKeys
from engine.state.key_encoding import (
    EncodedKeys,
    KeyTypes,
    decode_keys,
    encode_key,
    encode_keys,
    encode_python_keys,
)
from engine.state.rows import RowAllocator

__all__ = [
    "EncodedKeys",
    "KeyIndex",
    "encode_key",
    "encode_keys",
    "encode_python_keys",
    "int_index_find",
    "int_index_insert",
]


class KeyIndex:
    """Keys of one type (`("int",)`, `("string",)` or several of them) and their rows."""

    def __init__(self, key_types: KeyTypes) -> None:
        if not key_types or not set(key_types) <= {"int", "string"}:
            raise DeclarationError(f"a key is made of 'int' and 'string', found {key_types!r}")
        self.key_types = key_types
        self._store: IntKeys | ByteKeys = IntKeys() if key_types == ("int",) else ByteKeys()
        self._sorted_rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._store.count

    @property
    def nbytes(self) -> int:
        return self._store.nbytes

    @property
    def row_capacity(self) -> int:
        """How many rows the index has room for; rows at or above it need `resize_rows` first."""
        return self._store.row_capacity

    def lookup(self, keys: EncodedKeys) -> NDArray[np.int64]:
        """The row of each key, -1 where unknown."""
        return self._store.lookup(keys)

    def lookup_or_insert(self, keys: EncodedKeys, rows: RowAllocator) -> NDArray[np.int64]:
        """The row of each key; unknown keys get rows in order of first appearance."""
        before = self._store.count
        found = self._store.lookup_or_insert(keys, rows)
        if self._store.count != before:
            self._sorted_rows = None
        return found

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Forget the keys of `rows`; rows without a key are left alone. Freeing the rows is the caller's part."""
        if self._store.remove(np.ascontiguousarray(rows, dtype=np.int64)):
            self._sorted_rows = None

    def encoded_keys_of(self, rows: NDArray[np.int64]) -> EncodedKeys:
        return self._store.keys_of(np.ascontiguousarray(rows, dtype=np.int64))

    def keys_of(self, rows: NDArray[np.int64]) -> list[Any]:
        return decode_keys(self.key_types, self.encoded_keys_of(rows))

    def key_of(self, row: int) -> Any:
        return self.keys_of(np.array([row], dtype=np.int64))[0]

    def sorted_rows(self) -> NDArray[np.int64]:
        """All rows in key order. Kept until the key set changes; not to be written to."""
        if self._sorted_rows is None:
            self._sorted_rows = self._store.sorted_rows()
            self._sorted_rows.flags.writeable = False
        return self._sorted_rows

    def reserve(self, count: int) -> None:
        """Room in the slots for `count` more keys without a rebuild, until the next `remove`."""
        self._store.reserve(count)

    def resize_rows(self, row_capacity: int) -> None:
        """Room for rows below `row_capacity`; no key may have a row at or above it."""
        self._store.resize_rows(row_capacity)

    def dense_until(self, start: int, end: int, live: NDArray[np.uint8]) -> int:
        """How far from `start` rows up to `end` are their own integer keys and live; int keys only."""
        assert isinstance(self._store, IntKeys)
        return int(dense_prefix(self._store.row_keys, live, start, end))

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], np.int64, NDArray[np.int64]]:
        """slots_key, slots_row, mask and row_keys for `int_index_find` and `int_index_insert`; int keys only.

        They are replaced by whatever rebuilds the index: fetch them after `reserve`, before the kernel.
        """
        if not isinstance(self._store, IntKeys):
            raise DeclarationError(f"compiled code can look up single int keys only, not {self.key_types}")
        slots = self._store.slots
        return slots.tags, slots.rows, slots.mask, self._store.row_keys

    def sync_after_kernel(self, number_of_rows_added: int) -> None:
        """Tell the index that a kernel inserted so many keys."""
        self._store.count += number_of_rows_added
        if number_of_rows_added:
            self._sorted_rows = None
