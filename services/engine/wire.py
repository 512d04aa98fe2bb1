"""The service's messages on the wire: which schema each topic has, its id, and the codecs; bytes to facts and back.

Everything is Avro in Confluent framing. `schemas_of` lists an application's schemas by subject, always in the same order, so that
a file of ids made anywhere gives the same ids.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any

from engine.api.application import Application
from schemas import load
from schemas.application import (
    committed_schema,
    event_chunk_schema,
    event_schemas,
    failure_schema,
    record_schemas,
    single_result_schemas,
)
from services.codec import (
    ChunkDecoder,
    ChunkEncoder,
    DecodedChunk,
    DecodeError,
    ObjectCodec,
    SchemaIds,
    compile_codec,
    compile_reader,
    frame,
    unframe,
)
from services.codec.chunks import ChunkCodec
from services.codec.errors import SchemaError
from services.codec.rows import RowCodec
from services.engine.facts import Chunk, Item, Punctuation, Undecodable

CHUNK, PUNCTUATION, COMMITTED, FAILED = "event-chunk", "punctuation", "committed", "failed"
RECORD, RESULT = "record", "result"  # of single records and results, followed by their record type
FAILURE = "failure"
DEAD_LETTER, CHANGELOG, MARKER = "dead-letter", "changelog", "epoch-marker"


def schemas_of(application: Application) -> dict[str, dict[str, Any]]:
    """All schemas of an application's topics by subject."""
    made = {CHUNK: event_chunk_schema(application), COMMITTED: committed_schema(application)}
    for name in (PUNCTUATION, FAILED, DEAD_LETTER, CHANGELOG, MARKER):
        made[name] = load(name)
    in_order = {name: made[name] for name in sorted(made)}
    in_order |= {f"{RECORD}.{name}": schema for name, schema in record_schemas(application).items()}
    in_order |= {f"{RESULT}.{name}": schema for name, schema in single_result_schemas(application).items()}
    in_order[FAILURE] = failure_schema()
    return {f"{application.name}.{name}": schema for name, schema in in_order.items()}


class Wire:
    """One application's codecs, with the ids to write."""

    def __init__(self, application: Application, ids: SchemaIds) -> None:
        self.application = application
        self.ids = ids
        self._schemas = schemas_of(application)
        self._readers: dict[int, ChunkDecoder | ObjectCodec] = {}
        self.committed = _chunk_codec(self._schema(COMMITTED))
        self.failed = _chunk_codec(self._schema(FAILED))
        self.events = {name: _row_codec(schema) for name, schema in event_schemas(application).items()}
        self.results = {name: _row_codec(schema) for name, schema in single_result_schemas(application).items()}
        self.failure = _row_codec(failure_schema())
        self._objects = {
            name: ObjectCodec(self._schema(name)) for name in (PUNCTUATION, DEAD_LETTER, CHANGELOG, MARKER)
        }

    @cached_property
    def chunk_encoder(self) -> ChunkEncoder:
        """What sources write their chunks with."""
        return ChunkEncoder(self._schema(CHUNK))

    def _schema(self, name: str) -> dict[str, Any]:
        return self._schemas[f"{self.application.name}.{name}"]

    def id_of(self, name: str) -> int:
        return self.ids.id_of(f"{self.application.name}.{name}", self._schema(name))

    def result_id(self, record_type: str) -> int:
        return self.id_of(f"{RESULT}.{record_type}")

    def failure_id(self) -> int:
        return self.id_of(FAILURE)

    def frame(self, name: str, body: bytes) -> bytes:
        return frame(self.id_of(name), body)

    def encode(self, name: str, value: dict[str, Any]) -> bytes:
        """A message that is one object: a punctuation, dead letter, change or marker."""
        return self.frame(name, self._objects[name].encode(value))

    def decode(self, name: str, value: bytes) -> dict[str, Any]:
        _, body = unframe(value)
        found: dict[str, Any] = self._objects[name].decode(body)
        return found

    def read(self, value: bytes | None) -> tuple[Item, DecodedChunk | None]:
        """An input message; what cannot be read is an `Undecodable`. UnknownSchemaError where its schema is not known."""
        size = len(value) if value is not None else 0
        try:
            number, body = unframe(value)
            reader = self._reader(number)
            if isinstance(reader, ChunkDecoder):
                chunk = reader.decode(body)
                checksum = zlib.crc32(body)
                return Chunk(chunk.source, chunk.epoch, chunk.chunk, chunk.events, checksum, size + chunk.nbytes), chunk
            return Punctuation(**reader.decode(body)), None
        except (DecodeError, SchemaError) as error:
            return Undecodable(str(error), size), None

    def check(self) -> None:
        """Gets every id that will be needed. SchemaError, which names the fields, if a schema that producers are known to
        have is none that can be read."""
        for subject, schema in self._schemas.items():
            self.ids.id_of(subject, schema)
        wanted = {CHUNK: self._schema(CHUNK)}
        wanted |= {f"{RECORD}.{name}": schema for name, schema in record_schemas(self.application).items()}
        for name, reader in wanted.items():
            subject = f"{self.application.name}.{name}"
            for number, written in self.ids.versions_of(subject).items():
                try:
                    compile_reader(written, reader)
                except SchemaError as error:
                    raise SchemaError(
                        f"schema id {number} of {subject} cannot be read by this application: {error}; let producers write "
                        "what it declares, or take the schema out of the list"
                    ) from error

    def _reader(self, number: int) -> ChunkDecoder | ObjectCodec:
        if number not in self._readers:
            written = self.ids.schema_of(number)
            wanted = self._schema(CHUNK)
            if isinstance(written, dict) and written.get("name") == wanted["name"]:
                self._readers[number] = ChunkDecoder(written, wanted)
            else:
                self._readers[number] = ObjectCodec(written, self._schema(PUNCTUATION))
        return self._readers[number]


def _chunk_codec(schema: dict[str, Any]) -> ChunkCodec:
    codec = compile_codec(schema)
    assert isinstance(codec, ChunkCodec), f"{schema['name']} ends in an array of plain records"
    return codec


def _row_codec(schema: dict[str, Any]) -> RowCodec:
    codec = compile_codec(schema)
    assert isinstance(codec, RowCodec), f"{schema['name']} has plain fields"
    return codec
