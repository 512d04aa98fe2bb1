"""How fast Spark publishes: a workload's events from the seed to a broker's acknowledgement, and where the time goes.

    python -m bench.end_to_end.publishing --events 2000000 --repeats 5

Each round writes the same epochs through the job's own code, after one that warms up. Beside it the same work in parts, in one
process and without Spark: making the events, and making and encoding them. The answer is the hash of the first epochs'
messages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient
from rich.console import Console

from services.engine.command import load_application
from services.kafka.broker import Broker
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings, Settings, SparkSettings
from spark_jobs.messages import Target, known_ids
from spark_jobs.publish_workload import KINDS, WorkloadEvents, publish
from spark_jobs.session import spark_session

PARTITIONS = 4
ALONE_EPOCHS = 10  # of the parts in one process


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(KINDS), default="streaming-ledger")
    parser.add_argument("--events", type=int, default=2_000_000, metavar="N", help="of a round (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (%(default)s)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    kind = KINDS[given.workload]
    events = WorkloadEvents(given.workload, kind.parameters, seed=1)
    application = load_application(kind.application)
    target = Target(kind.application, known_ids(Settings(), application), PARTITIONS)
    epochs = range(-(-given.events // events.parameters.transactions))
    rates = _rounds(given, events, target, epochs, TopicNames(application.name).events)
    making_us, encoding_us, digest = alone(events, target, epochs)
    found = {
        "workload": given.workload, "events": len(epochs) * events.parameters.transactions,
        "events_per_second": round(median(rates)), "least": round(min(rates)), "most": round(max(rates)),
        "making_us": round(making_us, 2), "making_and_encoding_us": round(encoding_us, 2), "answer": digest,
    }  # fmt: skip
    if given.json:
        print(json.dumps(found))
        return 0
    print(
        f"{given.workload}: {found['events']:,} events a round, {found['events_per_second']:,} events/s "
        f"({found['least']:,} to {found['most']:,} in {given.repeats} rounds)"
    )
    print(f"one process, no Spark: {making_us:.2f} µs to make an event, {encoding_us:.2f} µs to make and encode it")
    print(f"answer: {digest}")
    return 0


def _rounds(
    given: argparse.Namespace, events: WorkloadEvents, target: Target, epochs: range, topic: str
) -> list[float]:
    """Events a second of each round."""
    rates = []
    with tempfile.TemporaryDirectory(prefix="millrace-publishing-") as folder:
        settings = SparkSettings(master=given.master, log=Path(folder) / "spark.log")
        with Broker(Path(folder) / "broker", console=Console(quiet=True)) as broker, spark_session(settings) as spark:
            app = topic.removesuffix(".events.v1")
            create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), app, PARTITIONS, 1)
            kafka = KafkaSettings(bootstrap=broker.bootstrap)
            publish(spark, events, target, kafka, topic, epochs)
            for _ in range(given.repeats):
                started_s = time.perf_counter()
                written = publish(spark, events, target, kafka, topic, epochs)
                rates.append(written.events / (time.perf_counter() - started_s))
    return rates


def alone(events: WorkloadEvents, target: Target, epochs: range) -> tuple[float, float, str]:
    """Microseconds an event to make it, and to make and encode it, in this process; the messages' hash."""
    some = epochs[:ALONE_EPOCHS]
    count = len(some) * events.parameters.transactions
    started_s = time.perf_counter()
    for number in some:
        events.epoch(number)
    made_s = time.perf_counter()
    digest = hashlib.blake2b(digest_size=8)
    for number in some:
        for source_epoch, ts in events.encode(number, target):
            for _, value in source_epoch.close(ts):
                digest.update(value)
    ended_s = time.perf_counter()
    return (made_s - started_s) / count * 1e6, (ended_s - made_s) / count * 1e6, digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
