"""What recovery reads: changelog records and markers, to and from the engine's changes and the machine's memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.errors import SnapshotError
from engine.state.changes import Changes, EpochChanges
from engine.state.key_encoding import EncodedKeys
from services.engine.facts import Commit, Cursor, Identity, Memory, Tally

FORMAT = 2
ROWS_A_RECORD = 50_000  # of a changelog record: some megabytes at most
_NONE: frozenset[Identity] = frozenset()
_BLOBS = (
    "keys", "key_offsets", "live", "records", "history_keys", "history_key_offsets", "history_ts", "history_records",
)  # fmt: skip


def changelog_of(changes: EpochChanges) -> list[dict[str, Any]]:
    """The epoch's changes as changelog records."""
    parts = [(name, part) for name, made in changes.tables.items() for part in _split(made)]
    return [_record(changes.epoch, number, len(parts), name, part) for number, (name, part) in enumerate(parts)]


def _split(made: Changes) -> Iterable[Changes]:
    """Parts that fit a message. All versions for windows go with the first one: they keep their order."""
    rows = len(made.keys)
    for begin in range(0, max(rows, 1), ROWS_A_RECORD):
        end = min(begin + ROWS_A_RECORD, rows)
        part = Changes(_slice(made.keys, begin, end), made.live[begin:end], made.records[begin:end])
        if begin == 0:
            part.history_keys, part.history_ts = made.history_keys, made.history_ts
            part.history_records = made.history_records
        yield part


def _slice(keys: EncodedKeys, begin: int, end: int) -> EncodedKeys:
    if keys.integers is not None:
        return EncodedKeys.of_integers(keys.integers[begin:end])
    offsets = keys.offsets[begin : end + 1]
    return EncodedKeys.of_bytes(keys.data[offsets[0] : offsets[-1]], offsets - offsets[0])


def _record(epoch: int, number: int, parts: int, table: str, made: Changes) -> dict[str, Any]:
    keys, key_offsets = _keys_bytes(made.keys)
    blobs = {
        "keys": keys, "key_offsets": key_offsets,
        "live": b"" if made.live.all() else made.live.tobytes(),
        "records": made.records.tobytes(),
        "history_keys": b"", "history_key_offsets": b"", "history_ts": b"", "history_records": b"",
    }  # fmt: skip
    history_rows = 0
    if made.history_keys is not None and made.history_ts is not None and made.history_records is not None:
        history_rows = len(made.history_keys)
        blobs["history_keys"], blobs["history_key_offsets"] = _keys_bytes(made.history_keys)
        blobs["history_ts"] = np.ascontiguousarray(made.history_ts).tobytes()
        blobs["history_records"] = np.ascontiguousarray(made.history_records).tobytes()
    return {
        "format": FORMAT, "epoch": epoch, "part": number, "parts": parts, "table": table, "rows": len(made.keys),
        "integer_keys": made.keys.integers is not None, "history_rows": history_rows, **blobs,
        "checksum": _checksum(blobs),
    }  # fmt: skip


def _checksum(blobs: dict[str, Any]) -> int:
    value = 0
    for name in _BLOBS:
        value = zlib.crc32(blobs[name], value)
    return value


def _keys_bytes(keys: EncodedKeys) -> tuple[bytes, bytes]:
    integers = keys.integers
    if integers is not None:  # in four bytes each where they fit: half of what most changes weigh
        narrow = integers.astype(np.int32)
        return (narrow if (narrow == integers).all() else integers).tobytes(), b""
    return keys.data.tobytes(), keys.offsets.tobytes()


def changes_of(application: Application, records: list[dict[str, Any]], memory: Memory, fires: Any) -> EpochChanges:
    """The changes of one epoch from all its changelog records. SnapshotError where they are not whole."""
    changes = EpochChanges(memory.epoch, memory.punctuation_ts or 0, {}, fires)
    for record in records:
        where = f"changelog of epoch {record['epoch']}, part {record['part']} ({record['table']})"
        if record["format"] != FORMAT or record["table"] not in application.tables:
            raise SnapshotError(f"{where}: written by another version or application; start with that one")
        if _checksum(record) != record["checksum"]:
            raise SnapshotError(f"{where}: its bytes do not match their checksum; restore the topic or use a snapshot")
        part = _changes(application, record)
        before = changes.tables.get(record["table"])
        changes.tables[record["table"]] = part if before is None else _joined(before, part)
    return changes


def _changes(application: Application, record: dict[str, Any]) -> Changes:
    dtype = application.tables[record["table"]].dtype
    integers = record["integer_keys"]
    made = Changes(
        _keys(record["keys"], record["key_offsets"], integers, record["rows"]),
        np.frombuffer(record["live"], np.uint8) if record["live"] else np.ones(record["rows"], np.uint8),
        np.frombuffer(record["records"], dtype),
    )
    if record["history_rows"]:
        made.history_keys = _keys(
            record["history_keys"], record["history_key_offsets"], integers, record["history_rows"]
        )
        made.history_ts = np.frombuffer(record["history_ts"], np.int64)
        made.history_records = np.frombuffer(record["history_records"], np.uint8).reshape(-1, dtype.itemsize)
    return made


def _keys(data: bytes, offsets: bytes, integers: bool, rows: int) -> EncodedKeys:
    if integers:
        width = np.int32 if len(data) == 4 * rows else np.int64
        return EncodedKeys.of_integers(np.frombuffer(data, width).astype(np.int64))
    return EncodedKeys.of_bytes(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64))


def _joined(one: Changes, two: Changes) -> Changes:
    """Two parts of one table; only the first has versions."""
    if one.keys.integers is not None and two.keys.integers is not None:
        keys = EncodedKeys.of_integers(np.concatenate([one.keys.integers, two.keys.integers]))
    else:
        offsets: NDArray[np.int64] = np.append(one.keys.offsets, two.keys.offsets[1:] + one.keys.offsets[-1])
        keys = EncodedKeys.of_bytes(np.concatenate([one.keys.data, two.keys.data]), offsets)
    return Changes(
        keys, np.concatenate([one.live, two.live]), np.concatenate([one.records, two.records]),
        one.history_keys, one.history_ts, one.history_records,
    )  # fmt: skip


def marker_of(
    application: Application,
    partitions: tuple[str, int],
    commit: Commit,
    before: Memory,
    fires: dict[str, int] | None,
    changes: int,
) -> dict[str, Any]:
    """The marker of a commit, for an input topic of so many partitions; of the memory of duplicates it has what is new."""
    memory = commit.memory
    topic, count = partitions
    cursors = {partition: memory.cursors.get(partition, Cursor()) for partition in range(count)}
    fresh = [
        (epoch, identity)
        for epoch, known in memory.closed.items()
        if known is not (old := before.closed.get(epoch, _NONE))
        for identity in known - old
    ]
    return {
        "epoch": memory.epoch,
        "closes": commit.epoch is not None,
        "punctuation_ts": memory.punctuation_ts,
        "offsets": [
            {
                "topic": topic,
                "partition": partition,
                "offset": cursor.low,
                "handled": sorted(cursor.handled),
                "read": cursor.read,
            }
            for partition, cursor in cursors.items()
        ],
        "chunks": [
            {"epoch": epoch, "source": source, "number": number, "checksum": checksum}
            for epoch, (source, number, checksum) in sorted(fresh)
        ],
        "fires": None if fires is None else [{"record_type": name, "ts": ts} for name, ts in sorted(fires.items())],
        **asdict(memory.tally),
        "changes": changes,
        "fingerprint": application.fingerprint(),
        "declaration": json.dumps(application.state_declaration()),
        "engine_version": _version(),
    }


@cache
def _version() -> str:
    return version("millrace")


def memory_after(before: Memory, marker: dict[str, Any], remembered_epochs: int) -> Memory:
    """The memory that a marker leaves, given the one before it."""
    closed = {epoch: known for epoch, known in before.closed.items() if epoch > marker["epoch"] - remembered_epochs}
    for chunk in marker["chunks"]:
        identity: Identity = (chunk["source"], chunk["number"], chunk["checksum"])
        closed[chunk["epoch"]] = closed.get(chunk["epoch"], frozenset()) | {identity}
    cursors = {
        each["partition"]: Cursor(each["offset"], frozenset(each["handled"]), each["read"])
        for each in marker["offsets"]
    }
    tally = Tally(**{name: marker[name] for name in Tally.__dataclass_fields__})
    return Memory(marker["epoch"], marker["punctuation_ts"], cursors, closed, tally)


def fires_of(marker: dict[str, Any]) -> dict[str, int] | None:
    given = marker["fires"]
    return None if given is None else {each["record_type"]: each["ts"] for each in given}
