"""Snapshots in a directory (any fsspec URL): the engine's state and the service's memory as of one committed epoch.

A file is written under another name and renamed when it is whole; its head has the length and the checksum of what follows, so a
torn or flipped file is noticed and the one before is used. The last two are kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import fsspec

from services.engine.facts import Cursor, Memory, Tally
from services.engine.logs import log_event

KEPT = 2
PART = ".part"  # the ending of what is being written
_MAGIC = b"MILLSNAP1\n"


@dataclass(frozen=True)
class SnapshotFile:
    """One snapshot as it was read."""

    memory: Memory
    log_offsets: dict[str, int]  # of markers and changelog: where to read on
    state: bytes
    declaration: dict[str, Any] = field(
        default_factory=dict
    )  # the application's, and `input`: topic, partitions; empty: not known


class Snapshots:
    """The snapshots of one engine."""

    def __init__(self, url: str) -> None:
        self._files, self._folder = fsspec.core.url_to_fs(url)
        self._files.makedirs(self._folder, exist_ok=True)

    def write(self, snapshot: SnapshotFile) -> None:
        """All of it, or (OSError) the ones before stay."""
        head: dict[str, Any] = {"memory": _memory_json(snapshot.memory), "log_offsets": snapshot.log_offsets}
        head["declaration"] = snapshot.declaration
        text = json.dumps(head).encode()
        body = len(text).to_bytes(8, "little") + text + snapshot.state
        seal = len(body).to_bytes(8, "little") + zlib.crc32(body).to_bytes(4, "little")
        final = f"{self._folder}/epoch-{snapshot.memory.epoch:020d}.snapshot"
        try:
            with self._files.open(final + PART, "wb") as file:
                file.write(_MAGIC + seal + body)
            self._files.mv(final + PART, final)
            epoch = snapshot.memory.epoch
            log_event(
                logging.INFO, "snapshot", f"wrote the snapshot of epoch {epoch}", epoch=epoch, size_bytes=len(body)
            )
        finally:
            self._remove([name for name in self._listed() if name.endswith(PART)])  # of a write that did not end
        self._remove(self._names()[KEPT:])

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # what stays is passed over, and removed next time
                self._files.rm(name)

    def newest(self) -> tuple[SnapshotFile | None, list[str]]:
        """The newest that is whole, and a sentence for each that is not."""
        problems: list[str] = []
        for name in self._names():
            found = self._read(name)
            if found is not None:
                return found, problems
            problems.append(f"the snapshot {name} cannot be read, is torn or altered, and was passed over")
        return None, problems

    def _names(self) -> list[str]:
        return sorted((name for name in self._listed() if name.endswith(".snapshot")), reverse=True)

    def _listed(self) -> list[str]:
        self._files.invalidate_cache()  # object stores' listings may be remembered
        return [str(name) for name in self._files.ls(self._folder, detail=False)]

    def _read(self, name: str) -> SnapshotFile | None:
        try:
            with self._files.open(name, "rb") as file:
                data = file.read()
        except OSError:
            return None
        start = len(_MAGIC) + 12
        if len(data) < start + 8 or data[: len(_MAGIC)] != _MAGIC:
            return None
        length = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 8], "little")
        body = data[start:]
        if len(body) != length or zlib.crc32(body) != int.from_bytes(data[start - 4 : start], "little"):
            return None
        text = int.from_bytes(body[:8], "little")
        head = json.loads(body[8 : 8 + text])
        return SnapshotFile(
            _memory_from(head["memory"]), head["log_offsets"], body[8 + text :], head.get("declaration", {})
        )


def _memory_json(memory: Memory) -> dict[str, Any]:
    return {
        "epoch": memory.epoch,
        "punctuation_ts": memory.punctuation_ts,
        "cursors": [[partition, c.low, sorted(c.handled), c.read] for partition, c in sorted(memory.cursors.items())],
        "closed": [[epoch, sorted(known)] for epoch, known in sorted(memory.closed.items())],
        "tally": asdict(memory.tally),
    }


def _memory_from(given: dict[str, Any]) -> Memory:
    return Memory(
        given["epoch"],
        given["punctuation_ts"],
        {partition: Cursor(low, frozenset(handled), read) for partition, low, handled, read in given["cursors"]},
        {epoch: frozenset((s, n, c) for s, n, c in known) for epoch, known in given["closed"]},
        Tally(**given["tally"]),
    )
