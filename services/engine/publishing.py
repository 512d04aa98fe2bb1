"""Events as a source's messages: chunks dealt to partitions, then a punctuation in each that counts what it put there."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.types import INT64 as _INT64
from engine.state.columns import as_column, take_rows
from services.engine.wire import CHUNK, PUNCTUATION, Wire


@dataclass
class _Put:
    """What a partition has got of one epoch."""

    chunks: int = 0
    events: int = 0
    checksum: int = 0


@dataclass
class SourceEpoch:
    """One source's messages of one epoch: add events, then `close`. Chunk n goes to partition n modulo their number."""

    wire: Wire
    source: int
    epoch: int
    partitions: int
    messages: list[tuple[int, bytes]] = field(default_factory=list)  # partition and value, in the order to send them
    sizes: list[int] = field(default_factory=list)  # the events of each chunk, in the order of the messages

    def __post_init__(self) -> None:
        self._put = [_Put() for _ in range(self.partitions)]

    def add(self, record_type: str, columns: Mapping[str, Any], rows_a_chunk: int = 10_000) -> None:
        """Events of one record type, with `seq` and `ts`."""
        kinds = self.wire.application.events[record_type].fields
        given = {
            name: as_column(f"{record_type}.{name}", kinds.get(name, _INT64), column)
            for name, column in columns.items()
            if name != "source"
        }
        for begin in range(0, len(given["seq"]), rows_a_chunk):
            rows = np.arange(begin, min(begin + rows_a_chunk, len(given["seq"])))
            self._add_chunk({record_type: {name: take_rows(column, rows) for name, column in given.items()}}, rows.size)

    def add_mixed(self, columns: Mapping[str, Mapping[str, Any]], kinds: NDArray[np.uint8]) -> None:
        """One chunk of events of several record types; `kinds` says each event's type, a place in the schema's union."""
        self._add_chunk(columns, int(kinds.size), kinds)

    def _add_chunk(
        self, columns: Mapping[str, Mapping[str, Any]], events: int, kinds: NDArray[np.uint8] | None = None
    ) -> None:
        body = self.wire.chunk_encoder.encode(self.source, self.epoch, len(self.sizes), columns, kinds)
        partition = len(self.sizes) % self.partitions
        put = self._put[partition]
        put.chunks, put.events = put.chunks + 1, put.events + events
        put.checksum = (put.checksum + zlib.crc32(body)) % 2**32
        self.messages.append((partition, self.wire.frame(CHUNK, body)))
        self.sizes.append(events)

    def close(self, ts: int) -> list[tuple[int, bytes]]:
        """All messages, punctuations last."""
        for partition, put in enumerate(self._put):
            value = {
                "source": self.source, "epoch": self.epoch, "ts": ts,
                "chunks": put.chunks, "events": put.events, "checksum": put.checksum,
            }  # fmt: skip
            self.messages.append((partition, self.wire.encode(PUNCTUATION, value)))
        return self.messages
