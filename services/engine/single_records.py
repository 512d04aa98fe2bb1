"""Single records between Kafka and the engine: their bytes are kept until they are dealt with, their times go to the machine.

Bytes are decoded twice, each time many messages in one call of the kernel compiled for their schema: when they come, which finds
what cannot be read and everyone's time; and when their epoch is cut, which makes its columns in the order of their offsets. That
costs less than to gather columns out of many small batches, and far less than one Python call a message.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Engine, Epoch
from services.codec import DecodeError, Malformed, SchemaError, SchemaIds, compile_reader
from services.codec.framing import FRAME_BYTES, MAGIC
from services.engine.cutting import FIRST_TS, LAST_TS
from services.engine.facts import Execute, Offsets, Place, RecordsArrived

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Decoded:
    """Messages of one record type: which of those given, and their columns."""

    record_type: str
    rows: Ints
    columns: dict[str, Any]


class SingleRecords:
    """All records that are not dealt with. `arrive` and `forget` are one thread's; `gather` may be another's."""

    def __init__(self, schemas: dict[str, dict[str, Any]], ids: SchemaIds) -> None:
        """`schemas`: what each record type is read as, by its declared name."""
        self._schemas, self._ids = schemas, ids
        self._readers: dict[int, tuple[str, Any] | SchemaError] = {}
        self._lock = threading.Lock()  # of the readers
        self._kept: defaultdict[int, dict[int, bytes]] = defaultdict(dict)  # by partition and offset

    # --- arrival --------------------------------------------------------------------------------------------------

    def arrive(self, messages: Sequence[tuple[Place, bytes | None]]) -> list[RecordsArrived]:
        """What the machine is to be told. UnknownSchemaError, and nothing is kept, if a schema is not known yet."""
        values = [value or b"" for _, value in messages]
        times = np.zeros(len(values), np.int64)
        wrong: dict[int, str] = {}
        for decoded in self._decode(values, wrong):
            times[decoded.rows] = decoded.columns["ts"]
        for row in np.flatnonzero((times < FIRST_TS) | (times > LAST_TS)).tolist():
            wrong[row] = f"its time is {times[row]}, expected {FIRST_TS} to {LAST_TS}"
        partitions: defaultdict[int, list[int]] = defaultdict(list)
        for row, (place, _) in enumerate(messages):
            self._kept[place.partition][place.offset] = values[row]
            partitions[place.partition].append(row)
        return [self._fact(partition, rows, messages, times, wrong) for partition, rows in partitions.items()]

    @staticmethod
    def _fact(
        partition: int,
        rows: list[int],
        messages: Sequence[tuple[Place, bytes | None]],
        times: Ints,
        wrong: dict[int, str],
    ) -> RecordsArrived:
        fine = [row for row in rows if row not in wrong] if wrong else rows
        offsets = np.fromiter((messages[row][0].offset for row in fine), np.int64, len(fine))
        sizes = np.fromiter((len(messages[row][1] or b"") for row in fine), np.int64, len(fine))
        undecodable = tuple((messages[row][0].offset, wrong[row]) for row in rows if row in wrong) if wrong else ()
        return RecordsArrived(partition, offsets, times[fine], sizes, undecodable)

    # --- decoding -------------------------------------------------------------------------------------------------

    def _decode(self, values: Sequence[bytes], wrong: dict[int, str]) -> Iterator[_Decoded]:
        """Messages by their schemas; those that cannot be read are named in `wrong`."""
        heads = b"".join([value[:FRAME_BYTES].ljust(FRAME_BYTES, b"\xff") for value in values])
        framing = np.frombuffer(heads, np.dtype([("magic", np.uint8), ("id", ">u4")]))
        framed = framing["magic"] == MAGIC
        for row in np.flatnonzero(~framed).tolist():
            wrong[row] = str(DecodeError(Malformed.BAD_FRAME, 0, f"{len(values[row])} bytes"))
        for number in np.unique(framing["id"][framed]).tolist():
            rows = np.flatnonzero(framed & (framing["id"] == number))
            reader = self._reader(number)
            if isinstance(reader, SchemaError):
                wrong.update(dict.fromkeys(rows.tolist(), str(reader)))
                continue
            record_type, codec = reader
            rows, columns = _readable(codec, values, rows, wrong)
            if rows.size:
                yield _Decoded(record_type, rows, columns)

    def _reader(self, number: int) -> tuple[str, Any] | SchemaError:
        with self._lock:
            if number not in self._readers:
                written = self._ids.schema_of(number)
                try:
                    self._readers[number] = self._make_reader(number, written)
                except SchemaError as error:
                    self._readers[number] = error
            return self._readers[number]

    def _make_reader(self, number: int, written: Any) -> tuple[str, Any]:
        name = str(written.get("name", "")).rpartition(".")[2] if isinstance(written, dict) else ""
        for record_type, wanted in self._schemas.items():
            if wanted["name"] == name:
                return record_type, compile_reader(written, wanted)
        known = ", ".join(schema["name"] for schema in self._schemas.values())
        raise SchemaError(
            f"schema id {number} is of {name or written!r}, which triggers no transaction; expected {known}"
        )

    # --- epochs ---------------------------------------------------------------------------------------------------

    def gather(self, engine: Engine, wanted: Execute) -> Epoch:
        """The epoch's events: a partition is a source, an event's number its place among those of its partition."""
        opened = engine.open_epoch(wanted.epoch)
        values = [self._kept[p][offset] for p, offsets in wanted.records.items() for offset in offsets.tolist()]
        sizes = [offsets.size for offsets in wanted.records.values()]
        source = np.repeat(np.array(list(wanted.records), np.int64), sizes)
        seq = np.concatenate([np.arange(size) for size in sizes]) if sizes else np.zeros(0, np.int64)
        wrong: dict[int, str] = {}
        for decoded in self._decode(values, wrong):
            identity = {"source": source[decoded.rows], "seq": seq[decoded.rows]}
            opened.add(decoded.record_type, decoded.columns | identity)
        assert not wrong, "what was read when it came can be read again"
        return opened.close(wanted.punctuation_ts)

    # --- bytes ----------------------------------------------------------------------------------------------------

    def value(self, place: Place) -> bytes | None:
        return self._kept[place.partition].get(place.offset)

    def forget(self, records: Offsets) -> None:
        for partition, offsets in records.items():
            kept = self._kept[partition]
            for offset in offsets.tolist():
                kept.pop(offset, None)

    def forget_places(self, places: Iterable[Place]) -> None:
        for place in places:
            self._kept[place.partition].pop(place.offset, None)

    def clear(self) -> None:
        self._kept.clear()


def _readable(codec: Any, values: Sequence[bytes], rows: Ints, wrong: dict[int, str]) -> tuple[Ints, dict[str, Any]]:
    """The columns of those messages that can be read, and which these are."""
    while rows.size:
        bodies = [values[row][FRAME_BYTES:] for row in rows.tolist()]
        try:
            return rows, codec.decode(bodies)
        except DecodeError as first:
            errors = codec.malformed(bodies) or [first]
        wrong.update({int(rows[error.message]): str(error) for error in errors})
        rows = np.delete(rows, [error.message for error in errors])
    return rows, {}
