"""An application's chunks: bytes to what `OpenEpoch.add` takes, and back for producers.

>>> decoder = ChunkDecoder(event_chunk_schema(application))
>>> chunk = decoder.decode(body)
>>> for record_type, columns in chunk.batches(): epoch.add(record_type, columns)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.codec.chunks import ChunkCodec, Decoded
from services.codec.codec import ResolvedChunks, compile_codec, compile_reader
from services.codec.columns import Column, column_bytes
from services.codec.errors import SchemaError
from services.codec.tree import Schema


@dataclass(frozen=True)
class DecodedChunk:
    """One chunk of events. `columns` has each record type's fields, `seq`, `ts` and `source` included."""

    source: int
    epoch: int
    chunk: int
    columns: dict[str, dict[str, Column]]
    rows: dict[str, int]
    kinds: NDArray[np.uint8]  # the record type of each event in the order they came, a position among `columns`

    @property
    def events(self) -> int:
        return int(self.kinds.size)

    @property
    def nbytes(self) -> int:
        """What the columns take in memory."""
        return sum(column_bytes(column) for columns in self.columns.values() for column in columns.values())

    def batches(self) -> Iterator[tuple[str, dict[str, Column]]]:
        """Record types with events in this chunk, and their columns."""
        for record_type, columns in self.columns.items():
            if self.rows[record_type]:
                yield record_type, columns


class ChunkDecoder:
    """Decodes chunks written with `schema` into the columns of `reader` (the same unless given); thread-safe."""

    def __init__(self, schema: Schema, reader: Schema | None = None) -> None:
        found = compile_codec(schema) if reader is None else compile_reader(schema, reader)
        if not isinstance(found, ChunkCodec | ResolvedChunks):
            raise SchemaError(
                "an event chunk ends in an array of records with plain fields; see schemas/event-chunk.v1.avsc"
            )
        self._codec = found

    def decode(self, body: bytes | bytearray | memoryview) -> DecodedChunk:
        """The events in these bytes (framing not included), or DecodeError."""
        found: Decoded = self._codec.decode(body)
        source = found.header["source"]
        for record_type, columns in found.columns.items():
            columns["source"] = np.full(found.rows[record_type], source, np.int64)
        header = found.header
        return DecodedChunk(source, header["epoch"], header["chunk"], found.columns, found.rows, found.kinds)


class ChunkEncoder:
    """Encodes chunks for producers; thread-safe."""

    def __init__(self, schema: Schema) -> None:
        codec = compile_codec(schema)
        if not isinstance(codec, ChunkCodec):
            raise SchemaError(
                "an event chunk ends in an array of records with plain fields; see schemas/event-chunk.v1.avsc"
            )
        self._codec = codec
        self.record_types = tuple(record.name for record in codec.plan.records)

    def encode(
        self,
        source: int,
        epoch: int,
        chunk: int,
        columns: Mapping[str, Mapping[str, Any]],
        kinds: NDArray[np.integer[Any]] | None = None,
    ) -> bytes:
        """The body of a chunk. `columns` has each record type's `seq`, `ts` and fields; `kinds` (a position in
        `record_types` for each event) interleaves them, without it record types follow each other."""
        plain = {
            name: {field: column for field, column in given.items() if field != "source"}
            for name, given in columns.items()
        }
        return self._codec.encode({"source": source, "epoch": epoch, "chunk": chunk}, plain, kinds)


def checksum(bodies: list[bytes] | list[memoryview]) -> int:
    """A punctuation's checksum over the bodies of its chunks."""
    return sum(zlib.crc32(body) for body in bodies) % 2**32
