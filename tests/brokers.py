"""The broker that tests run on: Kafka from Maven's jars, or in a container where `MILLRACE_TEST_BROKER=docker` asks for one.

Tests that stop, pause or configure their broker always take the one from the jars.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from services.kafka.broker import Broker

CHOICE = "MILLRACE_TEST_BROKER"
_SINGLE_NODE = {
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
}


@dataclass(frozen=True)
class RunningBroker:
    """What a test needs of a broker."""

    bootstrap: str


@contextmanager
def running_broker(directory: Path) -> Iterator[RunningBroker]:
    """A broker of one node with nothing in it, gone afterwards; `directory` has its data where it runs from the jars."""
    choice = os.environ.get(CHOICE, "jars")
    if choice not in ("jars", "docker"):
        raise ValueError(f"{CHOICE} is jars or docker, not {choice!r}")
    if choice == "docker":
        with _in_container() as bootstrap:
            yield RunningBroker(bootstrap)
    else:
        with Broker(directory, console=Console(quiet=True)) as broker:
            yield RunningBroker(broker.bootstrap)


@contextmanager
def _in_container() -> Iterator[str]:
    from docker.errors import DockerException
    from testcontainers.community.kafka import KafkaContainer

    try:
        container = KafkaContainer().with_kraft()
        for name, value in _SINGLE_NODE.items():
            container.with_env(name, value)
        container.start()
    except DockerException as error:
        raise RuntimeError(f"{CHOICE}=docker, but no Docker engine answers: start one, or unset {CHOICE}") from error
    try:
        yield container.get_bootstrap_server()
    finally:
        container.stop()
