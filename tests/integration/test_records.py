"""Single records of a producer that knows nothing of Millrace (confluent-kafka and fastavro), cut into epochs by the service,
also when it is killed on the way: the results are those of the epochs that the records' times say."""

import io
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import fastavro
import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine import Engine, Epoch
from schemas.application import event_schemas
from services.apps.streaming_ledger import build
from services.codec import FileIds, ObjectCodec, frame
from services.engine.wire import DEAD_LETTER, Wire, schemas_of
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker
from tests.integration.test_service import first_tables, markers, read_all, wait_for

NAMES = TopicNames("streaming-ledger")
PARTITIONS, INTERVAL, DISORDER, EPOCHS = 2, 1_000, 200, 9  # the first one ends at 0
KEYS = 200
KILLS = 6

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker") as running:
        create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), NAMES.app, PARTITIONS, 1)
        yield running


def make_events(chance: random.Random, begin: int, end: int) -> list[tuple[str, dict]]:
    """Events of some time, out of order as far as is allowed."""
    made = []
    for now in range(begin, end):
        ts = now - chance.randint(0, DISORDER)
        keys = [chance.randrange(KEYS) for _ in range(4)]
        if chance.random() < 0.5:
            made.append(("Deposit", {"ts": ts, "account": keys[0], "asset": keys[1], "amount": chance.randrange(100)}))
        else:
            amount = 10**9 if chance.random() < 0.1 else chance.randrange(1, 300)
            names = ("sender_account", "sender_asset", "receiver_account", "receiver_asset")
            made.append(("Transfer", {"ts": ts, **dict(zip(names, keys, strict=True)), "amount": amount}))
    return made


class PlainProducer:
    """What any Python program would do; remembers what it put where."""

    def __init__(self, bootstrap: str, ids: FileIds) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap})
        self.schemas = {}
        for name, schema in event_schemas(build()).items():
            without_seq = {**schema, "fields": [field for field in schema["fields"] if field["name"] != "seq"]}
            subject = f"streaming-ledger.record.{name}"
            self.schemas[name] = ids.id_of(subject, without_seq), fastavro.parse_schema(without_seq)
        self.sent: dict[int, list[tuple[str, dict] | bytes]] = defaultdict(list)

    def send(self, partition: int, record_type: str, event: dict) -> None:
        number, schema = self.schemas[record_type]
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, event)
        self.produce(partition, b"\0" + number.to_bytes(4, "big") + out.getvalue(), (record_type, event))

    def produce(self, partition: int, value: bytes, what: tuple[str, dict] | bytes) -> None:
        self.producer.produce(NAMES.records, value, partition=partition)
        self.sent[partition].append(what)

    def flush(self) -> None:
        self.producer.flush()


def start(bootstrap: str, folder: Path) -> subprocess.Popen:
    command = [
        sys.executable, "-c", "import sys; from services.cli import main; sys.exit(main())", "run",
        "--app", "services.apps.streaming_ledger:build", "--tables", "tests.integration.test_service:first_tables",
        "--kafka-bootstrap", bootstrap, "--snapshots", str(folder / "snapshots"), "--snapshot-every", "3",
        "--input", "records", "--epoch-interval", str(INTERVAL), "--disorder", str(DISORDER),
        "--idle-timeout-s", "1e6", "--schema-ids", str(folder / "ids.json"), "--policy", "serial",
        "--results", "records", "--results-key", "amount",
    ]  # fmt: skip
    with (folder / "service.log").open("a") as log:
        return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=log)


def expected_epochs(sent) -> tuple[list[Epoch], list[tuple[int, int]]]:
    """The epochs that the times say, and where the late records are."""
    epochs: dict[int, dict[int, list[tuple[str, dict]]]] = defaultdict(lambda: defaultdict(list))
    late = []
    for partition, messages in sorted(sent.items()):
        newest = -(2**62)
        for offset, message in enumerate(messages):
            if isinstance(message, bytes):
                continue
            end = -(-message[1]["ts"] // INTERVAL) * INTERVAL
            if end < newest - DISORDER:
                late.append((partition, offset))
            else:
                epochs[end][partition].append(message)
            newest = max(newest, message[1]["ts"])
    made = []
    for number, (end, partitions) in enumerate(sorted(epochs.items())):
        columns: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
        for partition, messages in partitions.items():
            for seq, (record_type, event) in enumerate(messages):
                for name, value in {**event, "source": partition, "seq": seq}.items():
                    columns[record_type][name].append(value)
        arrays = {t: {name: np.array(values) for name, values in given.items()} for t, given in columns.items()}
        made.append(Epoch(number, end, arrays))
    return made, late


def test_row_01_single_records_give_the_epochs_that_their_times_say_also_after_a_kill(broker, tmp_path):
    app, chance, log = build(), random.Random(11), tmp_path / "service.log"
    ids = FileIds.add(tmp_path / "ids.json", schemas_of(app))
    wire = Wire(app, ids)
    source = PlainProducer(broker.bootstrap, ids)
    for record_type, event in make_events(chance, 0, 4_000):
        source.send(chance.randrange(PARTITIONS), record_type, event)
        if chance.random() < 0.002:
            source.produce(0, b"\0\0\0\0\1nonsense", b"nonsense")  # no event's schema
    for garbage in (b"", b"text", source_value(source, {"ts": 3_990}) + b"!", source_value(source, {"ts": 2**62 + 1})):
        source.produce(1, garbage, garbage)
    source.flush()
    process = start(broker.bootstrap, tmp_path)
    try:
        wait_for(wire, broker.bootstrap, process, 2, log)
        for record_type, event in make_events(chance, 4_000, 6_000):
            source.send(chance.randrange(PARTITIONS), record_type, event)
        source.flush()
        process.send_signal(signal.SIGKILL)
        process.wait()
        for record_type, event in make_events(chance, 6_000, 8_000):
            source.send(chance.randrange(PARTITIONS), record_type, event)
        for partition in range(PARTITIONS):
            for _ in range(10):
                source.send(partition, *make_events(chance, 5_000, 5_001)[0])  # late
            source.send(
                partition, "Deposit", {"ts": 20_000, "account": 1, "asset": 1, "amount": 1}
            )  # the end of what is final
        source.flush()
        process = start(broker.bootstrap, tmp_path)
        wait_for(wire, broker.bootstrap, process, EPOCHS - 1, log)
        time.sleep(2)  # loose dead letters follow within a second
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()

    late, broken = check_results(broker, wire, ids, source)
    assert late == 10 * PARTITIONS and broken > 4


def test_row_01_single_records_killed_at_any_moment(broker, tmp_path):
    chance, log = random.Random(12), tmp_path / "service.log"
    ids = FileIds.add(tmp_path / "ids.json", schemas_of(build()))
    wire, source = Wire(build(), ids), PlainProducer(broker.bootstrap, ids)
    for life in range(KILLS + 1):
        for record_type, event in make_events(chance, 2_000 * life, 2_000 * life + 2_000):
            late = 3_000 if chance.random() < 0.01 else 0
            source.send(chance.randrange(PARTITIONS), record_type, {**event, "ts": event["ts"] - late})
        if life == KILLS:
            for partition in range(PARTITIONS):
                source.send(partition, "Deposit", {"ts": 90_000, "account": 1, "asset": 1, "amount": 1})
        source.flush()
        process = start(broker.bootstrap, tmp_path)
        try:
            if life == KILLS:
                wait_for(wire, broker.bootstrap, process, len(expected_epochs(source.sent)[0]) - 2, log)
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, log.read_text()
            else:
                if chance.random() < 0.7:  # else perhaps while it starts or recovers
                    begun = len(log.read_text())
                    while "recovered" not in log.read_text()[begun:]:
                        time.sleep(0.01)
                time.sleep(chance.uniform(0, 2))
        finally:
            process.kill()
            process.wait()
    late, broken = check_results(broker, wire, ids, source)
    assert late > 50 and broken == 0


def check_results(broker, wire: Wire, ids: FileIds, source: "PlainProducer") -> tuple[int, int]:
    """Everything that left against what was sent; gives how many were late, and how many could not be read."""
    app = wire.application
    epochs, late = expected_epochs(source.sent)
    expected_committed, expected_failed = set(), set()
    with Engine(app, threads=1) as engine:
        for table, (keys, columns) in first_tables().items():
            engine.load(table, keys, columns)
        for epoch in epochs[:-1]:
            for outcome in engine.run_epoch(epoch).outcomes():
                found = (epoch.number, outcome.source, outcome.seq, outcome.ts)
                (expected_committed if outcome.verdict == "committed" else expected_failed).add(found)
    committed = outcomes(ids, read_all(broker.bootstrap, NAMES.committed))
    failed = outcomes(ids, read_all(broker.bootstrap, NAMES.failed))
    assert len(committed) == len(set(committed)) and set(committed) == expected_committed
    assert len(failed) == len(set(failed)) and set(failed) == expected_failed and len(failed) > 100
    letters = [wire.decode(DEAD_LETTER, value) for value in read_all(broker.bootstrap, NAMES.dead_letter)]
    found_late = [(letter["partition"], letter["offset"]) for letter in letters if letter["reason"] == "late"]
    assert sorted(found_late) == late
    broken = [(letter["partition"], letter["offset"]) for letter in letters if letter["reason"] == "undecodable"]
    sent_broken = [
        (p, at) for p, all_sent in source.sent.items() for at, what in enumerate(all_sent) if isinstance(what, bytes)
    ]
    assert sorted(broken) == sorted(sent_broken)
    last = markers(wire, broker.bootstrap)[-1]
    closing = [marker["epoch"] for marker in markers(wire, broker.bootstrap) if marker["closes"]]
    assert closing == list(range(len(epochs) - 1)), "each epoch once, in order"
    counts = last["committed"], last["failed"], last["dead_lettered"], last["undecodable"]
    assert counts == (len(expected_committed), len(expected_failed), len(late), len(broken))
    return len(late), len(broken)


def source_value(source: PlainProducer, event: dict) -> bytes:
    number, schema = source.schemas["Deposit"]
    return frame(number, ObjectCodec(schema).encode({"account": 1, "asset": 1, "amount": 1, **event}))


def outcomes(ids: FileIds, values: list[bytes]) -> list[tuple[int, int, int, int]]:
    """Results that left one by one, read as any Avro library would."""
    found = []
    for value in values:
        assert value[0] == 0
        schema = ids.schema_of(int.from_bytes(value[1:5], "big"))
        row = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)
        found.append((row["epoch"], row["source"], row["seq"], row["ts"]))
    return found
