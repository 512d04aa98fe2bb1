"""Publishes files, or a topic of single Avro records, as epochs: once, or as a stream with a checkpoint.

A stream's batch has a number and, by Spark's checkpoint, the same input however often it is tried. Before a batch is
written, the job notes in `<checkpoint>/millrace/<batch>.json` which epochs it has. They follow those of the batch before, so
epochs are dense, and a batch that is tried again gets the same numbers, the same seqs and the same bytes; if its note says
otherwise, the input was changed and the job stops. The end of a batch ends its last epoch.

    spark-submit --jars "$(python -m spark_jobs.session)" spark_jobs/publish_files.py --app ledger:ledger --format csv ...
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.errors import JobError
from services.settings import KafkaSettings
from spark_jobs.epochs import Cut, cut, messages
from spark_jobs.kafka import cause_of, write
from spark_jobs.messages import Published, Target, counter
from spark_jobs.rows import PLACE, TS, Input, placed, rows

LOOK_EVERY_S = 1

__all__ = ["Cut", "Input", "Note", "run"]


@dataclass(frozen=True)
class Note:
    """What a batch has: its epochs, the last punctuation's time, and how many events were too late for them."""

    first_epoch: int = 0
    epochs: int = 0
    last_ts: int | None = None
    late: int = 0

    @property
    def next_epoch(self) -> int:
        return self.first_epoch + self.epochs


class Notes:
    """The notes of a checkpoint, one file a batch; in memory where there is no checkpoint."""

    def __init__(self, checkpoint: Path | None, first_epoch: int) -> None:
        self.folder = checkpoint / "millrace" if checkpoint is not None else None
        self._begin = Note(first_epoch)
        self._kept: dict[int, Note] = {}

    def before(self, batch: int) -> Note:
        """Where the batch begins."""
        if batch == 0:
            return self._begin
        note = self._read(batch - 1)
        if note is None:
            raise JobError(
                f"{self.folder} has no note of batch {batch - 1}, after which batch {batch} begins: the checkpoint is not whole; "
                "give a new one, and --first-epoch"
            )
        return note

    def keep(self, batch: int, note: Note) -> None:
        """Notes a batch before it is written."""
        known = self._read(batch)
        if known is not None and known != note:
            raise JobError(
                f"batch {batch} was {known} and is {note} now: its input was changed, or it is cut otherwise, after the batch "
                "was begun; put the input back, or give a new checkpoint"
            )
        self._kept = {batch: note}
        if self.folder is not None and known is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = self.folder / f"{batch}.unfinished"
            with unfinished.open("w", encoding="ascii") as file:
                file.write(json.dumps(asdict(note)))
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.folder / f"{batch}.json")

    def _read(self, batch: int) -> Note | None:
        if self.folder is None or batch in self._kept:
            return self._kept.get(batch)
        try:
            return Note(**json.loads((self.folder / f"{batch}.json").read_text("ascii")))
        except FileNotFoundError:
            return None


@dataclass
class Publisher:
    """Publishes batches of rows, one after another."""

    spark: SparkSession
    cut: Cut
    target: Target
    kafka: KafkaSettings
    topic: str
    notes: Notes
    drop_late: bool = False

    def __post_init__(self) -> None:
        self.written = counter(self.spark)
        self.epochs = 0

    def publish(self, batch_rows: DataFrame, batch: int) -> None:
        """One batch: cut, note, write."""
        before = self.notes.before(batch)
        kept = placed(batch_rows).persist()
        try:
            fresh, late = self._fresh(kept, before)
            epochs = cut(fresh, self.cut, before.next_epoch)
            last_ts = epochs.ends[-1] if epochs.ends else before.last_ts
            self.notes.keep(batch, Note(before.next_epoch, len(epochs), last_ts, late))
            if epochs.begins:
                write(messages(fresh, epochs, self.target, self.cut.source, self.written), self.kafka, self.topic)
            self.epochs += len(epochs)
        finally:
            kept.unpersist()

    def _fresh(self, given: DataFrame, before: Note) -> tuple[DataFrame, int]:
        """The rows that no punctuation has passed, and how many it has."""
        without = given.where(F.col(TS).isNull()).select(*PLACE).first()
        if without is not None:
            raise JobError(f"the event at {without[0]}, position {without[1]}:{without[2]}, has no time")
        if before.last_ts is None:
            return given, 0
        late = given.where(F.col(TS) <= before.last_ts)
        count = late.count()
        if count and not self.drop_late:
            first = late.orderBy(TS).select(TS, *PLACE).first()
            assert first is not None
            raise JobError(
                f"{count} events are late: the first has ts {first[0]} (in {first[1]}), and epoch {before.next_epoch - 1} was "
                f"punctuated at {before.last_ts}; put them right, or drop such events with --late drop"
            )
        return given.where(F.col(TS) > before.last_ts), count


def run(
    spark: SparkSession, given: Input, how: Cut, target: Target, kafka: KafkaSettings, topic: str,
    arguments: argparse.Namespace,
) -> tuple[Published, int]:  # fmt: skip
    """Publishes what the arguments say; gives what was written and the epochs."""
    checkpoint: Path | None = arguments.checkpoint
    if arguments.follow and checkpoint is None:
        raise JobError("--follow needs a --checkpoint, to go on where it was")
    target.wire.chunk_encoder.encode(0, 0, 0, {})  # compiles the codec once, here, and not once in every worker
    notes = Notes(checkpoint, arguments.first_epoch)
    publisher = Publisher(spark, how, target, kafka, topic, notes, arguments.late == "drop")
    found = rows(spark, given, target, kafka, stream=checkpoint is not None)
    try:
        if checkpoint is None:
            publisher.publish(found, 0)
        else:
            _stream(publisher, found, checkpoint, arguments.every if arguments.follow else None)
    except PySparkException as error:
        raise JobError(f"{given.path}: {cause_of(error)}") from error
    return publisher.written.value, publisher.epochs


def _stream(publisher: Publisher, found: DataFrame, checkpoint: Path, every_s: int | None) -> None:
    """All there is, or on and on until a signal."""
    writer = found.writeStream.foreachBatch(publisher.publish)
    writer = writer.option("checkpointLocation", str(checkpoint.absolute() / "spark"))
    writer = (
        writer.trigger(availableNow=True) if every_s is None else writer.trigger(processingTime=f"{every_s} seconds")
    )
    query, asked = writer.start(), threading.Event()
    if every_s is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only noted here: a handler runs in the middle of a call to Java, and must not make another.
            signal.signal(number, lambda *_: asked.set())
    while not query.awaitTermination(LOOK_EVERY_S):
        if asked.is_set():
            query.stop()


if __name__ == "__main__":
    from spark_jobs.command import main

    sys.exit(main("publish", "files", *sys.argv[1:]))
