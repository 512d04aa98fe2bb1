"""Reads an application's topics back and checks that every event is accounted for, epoch by epoch.

    distinct input events = committed + failed + filtered + dead-lettered

Executors turn messages into identities (IDENTITIES: what was said about which seqs of a source and epoch), one task adds an epoch
up (`account`), and the driver compares with the epoch markers, which alone know how many events were filtered. Only
transactions that an input event triggered count: derived and self-firing ones have no input event of their own.

    spark-submit --jars "$(python -m spark_jobs.session)" spark_jobs/accounting.py --app ledger:ledger
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from services.codec import DecodedChunk, unframe
from services.codec.columns import column_items
from services.engine.facts import LetterReason, Tally
from services.engine.wire import DEAD_LETTER, MARKER, Wire
from services.errors import JobError
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings
from spark_jobs.kafka import cause_of, read
from spark_jobs.messages import Target

IDENTITIES = "kind string, epoch bigint, source bigint, seqs binary"
INPUT, COMMITTED, FAILED, DEAD, CONFLICT, UNDECODABLE = (
    "input", "committed", "failed", "dead-lettered", "conflict", "undecodable",
)  # fmt: skip
COUNTS = "epoch bigint, events bigint, copies bigint, committed bigint, failed bigint, dead_lettered bigint, "
COUNTS += "absent bigint, twice bigint, unknown bigint, examples string"
EXAMPLES_MAX = 3  # identities that a difference names

Seqs = NDArray[np.int64]
Identity = tuple[str, int, int, Seqs]  # kind, epoch, source, seqs


@dataclass
class Report:
    """The sums over all closed epochs, and every difference as a sentence."""

    epochs: int = 0
    events: int = 0
    committed: int = 0
    failed: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    missing: int = 0  # distinct input events that nothing became of
    duplicated: int = 0  # that have more than one result
    unknown: int = 0  # results of events that are not in the input
    copies: int = 0  # input events that came again
    conflicts: int = 0  # messages with other copies of known events
    undecodable: int = 0  # messages
    open_events: int = 0  # of epochs that are not closed yet
    differences: list[str] = field(default_factory=list)

    @property
    def adds_up(self) -> bool:
        return not self.differences


# --- messages to identities (in executors) --------------------------------------------------------------------------------


def input_identities(wire: Wire, values: Iterable[bytes | None]) -> Iterator[Identity]:
    """What the input topic says: the events of each chunk."""
    for value in values:
        _, chunk = wire.read(value)
        if chunk is not None:
            yield INPUT, chunk.epoch, chunk.source, _seqs_of(chunk)


def result_identities(wire: Wire, kind: str, values: Iterable[bytes]) -> Iterator[Identity]:
    """What the committed or failed topic says, whose results leave in chunks or one by one."""
    inputs = set(wire.application.input_types)
    chunk_codec = wire.committed if kind == COMMITTED else wire.failed
    singles = {wire.result_id(name): codec for name, codec in wire.results.items()} | {wire.failure_id(): wire.failure}
    names = {wire.result_id(name): name for name in wire.results}
    alone: dict[int, list[bytes]] = {}
    for value in values:
        number, body = unframe(value)
        if number in singles:
            alone.setdefault(number, []).append(bytes(body))
            continue
        decoded = chunk_codec.decode(body)
        for name, columns in decoded.columns.items():
            if decoded.rows[name] and (kind == FAILED or name in inputs):
                yield from _results(kind, np.full(decoded.rows[name], decoded.header["epoch"]), columns, inputs)
    for number, bodies in alone.items():
        found: dict[str, Any] = singles[number].decode(bodies)
        if kind == FAILED or names[number] in inputs:
            yield from _results(kind, found["epoch"], found, inputs)


def dead_identities(wire: Wire, values: Iterable[bytes]) -> Iterator[Identity]:
    """What the dead letters say: events of whole chunks; conflicts and what cannot be read are no events."""
    for value in values:
        letter = wire.decode(DEAD_LETTER, value)
        chunk = wire.read(letter["payload"])[1]
        if letter["reason"] == LetterReason.CONFLICT:
            yield CONFLICT, letter["epoch"] or 0, letter["source"] or 0, np.empty(0, np.int64)
        elif chunk is None:
            yield UNDECODABLE, 0, 0, np.empty(0, np.int64)
        else:
            yield DEAD, chunk.epoch, chunk.source, _seqs_of(chunk)


def _seqs_of(chunk: DecodedChunk) -> Seqs:
    found = [np.asarray(columns["seq"], np.int64) for _, columns in chunk.batches()]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _results(kind: str, epoch: Seqs, columns: dict[str, Any], inputs: set[str]) -> Iterator[Identity]:
    """Those of input events: of their types, and nothing emitted them."""
    mine = np.diff(columns["path"].offsets) == 0
    if kind == FAILED:
        mine &= np.array([name in inputs for name in column_items(columns["record_type"])], np.bool_)
    of = np.stack([epoch[mine], columns["source"][mine]], axis=1)
    seq = columns["seq"][mine]
    for each in np.unique(of, axis=0):
        yield kind, int(each[0]), int(each[1]), seq[(of == each).all(axis=1)]


_READERS: dict[str, Callable[[Wire, list[bytes]], Iterator[Identity]]] = {
    INPUT: input_identities,
    COMMITTED: lambda wire, values: result_identities(wire, COMMITTED, values),
    FAILED: lambda wire, values: result_identities(wire, FAILED, values),
    DEAD: dead_identities,
}


def identities(messages: DataFrame, kind: str, target: Target) -> DataFrame:
    """A topic's messages (with a `value`) as IDENTITIES."""

    def decode(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            found = list(_READERS[kind](target.wire, batch.column(0).to_pylist()))
            yield _batch(found)

    return messages.select("value").mapInArrow(decode, IDENTITIES)


def _batch(found: list[Identity]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([each[0] for each in found], pa.string()),
            "epoch": pa.array([each[1] for each in found], pa.int64()),
            "source": pa.array([each[2] for each in found], pa.int64()),
            "seqs": pa.array([each[3].tobytes() for each in found], pa.binary()),
        }
    )


# --- one epoch (in executors) ----------------------------------------------------------------------------------------------


def account(epoch: int, found: Iterable[tuple[str, int, Seqs]]) -> dict[str, Any]:
    """COUNTS of an epoch, from its (kind, source, seqs): who is absent, who has two results, who is in no input."""
    by_source: dict[int, dict[str, list[Seqs]]] = {}
    for kind, source, seqs in found:
        by_source.setdefault(source, {}).setdefault(kind, []).append(seqs)
    counts = dict.fromkeys(
        ("events", "copies", "committed", "failed", "dead_lettered", "absent", "twice", "unknown"), 0
    )
    examples: list[str] = []
    for source, kinds in sorted(by_source.items()):
        given = _joined(kinds, INPUT)
        events = np.unique(given)
        committed, failed = _joined(kinds, COMMITTED), _joined(kinds, FAILED)
        results, times = np.unique(np.concatenate([committed, failed]), return_counts=True)
        dead = np.setdiff1d(_joined(kinds, DEAD), results)  # of an event with a result, a late copy is a duplicate
        absent = np.setdiff1d(np.setdiff1d(events, results, True), dead, True)
        twice, unknown = results[times > 1], np.setdiff1d(results, events, True)
        for name, number in (
            ("events", events.size), ("copies", given.size - events.size), ("committed", committed.size),
            ("failed", failed.size), ("dead_lettered", dead.size), ("absent", absent.size), ("twice", twice.size),
            ("unknown", unknown.size),
        ):  # fmt: skip
            counts[name] += int(number)
        for what, seqs in (("no result", absent), ("two results", twice), ("not in the input", unknown)):
            if seqs.size:
                named = ", ".join(map(str, seqs[:EXAMPLES_MAX].tolist()))
                more = f" and {seqs.size - EXAMPLES_MAX} more" if seqs.size > EXAMPLES_MAX else ""
                examples.append(f"{what}: source {source}, seq {named}{more}")
    return {"epoch": epoch, **counts, "examples": "; ".join(examples)}


def _joined(kinds: dict[str, list[Seqs]], kind: str) -> Seqs:
    return np.concatenate([np.empty(0, np.int64), *kinds.get(kind, ())])


def counts_by_epoch(found: DataFrame) -> DataFrame:
    """IDENTITIES added up to COUNTS, a row an epoch."""

    def add_up(table: pa.Table) -> pa.Table:
        rows = zip(*(table.column(name).to_pylist() for name in ("kind", "source", "seqs")), strict=True)
        given = ((kind, source, np.frombuffer(seqs, np.int64)) for kind, source, seqs in rows)
        made = account(table.column("epoch")[0].as_py(), given)
        return pa.Table.from_pylist([made])

    return found.groupBy("epoch").applyInArrow(add_up, COUNTS)


# --- the whole (in the driver) -------------------------------------------------------------------------------------------


def report(counts: Iterable[dict[str, Any]], markers: list[dict[str, Any]], *, complete: bool = False) -> Report:
    """COUNTS against the markers. `complete`: epochs of the input that are not closed are differences too."""
    made, tallies = Report(), _tallies(markers)
    closing = [marker["epoch"] for marker in markers if marker["closes"]]
    if closing != list(range(len(closing))):
        made.differences.append(f"epochs were closed in this order: {closing}; each once and in order was expected")
    found = {row["epoch"]: row for row in counts}
    for epoch in sorted({*found, *closing}):
        row = found.get(epoch) or account(epoch, ())
        if epoch not in tallies and not row["committed"] + row["failed"]:
            made.open_events += row["events"] - row["dead_lettered"]
            made.events += row["dead_lettered"]
            made.dead_lettered += row["dead_lettered"]
            if complete and row["absent"]:
                made.differences.append(f"epoch {epoch}: {row['absent']} events, and it is not closed")
            continue
        _add_epoch(made, row, tallies.get(epoch, Tally()))
    if complete:
        made.missing += made.open_events
        made.events += made.open_events
    return made


def _add_epoch(made: Report, row: dict[str, Any], tally: Tally) -> None:
    made.epochs += 1
    for name in ("events", "copies", "committed", "failed", "dead_lettered", "unknown"):
        setattr(made, name, getattr(made, name) + row[name])
    filtered = min(tally.filtered, row["absent"])
    made.filtered += filtered
    made.missing += row["absent"] - filtered
    made.duplicated += row["twice"]
    wrong = []
    if row["absent"] != tally.filtered:
        wrong.append(f"{row['absent']} events without a result, {tally.filtered} filtered")
    if row["twice"]:
        wrong.append(f"{row['twice']} events with two results")
    if row["unknown"]:
        wrong.append(f"{row['unknown']} results of events that are not in the input")
    for name in ("committed", "failed"):
        if row[name] != getattr(tally, name):
            wrong.append(f"{row[name]} {name}, its marker says {getattr(tally, name)}")
    if wrong:
        made.differences.append(f"epoch {row['epoch']}: {'; '.join(wrong)} ({row['examples'] or 'no event to name'})")


def _tallies(markers: list[dict[str, Any]]) -> dict[int, Tally]:
    """What each closing marker added to the counts of input events."""
    before, made = Tally(), {}
    for marker in markers:
        after = Tally(**{name: marker[name] for name in Tally.__dataclass_fields__})
        if marker["closes"]:
            made[marker["epoch"]] = Tally(
                *(getattr(after, name) - getattr(before, name) for name in Tally.__dataclass_fields__)
            )
        before = after
    return made


def check(
    spark: SparkSession, target: Target, kafka: KafkaSettings, *, complete: bool = False, tasks: int = 4
) -> Report:
    """Reads all topics of the application as they are now, and adds up."""
    names = TopicNames(target.wire.application.name)
    # Markers first: what is committed while the topics are read is then an epoch that is not closed yet.
    try:
        rows = read(spark, kafka, names.epochs, 1).orderBy("offset").select("value").collect()
        markers = [target.wire.decode(MARKER, bytes(row["value"])) for row in rows]
        topics = {INPUT: names.events, COMMITTED: names.committed, FAILED: names.failed, DEAD: names.dead_letter}
        parts = [identities(read(spark, kafka, topic, tasks), kind, target) for kind, topic in topics.items()]
        found = parts[0].unionAll(parts[1]).unionAll(parts[2]).unionAll(parts[3]).persist()
        counts = [
            row.asDict() for row in counts_by_epoch(found.where(f"kind not in {CONFLICT, UNDECODABLE}")).collect()
        ]
        apart = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        found.unpersist()
    except PySparkException as error:
        raise JobError(f"reading the topics of {names.app} at {kafka.bootstrap}: {cause_of(error)}") from error
    made = report(counts, markers, complete=complete)
    made.conflicts, made.undecodable = apart.get(CONFLICT, 0), apart.get(UNDECODABLE, 0)
    return made


if __name__ == "__main__":
    from spark_jobs.command import main

    sys.exit(main("account", *sys.argv[1:]))
