"""Publishes a benchmark workload: seeded events, made and encoded inside Spark's executors, written by its Kafka sink.

Epochs are dealt to tasks. A task makes its epochs from the seed and their numbers, so neither who makes them nor how often
changes a byte, and writes for each the chunks of all sources and then their punctuations, which count what was encoded. Tasks are
small and taken in order, so that the topic's order is nearly that of the epochs and the engine need not hold many.

    spark-submit --jars "$(python -m spark_jobs.session)" spark_jobs/publish_workload.py --events 1000000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from engine import Epoch
from services.apps import workloads
from services.apps.workloads import Parameters
from services.engine.publishing import SourceEpoch
from services.errors import JobError
from services.settings import KafkaSettings
from spark_jobs.kafka import MESSAGES, write
from spark_jobs.messages import ROWS_A_CHUNK, Published, Target, batches, counter

EVENTS_A_TASK = 200_000  # a few tenths of a second: starting a task costs a tenth of that
SLICES_A_SECOND = 4  # of a paced run


@dataclass(frozen=True)
class Kind:
    """A workload: its application, its parameters in workloads.md, what makes its epochs."""

    application: str
    parameters: Parameters
    epochs: Callable[..., Iterator[Epoch]]
    shares: tuple[str, ...] = ()  # further arguments


KINDS = {
    "streaming-ledger": Kind(
        "services.apps.streaming_ledger:build",
        workloads.STREAMING_LEDGER,
        workloads.streaming_ledger,
        ("transfer_share",),
    ),
    "grep-sum": Kind(
        "services.apps.grep_sum:build", workloads.GREP_SUM, workloads.grep_sum, ("query_share",)
    ),
    "toll-processing": Kind(
        "services.apps.toll_processing:build", workloads.TOLL_PROCESSING, workloads.toll_processing
    ),
    "online-bidding": Kind("services.apps.online_bidding:build", workloads.ONLINE_BIDDING, workloads.online_bidding),
}  # fmt: skip


@dataclass(frozen=True)
class WorkloadEvents:
    """Which events: a workload by name, its parameters, the seed."""

    name: str
    parameters: Parameters
    seed: int = 1
    shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = set(self.shares) - set(KINDS[self.name].shares)
        if wrong:
            raise JobError(f"{self.name} has no {', '.join(sorted(wrong))}; leave it out")

    def epoch(self, number: int) -> Epoch:
        """An epoch's events, from nothing but its number."""
        made = KINDS[self.name].epochs(self.parameters, 1, self.seed, first_epoch=number, **self.shares)
        return next(iter(made))

    def encode(self, number: int, target: Target) -> Iterator[tuple[SourceEpoch, int]]:
        """The epoch as each source's messages, and its punctuation's time."""
        epoch = self.epoch(number)
        for source in range(self.parameters.sources):
            made = target.source_epoch(source, number)
            for record_type, columns in epoch.events.items():
                rows = np.flatnonzero(columns["source"] == source)
                if rows.size:
                    made.add(record_type, {name: column[rows] for name, column in columns.items()}, ROWS_A_CHUNK)
            yield made, epoch.punctuation_ts


def messages(
    spark: SparkSession,
    events: WorkloadEvents,
    target: Target,
    epochs: range,
    written: Accumulator[Published],
    tasks: int | None = None,
) -> DataFrame:
    """The messages of these epochs (MESSAGES), made when somebody writes them, by so many tasks (by their size)."""
    if tasks is None:
        tasks = -(-len(epochs) * events.parameters.transactions // EVENTS_A_TASK)

    def make(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in given for number in batch.column(0).to_pylist())
        return batches((each for number in numbers for each in events.encode(number, target)), written)

    return spark.range(epochs.start, epochs.stop, 1, max(1, min(tasks, len(epochs)))).mapInArrow(make, MESSAGES)


def publish(
    spark: SparkSession,
    events: WorkloadEvents,
    target: Target,
    kafka: KafkaSettings,
    topic: str,
    epochs: range,
    events_a_second: int | None = None,
    report: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Writes the epochs: in one go, or paced in slices of some epochs each. `report` gets what is written so far."""
    target.wire.chunk_encoder.encode(0, 0, 0, {})  # compiles the codec once, here, and not once in every worker
    slice_epochs = len(epochs)
    if events_a_second is not None:
        slice_epochs = max(1, events_a_second // SLICES_A_SECOND // events.parameters.transactions)
    written, started_s = counter(spark), time.monotonic()
    for first in range(epochs.start, epochs.stop, max(1, slice_epochs)):
        part = range(first, min(first + slice_epochs, epochs.stop))
        write(messages(spark, events, target, part, written), kafka, topic)
        report(written.value)
        if events_a_second is not None:
            time.sleep(max(0.0, started_s + written.value.events / events_a_second - time.monotonic()))
    return written.value


if __name__ == "__main__":
    from spark_jobs.command import main

    sys.exit(main("publish", "workload", *sys.argv[1:]))
