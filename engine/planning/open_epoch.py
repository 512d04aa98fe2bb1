"""An epoch whose events still arrive (the stream phase): each chunk is made ready as it comes, in any order.

What depends on the events alone is done here, and another epoch may run meanwhile: columns are checked, random numbers drawn,
derived fields and filters run, keys encoded. What depends on the state or on the other chunks waits for the punctuation:
identities, the order among chunks, the rows of keys, and the dependencies (the transaction phase).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.api.application import Application
from engine.api.model import FieldReference, KeyExpression, KeySource, TableSpec, Template
from engine.config import Limits
from engine.errors import InputError
from engine.planning.batch import Batch
from engine.planning.epoch import Epoch, check_number, check_size, checked_batch
from engine.planning.keys import encode_batch_keys, list_offsets
from engine.planning.program import sources_in_order
from engine.planning.stage import find_order, is_prepared, prepare


class OpenEpoch:
    """Takes an epoch's chunks until it is closed. One thread at a time; not necessarily the one that runs epochs.

    >>> epoch = engine.open_epoch(7)
    >>> epoch.add("Transfer", {"ts": ts, "source": source, "seq": seq, "sender": senders, ...})
    >>> engine.run_epoch(epoch.close(punctuation_ts=1000))
    """

    def __init__(self, application: Application, number: int, limits: Limits) -> None:
        check_number(number)
        self.number = number
        self.events = 0
        self._application = application
        self._limits = limits
        self._batches: list[Batch] = []
        self._closed = False

    def add(self, record_type: str, columns: Mapping[str, Any]) -> None:
        """A chunk of events of one record type, with `ts`, `seq` and (where it is not 0) `source`.

        An InputError means that the chunk was not taken; the epoch is as before.
        """
        if self._closed:
            raise InputError(f"epoch {self.number} is closed; events that come later belong to a later epoch")
        batch = checked_batch(self._application, self.number, record_type, columns, numbered=True)
        check_size(self.number, self.events + batch.ts.size, self._limits)
        if batch.ts.size == 0:
            return
        template = batch.template
        find_order(batch)
        if is_prepared(template):
            prepare(batch)
        for table, key, each in _keys_of(template):
            offsets = list_offsets(batch, self._limits, *key.components, *each) if key.many else None
            encode_batch_keys(batch, table, key, offsets)
        self._batches.append(batch)
        self.events += int(batch.ts.size)

    def close(self, punctuation_ts: int) -> Epoch:
        """The whole epoch, to be run; nothing can be added any more."""
        self._closed = True
        return Epoch(self.number, punctuation_ts, arrived=tuple(self._batches))


def _keys_of(template: Template) -> list[tuple[TableSpec, KeyExpression, Sequence[FieldReference]]]:
    """Every key expression whose rows a transaction needs, with its table and the lists that go with it."""
    keys: list[tuple[TableSpec, KeyExpression, Sequence[FieldReference]]] = []
    for s in template.statements:
        access = s.access
        if access is not None and access.key is not None:
            keys.append((access.table, access.key, s.each))
        if access is not None and access.computed is not None and access.computed.candidates is not None:
            keys.append((access.table, access.computed.candidates, ()))
        keys += [(source.table, source.key, ()) for source in sources_in_order(s) if isinstance(source, KeySource)]
    return keys
