"""Events of clients that are none of ours give the same results: plain Python with confluent-kafka and fastavro, and a Node
program with npm's kafkajs and avsc, each as chunks with punctuations and as single records (plain Python's: test_records.py)."""

import hashlib
import io
import json
import shutil
import signal
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import fastavro
import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine import Application, Engine, Epoch
from engine.functions.cache import cache_root
from services.apps.streaming_ledger import build
from services.codec import FileIds
from services.engine.publishing import SourceEpoch
from services.engine.wire import MARKER, Wire, schemas_of
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker
from tests.integration.test_service import EVENTS, chunk_of, first_tables, make_epoch, read_all, wait_for

FOREIGN = Path(__file__).parent / "foreign"
PARTITIONS = 2
CHUNKS, RECORDS = TopicNames("streaming-ledger"), TopicNames("records-ledger")

pytestmark = pytest.mark.slow


def records_ledger() -> Application:
    """The same application under another name, so that one broker serves both kinds of input."""
    application = build()
    application.name = RECORDS.app
    return application


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with Node's packages; installed once into the user's cache."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no node or npm on this machine: the foreign client is a Node program")
    wanted = (FOREIGN / "package.json").read_bytes()
    folder = cache_root() / f"npm-{hashlib.sha256(wanted).hexdigest()[:16]}"
    if not (folder / "node_modules" / "avsc").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_bytes(wanted)
        command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        for names in (CHUNKS, RECORDS):
            create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), names.app, PARTITIONS, 1)
        yield running


def run_node(packages: Path, mode: str, bootstrap: str, topic: str, ids: Path, lines: list[dict]) -> None:
    command = ["node", str(FOREIGN / "produce.mjs"), mode, bootstrap, topic, str(ids)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, cwd=packages, input=text, text=True, timeout=120, capture_output=True)
    assert done.returncode == 0, done.stderr


def events_of(number: int) -> list[tuple[str, dict]]:
    """An epoch's events one by one."""
    return [
        (record_type, {name: int(column[row]) for name, column in columns.items()})
        for record_type, columns in make_epoch(number).items()
        for row in range(EVENTS)
    ]


def publish_ours(wire: Wire, bootstrap: str, number: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    source = SourceEpoch(wire, 0, number, PARTITIONS)
    for record_type, columns in make_epoch(number).items():
        source.add(record_type, columns, rows_a_chunk=70)
    for partition, value in source.close(1_000 * number + 1_000):
        producer.produce(CHUNKS.events, value, partition=partition)
    producer.flush()


def publish_plainly(ids: Path, bootstrap: str, number: int) -> None:
    """Chunks and punctuations of a Python program that knows the ids file and docs/wire-format.md only."""
    entries = {entry["subject"].partition(".")[2]: entry for entry in json.loads(ids.read_text())["schemas"]}
    producer, chunk, entry = Producer({"bootstrap.servers": bootstrap}), 0, entries["event-chunk"]
    for partition in range(PARTITIONS):
        mine = events_of(number)[partition::PARTITIONS]
        put = {"chunks": 0, "events": 0, "checksum": 0}
        for begin in range(0, len(mine), 50):
            names = f"{entry['schema']['namespace']}."
            some = [(names + record_type, event) for record_type, event in mine[begin : begin + 50]]
            body = plain_body(entry["schema"], {"source": 0, "epoch": number, "chunk": chunk, "events": some})
            produce_plainly(producer, partition, entry["id"], body)
            chunk += 1
            put["chunks"], put["events"] = put["chunks"] + 1, put["events"] + len(some)
            put["checksum"] = (put["checksum"] + zlib.crc32(body)) % 2**32
        said = {"source": 0, "epoch": number, "ts": 1_000 * number + 1_000, **put}
        punctuation = entries["punctuation"]
        produce_plainly(producer, partition, punctuation["id"], plain_body(punctuation["schema"], said))
    producer.flush()


def plain_body(schema: dict, value: dict) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def produce_plainly(producer: Producer, partition: int, number: int, body: bytes) -> None:
    producer.produce(CHUNKS.events, b"\0" + number.to_bytes(4, "big") + body, partition=partition)


@contextmanager
def service(bootstrap: str, folder: Path, ids: Path | None, app: str, *options: str):
    """A running service, stopped cleanly at the end; without a file of ids the options say where they come from."""
    command = [
        sys.executable, "-c", "import sys; from services.cli import main; sys.exit(main())", "run", "--app", app,
        "--tables", "tests.integration.test_service:first_tables", "--kafka-bootstrap", bootstrap,
        "--policy", "serial", *options, *(("--schema-ids", str(ids)) if ids is not None else ()),
    ]  # fmt: skip
    with (folder / "service.log").open("a") as log:
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (folder / "service.log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def expected_outcomes(application: Application, epochs: list[Epoch]) -> set[tuple]:
    found = set()
    with Engine(application, threads=1, policy="serial") as engine:
        for table, (keys, columns) in first_tables().items():
            engine.load(table, keys, columns)
        for epoch in epochs:
            for outcome in engine.run_epoch(epoch).outcomes():
                found.add((outcome.verdict, epoch.number, outcome.source, outcome.seq, outcome.ts))
    return found


def outcomes(wire: Wire, bootstrap: str, names: TopicNames) -> list[tuple]:
    found = []
    for verdict, codec, topic in (
        ("committed", wire.committed, names.committed),
        ("failed", wire.failed, names.failed),
    ):
        for value in read_all(bootstrap, topic):
            header, types = chunk_of(wire, codec, value)
            for columns in types.values():
                for row in zip(*(columns[name].tolist() for name in ("source", "seq", "ts")), strict=True):
                    found.append((verdict, header["epoch"], *row))
    return found


def test_chunks_of_plain_python_and_of_node_give_the_same_results_as_ours(broker, packages, tmp_path):
    app, ids = build(), tmp_path / "ids.json"
    wire = Wire(app, FileIds.add(ids, schemas_of(app)))
    publish_ours(wire, broker.bootstrap, 0)
    publish_plainly(ids, broker.bootstrap, 1)
    lines = [{"partition": n % PARTITIONS, "type": t, "event": event} for n, (t, event) in enumerate(events_of(2))]
    run_node(packages, "chunks", broker.bootstrap, CHUNKS.events, ids, [{"epoch": 2, "ts": 3_000}, *lines])
    with service(broker.bootstrap, tmp_path, ids, "services.apps.streaming_ledger:build") as process:
        wait_for(wire, broker.bootstrap, process, 2, tmp_path / "service.log")
    found = outcomes(wire, broker.bootstrap, CHUNKS)
    expected = expected_outcomes(app, [Epoch(n, 1_000 * n + 1_000, make_epoch(n)) for n in range(3)])
    assert len(found) == len(set(found)) == 6 * EVENTS and set(found) == expected
    assert read_all(broker.bootstrap, CHUNKS.dead_letter) == []


def test_single_records_of_node_give_the_same_results(broker, packages, tmp_path):
    app, ids = records_ledger(), tmp_path / "ids.json"
    wire = Wire(app, FileIds.add(ids, schemas_of(app)))
    numbered = enumerate(event for number in range(2) for event in events_of(number))
    lines = []
    events: dict[int, dict[str, dict[str, list[int]]]] = {0: {}, 1: {}}
    placed = dict.fromkeys([(epoch, partition) for epoch in events for partition in range(PARTITIONS)], 0)
    for n, (record_type, event) in numbered:
        partition, epoch = n % PARTITIONS, (event["ts"] - 1) // 1_000
        without_seq = {name: value for name, value in event.items() if name != "seq"}
        lines.append({"partition": partition, "type": record_type, "event": without_seq})
        columns = events[epoch].setdefault(record_type, {})
        identity = {"source": partition, "seq": placed[epoch, partition]}
        placed[epoch, partition] += 1
        for name, value in {**without_seq, **identity}.items():
            columns.setdefault(name, []).append(value)
    run_node(packages, "records", broker.bootstrap, RECORDS.records, ids, lines)
    options = ("--input", "records", "--epoch-interval", "1000", "--disorder", "1000", "--idle-timeout-s", "0.5")
    app_name = "tests.integration.test_foreign:records_ledger"
    with service(broker.bootstrap, tmp_path, ids, app_name, *options) as process:
        wait_until_epoch(wire, broker.bootstrap, process, tmp_path / "service.log")
    epochs = [
        Epoch(n, 1_000 * n + 1_000, {t: {name: np.array(v) for name, v in c.items()} for t, c in columns.items()})
        for n, columns in events.items()
    ]
    found = outcomes(wire, broker.bootstrap, RECORDS)
    assert len(found) == len(set(found)) == 4 * EVENTS and set(found) == expected_outcomes(app, epochs)
    assert read_all(broker.bootstrap, RECORDS.dead_letter) == []


def wait_until_epoch(wire: Wire, bootstrap: str, process: subprocess.Popen, log: Path) -> None:
    import time

    deadline = time.monotonic() + 120
    while not any(wire.decode(MARKER, value)["epoch"] >= 1 for value in read_all(bootstrap, RECORDS.epochs)):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)
