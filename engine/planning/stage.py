"""A stage's events in the total order, with what became of them before any transaction: derived, filtered, failed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.api.model import Template
from engine.execution.layout import Ints
from engine.execution.operation_kernel import run_preparation
from engine.planning.batch import Batch
from engine.planning.identity import Turns
from engine.planning.order_kernel import MOST_IN_TURN, is_in_order, merge_batches, merge_two, rows_in_turn

GOES_ON, PREPARATION_FAILED, FILTERED = range(3)


class StageEvents:
    """The events of a stage in the total order, and what became of them before any transaction.

    `turns` has the order in its short form, where the batches are in order: each place's batch, whose next row it is. The
    columns are made of it when someone asks.
    """

    def __init__(self, batches: list[Batch], stage: int, turns: Turns | None, order: tuple[Ints, Ints] | None) -> None:
        self.batches = batches
        self.stage = stage
        self.turns = turns
        self.count = sum(batch.ts.size for batch in batches)
        self.transactions = self.count  # without those that were filtered out or failed
        for batch in batches:
            if is_prepared(batch.template):
                self.transactions -= int(np.count_nonzero(prepare(batch)[0]))
        if order is not None:
            self.batch, self.row = order

    @cached_property
    def batch(self) -> Ints:
        assert self.turns is not None
        return self.turns.astype(np.int64)

    @cached_property
    def row(self) -> Ints:
        """In its batch."""
        assert self.turns is not None
        row = np.empty(self.count, np.int64)
        rows_in_turn(self.turns, np.zeros(len(self.batches), np.int64), row)
        return row

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        return self._prepared(0)

    @cached_property
    def reason(self) -> NDArray[np.int8]:
        return self._prepared(1)

    @cached_property
    def transaction(self) -> Ints:
        """Its number in the epoch, -1 where it has none."""
        return np.full(self.count, -1, np.int64)

    @property
    def nbytes(self) -> int:
        """Of the order, in the form it was found in."""
        return self.turns.nbytes if self.turns is not None else self.batch.nbytes + self.row.nbytes

    def _prepared(self, part: int) -> NDArray[np.int8]:
        values = np.zeros(self.count, np.int8)
        for number, batch in enumerate(self.batches):
            if is_prepared(batch.template):
                mine = self.batch == number
                values[mine] = prepare(batch)[part][self.row[mine]]
        return values


def order_events(batches: list[Batch], stage: int, turns: Turns | None = None) -> StageEvents:
    """The stage's events in the total order, derived columns and filters applied."""
    if turns is not None or (turns := _merged(batches)) is not None:
        return StageEvents(batches, stage, turns, None)
    return StageEvents(batches, stage, None, _sorted(batches))


def is_prepared(template: Template) -> bool:
    """Whether its events are derived or filtered before any transaction."""
    return bool(template.derive) or template.filter is not None


def _merged(batches: list[Batch]) -> Turns | None:
    """The order of batches that are in order; None if they are not."""
    if len(batches) > MOST_IN_TURN or not all(b.path.shape[1] == 0 and find_order(b) for b in batches):
        return None
    sizes = np.array([batch.ts.size for batch in batches], np.int64)
    if len(batches) == 1:
        return np.zeros(int(sizes[0]), np.uint16)
    turns = np.empty(int(sizes.sum()), np.uint16)
    if len(batches) == 2:
        one, two = batches
        merge_two(one.ts, one.source, one.seq, two.ts, two.source, two.seq, turns)
        return turns
    ts, source, seq = (np.array([getattr(b, name).ctypes.data for b in batches]) for name in ("ts", "source", "seq"))
    merge_batches(ts, source, seq, sizes, turns)
    return turns


def _sorted(batches: list[Batch]) -> tuple[Ints, Ints]:
    """Batch and row of each event in the total order."""
    sizes = np.array([batch.ts.size for batch in batches], np.int64)
    batch = np.repeat(np.arange(len(batches)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes])
    keys = [np.concatenate([getattr(b, name) for b in batches]) for name in ("ts", "source", "seq")]
    for step in range(max(b.path.shape[1] for b in batches)):
        keys.append(np.concatenate([_step(b.path, step) for b in batches]))
    order = np.lexsort(keys[::-1])
    return batch[order], row[order]


def find_order(batch: Batch) -> bool:
    """Whether the batch's rows are in the total order; looked at once."""
    if batch.in_order is None:
        batch.in_order = bool(is_in_order(batch.ts, batch.source, batch.seq))
    return batch.in_order


def _step(path: Ints, step: int) -> Ints:
    """One column of emission paths; a path that has ended comes before those that go on."""
    return path[:, step] if step < path.shape[1] else np.full(path.shape[0], -1, np.int64)


def prepare(batch: Batch) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Fills in derived fields, filters; outcome and reason of each row. Done once: it depends on the events alone."""
    if batch.prepared is not None:
        return batch.prepared
    template = batch.template
    outcome, reason = np.zeros(batch.ts.size, np.int8), np.zeros(batch.ts.size, np.int8)
    entries = np.array([entry.address for entry in template.derive_entries], np.int64)
    offsets = np.array([template.event_dtype.fields[name][1] for name, _ in template.derive], np.int64)  # type: ignore[index]
    filter_entry = template.filter_entry.address if template.filter_entry is not None else 0
    rows = batch.rows
    run_preparation(
        entries, filter_entry, rows.ctypes.data, template.event_dtype.itemsize, rows.size, offsets, outcome, reason
    )
    batch.prepared = outcome, reason
    return batch.prepared
