"""The demo: a broker, a Spark job that publishes ledger events, the engine service, a kill -9, and the books at the end.

Everything lives in a temporary directory and in child processes of this one, and goes with it, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from rich.console import Console

from services.apps import workloads
from services.apps.streaming_ledger import build
from services.demo.service import APPLICATION, Service
from services.demo.view import Figures, Steps
from services.demo.warm_up import warm_up
from services.errors import ProgramError
from services.kafka.broker import Broker
from services.kafka.jars import broker_jars, spark_jars
from services.kafka.programs import find_java
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings, Settings, SparkSettings
from spark_jobs import accounting
from spark_jobs.command import sentence
from spark_jobs.messages import Published, Target, known_ids
from spark_jobs.publish_workload import WorkloadEvents, publish
from spark_jobs.session import spark_session

PARTITIONS = 4
EVENTS = 1_000_000
RATE = 100_000  # events a second: slow enough to watch; after the kill the engine shows how fast it is
ABORT_SHARE = 0.02
KILL_AT = 0.4  # of all events
LOOK_EVERY_S = 0.2
STUCK_AFTER_S = 90.0  # without any progress


@dataclass
class Course:
    """What was measured on the way."""

    kills: int = 0
    seconds: float = 0.0
    fastest: float = 0.0


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; the exit code is 0 if everything adds up."""
    console = Console(stderr=arguments.json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything is stopped in order
    find_java()
    broker_jars(console)
    spark_jars(console)
    events = WorkloadEvents(
        "streaming-ledger", replace(workloads.STREAMING_LEDGER, abort_share=ABORT_SHARE), arguments.seed
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-demo-")))
        broker = Broker(folder / "broker", console=Console(quiet=True))
        stack.callback(broker.stop)
        started, service, spark = _start(stack, console, folder, broker)
        course, published = _watch(console, spark, service, events, started, broker, arguments.events or EVENTS)
        with console.status("Spark reads all topics back, to add up …"):
            report = accounting.check(spark, started, KafkaSettings(bootstrap=broker.bootstrap), complete=True)
        with console.status("stopping …"):
            stack.close()
    adds_up = report.adds_up and report.events == published.events
    if arguments.json:
        names = ("events", "committed", "failed", "filtered", "dead_lettered", "missing", "duplicated")
        print(
            json.dumps(
                {name: getattr(report, name) for name in names}
                | {
                    "kills": course.kills,
                    "seconds": round(course.seconds, 1),
                    "events_per_second": round(report.events / course.seconds),
                }
            )
        )
        return 0 if adds_up else 1
    console.print(sentence(report), highlight=False)
    console.print(
        f"{report.events:,} events in {course.seconds:.0f} s with {course.kills} kill, published at {RATE:,} a second; "
        f"the engine's fastest moment: {course.fastest:,.0f} events/s. Nothing is left running.",
        highlight=False,
    )
    console.print("Next: `millrace publish --help`, `millrace run --help`, README.md", highlight=False)
    return 0 if adds_up else 1


def _start(
    stack: contextlib.ExitStack, console: Console, folder: Path, broker: Broker
) -> tuple[Target, Service, SparkSession]:
    """Broker, kernels and Spark at the same time, then the engine."""
    steps = Steps(console)
    spark_settings = SparkSettings(log=folder / "spark.log")
    # Entered last and so left first: nothing is stopped while it still starts.
    pool = stack.enter_context(ThreadPoolExecutor(3))

    def start_broker() -> None:
        with steps.step("starting a Kafka broker and making the ledger's topics"):
            broker.start()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            create_topics(admin, "streaming-ledger", PARTITIONS, 1)

    def start_spark() -> SparkSession:
        with steps.step("starting Spark"):
            return stack.enter_context(spark_session(spark_settings, Console(quiet=True)))

    with steps.shown():
        broker_started, spark_started = pool.submit(start_broker), pool.submit(start_spark)
        with steps.step("compiling the ledger's kernels (a minute the first time, then cached)") as step:
            warm_up(step)
        broker_started.result()
        spark = spark_started.result()
        target = Target(APPLICATION, known_ids(Settings(), build()), PARTITIONS)
        service = Service(broker.bootstrap, folder)
        with steps.step("starting the engine service"):
            service.start()
            stack.callback(service.stop)
            _wait_for(lambda: (service.status() or {}).get("ready"), "the engine service does not get ready")
    return target, service, spark


def _wait_for(condition: Callable[[], Any], otherwise: str) -> None:
    deadline_s = time.monotonic() + STUCK_AFTER_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise ProgramError(f"{otherwise} within {STUCK_AFTER_S:g} s")
        time.sleep(LOOK_EVERY_S)


def _watch(
    console: Console,
    spark: SparkSession,
    service: Service,
    events: WorkloadEvents,
    target: Target,
    broker: Broker,
    count: int,
) -> tuple[Course, Published]:
    """From the first event to the last commit, with a kill in between."""
    epochs = -(-count // events.parameters.transactions)
    total = epochs * events.parameters.transactions
    figures, course = Figures(console, total), Course()
    kafka, topic = KafkaSettings(bootstrap=broker.bootstrap), TopicNames("streaming-ledger").events
    begun_s = moved_s = time.monotonic()

    ended = threading.Event()

    def tell(written: Published) -> None:
        figures.published = written.events
        if ended.is_set():
            raise ProgramError("the demo ended before everything was published")

    with ThreadPoolExecutor(1) as pool, figures.shown(), contextlib.ExitStack() as stack:
        figures.note(f"Spark publishes {total:,} events at up to {RATE:,} a second")
        publishing: Future[Published] = pool.submit(
            publish, spark, events, target, kafka, topic, range(epochs), RATE, tell
        )
        stack.callback(ended.set)  # left first: publishing must not outlive a failure
        killed_s: float | None = None
        before = 0
        while not publishing.done() or (publishing.exception() is None and figures.done < total):
            figures.update(service.status())
            course.fastest = max(course.fastest, figures.rates[-1])
            if figures.done != before:
                before, moved_s = figures.done, time.monotonic()
            elif time.monotonic() - moved_s > STUCK_AFTER_S:
                raise ProgramError(
                    f"nothing moved for {STUCK_AFTER_S:g} s: {figures.done:,} of {total:,} events are done"
                )
            if killed_s is not None and figures.alive:
                seconds = figures.status["recovery_seconds"]
                figures.note(
                    f"it runs again after {time.monotonic() - killed_s:.1f} s, {seconds:.1f} s of them recovering its state"
                )
                killed_s = None
            if course.kills == 0 and figures.done >= KILL_AT * total:
                service.kill()
                course.kills, killed_s = 1, time.monotonic()
                figures.note(f"kill -9: the engine is gone in the middle of epoch {figures.status['epochs']}")
                service.start()
            time.sleep(LOOK_EVERY_S)
        published = publishing.result()
        course.seconds = time.monotonic() - begun_s
        figures.note(f"all {figures.done:,} events are dealt with")
        service.stop()
    return course, published
