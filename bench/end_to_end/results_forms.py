"""What results cost in chunks, and as one keyed record a transaction: encoded, and committed to a real broker.

    python -m bench.end_to_end.results_forms --epochs 5 --events 100000

Each epoch's results are one Kafka transaction. Both forms take turns; the median and the range of all rounds are printed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from confluent_kafka.admin import AdminClient

from engine import Engine, Epoch, EpochResult
from services.apps.streaming_ledger import build
from services.engine.command import schema_ids
from services.engine.facts import Memory
from services.engine.kafka_log import KafkaLog
from services.engine.outcomes import CHUNKS, ResultForm, outcome_records
from services.engine.wire import Wire, schemas_of
from services.kafka.broker import Broker
from services.kafka.topics import create_topics
from services.settings import KafkaSettings

KEYS, PARTITIONS = 10_000, 4
FORMS = {"chunks": CHUNKS, "records": ResultForm(single=True)}


def make_epochs(epochs: int, events: int) -> list[Epoch]:
    """Transfers, half of which fail for want of money sooner or later."""
    chance = np.random.default_rng(7)
    made = []
    for number in range(epochs):
        columns = {
            name: chance.integers(0, KEYS, events)
            for name in ("sender_account", "sender_asset", "receiver_account", "receiver_asset")
        }
        ts = np.arange(events) + number * events
        columns |= {"seq": np.arange(events), "ts": ts, "amount": chance.integers(1, 100, events)}
        made.append(Epoch(number, int(ts[-1]), {"Transfer": columns}))
    return made


def measure(log: KafkaLog, wire: Wire, result: EpochResult, form: ResultForm) -> tuple[float, float, int]:
    """Seconds to encode and to commit, and the bytes."""
    begin = time.perf_counter()
    records = outcome_records(wire, log.names, result, form)
    encoded = time.perf_counter()
    log.commit(records, Memory())
    ended = time.perf_counter()
    size = sum(
        sum(len(message["value"]) for message in each.messages) if hasattr(each, "messages") else len(each.value)
        for each in records
    )
    return encoded - begin, ended - encoded, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--events", type=int, default=100_000, help="an epoch (%(default)s)")
    given = parser.parse_args()
    application = build()
    wire = Wire(application, schema_ids(None, schemas_of(application)))
    with (
        tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
        Broker(Path(folder)) as broker,
        Engine(application, threads=1, policy="serial") as engine,
    ):
        create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), application.name, PARTITIONS, 1)
        log = KafkaLog(KafkaSettings(bootstrap=broker.bootstrap), application.name)
        log.new_producer()
        for table in ("accounts", "assets"):
            engine.load(table, range(KEYS), {"balance": np.full(KEYS, 1_000)})
        times: dict[str, list[tuple[float, float, int]]] = {name: [] for name in FORMS}
        for epoch in make_epochs(given.epochs + 1, given.events):
            result = engine.run_epoch(epoch)
            for name, form in FORMS.items():
                times[name].append(measure(log, wire, result, form))
        log.close()
    print(f"{given.events} events an epoch, {given.epochs} epochs, seconds a round: median (least to most)")
    for name, rounds in times.items():
        kept = rounds[1:]  # the first one compiles
        totals = [encode + commit for encode, commit, _ in kept]
        size = kept[0][2] / given.events
        encode, commit = median(each[0] for each in kept), median(each[1] for each in kept)
        spread = f"{median(totals):.3f} ({min(totals):.3f} to {max(totals):.3f})"
        print(f"{name:<8} {given.events / median(totals):>11,.0f} results/s  {spread}")
        print(f"         encode {encode:.3f}, produce and commit {commit:.3f}, {size:.0f} bytes a result")


if __name__ == "__main__":
    main()
