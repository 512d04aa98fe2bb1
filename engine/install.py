"""The end of an epoch: its newest versions become the tables' records, windows' versions go into the history, and rows that
came to nothing are given back. Readers see the state before or after, never between."""

from __future__ import annotations

import numpy as np

from engine.execution.layout import Ints
from engine.execution.serial_kernel import install_versions, restore_rows
from engine.execution.shared import share
from engine.planning.arrays import EpochArrays
from engine.planning.epoch import Epoch
from engine.planning.graph_kernel import forget_links
from engine.result import Changes
from engine.state.store import Store


def install(
    store: Store, arrays: EpochArrays, epoch: Epoch, fires: dict[str, int] | None, collects_changes: bool
) -> dict[str, Changes]:
    """Makes the epoch's outcome the state; gives what changed, if asked to."""
    changes: dict[str, Changes] = {}
    with store.lock:
        if arrays.operation_count:
            for index in range(len(store.tables)):
                made = _install_table(store, arrays, index, collects_changes)
                if made is not None:
                    changes[store.tables[index].name] = made
            _drop_unused_rows(store, arrays)
        for index, history in store.histories.items():
            emptied = history.prune(epoch.punctuation_ts + 1 - history.window_size)
            store.tables[index].release_rows(emptied)
        store.last_epoch = epoch.number
        store.last_punctuation_ts = epoch.punctuation_ts
        if fires is not None:
            store.next_fires = {
                name: _next_fire(first, store.application.templates[name].period, epoch.punctuation_ts)
                for name, first in fires.items()
            }
    return changes


def _next_fire(first: int, period: int, punctuation_ts: int) -> int:
    return first if first > punctuation_ts else (punctuation_ts // period + 1) * period


def _install_table(store: Store, arrays: EpochArrays, index: int, collects_changes: bool) -> Changes | None:
    assert arrays.tables is not None
    table, history = store.tables[index], store.histories.get(index)
    count = arrays.operation_count
    rows, kept = np.empty(count, np.int64), np.empty(count if history is not None else 0, np.int64)
    changed, versions = install_versions(
        *arrays.shared(), share(arrays.marks), count, index, history is not None, rows, kept
    )
    rows = rows[:changed]
    restore_rows(share(arrays.tables), index, rows)
    if changed == 0:
        return None
    arrays.looked_up.append((index, rows))
    order = np.sort(rows)
    made = None
    if collects_changes:
        made = Changes(table.index.encoded_keys_of(order), table.live[order].copy(), table.get_records(order))
    if history is not None and versions:
        operations = kept[:versions][::-1]
        history_rows = arrays.operations.row[operations]
        ts = arrays.operations.ts[arrays.operations.transaction[operations]]
        offsets = arrays.operations.slot[operations]
        records = arrays.marks.slots.view(np.uint8)[offsets[:, None] + np.arange(history.record_size)]
        history.append(history_rows, ts, records)
        if made is not None:
            made.history_keys = table.index.encoded_keys_of(history_rows)
            made.history_ts, made.history_records = ts, records
    return made


def _drop_unused_rows(store: Store, arrays: EpochArrays) -> None:
    """Keys that were looked up or written and are unknown now leave no trace."""
    if arrays.tables is not None:
        forget_links(*arrays.shared(), 0, arrays.operation_count)
    touched: dict[int, list[Ints]] = {}
    for index, rows in arrays.looked_up:
        touched.setdefault(index, []).append(rows)
    for index, parts in touched.items():
        table = store.tables[index]
        rows = np.unique(np.concatenate([part[table.live[part] == 0] for part in parts]))
        if rows.size:
            table.drop_rows(rows, store.histories.get(index))


def give_back(store: Store, arrays: EpochArrays) -> None:
    """After an epoch that could not be run: rows and planning cells as they were before it."""
    with store.lock:
        if arrays.tables is not None:
            arrays.return_spare_rows()
        _drop_unused_rows(store, arrays)
