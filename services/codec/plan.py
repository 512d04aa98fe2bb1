"""What a schema looks like as columns, and whether the compiled codec can have it.

A record becomes `Leaf` values, one a column, nested records laid flat with dotted names. A chunk is a record whose last field
is an array of records, or of a union of records: its other fields are the header, each record type gets its own columns.
Everything else (`why_slow` says what) is read and written through fastavro.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.codec.tree import PRIMITIVES

# Fewest bytes of a value, and most of one (a string's or array's own length and end; what is inside comes on top).
BYTES_MIN = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "string": 1, "bytes": 1}
BYTES_MAX = {"null": 0, "boolean": 1, "int": 5, "long": 10, "float": 4, "double": 8, "string": 10, "bytes": 10}
NOT_NULLABLE = -1
RECORD_TYPES_MAX = 64  # in one chunk: a union's index is one byte then
EMPTY_ITEMS_MAX = 4096  # in an array whose items may take no bytes: the bytes say nothing about their number


@dataclass(frozen=True)
class Leaf:
    """One column: a value, a nullable value (`null_branch` is where null stands in the union), or an array of values."""

    name: str
    kind: str  # a primitive other than null; "null" takes no bytes and has no column
    null_branch: int = NOT_NULLABLE
    is_array: bool = False
    length: int = 0  # of a vector: an array of fixed length; 0: any length

    @property
    def is_text(self) -> bool:
        return self.kind in ("string", "bytes")

    @property
    def is_nullable(self) -> bool:
        return self.null_branch != NOT_NULLABLE

    @property
    def bytes_min(self) -> int:
        if self.is_array:
            return 2 + self.length * BYTES_MIN[self.kind] if self.length else 1
        return 1 if self.is_nullable else BYTES_MIN[self.kind]

    @property
    def bytes_max(self) -> int:
        """Without the bytes of strings and the items of arrays."""
        return 11 if self.is_array else BYTES_MAX[self.kind] + self.is_nullable


@dataclass(frozen=True)
class RecordPlan:
    """The columns of one record type. `name` is the application's name for it."""

    name: str
    leaves: tuple[Leaf, ...]

    @property
    def bytes_min(self) -> int:
        return sum(leaf.bytes_min for leaf in self.leaves)

    @cached_property
    def bytes_max(self) -> int:
        return sum(leaf.bytes_max for leaf in self.leaves)


@dataclass(frozen=True)
class ChunkPlan:
    """A header, and rows of one or (`is_union`) several record types in any order."""

    name: str
    header: RecordPlan
    items_name: str
    records: tuple[RecordPlan, ...]
    is_union: bool

    @property
    def bytes_min(self) -> int:
        """Of one item."""
        return min(record.bytes_min for record in self.records) + self.is_union


Plan = RecordPlan | ChunkPlan


def plan_of(tree: dict[str, Any]) -> Plan | None:
    """The plan of an expanded schema, or None where the compiled codec cannot have it."""
    if tree["type"] != "record":
        return None
    whole = record_plan(tree)
    if whole is not None:
        return whole
    last = tree["fields"][-1]
    header = record_plan(tree | {"fields": tree["fields"][:-1]})
    if header is None or last["type"]["type"] != "array" or any(leaf.is_array for leaf in header.leaves):
        return None
    items = last["type"]["items"]
    is_union = items["type"] == "union"
    branches = items["branches"] if is_union else [items]
    records = [record_plan(branch) if branch["type"] == "record" else None for branch in branches]
    known = tuple(record for record in records if record is not None)
    if not known or not len({record.name for record in known}) == len(known) == len(records) <= RECORD_TYPES_MAX:
        return None
    return ChunkPlan(tree["label"], header, last["name"], known, is_union)


def record_plan(tree: dict[str, Any]) -> RecordPlan | None:
    """The columns of a record, or None."""
    leaves: list[Leaf] = []
    for field in tree["fields"]:
        found = leaves_of(field["name"], field["type"])
        if found is None:
            return None
        leaves += found
    return RecordPlan(tree["label"], tuple(leaves))


def why_slow(tree: dict[str, Any]) -> str:
    """Which field keeps a schema from the compiled codec."""
    if tree["type"] != "record":
        return f"the schema is a {tree['type']}, not a record"
    slow = [field["name"] for field in tree["fields"] if leaves_of(field["name"], field["type"]) is None]
    return f"{tree['label']}: {', '.join(slow)}" if slow else ""


def leaves_of(name: str, node: dict[str, Any]) -> list[Leaf] | None:
    kind = node["type"]
    if kind in PRIMITIVES:
        return [Leaf(name, kind)]
    if kind == "record":
        parts = [leaves_of(f"{name}.{field['name']}", field["type"]) for field in node["fields"]]
        return None if any(part is None for part in parts) else [leaf for part in parts for leaf in part or ()]
    if kind == "union":
        kinds = [branch["type"] for branch in node["branches"]]
        if len(kinds) != 2 or kinds.count("null") != 1:
            return None
        branch = kinds.index("null")
        value = kinds[1 - branch]
        return [Leaf(name, value, null_branch=branch)] if value in PRIMITIVES else None
    if kind == "array":
        value = node["items"]["type"]
        return [Leaf(name, value, is_array=True, length=node.get("length", 0))] if _has_columns(value) else None
    return None


def _has_columns(kind: str) -> bool:
    """Arrays of null take no bytes an item: they are left to the slow path and its bound."""
    return kind in PRIMITIVES and kind != "null"
