"""The end of an epoch: its newest versions become the tables' records, windows' versions go into the history, and rows that
came to nothing are given back. Readers see the state before or after, never between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.execution.layout import Ints
from engine.execution.serial_kernel import install_versions, restore_rows
from engine.planning.arrays import EpochArrays
from engine.planning.epoch import Epoch
from engine.planning.graph_kernel import forget_links
from engine.state.changes import Changes, EpochChanges
from engine.state.store import Store
from engine.state.table import Table


@dataclass(frozen=True)
class _Versions:
    """What windows need of an epoch: rows, event times and records, in the order of the writes."""

    rows: Ints
    ts: Ints
    records: NDArray[np.uint8]


def install(
    store: Store, arrays: EpochArrays, epoch: Epoch, fires: dict[str, int] | None, keeps_changes: bool
) -> Callable[[], EpochChanges]:
    """Makes the epoch's outcome the state; gives what collects its changes.

    That has to be called before the state changes again, unless they are to be kept: then they have been collected at once.
    """
    made: dict[str, Callable[[], Changes]] = {}
    with store.lock:
        for index, table in enumerate(store.tables):
            collect = _install_table(store, arrays, index, keeps_changes)
            if collect is not None:
                made[table.name] = collect
        _drop_unused_rows(store, arrays)
        if fires is not None:
            fires = {
                name: _next_fire(first, store.application.templates[name].period, epoch.punctuation_ts)
                for name, first in fires.items()
            }
        store.finish_epoch(epoch.number, epoch.punctuation_ts, fires)
    generation = store.generation

    def collect_all() -> EpochChanges:
        if store.generation != generation and not keeps_changes:
            raise InputError(
                f"epoch {epoch.number}'s changes were asked for when the state had changed again; ask before the next "
                "epoch runs, or let the engine keep them: Engine(..., collect_changes=True)"
            )
        tables = {name: collect() for name, collect in made.items()}
        return EpochChanges(epoch.number, epoch.punctuation_ts, tables, fires)

    return collect_all


def _next_fire(first: int, period: int, punctuation_ts: int) -> int:
    return first if first > punctuation_ts else (punctuation_ts // period + 1) * period


def _install_table(store: Store, arrays: EpochArrays, index: int, keeps_changes: bool) -> Callable[[], Changes] | None:
    """Finishes one table; gives what collects its changes, None where there are none."""
    table, undo = store.tables[index], store.tables[index].undo
    entries = undo.entries[: undo.count]
    undo.finish()
    if not arrays.operation_count:
        if not entries.size:
            return None
        if not keeps_changes and not table.deletes:
            return partial(_touched_changes, table, entries)
        made = _touched_changes(table, entries)
        arrays.provisional.append((index, _touched_rows(entries)[made.live == 0]))
        return lambda: made
    rows, versions = _install_versions(store, arrays, index)
    if entries.size:  # changed in place by an earlier stage
        rows = np.unique(np.concatenate([rows, _touched_rows(entries)]))
    if not rows.size:
        return None
    live = table.live[rows]
    arrays.provisional.append((index, rows[live == 0]))
    collect = partial(_changes, table, rows, versions)
    if keeps_changes or not live.all():  # the keys of rows that are dropped are gone afterwards
        made = collect()
        return lambda: made
    return collect


def _touched_rows(entries: NDArray[np.int64]) -> Ints:
    rows: Ints = entries[:, 0] >> 1
    return rows


def _touched_changes(table: Table, entries: NDArray[np.int64]) -> Changes:
    """What an inlined epoch changed: the rows that its undo log has entries for."""
    rows, live, records = table.copy_touched(entries)
    return Changes(table.keys_of(rows), live, records)


def _changes(table: Table, rows: Ints, versions: _Versions | None) -> Changes:
    made = Changes(table.keys_of(rows), table.live[rows], table.get_records(rows))
    if versions is not None:
        made.history_keys = table.index.encoded_keys_of(versions.rows)
        made.history_ts, made.history_records = versions.ts, versions.records
    return made


def _install_versions(store: Store, arrays: EpochArrays, index: int) -> tuple[Ints, _Versions | None]:
    """Copies the newest versions into a table; gives the changed rows, and the versions that windows need."""
    assert arrays.tables is not None
    history = store.histories.get(index)
    count = arrays.operation_count
    rows, kept = np.empty(count, np.int64), np.empty(count if history is not None else 0, np.int64)
    changed, versions = install_versions(
        *arrays.shared(), arrays.shared_marks(), count, index, history is not None, rows, kept
    )
    rows = rows[:changed]
    restore_rows(arrays.shared()[1], index, rows)
    if history is None or not versions:
        return rows, None
    made = _versions(arrays, kept[:versions][::-1], history.record_size)
    history.append(made.rows, made.ts, made.records)
    return rows, made


def _versions(arrays: EpochArrays, operations: Ints, record_bytes: int) -> _Versions:
    """The versions that operations made."""
    planned = arrays.planned
    words = planned.slot[operations][:, None] + np.arange(record_bytes // 8)
    records = arrays.marks.slots[words].view(np.uint8)
    return _Versions(planned.row[operations].astype(np.int64), planned.ts[planned.transaction[operations]], records)


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
