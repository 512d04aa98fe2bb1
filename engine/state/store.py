"""All state of one application: its tables, the window histories, and what a restart needs besides them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.api.application import Application
from engine.api.model import Kind
from engine.errors import InputError
from engine.state import snapshot
from engine.state.changes import Changes, EpochChanges
from engine.state.history import History
from engine.state.measures import measures_of
from engine.state.table import EXTENDED_AN_EPOCH, Table


class Store:
    """The state as of the last finished epoch. Changes happen under `lock`, so that readers see whole epochs only."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.lock = threading.Lock()
        self.tables: list[Table] = []
        self.histories: dict[int, History] = {}
        self.last_punctuation_ts: int | None = None
        self.last_epoch: int | None = None
        self.generation = 0  # counts what may have changed the state
        self.write_sequence = 0  # numbers the writes of the inlined serial mode
        self.next_fires: dict[str, int] | None = None  # None until the first event ever
        statements = [s for template in application.templates.values() for s in template.statements]
        deletes = {s.access.table.index for s in statements if s.kind is Kind.DELETE and s.access is not None}
        for spec in application.tables.values():
            table = Table(spec.name, spec.key_types, spec.dtype, spec.default, spec.creates_keys)
            table.add_row_column("last_write", np.int64, -1)
            table.add_row_column("fence_head", np.int64, -1)
            table.add_row_column("own", np.int64, -1)
            table.deletes = spec.index in deletes
            self.tables.append(table)
            if spec.window_size >= 0:
                self.histories[spec.index] = History(
                    spec.dtype.itemsize, spec.window_size, measures_of(application, spec)
                )

    def table(self, name: str) -> Table:
        if name not in self.application.tables:
            raise InputError(f"no table {name!r}; the application has {', '.join(self.application.tables)}")
        return self.tables[self.application.tables[name].index]

    def read(self, reads: dict[str, Sequence[Any]]) -> tuple[int | None, dict[str, list[dict[str, Any] | None]]]:
        """Values of several keys of several tables as of one finished epoch (its number comes first)."""
        tables = {name: self.table(name) for name in reads}
        with self.lock:
            return self.last_epoch, {name: tables[name].get(list(keys)) for name, keys in reads.items()}

    def contents(self, name: str) -> dict[Any, dict[str, Any]]:
        """A whole table as a dict, keys in order."""
        table = self.table(name)
        with self.lock:
            keys = table.index.keys_of(table.sorted_live_rows())
            values = table.get(keys)
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    def finish_epoch(self, number: int, punctuation_ts: int, next_fires: dict[str, int] | None) -> None:
        """The end of every epoch, under the lock: history that no window needs any more goes, the epoch's number stands."""
        for index, history in self.histories.items():
            emptied = history.prune(punctuation_ts + 1 - history.window_size)
            self.tables[index].release_rows(emptied)
        for table in self.tables:
            table.extend_dense(EXTENDED_AN_EPOCH)
        self.last_epoch, self.last_punctuation_ts = number, punctuation_ts
        if next_fires is not None:
            self.next_fires = next_fires

    def follow(self, changes: EpochChanges) -> None:
        """Brings the state from the epoch before to this one: afterwards it equals that of the engine that ran the epoch."""
        for name in changes.tables:
            self.table(name)
        if self.last_epoch is not None and changes.epoch <= self.last_epoch:
            raise InputError(f"the changes of epoch {changes.epoch} come after epoch {self.last_epoch}, not in order")
        self.generation += 1
        with self.lock:
            for name, made in changes.tables.items():
                self._follow_table(self.application.tables[name].index, made)
            self.finish_epoch(changes.epoch, changes.punctuation_ts, changes.next_fires)

    def _follow_table(self, index: int, made: Changes) -> None:
        table, history = self.tables[index], self.histories.get(index)
        rows = table.lookup_or_insert(made.keys)
        alive = made.live != 0
        records = np.ascontiguousarray(made.records).view(np.uint8).reshape(rows.size, table.record_dtype.itemsize)
        table.records[rows[alive]] = records[alive]
        table.live[rows[alive]] = 1
        if history is not None and made.history_keys is not None:
            assert made.history_ts is not None and made.history_records is not None
            versions = table.lookup_or_insert(made.history_keys)
            history.append(versions, made.history_ts, made.history_records)
        table.drop_rows(rows[~alive], history)

    def dump(self) -> bytes:
        with self.lock:
            meta = {"epoch": self.last_epoch, "punctuation_ts": self.last_punctuation_ts, "fires": self.next_fires}
            return snapshot.dump(self.application.fingerprint(), meta, *self._by_name())

    def load_snapshot(self, data: bytes) -> None:
        self.generation += 1
        with self.lock:
            meta = snapshot.load(data, self.application.fingerprint(), *self._by_name())
            self.last_epoch, self.last_punctuation_ts = meta["epoch"], meta["punctuation_ts"]
            self.next_fires = meta["fires"]

    def _by_name(self) -> tuple[dict[str, Table], dict[str, History]]:
        names = list(self.application.tables)
        return (
            dict(zip(names, self.tables, strict=True)),
            {names[index]: history for index, history in self.histories.items()},
        )

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.tables) + sum(h.nbytes for h in self.histories.values())
