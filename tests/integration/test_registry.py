"""Ids from a real Schema Registry: the service, our publisher, and Confluent's own serializer; changes of a schema."""

import json
import subprocess
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from engine import Application, Epoch
from schemas.application import record_schemas
from services.engine.command import schema_ids
from services.engine.publishing import SourceEpoch
from services.engine.wire import MARKER, Wire, schemas_of
from services.kafka.topics import create_topics
from tests.integration.schema_registry import SchemaRegistry
from tests.integration.test_foreign import (
    CHUNKS,
    PARTITIONS,
    RECORDS,
    expected_outcomes,
    outcomes,
    records_ledger,
    service,
)
from tests.integration.test_service import make_epoch, read_all, wait_for

pytest.importorskip("authlib", reason="confluent-kafka's schemaregistry extra is not installed")
from services.codec.registry import RegistryIds
from tests.brokers import running_broker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        for names in (CHUNKS, RECORDS):
            create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), names.app, PARTITIONS, 1)
        yield running


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with SchemaRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def test_the_service_and_publishers_take_ids_from_the_registry(broker, registry, tmp_path):
    from services.apps.streaming_ledger import build

    app, log = build(), tmp_path / "service.log"
    app_name = "services.apps.streaming_ledger:build"
    with (
        closing(RegistryIds(registry.url)) as ids,
        service(broker.bootstrap, tmp_path, None, app_name, "--registry", registry.url) as process,
    ):
        wire = Wire(app, ids)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        source = SourceEpoch(wire, 0, 0, PARTITIONS)
        for record_type, columns in make_epoch(0).items():
            source.add(record_type, columns)
        for partition, value in source.close(1_000):
            producer.produce(CHUNKS.events, value, partition=partition)
        producer.flush()
        wait_for(wire, broker.bootstrap, process, 0, log)
    wire = ledger_wire(app)
    assert set(outcomes(wire, broker.bootstrap, CHUNKS)) == expected_outcomes(app, [Epoch(0, 1_000, make_epoch(0))])
    assert "streaming-ledger.event-chunk" in registry.ask("GET", "/subjects")


def test_row_15_a_compatible_change_is_resolved_and_an_incompatible_one_refused_by_name(broker, registry, tmp_path):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    app, log = records_ledger(), tmp_path / "service.log"
    declared = record_schemas(app)["Deposit"]
    # As a newer producer would have it: another order, and a field that we do not know.
    fields = {field["name"]: field for field in declared["fields"]}
    newer = [fields["amount"], fields["ts"], fields["account"], fields["asset"]]
    note = {"name": "note", "type": "string", "default": ""}
    changed = {**declared, "fields": [*newer, note]}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    context = SerializationContext(RECORDS.records, MessageField.VALUE)
    deposits = {"ts": np.arange(1, 11), "account": np.arange(10), "asset": np.arange(10), "amount": np.arange(10)}
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializers = [AvroSerializer(client, json.dumps(schema)) for schema in (declared, changed)]
        for row in range(10):
            event = {name: int(column[row]) for name, column in deposits.items()} | {"note": "new"}
            known = {field["name"] for field in (declared, changed)[row % 2]["fields"]}
            value = serializers[row % 2]({name: event[name] for name in known}, context)
            producer.produce(RECORDS.records, value, partition=0)
    producer.flush()
    options = ("--input", "records", "--idle-timeout-s", "0.5", "--registry", registry.url)
    app_name = "tests.integration.test_foreign:records_ledger"
    wire = ledger_wire(app)
    with service(broker.bootstrap, tmp_path, None, app_name, *options) as process:
        deadline = time.monotonic() + 120
        while not any(wire.decode(MARKER, value)["closes"] for value in read_all(broker.bootstrap, RECORDS.epochs)):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.3)
    columns = {**deposits, "source": np.zeros(10, np.int64), "seq": np.arange(10)}
    expected = expected_outcomes(app, [Epoch(0, 10, {"Deposit": columns})])
    assert set(outcomes(wire, broker.bootstrap, RECORDS)) == expected and len(expected) == 10
    assert read_all(broker.bootstrap, RECORDS.dead_letter) == []

    subject = f"{RECORDS.app}.record.Deposit"
    registry.set_rule("NONE", subject)
    without = {**declared, "fields": [field for field in declared["fields"] if field["name"] != "amount"]}
    registry.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(without)})
    with (
        pytest.raises(AssertionError) as caught,
        service(broker.bootstrap, tmp_path, None, app_name, *options) as process,
    ):
        wait_for_end(process)
    assert subject in str(caught.value) and "Deposit.amount was not written and has no default" in str(caught.value)


def ledger_wire(app: Application) -> Wire:
    """To read with: the bodies are the same whatever their ids."""
    return Wire(app, schema_ids(None, schemas_of(app)))


def wait_for_end(process: subprocess.Popen) -> None:
    assert process.wait(60) != 0


def test_a_registry_that_does_not_answer_is_refused_at_start_without_a_secret(broker, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("tellnobody\n")
    options = ("--registry", "http://127.0.0.1:1", "--registry-user", "me", "--registry-password-file", str(secret))
    app_name = "services.apps.streaming_ledger:build"
    with pytest.raises(AssertionError), service(broker.bootstrap, tmp_path, None, app_name, *options) as process:
        wait_for_end(process)
    said = (tmp_path / "service.log").read_text()
    assert "the registry at http://127.0.0.1:1 does not answer" in said and "tellnobody" not in said
