"""The HTTP port over real sockets on a real engine: what it answers, and fault row 28, what it does not put up with."""

import http.client
import json
import socket
import time

import numpy as np
import pytest

from engine import Application, Engine, Epoch, float64, int64, udf
from services.engine.facts import Cursor, Memory, Tally
from services.engine.progress import Progress
from services.engine.serving.metrics import Metrics
from services.engine.serving.pages import KEYS_MAX, ServicePages
from services.engine.serving.server import BODY_BYTES_MAX, CONNECTIONS_MAX, HttpPort
from services.secret import Secret

TOKEN = "a-token-nobody-guesses"


def application() -> Application:
    app = Application("port")
    cells = app.table("cells", key=int, value={"total": int64})
    app.table("names", key=str, value={"share": float64})
    app.table("pairs", key=(int, str), value={"total": int64})
    app.event("Add", {"cell": int64, "amount": int64})

    @udf
    def add(cell, event):
        cell.total += event.amount
        return cell.total >= 0

    @app.transaction("Add")
    def adding(txn, event):
        txn.write(cells[event.cell], add)

    return app


class Service:
    """An engine, its progress, and the port on them."""

    def __init__(self, token: str | None = None, deadline_s: float = 5.0) -> None:
        self.app = application()
        self.engine = Engine(self.app, threads=1, policy="serial")
        self.engine.load("names", ["a/b c", "ü"], {"share": np.array([0.5, 1e300])})
        self.engine.load("pairs", [(1, "x")], {"total": np.array([7])})
        self.progress = Progress()
        self.recovering = False
        pages = ServicePages(self.app, self.progress, Metrics(self.progress), self.read)
        self.port = HttpPort("127.0.0.1", 0, pages, Secret(token) if token else None, deadline_s)

    def read(self, reads):
        return None if self.recovering else self.engine.read(reads)

    def run(self, number: int, amounts: list[int]):
        size = len(amounts)
        columns = {"seq": np.arange(size), "ts": np.arange(size) + 100 * number, "cell": np.zeros(size, np.int64)}
        self.progress.saw(number, 0.25)
        events = {"Add": {**columns, "amount": np.array(amounts)}}
        result = self.engine.run_epoch(Epoch(number, 100 * number + 99, events))
        self.progress.executed(result)
        return result

    def connect(self) -> socket.socket:
        host, _, port = self.port.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, headers: dict | None = None):
        connection = http.client.HTTPConnection(self.port.address, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def __enter__(self):
        self.port.__enter__()
        return self

    def __exit__(self, *_):
        self.port.__exit__()
        self.engine.close()


@pytest.fixture
def service():
    with Service() as running:
        yield running


def metric(page: bytes, name: str) -> float:
    (line,) = [line for line in page.decode().splitlines() if line.startswith(name + " ")]
    return float(line.split()[-1])


def test_status_and_metrics_say_what_happened(service):
    memory = Memory(0, 99, {0: Cursor(4)}, {}, Tally(2, 1))
    service.progress.recovered(Memory(), 1.5)
    service.progress.high_watermarks = {0: 10, 1: 3}
    service.progress.committed(memory, service.run(0, [5, -9, 3]))
    service.progress.saw(1, 2.0)
    status = json.loads(service.ask("/status")[1])
    assert status["epochs"] == 1 and status["tally"]["committed"] == 2 and status["tally"]["failed"] == 1
    assert status["failed_by_reason"] == {"refused": 1} and status["policies"] == ["serial"]
    assert status["lag"]["messages"] == 9 and 2.0 <= status["lag"]["seconds"] < 60
    assert status["latency_seconds"]["p50"] > 0 and status["events_per_second"] > 0
    assert status["recoveries"] == 1 and status["ready"] and set(status["phase_seconds"]) >= {"plan", "execute"}
    code, page, headers = service.ask("/metrics")
    assert code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for name, value in {
        'millrace_events_total{outcome="committed"}': 2, 'millrace_failed_total{reason="refused"}': 1,
        'millrace_policies_chosen_total{policy="serial"}': 1, 'millrace_lag_messages{partition="0"}': 6,
        "millrace_epoch_latency_seconds_count": 1, 'millrace_epoch_latency_seconds_bucket{le="+Inf"}': 1,
        "millrace_recovery_seconds_total": 1.5, "millrace_ready": 1,
    }.items():  # fmt: skip
        assert metric(page, name) == value, name
    assert metric(page, 'millrace_phase_seconds_total{phase="execute"}') > 0
    names = [line.split()[0] for line in page.decode().splitlines() if not line.startswith("#")]
    assert all(name.startswith("millrace_") for name in names)


def test_ready_while_epochs_can_be_committed(service):
    assert service.ask("/ready")[0] == 503 and service.ask("/health")[0] == 200, "recovering is alive, not ready"
    service.progress.recovered(Memory(), 0.1)
    assert service.ask("/ready")[0] == 200
    service.progress.broker_away = True
    assert service.ask("/ready")[:2] == (503, b"no broker answers\n")


def test_a_main_loop_that_stands_still_is_not_healthy():
    now_s = [100.0]
    progress = Progress(lambda: now_s[0])
    progress.recovered(Memory(), 0.1)
    now_s[0] += 29
    assert progress.stuck_s == 0
    now_s[0] += 2
    assert progress.stuck_s == 31
    progress.beat()
    assert progress.stuck_s == 0


def test_values_of_keys_come_with_their_epoch(service):
    service.run(0, [5, 3])
    code, body, _ = service.ask("/state/cells?key=0&key=9")
    found = {"cells": [{"key": 0, "value": {"total": 8}}, {"key": 9, "value": None}]}
    assert code == 200 and json.loads(body) == {"epoch": 0, "tables": found}
    names = json.loads(service.ask("/state/names?key=a%2Fb%20c&key=%C3%BC")[1])["tables"]["names"]
    assert [each["value"] for each in names] == [{"share": 0.5}, {"share": 1e300}]
    pairs = json.loads(service.ask("/state/pairs?key=%5B1%2C%22x%22%5D")[1])["tables"]["pairs"]
    assert pairs == [{"key": [1, "x"], "value": {"total": 7}}]
    body = json.dumps({"cells": [0], "pairs": [[1, "x"], [2, "x"]]}).encode()
    several = json.loads(service.ask("/state", "POST", body)[1])
    assert several["tables"]["pairs"][1]["value"] is None and several["tables"]["cells"][0]["value"] == {"total": 8}
    service.recovering = True
    assert service.ask("/state/cells?key=0")[0] == 503


def test_row_28_without_the_token_401():
    with Service(TOKEN) as service:
        for path in ("/status", "/metrics", "/state/cells?key=1", "/nowhere", "/health?x"):
            for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                status, body, headers = service.ask(path, headers=header)
                assert (status, headers["WWW-Authenticate"]) == (401, "Bearer") and TOKEN.encode() not in body
        assert service.ask("/status", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert service.ask("/health")[0] == 200, "probes have no token"


def test_row_28_a_huge_body_413_and_it_is_not_read(service):
    with service.connect() as client:
        client.sendall(b"POST /state HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n")
        assert b" 413 " in client.recv(1000), "answered before a byte of the body was sent"
    with service.connect() as client:
        client.sendall(b"POST /state HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1))
        assert b" 413 " in client.recv(1000)
    assert service.ask("/state", "POST", headers={"Transfer-Encoding": "chunked"})[0] == 411


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"[" * 500_000, b'{"cells":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"9" * 100_000,
        b"[1]", b'{"cells": 1}', b'{"cells": ["1"]}', b'{"cells": [1.5]}', b'{"cells": [true]}', b'{"cells": [null]}',
        b'{"cells": [9223372036854775808]}', b'{"pairs": [[1]]}', b'{"pairs": [[1, 2]]}', b'{"names": ["\\ud800"]}',
        b'{"cells": [' + b"1," * KEYS_MAX + b"1]}",
    ],
)  # fmt: skip
def test_row_28_deep_or_bad_json_and_bad_keys_400(service, body):
    assert service.ask("/state", "POST", body)[0] == 400


@pytest.mark.parametrize(
    "query", ["key=x", "key=1.5", "", "key=1&other=2", "key=9223372036854775808", "&".join(["key=1"] * (KEYS_MAX + 1))]
)
def test_row_28_bad_keys_in_the_query_400(service, query):
    assert service.ask(f"/state/cells?{query}")[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/state",
        "/state/",
        "/state/none?key=1",
        "/../../etc/passwd",
        "/state/..%2f..%2fetc?key=1",
        "/%00",
        "/Status",
    ],
)
def test_row_28_odd_paths_404(service, path):
    assert service.ask(path)[0] == 404


def test_row_28_other_methods_and_broken_requests_are_refused(service):
    assert service.ask("/status", "POST", b"")[0] == 405
    assert service.ask("/status", "DELETE")[0] == 501
    for raw in (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"):
        with service.connect() as client:
            client.sendall(raw)
            assert client.recv(1000)[9:12] in (b"400", b"414") or raw.startswith(b"nonsense")
    assert service.ask("/health")[0] == 200


def test_row_28_slow_clients_are_cut_and_the_others_served():
    with Service(deadline_s=1.5) as service:
        clients = [service.connect() for _ in range(CONNECTIONS_MAX)]
        begin = time.monotonic()
        for client in clients:
            client.sendall(b"GET /health HTTP/1.1\r\nX: ")
        busy = None
        while time.monotonic() - begin < 1.0 and busy != 503:
            busy = service.ask("/health")[0]
        assert busy == 503, "all connections are taken: come back"
        try:
            while clients and time.monotonic() - begin < 20:
                time.sleep(0.1)  # a byte now and then would keep each single read from timing out
                for client in list(clients):
                    try:
                        client.sendall(b"a")
                    except OSError:
                        clients.remove(client)
                        client.close()
            assert not clients, "all were cut, though they never stopped sending"
        finally:
            for client in clients:
                client.close()
        assert service.ask("/health")[0] == 200
