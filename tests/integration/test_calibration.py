"""The simulated broker is as the real one: the same scripts of producers, run on both, give the same observations.

A script initialises producers of one id, has them put a transaction's records and offsets, ends transactions, and lets producers
be forgotten, as by a crash. Seen after each step: what it gave, all committed records in order, the group's offset.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.engine.facts import Commit, Cursor, Memory
from services.kafka.clients import committed_consumer, connection, transactional_producer, typed_error
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings
from services.verify.crash.topics import read_all
from services.verify.simulation.world import FencedError, World
from tests.brokers import running_broker

pytestmark = pytest.mark.slow

Step = tuple[str, int]  # what, and with which producer, counted from 0
Observation = tuple[str, tuple[int, ...], int]

SCRIPTS: dict[str, list[Step]] = {
    "a transaction is seen once it is committed": [("init", 0), ("put", 0), ("end", 0), ("put", 0), ("end", 0)],
    "killed before the commit": [("init", 0), ("put", 0), ("end", 0), ("put", 0), ("init", 1), ("put", 1), ("end", 1)],
    "killed after the commit": [("init", 0), ("put", 0), ("end", 0), ("init", 1), ("put", 1), ("end", 1)],
    "fenced before it puts": [("init", 0), ("init", 1), ("put", 0), ("put", 1), ("end", 1)],
    "fenced before it ends": [("init", 0), ("put", 0), ("init", 1), ("end", 0), ("put", 1), ("end", 1)],
    "fenced while the newer one is in a transaction": [
        ("init", 0), ("put", 0), ("init", 1), ("put", 1), ("end", 0), ("end", 1),
    ],
    "a third one": [("init", 0), ("put", 0), ("init", 1), ("put", 1), ("init", 2), ("end", 1), ("put", 2), ("end", 2)],
}  # fmt: skip


def random_script(seed: int) -> list[Step]:
    """Any order in which no producer ends what it did not put; a producer that was fenced is not used again."""
    chance = random.Random(seed)
    script: list[Step] = [("init", 0)]
    known, holding, done = [0], set(), set()
    for _ in range(12):
        if chance.random() < 0.2:
            known.append(len(known))
            script.append(("init", known[-1]))
            continue
        producer = chance.choice([each for each in known if each not in done])
        script.append(("end" if producer in holding else "put", producer))
        holding ^= {producer}
        if producer != known[-1]:
            done.add(producer)
    return script


class Simulated:
    """The simulation's world."""

    def __init__(self) -> None:
        self.world = World()
        self.producers: dict[int, int] = {}

    def init(self, producer: int) -> None:
        self.producers[producer] = self.world.init_transactions()

    def put(self, producer: int, content: int) -> None:
        self.world.prepare(self.producers[producer], Commit(content, (), Memory(cursors={0: Cursor(content)})), None)

    def end(self, producer: int) -> None:
        self.world.end(self.producers[producer])

    def records(self) -> tuple[int, ...]:
        return tuple(transaction.memory.cursors[0].low for transaction in self.world.log)

    def offset(self) -> int:
        return self.world.log[-1].memory.cursors[0].low if self.world.log else 0


class Real:
    """A topic and a group of a real broker."""

    def __init__(self, kafka: KafkaSettings, name: str) -> None:
        self.kafka, self.names, self.id = kafka, TopicNames(name), f"{name}-0"
        self.admin = AdminClient(connection(kafka))
        create_topics(self.admin, name, 1, 1)
        self.producers: dict[int, Producer] = {}
        self.group = Consumer(committed_consumer(kafka, self.id))

    def init(self, producer: int) -> None:
        self.producers[producer] = Producer(transactional_producer(self.kafka, self.id))
        self.producers[producer].init_transactions(20)

    def put(self, producer: int, content: int) -> None:
        mine = self.producers[producer]
        mine.begin_transaction()
        mine.produce(self.names.epochs, str(content).encode(), partition=0)
        mine.produce(self.names.committed, str(content).encode(), partition=0)
        offsets = [TopicPartition(self.names.events, 0, content)]
        mine.send_offsets_to_transaction(offsets, self.group.consumer_group_metadata(), 10)
        mine.flush(10)

    def end(self, producer: int) -> None:
        self.producers[producer].commit_transaction(10)
        self._wait_visible()

    def _wait_visible(self) -> None:
        """A commit is answered before its markers are written; until then readers of committed records end before it."""
        asked = {TopicPartition(name, 0): OffsetSpec.latest() for name in (self.names.epochs, self.names.committed)}
        deadline_s = time.monotonic() + 20
        while True:
            ends = [
                [found.result().offset for found in self.admin.list_offsets(asked, isolation_level=level).values()]
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            ]
            if ends[0] == ends[1]:
                return
            assert time.monotonic() < deadline_s, f"committed records end at {ends[0]}, all at {ends[1]}"
            time.sleep(0.01)

    def records(self) -> tuple[int, ...]:
        topics = [self.names.epochs, self.names.committed]
        found = read_all(self.kafka, topics)
        seen, also = (tuple(int(record.value) for record in found if record.topic == topic) for topic in topics)
        assert seen == also, "a transaction is whole in every topic"
        return seen

    def offset(self) -> int:
        (found,) = self.group.committed([TopicPartition(self.names.events, 0, OFFSET_INVALID)], 10)
        return max(found.offset, 0)


def play(script: list[Step], place: Simulated | Real) -> list[Observation]:
    observations = []
    holding: set[int] = set()
    for number, (what, producer) in enumerate(script, start=1):
        outcome = "done"
        try:
            if what == "init":
                place.init(producer)
                holding.clear()
            elif what == "put":
                place.put(producer, number)
                holding.add(producer)
            else:
                place.end(producer)
                holding.discard(producer)
        except FencedError:
            outcome = "fenced"
        except KafkaException as error:
            kind = typed_error(error.args[0], what)
            assert type(kind).__name__ == "FencedError", kind
            outcome = "fenced"
        # Kafka does not tell a group's offset while a transaction holds one.
        observations.append((outcome, place.records(), -1 if holding else place.offset()))
    return observations


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield replace(KafkaSettings(), bootstrap=running.bootstrap, transaction_timeout_s=60.0)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_the_same_on_both(kafka, name):
    simulated = play(SCRIPTS[name], Simulated())
    assert play(SCRIPTS[name], Real(kafka, "script-" + "".join(c for c in name if c.isalpha()))) == simulated
    assert simulated[-1][1], "something was committed"


def test_random_scripts_give_the_same_on_both(kafka):
    outcomes = set()
    for seed in range(6):
        script = random_script(seed)
        simulated = play(script, Simulated())
        assert play(script, Real(kafka, f"random-{seed}")) == simulated, f"seed {seed}: {script}"
        outcomes |= {(what, outcome) for (what, _), (outcome, _, _) in zip(script, simulated, strict=True)}
    assert {("put", "done"), ("put", "fenced"), ("end", "done"), ("end", "fenced")} <= outcomes, "the scripts were tame"
