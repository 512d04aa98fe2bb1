"""The events of an epoch out of its chunks: usually all of them; where a copy of an event came again, the first place wins.

Copies are found by one sort of all identities and compared as Avro bytes, column by column: what a source repeats costs no Python
call an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Engine, Epoch
from engine.state.columns import StringColumn, take_rows
from services.codec import BytesColumn, DecodedChunk
from services.codec.rows import RowCodec
from services.engine.facts import Place

Ints = NDArray[np.int64]
Chunks = Sequence[tuple[Place, DecodedChunk]]


@dataclass(frozen=True)
class Conflict:
    """Events of one message that say something else than their copies at an earlier place."""

    place: Place
    record_type: str
    source: int
    seqs: list[int]

    @property
    def detail(self) -> str:
        seqs = ", ".join(map(str, self.seqs))
        return f"{self.record_type} of source {self.source}, seq {seqs}: earlier copies say something else"


@dataclass
class Gathered:
    """An epoch's events, and what was left out of them."""

    epoch: Epoch
    duplicates: int = 0
    conflicts: list[Conflict] = field(default_factory=list)


def gather(engine: Engine, number: int, ts: int, chunks: Chunks) -> Gathered:
    """All events of the chunks, as they are; the engine checks their identities."""
    opened = engine.open_epoch(number)
    for _, chunk in chunks:
        for record_type, columns in chunk.batches():
            opened.add(record_type, columns)
    return Gathered(opened.close(ts))


@dataclass(frozen=True)
class _Batch:
    """The events of one record type in one chunk; its rows follow those of the batches before."""

    place: Place
    record_type: str
    source: int
    columns: dict[str, Any]
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.columns["seq"])


def gather_first_copies(
    engine: Engine, codecs: Mapping[str, RowCodec], number: int, ts: int, chunks: Chunks
) -> Gathered:
    """The same with one copy of each event, that at the first place. `codecs` encode events, by record type."""
    batches: list[_Batch] = []
    for place, chunk in chunks:
        for record_type, columns in chunk.batches():
            begin = batches[-1].end if batches else 0
            batches.append(_Batch(place, record_type, chunk.source, columns, begin))
    opened = engine.open_epoch(number)
    if not batches:
        return Gathered(opened.close(ts))
    first = _first_copies(batches)
    again = np.flatnonzero(first != np.arange(first.size))
    differs = again[_differ(batches, codecs, again, first[again])]
    for batch in batches:
        rows = np.flatnonzero(first[batch.begin : batch.end] == np.arange(batch.begin, batch.end))
        if rows.size:
            opened.add(batch.record_type, {name: take_rows(column, rows) for name, column in batch.columns.items()})
    return Gathered(opened.close(ts), int(again.size - differs.size), list(_conflicts(batches, differs)))


def _first_copies(batches: Sequence[_Batch]) -> Ints:
    """For each row the one at the first place with its identity: itself, if it is that."""
    seq = np.concatenate([batch.columns["seq"] for batch in batches])
    source = np.concatenate([np.full(batch.end - batch.begin, batch.source) for batch in batches])
    order = np.lexsort((seq, source))  # stable: equal identities stay in the order of their places
    begins = np.ones(order.size, np.bool_)
    begins[1:] = (np.diff(seq[order]) != 0) | (np.diff(source[order]) != 0)
    first = np.empty(order.size, np.int64)
    first[order] = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return first


def _differ(batches: Sequence[_Batch], codecs: Mapping[str, RowCodec], left: Ints, right: Ints) -> NDArray[np.bool_]:
    """Whether the events of these pairs of rows are of different types, or of different bytes."""
    types = {name: number for number, name in enumerate(dict.fromkeys(batch.record_type for batch in batches))}
    kinds = np.concatenate([np.full(batch.end - batch.begin, types[batch.record_type]) for batch in batches])
    bodies = _joined(
        codecs[batch.record_type].encode({n: column for n, column in batch.columns.items() if n != "source"})
        for batch in batches
    )
    sizes = np.diff(bodies.offsets)
    differ: NDArray[np.bool_] = (kinds[left] != kinds[right]) | (sizes[left] != sizes[right])
    same_size = np.flatnonzero(~differ)
    one, two = bodies.take(left[same_size]), bodies.take(right[same_size])
    if one.data.size:
        wrong = np.concatenate([[0], np.cumsum(one.data != two.data)])
        differ[same_size] = wrong[one.offsets[1:]] != wrong[one.offsets[:-1]]
    return differ


def _joined(parts: Iterable[BytesColumn]) -> StringColumn:
    """Bodies laid end to end, in a column that can be taken from."""
    parts = list(parts)
    bases = np.cumsum([0, *(part.data.size for part in parts)])
    offsets = np.concatenate([part.offsets[:-1] + base for part, base in zip(parts, bases, strict=False)])
    return StringColumn.trusted(np.concatenate([part.data for part in parts]), np.append(offsets, bases[-1]))


def _conflicts(batches: Sequence[_Batch], rows: Ints) -> Iterable[Conflict]:
    for batch in batches:
        mine = rows[np.searchsorted(rows, batch.begin) : np.searchsorted(rows, batch.end)] - batch.begin
        if mine.size:
            seqs = batch.columns["seq"][mine].tolist()
            yield Conflict(batch.place, batch.record_type, batch.source, seqs)
