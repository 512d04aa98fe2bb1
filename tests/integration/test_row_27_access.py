"""Wrong passwords and certificates on a real broker: the service does not start, and no log has a secret."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from services.kafka import node_files
from services.kafka.broker import Broker
from services.kafka.topics import TopicNames, create_topics
from tests.integration.running import APP, Service, deposits, ledger_wire

USER, RIGHT, WRONG, TOKEN = "millrace", "the-right-secret-4711", "a-wrong-secret-0815", "token-secret-2342"
EXIT_REFUSED = 2

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Secured:
    """A broker that asks who its clients are."""

    plain: str
    sasl: str
    tls: str
    authority: Path
    other_authority: Path


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for loopback, and a file of it with its key."""
    key, chain, both = folder / f"{name}.key", folder / f"{name}.crt", folder / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(chain)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(key.read_text() + chain.read_text())
    return chain, both


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    chain, both = certificate(folder, "broker")
    other, _ = certificate(folder, "other")
    sasl_port, tls_port = node_files.free_ports(2)
    plainly = node_files.server_properties

    def with_listeners(node, data):
        found = plainly(node, data)
        more = f",SASL_PLAINTEXT://127.0.0.1:{sasl_port},SSL://127.0.0.1:{tls_port}"
        protocols = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            **found,
            "listeners": found["listeners"] + more,
            "advertised.listeners": found["advertised.listeners"] + more,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT," + ",".join(f"{p}:{p}" for p in protocols),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_{USER}="{RIGHT}";',
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_files, "server_properties", with_listeners)
        with Broker(folder / "broker") as broker:
            create_topics(AdminClient({"bootstrap.servers": broker.bootstrap}), APP, 1, 1)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for partition, value in deposits(ledger_wire(), 0, 20):
                producer.produce(TopicNames(APP).events, value, partition=partition)
            assert producer.flush(60) == 0
            yield Secured(broker.bootstrap, f"127.0.0.1:{sasl_port}", f"127.0.0.1:{tls_port}", chain, other)


def start(address: str, folder: Path, *flags: str, form: str = "text") -> Service:
    tables = ("--tables", "tests.integration.running:first_tables")
    return Service(address, folder, *tables, "--log-format", form, *flags)


def sasl(folder: Path, password: str) -> tuple[str, ...]:
    file = folder / "password"
    file.write_text(password + "\n")
    return (
        "--kafka-security-protocol", "SASL_PLAINTEXT", "--kafka-sasl-mechanism", "PLAIN", "--kafka-sasl-username", USER,
        "--kafka-sasl-password-file", str(file),
    )  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
def test_row_27_a_wrong_password_is_refused(secured, tmp_path, form):
    with start(secured.sasl, tmp_path, *sasl(tmp_path, WRONG), form=form) as service:
        assert service.wait_ended() == EXIT_REFUSED, service.said
        assert "see the user, the password and the certificates" in service.said and WRONG not in service.said


def test_row_27_a_broker_with_another_certificate_is_refused(secured, tmp_path):
    trust = ("--kafka-security-protocol", "SSL", "--kafka-ca-file", str(secured.other_authority))
    with start(secured.tls, tmp_path, *trust) as service:
        assert service.wait_ended() == EXIT_REFUSED, service.said
        assert "certificate verify failed" in service.said


def test_row_27_the_right_certificate_works(secured, tmp_path):
    trust = ("--kafka-security-protocol", "SSL", "--kafka-ca-file", str(secured.authority))
    with start(secured.tls, tmp_path, *trust) as service:
        service.wait_for(lambda: service.get("/ready")[0] == 200)
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said


def test_row_27_no_secret_is_shown_anywhere(secured, tmp_path, monkeypatch):
    monkeypatch.setenv("MILLRACE_ENGINE_HTTP_TOKEN", TOKEN)
    with start(secured.sasl, tmp_path, *sasl(tmp_path, RIGHT), form="json") as service:
        service.wait_for(lambda: "recovered" in service.said and service.get("/ready")[0] == 200)
        assert service.get("/status")[0] == 401
        shown = [service.get(path, TOKEN) for path in ("/status", "/metrics", "/state/accounts?key=1", "/nowhere")]
        assert [code for code, _ in shown] == [200, 200, 200, 404]
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0, service.said
    everything = service.said + "".join(body.decode() for _, body in shown)
    everything += "".join(path.read_text() for path in tmp_path.rglob("*.json")) + " ".join(
        map(str, os.listdir(tmp_path))
    )
    for secret in (RIGHT, TOKEN):
        assert secret not in everything
