"""From nothing to the state after the last committed epoch: the newest whole snapshot, then changelog and markers after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine import Engine
from engine.api.application import Application
from engine.errors import SnapshotError
from services.engine.belonging import check_declaration, check_input
from services.engine.facts import Memory
from services.engine.kafka_log import KafkaLog
from services.engine.records import changes_of, fires_of, memory_after
from services.engine.snapshots import SnapshotFile, Snapshots
from services.engine.wire import CHANGELOG, MARKER, Wire
from services.errors import StateError


@dataclass
class RecoveredState:
    """An engine as of `memory.epoch`. `log_offsets`: where markers and changelog go on."""

    engine: Engine
    memory: Memory
    log_offsets: dict[str, int]
    seconds: float
    epochs_followed: int
    notes: list[str]


class Recovery:
    """Recovers one application's state."""

    def __init__(self, application: Application, wire: Wire, log: KafkaLog, snapshots: Snapshots | None) -> None:
        self.application, self.wire, self.log, self.snapshots = application, wire, log, snapshots

    def run(self, make_engine: Callable[[bytes | None], Engine], remembered_epochs: int) -> RecoveredState:
        """`make_engine` gives an engine restored from a snapshot, or a new one with its first tables (None)."""
        started = time.perf_counter()
        found, notes = self.snapshots.newest() if self.snapshots is not None else (None, [])
        try:
            return self._go_on_from(found, notes, make_engine, remembered_epochs, started)
        except (StateError, SnapshotError) as error:
            if not notes:
                raise
            raise type(error)(f"{error} ({'; '.join(notes)})") from error

    def _go_on_from(
        self,
        found: SnapshotFile | None,
        notes: list[str],
        make_engine: Callable[[bytes | None], Engine],
        remembered_epochs: int,
        started: float,
    ) -> RecoveredState:
        names = self.log.names
        memory = found.memory if found is not None else Memory()
        offsets = dict(found.log_offsets) if found is not None else {names.epochs: 0, names.changelog: 0}
        if found is not None and found.declaration:
            check_declaration(self.application, found.declaration)
            self._check_input(*found.declaration["input"])
        engine = make_engine(found.state if found is not None else None)
        changes = self._changes(offsets)
        followed = 0
        for offset, value in self.log.read_single(names.epochs, offsets[names.epochs]):
            marker = self.wire.decode(MARKER, value)
            self._check(marker)
            if found is not None and _is_in(found.memory, marker):
                changes.pop(marker["epoch"], None)
                continue
            _check_follows(memory, marker, names.epochs)
            memory = memory_after(memory, marker, remembered_epochs)
            offsets[names.epochs] = offset + 1
            if marker["closes"]:
                records = changes.pop(marker["epoch"], [])
                if len(records) != marker["changes"]:
                    raise SnapshotError(
                        f"{names.changelog} has {len(records)} of {marker['changes']} records of epoch {marker['epoch']}; "
                        "restore the topic, or a snapshot of a later epoch"
                    )
                engine.follow(changes_of(self.application, records, memory, fires_of(marker)))
                followed += 1
        return RecoveredState(engine, memory, offsets, time.perf_counter() - started, followed, notes)

    def _changes(self, offsets: dict[str, int]) -> dict[int, list[dict[str, Any]]]:
        """Changelog records by epoch, of epochs after the snapshot."""
        found: dict[int, list[dict[str, Any]]] = {}
        topic = self.log.names.changelog
        for offset, value in self.log.read_single(topic, offsets[topic]):
            record = self.wire.decode(CHANGELOG, value)
            found.setdefault(record["epoch"], []).append(record)
            offsets[topic] = offset + 1
        return found

    def _check(self, marker: dict[str, Any]) -> None:
        if marker["fingerprint"] != self.application.fingerprint():
            check_declaration(self.application, json.loads(marker["declaration"]))
            raise StateError(
                f"the state of {self.application.name} was made by another application; start with that one"
            )
        topic = marker["offsets"][0]["topic"] if marker["offsets"] else self.log.input_topic
        self._check_input(topic, len(marker["offsets"]))

    def _check_input(self, topic: str, partitions: int) -> None:
        check_input(self.application.name, (topic, partitions), (self.log.input_topic, self.log.partitions))


def _check_follows(memory: Memory, marker: dict[str, Any], topic: str) -> None:
    expected = memory.epoch + 1 if marker["closes"] else memory.epoch
    if marker["epoch"] != expected:
        raise SnapshotError(
            f"{topic} goes on with epoch {marker['epoch']}, epoch {expected} was expected: markers were cut off; restore the "
            "topic, or a snapshot of a later epoch"
        )


def _is_in(memory: Memory, marker: dict[str, Any]) -> bool:
    """Whether a snapshot with this memory was taken after the marker: right after the one that closed its epoch."""
    epoch = int(marker["epoch"])
    return epoch < memory.epoch or (epoch == memory.epoch and bool(marker["closes"]))
