"""The events of an epoch out of its chunks: usually all of them; where a copy of an event came again, the first place wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine import Engine, Epoch
from engine.state.columns import take_rows
from services.codec import DecodedChunk
from services.codec.columns import column_items
from services.engine.facts import Place


@dataclass
class Gathered:
    """An epoch's events, and what was left out of them."""

    epoch: Epoch
    duplicates: int = 0
    conflicts: list[tuple[Place, str, int, int]] = field(default_factory=list)  # place, record type, source, seq


def gather(engine: Engine, number: int, ts: int, chunks: Sequence[tuple[Place, DecodedChunk]]) -> Gathered:
    """All events of the chunks, as they are; the engine checks their identities."""
    opened = engine.open_epoch(number)
    for _, chunk in chunks:
        for record_type, columns in chunk.batches():
            opened.add(record_type, columns)
    return Gathered(opened.close(ts))


def gather_first_copies(engine: Engine, number: int, ts: int, chunks: Sequence[tuple[Place, DecodedChunk]]) -> Gathered:
    """The same with one copy of each event, that at the first place. Slow: for epochs in which an event came twice."""
    opened = engine.open_epoch(number)
    first: dict[tuple[int, int], tuple[Any, ...]] = {}
    gathered = Gathered(Epoch(number, ts))
    for place, chunk in chunks:
        for record_type, columns in _plain(chunk):
            kept = []
            for row, event in enumerate(_events(record_type, columns)):
                identity = (chunk.source, int(columns["seq"][row]))
                if identity not in first:
                    first[identity] = event
                    kept.append(row)
                elif first[identity] == event:
                    gathered.duplicates += 1
                else:
                    gathered.conflicts.append((place, record_type, *identity))
            if kept:
                rows = np.array(kept, np.int64)
                opened.add(record_type, {name: take_rows(column, rows) for name, column in columns.items()})
    gathered.epoch = opened.close(ts)
    return gathered


def _plain(chunk: DecodedChunk) -> Iterator[tuple[str, dict[str, Any]]]:
    """Columns of whatever kind."""
    yield from chunk.batches()


def _events(record_type: str, columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Each event as something that can be compared; floats by their digits, so that NaN equals NaN."""
    items = [[repr(item) for item in column_items(column)] for column in columns.values()]
    return [(record_type, *row) for row in zip(*items, strict=True)]
