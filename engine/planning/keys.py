"""From key expressions to table rows, column by column, each once a stage; unknown keys get provisional rows.

A provisional row is not live. Whoever asked for it gives it back at the end of the epoch if nothing was committed there:
`provisional` has every row that was not live when it was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.api.model import FieldReference, KeyExpression, TableSpec
from engine.api.types import ListType
from engine.config import Limits
from engine.errors import InputError, LimitError
from engine.execution.layout import Ints
from engine.planning.batch import Batch
from engine.state.columns import ListColumn, StringColumn
from engine.state.int_kernels import within
from engine.state.key_encoding import EncodedKeys, encode_keys
from engine.state.store import Store


@dataclass
class KeyRows:
    """The rows of a stage's keys, by batch."""

    store: Store
    limits: Limits
    provisional: list[tuple[int, Ints]] = field(default_factory=list)
    _found: dict[tuple[int, int, KeyExpression], Ints] = field(default_factory=dict)

    def rows(self, batch: Batch, table: TableSpec, key: KeyExpression) -> Ints:
        """The row of each event's key, in the batch's order; flat for a list of keys."""
        place = (id(batch), table.index, key)
        if place not in self._found:
            self._found[place] = self._find(batch, table, key)
        return self._found[place]

    def offsets(self, batch: Batch, *fields: FieldReference | int | str) -> Ints:
        """Where each event's list begins; all list fields among `fields` must be equally long."""
        return list_offsets(batch, self.limits, *fields)

    def _find(self, batch: Batch, table: TableSpec, key: KeyExpression) -> Ints:
        store = self.store.tables[table.index]
        if store.dense and not key.many and len(key.components) == 1 and isinstance(key.components[0], FieldReference):
            integers = batch.columns.get(key.components[0].name)
            if isinstance(integers, np.ndarray) and within(integers, store.dense):
                return integers  # they are their own rows, and live
        encoded = encode_batch_keys(batch, table, key, self.offsets(batch, *key.components) if key.many else None)
        if encoded.integers is not None and store.dense and within(encoded.integers, store.dense):
            return encoded.integers
        with self.store.lock:  # readers look keys up while new ones are added
            rows = store.lookup_or_insert(encoded)
            absent = rows[store.live[rows] == 0]
            if absent.size:
                self.provisional.append((table.index, absent))
        return rows


def list_offsets(batch: Batch, limits: Limits, *fields: FieldReference | int | str) -> Ints:
    """Where each event's list begins, checked once: not too long, and as long as the other lists among `fields`."""
    lists = [f for f in fields if isinstance(f, FieldReference) and isinstance(f.type, ListType)]
    first = batch.column(lists[0].name)
    assert isinstance(first, ListColumn)
    for other in lists[1:]:
        _require_equal(batch, lists[0].name, other.name)
    if (lists[0].name, "") not in batch.lists_checked:
        longest = int(np.diff(first.offsets).max(initial=0))
        if longest > limits.list_length:
            raise LimitError(f"a list has {longest} elements, the limit is {limits.list_length}")
        batch.lists_checked.add((lists[0].name, ""))
    return first.offsets


def _require_equal(batch: Batch, one: str, two: str) -> None:
    if (one, two) in batch.lists_checked:
        return
    first, second = batch.column(one), batch.column(two)
    assert isinstance(first, ListColumn) and isinstance(second, ListColumn)
    if first.offsets is not second.offsets and not np.array_equal(first.offsets, second.offsets):
        lengths, others = np.diff(first.offsets), np.diff(second.offsets)
        at = int(np.flatnonzero(lengths != others)[0])
        raise InputError(
            f"{batch.template.record_type} of source {batch.source[at]}, seq {batch.seq[at]}: list {two!r} has "
            f"{others[at]} elements where another list of the same statement has {lengths[at]}"
        )
    batch.lists_checked.add((one, two))


def encode_batch_keys(batch: Batch, table: TableSpec, key: KeyExpression, offsets: Ints | None) -> EncodedKeys:
    """Each event's key (flat for a list of keys, which begin at `offsets`), encoded once for its table."""
    place = (table.index, key)
    if place not in batch.encoded:
        count = batch.ts.size if offsets is None else int(offsets[-1])
        parts: list[Any] = [_part(batch, part, offsets, count) for part in key.components]
        batch.encoded[place] = encode_keys(table.key_types, parts)
    return batch.encoded[place]


def _part(batch: Batch, part: FieldReference | int | str, offsets: Ints | None, count: int) -> Any:
    """One component of the keys as a column; beside a list, a single value is repeated for each element."""
    if isinstance(part, str):
        return StringColumn.from_strings([part]).take(np.zeros(count, np.int64))
    if isinstance(part, int):
        return np.full(count, part, np.int64)
    column = batch.column(part.name)
    if isinstance(column, ListColumn):
        return column.values
    if offsets is None:
        return column
    return column.take(np.repeat(np.arange(batch.ts.size), np.diff(offsets)))
