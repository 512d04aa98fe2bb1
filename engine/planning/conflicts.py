"""The ordered mode's plan: for each transaction of a stage the earlier ones that it has to wait for.

It needs neither operations nor a graph: rows are read from the key columns. Transactions are places in the total order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import KeyExpression, KeySource, Kind, Statement
from engine.execution.layout import INDEX, Indices, Ints
from engine.planning.batch import Batch
from engine.planning.conflict_kernel import BATCH_WORDS, TOUCHED_WORDS, find_conflicts
from engine.planning.keys import KeyRows
from engine.planning.stage import StageEvents
from engine.state.store import Store

Place = tuple[int, KeyExpression]  # a table's number, and a key of it


@dataclass(frozen=True)
class Conflicts:
    """Who waits for whom; `done` is what threads tell each other while they run."""

    wait_begin: Indices
    waits: Indices
    done: Ints
    weights: Ints  # operations of a transaction, by batch
    touches: int
    path: int  # the heaviest chain of transactions that wait for each other, in operations
    operations: int

    @property
    def nbytes(self) -> int:
        return self.wait_begin.nbytes + self.waits.nbytes + self.done.nbytes


def link_transactions(store: Store, events: StageEvents, keys: KeyRows) -> Conflicts:
    """Finds all conflicts of a stage. The tables' `own` cells are left with numbers below the store's `write_sequence`."""
    kept: list[Any] = []
    touched: list[tuple[int, ...]] = []
    tables: list[int] = []
    batches, weights, most, operations = [], [], 0, 0
    for batch in events.batches:
        first = len(touched)
        places = _touched_places(batch.template.statements)
        for (table, key), writes in places:
            rows = np.ascontiguousarray(keys.rows(batch, store.application.table_at(table), key))
            offsets = keys.offsets(batch, *key.components) if key.many else None
            kept += [rows, offsets]
            most += rows.size
            touched.append((rows.ctypes.data, 0 if offsets is None else offsets.ctypes.data, 0, int(writes)))
            tables.append(table)
        batches.append((first, len(touched) - first))
        count = sum(_operations(batch, s, keys) for s in batch.template.statements)
        weights.append(max(1, round(count / max(1, batch.ts.size))))
        operations += count
    described: Ints = np.array(touched, np.int64).reshape(-1, TOUCHED_WORDS)
    # Only now that all keys have their rows do the tables stay where they are.
    described[:, 2] = [store.tables[table].row_column("own").ctypes.data for table in tables]
    count = events.count
    owner, earlier, written = (np.empty(most, INDEX) for _ in range(3))
    wait_begin, waits = np.empty(count + 1, INDEX), np.empty(2 * most, INDEX)
    done, path = np.empty(count, np.int64), np.empty(count, np.int64)
    weight_of_batch: Ints = np.array(weights, np.int64)
    touches, found, heaviest = find_conflicts(
        np.array(batches, np.int64).reshape(-1, BATCH_WORDS), described, events.batch, events.row, events.outcome,
        weight_of_batch, store.write_sequence, owner, earlier, written, wait_begin, waits, done, path,
    )  # fmt: skip
    store.write_sequence += int(touches)
    return Conflicts(wait_begin, waits[:found], done, weight_of_batch, int(touches), int(heaviest), operations)


def _touched_places(statements: list[Statement]) -> list[tuple[Place, bool]]:
    """What a transaction's statements read and write, each place once, the written ones first."""
    places: dict[Place, bool] = {}
    for s in statements:
        if s.access is not None and s.access.key is not None:
            place = s.access.table.index, s.access.key
            places[place] = places.get(place, False) or s.kind in (Kind.WRITE, Kind.DELETE)
        for source in (*s.when_reads, *s.reads):
            if isinstance(source, KeySource):
                places.setdefault((source.table.index, source.key), False)
    return sorted(places.items(), key=lambda item: not item[1])


def _operations(batch: Batch, s: Statement, keys: KeyRows) -> int:
    if not s.many or s.access is None or s.access.key is None:
        return int(batch.ts.size)
    offsets: NDArray[np.int64] = keys.offsets(batch, *s.access.key.components, *s.each)
    return int(offsets[-1])
