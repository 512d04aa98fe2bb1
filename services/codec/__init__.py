"""Avro bytes to columns and back: compiled for each schema, strict, bounded in memory.

The way of one payload: `framing.unframe` gives the schema's id and the body, `ids` (or `registry`) the schema it was written
with, `codec.compile_reader` what decodes it, `events.ChunkDecoder` the columns that `OpenEpoch.add` takes. A schema becomes
a kernel so: `tree.expand` writes names out, `plan.plan_of` finds its columns, `decoder_source` and `encoder_source` write
the kernels around `bytes_kernel`, `compiled` compiles and caches them. Rare types go through fastavro (`objects`, `slow_rows`)
after `strict` has checked the bytes. Logical types are read as the types below them.
"""

from services.codec.codec import compile_codec, compile_reader
from services.codec.columns import BytesColumn, NullableColumn
from services.codec.errors import (
    CodecError,
    DecodeError,
    EncodeError,
    Malformed,
    SchemaError,
    UnknownSchemaError,
)
from services.codec.events import ChunkDecoder, ChunkEncoder, DecodedChunk, checksum
from services.codec.framing import frame, unframe
from services.codec.ids import FileIds, SchemaIds
from services.codec.objects import ObjectCodec

__all__ = [
    "BytesColumn",
    "ChunkDecoder",
    "ChunkEncoder",
    "CodecError",
    "DecodeError",
    "DecodedChunk",
    "EncodeError",
    "FileIds",
    "Malformed",
    "NullableColumn",
    "ObjectCodec",
    "SchemaError",
    "SchemaIds",
    "UnknownSchemaError",
    "checksum",
    "compile_codec",
    "compile_reader",
    "frame",
    "unframe",
]
