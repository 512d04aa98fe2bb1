"""A broker, the ledger's topics and the engine service, each a process of its own, for as long as the `with` lasts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient
from rich.console import Console

from bench.end_to_end import first_tables
from bench.end_to_end.feed import PARTITIONS
from bench.experiment import THREADS
from bench.machine import PAGE_BYTES, ROOT
from services.apps.streaming_ledger import build
from services.engine.command import schema_ids
from services.engine.wire import Wire, schemas_of
from services.kafka.broker import Broker
from services.kafka.node_files import HOST, free_ports
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
RECOVERED = "recovered to epoch"  # what the service logs when it begins to read its input


class Pipeline:
    """What a measurement runs on, in a directory that goes with it."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.wire = Wire(app := build(), schema_ids(None, schemas_of(app)))
        self.names = TopicNames(app.name)
        self._folder = tempfile.TemporaryDirectory(prefix="millrace-end-to-end-")
        self.directory = Path(self._folder.name)
        self.broker = Broker(self.directory / "broker", console=Console(quiet=True))

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap=self.broker.bootstrap)

    def __enter__(self) -> Self:
        try:
            self.broker.start()
            create_topics(AdminClient({"bootstrap.servers": self.broker.bootstrap}), self.names.app, PARTITIONS, 1)
        except BaseException:
            self.close()
            raise
        return self

    def service(self, *options: str) -> Service:
        """The engine service, started; with these flags besides the usual ones."""
        command = [
            sys.executable, "-m", "millrace", "run", "--app", "services.apps.streaming_ledger:build",
            "--tables", first_tables.named(self.keys), "--kafka-bootstrap", self.broker.bootstrap,
            "--threads", str(THREADS), "--http", f"{HOST}:{(port := free_ports(1)[0])}", *options,
        ]  # fmt: skip
        return Service(command, port)

    def broker_cpu_s(self) -> float:
        """Of the broker's process, so far."""
        pid = self.broker.process.pid()
        return cpu_s(pid) if pid is not None else 0.0

    def close(self) -> None:
        self.broker.stop()
        self._folder.cleanup()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Service:
    """The engine service's process. Its log is read as it comes, so that its lines have times."""

    command: list[str]
    port: int
    lines: list[str] = field(default_factory=list)
    ready_s: float = 0.0  # when it had recovered and began to read
    _ready: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self.started_s = time.perf_counter()
        self.process = subprocess.Popen(self.command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if RECOVERED in line and not self._ready.is_set():
                self.ready_s = time.perf_counter()
                self._ready.set()
            self.lines.append(line)
        self._ready.set()

    def wait_ready(self) -> float:
        """When it began to read."""
        if not self._ready.wait(START_TIMEOUT_S) or not self.ready_s:
            raise self.failure("the service did not start")
        return self.ready_s

    def failure(self, what: str) -> RuntimeError:
        return RuntimeError(f"{what}: {''.join(self.lines[-20:]) or 'it logged nothing'}")

    def check(self) -> None:
        if self.process.poll() is not None:
            raise self.failure(f"the service ended with exit code {self.process.returncode}")

    @property
    def resident_mb(self) -> float:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * PAGE_BYTES / 1e6

    @property
    def cpu_s(self) -> float:
        """Of all its threads, so far."""
        return cpu_s(self.process.pid)

    def status(self) -> dict[str, Any]:
        """What the service says of itself."""
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/status", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def stop(self) -> None:
        """In order, as an operator would."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(STOP_TIMEOUT_S) != 0:
            raise self.failure(f"the service ended with exit code {self.process.returncode}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")
