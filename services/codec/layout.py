"""Which arrays a plan's kernels take, in which order, and where the checking kernel counts what they must hold.

A column is one to three arrays: `valid` (nullable), `items` (offsets of an array's items), and either `values` or, for
strings and bytes, `data` and `offsets`. Floats are passed as bits, so that kernels copy and never compute them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy.typing import DTypeLike

from services.codec.plan import ChunkPlan, Leaf, Plan, RecordPlan

# How a value lies in its column, and how the kernels see it.
DTYPES: dict[str, tuple[np.dtype[Any], np.dtype[Any]]] = {
    "boolean": (np.dtype(np.bool_), np.dtype(np.uint8)),
    "int": (np.dtype(np.int32), np.dtype(np.int32)),
    "long": (np.dtype(np.int64), np.dtype(np.int64)),
    "float": (np.dtype(np.float32), np.dtype(np.uint32)),
    "double": (np.dtype(np.float64), np.dtype(np.uint64)),
}
NO_SLOT = -1


@dataclass(frozen=True)
class LeafLayout:
    """One column's arrays by name, and its places among the counts."""

    leaf: Leaf
    prefix: str
    items_slot: int
    bytes_slot: int

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is one array of numbers or booleans: the usual case, which has short ways through the drivers."""
        leaf = self.leaf
        return leaf.kind in DTYPES and not leaf.is_nullable and not leaf.is_array

    @cached_property
    def dtypes(self) -> tuple[np.dtype[Any], np.dtype[Any]]:
        """How its values lie in the column, and how the kernels see them."""
        return DTYPES[self.leaf.kind]

    @cached_property
    def roles(self) -> tuple[str, ...]:
        if self.leaf.kind == "null":
            return ()
        first = (
            ("valid",) if self.leaf.is_nullable else ("items",) if self.leaf.is_array and not self.leaf.length else ()
        )
        return (*first, "data", "offsets") if self.leaf.is_text else (*first, "values")

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}_{role}" for role in self.roles]

    def kernel_dtype(self, role: str) -> np.dtype:
        if role in ("items", "offsets"):
            return np.dtype(np.int64)
        return np.dtype(np.uint8) if role in ("valid", "data") else DTYPES[self.leaf.kind][1]


@dataclass(frozen=True)
class RecordLayout:
    """One record type's columns. `rows_slot` counts its rows."""

    plan: RecordPlan
    rows_slot: int
    leaves: tuple[LeafLayout, ...]

    @property
    def names(self) -> list[str]:
        return [name for leaf in self.leaves for name in leaf.names]

    @cached_property
    def field_names(self) -> frozenset[str]:
        return frozenset(each.leaf.name for each in self.leaves)

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """The leaves whose room depends on what is in them."""
        return tuple(n for n, each in enumerate(self.leaves) if each.leaf.is_array or each.leaf.is_text)


@dataclass(frozen=True)
class Layout:
    """All record types of a plan; of a chunk the header (one row) comes first."""

    records: tuple[RecordLayout, ...]
    slots: int

    @property
    def names(self) -> list[str]:
        return [name for record in self.records for name in record.names]

    def array_types(self, readonly: bool) -> list[types.Array]:
        return [
            array_type(leaf.kernel_dtype(role), readonly)
            for record in self.records
            for leaf in record.leaves
            for role in leaf.roles
        ]


def array_type(dtype: DTypeLike, readonly: bool = False) -> types.Array:
    return types.Array(from_dtype(np.dtype(dtype)), 1, "C", readonly=readonly)


def layout_of(plan: Plan) -> Layout:
    """The layout of a plan; the same for decoder and encoder."""
    slots = iter(range(1 << 30))
    plans = (plan.header, *plan.records) if isinstance(plan, ChunkPlan) else (plan,)
    records = tuple(
        RecordLayout(record, next(slots), tuple(_leaves(record, f"r{number}", slots)))
        for number, record in enumerate(plans)
    )
    return Layout(records, next(slots))


def _leaves(record: RecordPlan, prefix: str, slots: Iterator[int]) -> Iterator[LeafLayout]:
    for number, leaf in enumerate(record.leaves):
        items_slot = next(slots) if leaf.is_array else NO_SLOT
        bytes_slot = next(slots) if leaf.is_text else NO_SLOT
        yield LeafLayout(leaf, f"{prefix}_{number}", items_slot, bytes_slot)
