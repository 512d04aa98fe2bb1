"""A stage's events in the total order, with what became of them before any transaction: derived, filtered, failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Ints
from engine.execution.operation_kernel import run_preparation
from engine.planning.epoch import Batch
from engine.planning.order_kernel import is_in_order, merge_batches, merge_two

GOES_ON, PREPARATION_FAILED, FILTERED = range(3)


@dataclass
class StageEvents:
    """The events of a stage in the total order, and what became of them before any transaction."""

    batches: list[Batch]
    batch: Ints
    row: Ints  # in its batch
    outcome: NDArray[np.int8]
    reason: NDArray[np.int8]
    transaction: Ints  # its number in the epoch, -1 where it has none
    stage: int = 0


def order_events(batches: list[Batch], stage: int) -> StageEvents:
    """The stage's events in the total order, derived columns and filters applied."""
    batch, row = total_order(batches)
    outcome, reason = np.zeros(row.size, np.int8), np.zeros(row.size, np.int8)
    for position, b in enumerate(batches):
        if b.template.derive or b.template.filter is not None:
            mine = batch == position
            outcome[mine], reason[mine] = (values[row[mine]] for values in prepare(b))
    return StageEvents(batches, batch, row, outcome, reason, np.full(row.size, -1, np.int64), stage)


def total_order(batches: list[Batch]) -> tuple[Ints, Ints]:
    """Batch and row of each event in the total order: merged where the batches are in order, sorted where not."""
    sizes = np.array([batch.ts.size for batch in batches], np.int64)
    total = int(sizes.sum())
    merges = all(b.path.shape[1] == 0 and find_order(b) for b in batches)
    if merges and len(batches) == 1:
        return np.zeros(total, np.int64), np.arange(total, dtype=np.int64)
    if merges:
        batch, row = np.empty(total, np.int64), np.empty(total, np.int64)
        if len(batches) == 2:
            one, two = batches
            merge_two(one.ts, one.source, one.seq, two.ts, two.source, two.seq, batch, row)
            return batch, row
        ts, source, seq = (
            np.array([getattr(b, name).ctypes.data for b in batches]) for name in ("ts", "source", "seq")
        )
        merge_batches(ts, source, seq, sizes, batch, row)
        return batch, row
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
