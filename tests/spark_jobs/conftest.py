"""One Spark session and one broker for all tests of the jobs: each takes seconds to start."""

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from rich.console import Console

from services.engine.command import load_application
from services.kafka.topics import create_topics
from services.settings import KafkaSettings, Settings, SparkSettings
from spark_jobs.messages import Target, known_ids
from spark_jobs.session import spark_session
from tests.brokers import running_broker

LEDGER = "services.apps.streaming_ledger:build"
PARTITIONS = 2


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    settings = replace(SparkSettings(), log=tmp_path_factory.mktemp("spark") / "spark.log")
    with spark_session(settings, Console(quiet=True)) as session:
        yield session


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A broker with the ledger's topics."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), "streaming-ledger", PARTITIONS, 1)
        yield KafkaSettings(bootstrap=running.bootstrap)


@pytest.fixture(scope="session")
def target():
    return Target(LEDGER, known_ids(Settings(), load_application(LEDGER)), PARTITIONS)
