"""`compile_codec`: the one way from a schema to what reads and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from services.codec.chunks import ChunkCodec, Decoded, header_values
from services.codec.columns import BytesColumn
from services.codec.errors import DecodeError, SchemaError
from services.codec.plan import ChunkPlan, RecordPlan, plan_of
from services.codec.resolution import ColumnResolution, check_readable, readable
from services.codec.rows import RowCodec
from services.codec.slow_rows import SlowRowCodec, column_from
from services.codec.tree import Schema, canonical, expand

Codec = RowCodec | ChunkCodec | SlowRowCodec


def compile_codec(schema: Schema) -> Codec:
    """The codec of a record's schema: compiled where its types allow, through fastavro where not."""
    plan = plan_of(expand(schema))
    if plan is None:
        return SlowRowCodec(schema)
    return ChunkCodec(plan) if isinstance(plan, ChunkPlan) else RowCodec(plan)


def compile_reader(writer: Schema, reader: Schema) -> Codec | ResolvedRows | ResolvedChunks:
    """What decodes bytes of the writer's schema into the columns of the reader's. SchemaError if nothing can."""
    if canonical(writer) == canonical(reader):
        return compile_codec(reader)
    written, wanted = expand(writer), expand(reader)
    check_readable(written, wanted)
    plans = plan_of(written), plan_of(wanted)
    if isinstance(plans[0], RecordPlan) and isinstance(plans[1], RecordPlan):
        return ResolvedRows(RowCodec(plans[0]), ColumnResolution(written, wanted))
    if isinstance(plans[0], ChunkPlan) and isinstance(plans[1], ChunkPlan) and _same_items(written, wanted):
        return ResolvedChunks(plans[0], plans[1], written, wanted)
    return SlowRowCodec(writer, reader)


def _same_items(written: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return bool(written["fields"][-1]["name"] == wanted["fields"][-1]["name"])


class ResolvedRows:
    """`RowCodec.decode` with another reader's schema."""

    def __init__(self, codec: RowCodec, resolution: ColumnResolution) -> None:
        self._codec = codec
        self._resolution = resolution

    def decode(self, bodies: Sequence[bytes] | BytesColumn) -> dict[str, Any]:
        return self._resolution.apply(self._codec.decode(bodies), len(bodies))

    def malformed(self, bodies: Sequence[bytes]) -> list[DecodeError]:
        return self._codec.malformed(bodies)


class ResolvedChunks:
    """`ChunkCodec.decode` with another reader's schema: record types by name, the header like a record."""

    def __init__(self, written: ChunkPlan, wanted: ChunkPlan, writer: dict[str, Any], reader: dict[str, Any]) -> None:
        self.plan = wanted
        self._codec = ChunkCodec(written)
        header = [tree | {"fields": tree["fields"][:-1]} for tree in (writer, reader)]
        self._header = ColumnResolution(header[0], header[1])
        self._plans = {record.name: record for record in wanted.records}
        self._resolutions: dict[str, tuple[str, ColumnResolution]] = {}
        kinds = []
        readers = _branches(reader)
        for branch in _branches(writer):
            at = next((n for n, each in enumerate(readers) if readable(branch, each)), None)
            if at is None:
                raise SchemaError(f"record type {branch['label']} is written, the reader does not know it")
            kinds.append(at)
            self._resolutions[branch["label"]] = readers[at]["label"], ColumnResolution(branch, readers[at])
        self._kinds = np.array(kinds, np.uint8)

    def decode(self, body: bytes | bytearray | memoryview) -> Decoded:
        written_header, found = self._codec.decode_columns(body)
        header = self._header.apply(written_header, 1)
        columns = {name: _no_rows(plan) for name, plan in self._plans.items()}
        rows = dict.fromkeys(self._plans, 0)
        for label, written in found.columns.items():
            name, resolution = self._resolutions[label]
            if rows[name] and found.rows[label]:
                raise SchemaError(f"two written record types are read as {name}; give them names of their own")
            if found.rows[label]:
                columns[name] = resolution.apply(written, found.rows[label])
                rows[name] = found.rows[label]
        return Decoded(header_values(header), columns, rows, self._kinds[found.kinds])


def _branches(tree: dict[str, Any]) -> list[dict[str, Any]]:
    items = tree["fields"][-1]["type"]["items"]
    branches: list[dict[str, Any]] = items["branches"] if items["type"] == "union" else [items]
    return branches


def _no_rows(plan: RecordPlan) -> dict[str, Any]:
    return {leaf.name: column_from(leaf, []) for leaf in plan.leaves if leaf.kind != "null"}
