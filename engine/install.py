"""The end of an epoch: its newest versions become the tables' records, windows' versions go into the history, and rows that
came to nothing are given back. Readers see the state before or after, never between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Ints
from engine.execution.serial_kernel import install_versions, restore_rows
from engine.planning.arrays import EpochArrays
from engine.planning.epoch import Epoch
from engine.planning.graph_kernel import forget_links
from engine.state.changes import Changes, EpochChanges
from engine.state.store import Store

NO_ROWS: Ints = np.empty(0, np.int64)


def install(
    store: Store,
    arrays: EpochArrays,
    epoch: Epoch,
    fires: dict[str, int] | None,
    collects_changes: bool,
) -> EpochChanges:
    """Makes the epoch's outcome the state; gives what changed, if asked to."""
    changes: dict[str, Changes] = {}
    with store.lock:
        for index, table in enumerate(store.tables):
            rows, versions = _install_table(store, arrays, index) if arrays.operation_count else (NO_ROWS, NO_ROWS)
            touched = table.undo.touched
            if touched.size:  # changed in place
                rows = touched.copy() if rows.size == 0 else np.unique(np.concatenate([rows, touched]))
            table.undo.finish(touched.size)
            if rows.size:
                arrays.provisional.append((index, rows[table.live[rows] == 0]))
                if collects_changes:
                    changes[table.name] = _changes(store, arrays, index, rows, versions)
        _drop_unused_rows(store, arrays)
        if fires is not None:
            fires = {
                name: _next_fire(first, store.application.templates[name].period, epoch.punctuation_ts)
                for name, first in fires.items()
            }
        store.finish_epoch(epoch.number, epoch.punctuation_ts, fires)
    return EpochChanges(epoch.number, epoch.punctuation_ts, changes, fires)


def _next_fire(first: int, period: int, punctuation_ts: int) -> int:
    return first if first > punctuation_ts else (punctuation_ts // period + 1) * period


def _install_table(store: Store, arrays: EpochArrays, index: int) -> tuple[Ints, Ints]:
    """Copies the newest versions into a table; gives the changed rows, and the operations whose versions windows need."""
    assert arrays.tables is not None
    history = store.histories.get(index)
    count = arrays.operation_count
    rows, kept = np.empty(count, np.int64), np.empty(count if history is not None else 0, np.int64)
    changed, versions = install_versions(
        *arrays.shared(), arrays.shared_marks(), count, index, history is not None, rows, kept
    )
    rows = rows[:changed]
    restore_rows(arrays.shared()[1], index, rows)
    operations = kept[:versions][::-1]
    if history is not None and versions:
        history.append(*_versions(arrays, operations, history.record_size))
    return rows, operations


def _versions(arrays: EpochArrays, operations: Ints, record_bytes: int) -> tuple[Ints, Ints, NDArray[np.uint8]]:
    """Rows, event times and records of the versions that operations made."""
    planned = arrays.planned
    words = planned.slot[operations][:, None] + np.arange(record_bytes // 8)
    records = arrays.marks.slots[words].view(np.uint8)
    return planned.row[operations].astype(np.int64), planned.ts[planned.transaction[operations]], records


def _changes(store: Store, arrays: EpochArrays, index: int, rows: Ints, versions: Ints) -> Changes:
    table = store.tables[index]
    made = Changes(table.keys_of(rows), table.live[rows], table.get_records(rows))
    if versions.size:
        history_rows, made.history_ts, made.history_records = _versions(arrays, versions, table.record_dtype.itemsize)
        made.history_keys = table.index.encoded_keys_of(history_rows)
    return made


def _drop_unused_rows(store: Store, arrays: EpochArrays) -> None:
    """Keys that were looked up or written and are unknown now leave no trace."""
    if arrays.operation_count:
        forget_links(*arrays.shared(), 0, arrays.operation_count)
    touched: dict[int, list[Ints]] = {}
    for index, rows in arrays.provisional:
        if rows.size:
            touched.setdefault(index, []).append(rows)
    for index, parts in touched.items():
        table = store.tables[index]
        rows = np.unique(np.concatenate([part[table.live[part] == 0] for part in parts]))
        if rows.size:
            table.drop_rows(rows, store.histories.get(index))


def give_back(store: Store, arrays: EpochArrays) -> None:
    """After an epoch that could not be run: rows and planning cells as they were before it."""
    with store.lock:
        for table in store.tables:
            table.roll_back()
        if arrays.tables is not None:
            arrays.return_spare_rows()
        _drop_unused_rows(store, arrays)
