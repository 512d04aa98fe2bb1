"""A producer in a process of its own that keeps to its schedule whatever becomes of its events: no coordinated omission.

Epoch n's events are meant to happen evenly over the period before its time, `start_s + (n + 1) * period_s` on the machine's
monotonic clock; at that time its messages are sent. If the broker or the machine holds it up, the next epochs go out late
and their events' latency counts from when they were meant to happen.

    python -m bench.end_to_end.open_loop '{"bootstrap": …, "transactions": …, …}'
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from confluent_kafka import Producer

from bench.end_to_end.feed import ledger_epochs, messages_of
from bench.machine import ROOT
from engine import Epoch
from services.apps.streaming_ledger import build
from services.engine.command import schema_ids
from services.engine.wire import Wire, schemas_of
from services.kafka.clients import producer
from services.kafka.topics import TopicNames
from services.settings import KafkaSettings

LEAD_S = 0.5  # from "ready" to the first epoch's period


@dataclass(frozen=True)
class Schedule:
    """What is produced, and how fast. Epochs beyond `distinct` have the keys and amounts of earlier ones again: making
    new ones would take more of the machine than processing them."""

    bootstrap: str
    transactions: int
    keys: int
    seed: int
    epochs: int
    period_s: float
    distinct: int | None = None  # none: all are


def epochs_of(schedule: Schedule) -> Iterator[Epoch]:
    """The schedule's epochs, in order."""
    rows = schedule.transactions
    distinct = schedule.distinct or schedule.epochs
    made: list[Epoch] = []
    for epoch in ledger_epochs(rows, schedule.keys, min(distinct, schedule.epochs), schedule.seed):
        if schedule.distinct is not None:
            made.append(epoch)
        yield epoch
    for number in range(distinct, schedule.epochs):
        again = made[number % distinct]
        later = (number - again.number) * rows  # of event time: one unit a row
        columns = {name: {**given, "ts": given["ts"] + later} for name, given in again.events.items()}
        yield Epoch(number, again.punctuation_ts + later, columns)


def run(schedule: Schedule) -> None:
    """Prints the start on the monotonic clock once everything is made; then keeps to the schedule."""
    wire = Wire(app := build(), schema_ids(None, schemas_of(app)))
    topic = TopicNames(app.name).events
    epochs = epochs_of(schedule)
    client = Producer({**producer(KafkaSettings(bootstrap=schedule.bootstrap)), "linger.ms": 0})
    client.list_topics(topic)  # connected before the clock starts
    ready = [messages_of(wire, epoch) for _, epoch in zip(range(AHEAD), epochs, strict=False)]
    start_s = time.monotonic() + LEAD_S
    print(json.dumps({"start_s": start_s}), flush=True)
    for number in range(schedule.epochs):
        due_s = start_s + (number + 1) * schedule.period_s
        while time.monotonic() < due_s - SPARE_S and len(ready) < AHEAD and (epoch := next(epochs, None)) is not None:
            ready.append(messages_of(wire, epoch))
        time.sleep(max(0.0, due_s - time.monotonic()))
        for partition, value in ready.pop(0) if ready else messages_of(wire, next(epochs)):
            client.produce(topic, value, partition=partition)
        client.poll(0)
    client.flush()


AHEAD = 500  # epochs that are made before they are due
SPARE_S = 0.004  # making one takes less


@contextmanager
def producing(schedule: Schedule) -> Iterator[float]:
    """The producer's process; gives the start of its schedule on the monotonic clock."""
    command = [sys.executable, "-m", "bench.end_to_end.open_loop", json.dumps(asdict(schedule))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield float(json.loads(process.stdout.readline())["start_s"])
        finally:
            process.kill()  # it has ended, unless something went wrong


if __name__ == "__main__":
    run(Schedule(**json.loads(sys.argv[1])))
