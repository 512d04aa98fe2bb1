"""A service process of the Streaming Ledger for tests on a real broker: starting it, its log, its HTTP port."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine import int64
from services.apps.streaming_ledger import build
from services.engine.command import schema_ids
from services.engine.publishing import SourceEpoch
from services.engine.wire import Wire, schemas_of

APP = "streaming-ledger"
KEYS = 200
ROOT = Path(__file__).parents[2]


def first_tables():
    """What `--tables` names."""
    return {name: (range(KEYS), {"balance": np.full(KEYS, 1_000)}) for name in ("accounts", "assets")}


def changed_ledger():
    """The ledger with a table more."""
    application = build()
    application.table("notes", key=int, value={"count": int64})
    return application


def ledger_wire() -> Wire:
    application = build()
    return Wire(application, schema_ids(None, schemas_of(application)))


def deposits(wire: Wire, number: int, events: int, partitions: int = 1, rows_a_chunk: int = 10_000):
    """The messages of an epoch of deposits: partition and value."""
    chance = np.random.default_rng(number)
    source = SourceEpoch(wire, 0, number, partitions)
    columns = {name: chance.integers(0, KEYS, events) for name in ("account", "asset", "amount")}
    ts = 1_000 * number + np.sort(chance.integers(1, 1_000, events))
    source.add("Deposit", {"seq": np.arange(events), "ts": ts, **columns}, rows_a_chunk)
    return source.close(1_000 * number + 1_000)


class Service:
    """`millrace run` as a child process with an HTTP port; `with` ends it by force if it still runs."""

    def __init__(
        self, bootstrap: str, folder: Path, *flags: str, application: str = "services.apps.streaming_ledger:build"
    ):
        self.log = folder / "service.log"
        command = [
            sys.executable, "-c", "import sys; from services.cli import main; sys.exit(main())", "run",
            "--app", application, "--kafka-bootstrap", bootstrap, "--threads", "1", "--http", "127.0.0.1:0", *flags,
        ]  # fmt: skip
        with self.log.open("a") as log:
            self._from = log.tell()
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        return self.log.read_bytes()[self._from :].decode()

    def wait_for(self, what: Callable[[], Any], timeout_s: float = 120) -> Any:
        """Until it is true; fails if the process ends first."""
        deadline = time.monotonic() + timeout_s
        while not (found := what()):
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said}"
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {self.said}"
            time.sleep(0.1)
        return found

    def wait_ended(self, timeout_s: float = 120) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it still runs after {timeout_s} s: {self.said}") from None

    def get(self, path: str, token: str = "") -> tuple[int, bytes]:
        """An answer of the HTTP port; 0 if there is none (yet)."""
        port = re.search(r"http://(127\.0\.0\.1:\d+)/", self.said)
        if port is None:
            return 0, b""
        try:
            request = urllib.request.Request(f"http://{port[1]}{path}", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def status(self) -> dict[str, Any]:
        code, body = self.get("/status")
        return json.loads(body) if code == 200 else {}

    def wait_epochs(self, epochs: int, timeout_s: float = 120) -> dict[str, Any]:
        return self.wait_for(lambda: (status := self.status()).get("epochs", 0) >= epochs and status, timeout_s)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
