"""`millrace state get`, `failed show|resubmit` and `dead-letter show|replay` on a real broker and a running service."""

from __future__ import annotations

import json
import re
import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from schemas.application import record_schemas
from services.apps.streaming_ledger import build
from services.cli import main
from services.codec import ObjectCodec
from services.engine.wire import RECORD
from services.kafka.topics import TopicNames, create_topics
from tests.brokers import running_broker
from tests.integration.running import APP, Service, ledger_wire

TABLES = ("--tables", "tests.integration.running:first_tables")
CUTTING = ("--input", "records", "--epoch-interval", "1000", "--disorder", "0", "--idle-timeout-s", "1e6")

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker") as running:
        create_topics(AdminClient({"bootstrap.servers": running.bootstrap}), APP, 1, 1)
        yield running


def test_what_failed_is_shown_and_sent_again_once(broker, tmp_path, capsys):
    wire, producer = ledger_wire(), Producer({"bootstrap.servers": broker.bootstrap})
    codecs = {name: ObjectCodec(schema) for name, schema in record_schemas(build()).items()}

    def send(record_type: str, ts: int, **fields: int) -> None:
        value = wire.frame(f"{RECORD}.{record_type}", codecs[record_type].encode({"ts": ts, **fields}))
        producer.produce(TopicNames(APP).records, value)
        assert producer.flush(60) == 0

    def deposit(ts: int, amount: int, account: int = 9) -> None:
        send("Deposit", ts, account=account, asset=9, amount=amount)

    def run(*arguments: str) -> dict:
        capsys.readouterr()
        app = ("--app", "services.apps.streaming_ledger:build", "--kafka-bootstrap", broker.bootstrap, "--json")
        assert main([*arguments, *app]) == 0
        return json.loads(capsys.readouterr().out)

    places = {"sender_account": 1, "sender_asset": 2, "receiver_account": 3, "receiver_asset": 4}
    with Service(broker.bootstrap, tmp_path, *TABLES, *CUTTING) as service:
        send("Transfer", 100, **places, amount=1_500)  # more than the 1,000 that are there
        producer.produce(TopicNames(APP).records, b"nonsense")
        deposit(5_500, 1)  # closes all up to 5000
        deposit(600, 7)  # late
        deposit(6_500, 1)
        tally = {"failed": 1, "dead_lettered": 1, "undecodable": 1}
        service.wait_for(lambda: tally.items() <= service.status().get("tally", {}).items(), timeout_s=300)

        failed = run("failed", "show")
        assert failed["total"] == 1 and failed["reasons"] == {"refused": 1}
        assert failed["shown"][0]["event"]["amount"] == 1_500 and failed["shown"][0]["record_type"] == "Transfer"
        assert run("failed", "show", "--reason", "overflow")["total"] == 0
        assert run("dead-letter", "show")["reasons"] == {"undecodable": 1, "late": 1}

        for account in (1, 3):
            send("Deposit", 7_000, account=account, asset=account + 1, amount=1_000)
        again = run("failed", "resubmit", "--input", "records", "--ts", "8000")
        assert (again["sent"], again["reasons"]["refused"], again["ts"]) == (1, 1, 8_000)
        assert run("failed", "resubmit", "--input", "records", "--ts", "8000")["sent"] == 0, "each once at most"
        late = run("dead-letter", "replay", "--input", "records", "--reason", "late")
        assert late["sent"] == 1 and late["ts"] > 5_000
        assert run("dead-letter", "replay", "--input", "records", "--reason", "late")["sent"] == 0
        deposit(20_000, 1)
        deposit(30_000, 1)
        service.wait_for(lambda: service.status()["tally"]["committed"] >= 6)

        address = re.search(r"http://(127\.0\.0\.1:\d+)/", service.said)[1]
        asked = run("state", "get", "accounts", "1", "3", "12345", "--http", address)
        values = {each["key"]: each["value"] for each in asked["tables"]["accounts"]}
        assert values == {1: {"balance": 500}, 3: {"balance": 3_500}, 12345: None}
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said
    recovered = run("state", "get", "accounts", "1", "3", "12345", *TABLES, *CUTTING)
    assert recovered["tables"] == asked["tables"]


def test_a_source_s_own_events_are_not_sent_again_by_others(broker, capsys):
    assert (
        main(["failed", "resubmit", "--app", "services.apps.streaming_ledger:build", "--kafka-bootstrap", "x:1"]) == 2
    )
    assert "engine.input is not records" in capsys.readouterr().err
