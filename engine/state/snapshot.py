"""A whole state as bytes, and back.

Layout (little-endian): magic, format version u32, number of sections u32; each section: name length u16, payload length
u64, CRC32 of name and payload u32, name, payload; at the end a BLAKE2b-128 digest of everything before it. The first
section, `header`, is JSON: application, meta and the layout of every table.

Canonical: keys in key order, window history by key and then in append order, dead history left out, padding and the
records of keys that are not live zeroed. So equal states give equal bytes whatever rows their keys have.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvariantError, SnapshotError
from engine.state.history import History
from engine.state.key_encoding import EncodedKeys
from engine.state.record_fields import padding_mask
from engine.state.table import Table

MAGIC = b"MILLRACE"
FORMAT_VERSION = 1
_PREAMBLE = struct.Struct("<8sII")
_SECTION = struct.Struct("<HQI")
_DIGEST_BYTES = 16


def dump(
    application_fingerprint: str, meta: Mapping[str, Any], tables: Mapping[str, Table], histories: Mapping[str, History]
) -> bytes:
    """The state as bytes. `meta` is whatever else a restart needs, as JSON values."""
    header = {
        "application": application_fingerprint,
        "meta": meta,
        "tables": {name: _layout(table, histories.get(name)) for name, table in tables.items()},
    }
    sections = {"header": json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()}
    for name in sorted(tables):
        sections |= _table_sections(name, tables[name], histories.get(name))
    return _seal(sections)


def load(
    data: bytes, application_fingerprint: str, tables: Mapping[str, Table], histories: Mapping[str, History]
) -> dict[str, Any]:
    """Fill the empty `tables` and `histories` from a snapshot and return its meta; on an error they are untouched."""
    sections = _open(data)
    header = json.loads(bytes(sections["header"]))
    if header["application"] != application_fingerprint:
        raise SnapshotError(
            f"the snapshot is of application {header['application']!r}, this is {application_fingerprint!r}; "
            "start with the application that wrote it, or without the snapshot"
        )
    expected = {name: _layout(table, histories.get(name)) for name, table in tables.items()}
    if header["tables"] != expected:
        differing = sorted(n for n in header["tables"] | expected if header["tables"].get(n) != expected.get(n))
        raise SnapshotError(f"the snapshot's tables are declared differently: {', '.join(differing)}")
    occupied = [name for name, table in tables.items() if len(table.index)]
    if occupied:
        raise InvariantError(f"a snapshot is loaded into empty tables, {occupied[0]!r} has keys")
    contents = {name: _read_table(name, table, sections) for name, table in tables.items()}
    for name, content in contents.items():
        rows = tables[name].restore(content.keys, content.live, content.records)
        if name in histories:
            histories[name].ensure_rows(tables[name].row_capacity)
            histories[name].append(*_history_order(np.repeat(rows, content.counts), content.ts, content.versions))
    meta: dict[str, Any] = header["meta"]
    return meta


@dataclass(frozen=True)
class _Content:
    """One table's part of a snapshot, keys in key order."""

    keys: EncodedKeys
    live: NDArray[np.uint8]
    records: NDArray[np.uint8]
    counts: NDArray[np.int64]  # versions of each key in the history
    ts: NDArray[np.int64]
    versions: NDArray[np.uint8]


def _layout(table: Table, history: History | None) -> dict[str, Any]:
    dtype = table.record_dtype
    assert dtype.fields is not None
    fields = [[name, dtype[name].base.str, list(dtype[name].shape), dtype.fields[name][1]] for name in dtype.fields]
    return {
        "keys": list(table.key_types),
        "record_bytes": dtype.itemsize,
        "fields": fields,
        "window": None if history is None else history.window_size,
    }


def _table_sections(name: str, table: Table, history: History | None) -> dict[str, bytes]:
    rows = table.index.sorted_rows()
    live, stable = table.read_rows(rows)
    records = stable.view(np.uint8).reshape(rows.size, table.record_dtype.itemsize)
    counts, ts, versions = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    mask = padding_mask(table.record_dtype)
    if history is not None:
        kept = (live != 0) | history.rows_in_use(rows)
        rows, live, records = rows[kept], live[kept], records[kept]
        counts, ts, versions = _history_by_key(rows, table.row_capacity, history)
        versions &= mask
    else:
        rows, live, records = rows[live != 0], live[live != 0], records[live != 0]
    records &= mask
    records[live == 0] = 0
    keys = table.index.encoded_keys_of(rows)
    parts: dict[str, NDArray[Any]] = {"live": (live != 0).astype(np.uint8), "records": records}
    if keys.integers is not None:
        parts["keys"] = keys.integers
    else:
        parts |= {"key_lengths": np.diff(keys.offsets), "keys": keys.data}
    if history is not None:
        parts |= {"version_counts": counts, "version_ts": ts, "versions": versions}
    return {f"{name}/{part}": array.tobytes() for part, array in sorted(parts.items())}


def _history_by_key(
    rows: NDArray[np.int64], row_capacity: int, history: History
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """How many versions each of `rows` (in key order) has; then their times and records, by key and append order."""
    entry_rows, ts, versions = history.entries()
    rank = np.full(max(row_capacity, history.head.size), -1, dtype=np.int64)
    rank[rows] = np.arange(rows.size)
    ranks = rank[entry_rows]
    if ranks.size and ranks.min() < 0:
        raise InvariantError(f"the history holds versions of row {entry_rows[np.argmin(ranks)]}, which has no key")
    order = np.argsort(ranks, kind="stable")
    return np.bincount(ranks, minlength=rows.size).astype(np.int64), ts[order], versions[order]


def _history_order(
    rows: NDArray[np.int64], ts: NDArray[np.int64], versions: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """By time where that keeps every key's append order: `prune` then scans only what is about to fall out."""
    same_key = rows[1:] == rows[:-1]
    if (ts[1:][same_key] < ts[:-1][same_key]).any():
        return rows, ts, versions
    order = np.argsort(ts, kind="stable")
    return rows[order], ts[order], versions[order]


def _read_table(name: str, table: Table, sections: Mapping[str, memoryview]) -> _Content:
    def part(part_name: str, dtype: Any) -> NDArray[Any]:
        try:
            return np.frombuffer(sections[f"{name}/{part_name}"], dtype=dtype)
        except (KeyError, ValueError) as error:
            raise SnapshotError(f"the snapshot's section {name}/{part_name} is missing or cut: {error}") from error

    if table.key_types == ("int",):
        keys = EncodedKeys.of_integers(part("keys", "<i8"))
    else:
        lengths = part("key_lengths", "<i8")
        keys = EncodedKeys.of_bytes(part("keys", "u1"), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    record_bytes = table.record_dtype.itemsize
    live, records = part("live", "u1"), part("records", "u1")
    counts, ts, versions = np.zeros(len(keys), np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    if f"{name}/versions" in sections:
        counts, ts, versions = part("version_counts", "<i8"), part("version_ts", "<i8"), part("versions", "u1")
    if (
        not (len(keys) == live.size == counts.size == records.size // record_bytes)
        or not (counts.sum() == ts.size == versions.size // record_bytes)
        or records.size % record_bytes
        or versions.size % record_bytes
        or (keys.integers is None and keys.offsets[-1] != keys.data.size)
        or (np.diff(keys.offsets) < 0).any()
        or (counts < 0).any()
    ):
        raise SnapshotError(f"the snapshot's sections of table {name!r} do not fit together")
    return _Content(keys, live, records.reshape(-1, record_bytes), counts, ts, versions.reshape(-1, record_bytes))


def _seal(sections: Mapping[str, bytes]) -> bytes:
    parts = [_PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(sections))]
    for name, payload in sections.items():
        encoded = name.encode()
        crc = zlib.crc32(payload, zlib.crc32(encoded))
        parts += [_SECTION.pack(len(encoded), len(payload), crc), encoded, payload]
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def _open(data: bytes) -> dict[str, memoryview]:
    """The sections of a snapshot, every byte checked."""
    view = memoryview(data)
    if len(data) < _PREAMBLE.size + _DIGEST_BYTES:
        raise SnapshotError(f"the snapshot is cut off: {len(data)} bytes are fewer than the smallest snapshot has")
    magic, version, section_count = _PREAMBLE.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotError(f"not a Millrace snapshot: it begins with {magic!r} instead of {MAGIC!r}")
    if version != FORMAT_VERSION:
        raise SnapshotError(f"the snapshot has format version {version}, this Millrace reads {FORMAT_VERSION}")
    end = len(data) - _DIGEST_BYTES
    position = _PREAMBLE.size
    sections: dict[str, memoryview] = {}
    for number in range(section_count):
        if position + _SECTION.size > end:
            raise SnapshotError(f"the snapshot is cut off before section {number} of {section_count}")
        name_bytes, payload_bytes, crc = _SECTION.unpack_from(data, position)
        position += _SECTION.size
        if position + name_bytes + payload_bytes > end:
            raise SnapshotError(f"the snapshot is cut off inside section {number} of {section_count}")
        name = view[position : position + name_bytes]
        payload = view[position + name_bytes : position + name_bytes + payload_bytes]
        position += name_bytes + payload_bytes
        if zlib.crc32(payload, zlib.crc32(name)) != crc:
            raise SnapshotError(f"the snapshot's section {number} ({bytes(name)!r}) was altered: its CRC32 is wrong")
        sections[bytes(name).decode()] = payload
    if position != end:
        raise SnapshotError(f"the snapshot has {end - position} bytes after its last section")
    digest = hashlib.blake2b(view[:end], digest_size=_DIGEST_BYTES).digest()
    if digest != data[end:]:
        raise SnapshotError("the snapshot was altered: its digest is wrong")
    return sections
