"""What anyone sees who reads the committed records only: markers as they come, and at the end the whole answer."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from bench.end_to_end.first_tables import ledger_tables
from bench.end_to_end.pipeline import Pipeline
from engine import Engine, EpochResult
from services.apps.streaming_ledger import build
from services.codec import unframe
from services.engine.kafka_log import KafkaLog
from services.engine.recovery import Recovery
from services.engine.wire import MARKER
from services.kafka.clients import committed_consumer

SILENCE_MAX_S = 240.0  # the first epoch may have to wait for kernels that are compiled anew


@dataclass(frozen=True)
class Seen:
    """A marker, when it was seen."""

    marker: dict[str, Any]
    seen_s: float


class Reader:
    """One topic's committed records, from the beginning."""

    def __init__(self, pipeline: Pipeline, topic: str, partitions: int = 1, *, report_end: bool = False) -> None:
        self._consumer = Consumer(committed_consumer(pipeline.settings, "bench", report_end=report_end))
        self._partitions = partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])

    def records(self, check: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """Record by record; ends at the topic's end if that is reported."""
        ends, silent_since_s = 0, time.perf_counter()
        while ends < self._partitions:
            message = self._consumer.poll(0.5)
            if message is None:
                check()
                if time.perf_counter() - silent_since_s > SILENCE_MAX_S:
                    raise RuntimeError(f"nothing was committed for {SILENCE_MAX_S:.0f} s")
                continue
            silent_since_s = time.perf_counter()
            error = message.error()
            if error is None:
                yield message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                ends += 1
            else:
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()


def wait_for_epoch(pipeline: Pipeline, epoch: int, check: Callable[[], None]) -> list[Seen]:
    """All markers up to the one that closes the epoch, each with the time at which it was seen."""
    reader, seen = Reader(pipeline, pipeline.names.epochs), []
    try:
        for value in reader.records(check):
            now_s = time.perf_counter()
            seen.append(Seen(pipeline.wire.decode(MARKER, value), now_s))
            if seen[-1].marker["epoch"] >= epoch:
                break
    finally:
        reader.close()
    return seen


class LedgerCounts:
    """An answer as counts and the hash of the final state; of a pipeline, or of an engine in this process."""

    def __init__(self) -> None:
        self.committed = self.failed = 0

    def add(self, result: EpochResult) -> None:
        self.committed += result.committed
        self.failed += result.failed

    def answer(self, engine: Engine) -> str:
        digest = hashlib.blake2b(engine.snapshot(), digest_size=8).hexdigest()
        return f"{digest} {self.committed} committed {self.failed} failed"


def answer_of(pipeline: Pipeline) -> str:
    """What the topics say, after the service has ended: results counted one by one, state out of the changelog."""
    counts = LedgerCounts()
    for topic, codec in ((pipeline.names.committed, "committed"), (pipeline.names.failed, "failed")):
        reader = Reader(pipeline, topic, 1, report_end=True)
        found = sum(getattr(pipeline.wire, codec).decode(unframe(value)[1]).kinds.size for value in reader.records())
        setattr(counts, codec, found)
        reader.close()
    log = KafkaLog(pipeline.settings, pipeline.names.app)
    try:
        recovered = Recovery(pipeline.wire.application, pipeline.wire, log, None).run(
            lambda state: fresh_engine(pipeline.keys), 1
        )
        memory = recovered.memory
        with recovered.engine as engine:
            if (memory.tally.committed, memory.tally.failed) != (counts.committed, counts.failed):
                raise RuntimeError(f"the last marker counts {memory.tally}, the result topics hold {counts.__dict__}")
            return counts.answer(engine)
    finally:
        log.close()


def fresh_engine(keys: int, **options: Any) -> Engine:
    """An engine with the tables that the service begins with."""
    engine = Engine(build(), **options)
    for name, (numbers, columns) in ledger_tables(keys).items():
        engine.load(name, numbers, columns)
    return engine
