"""One Kafka broker (KRaft, broker and controller in one process) as a child process, its data in a given directory.

    with Broker(directory) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

Everything that must be known of a broker is in its directory, so any process can ask or stop the one that another
started. It listens on loopback only, on the ports that it had before, else on free ones. `kill`, `pause` and
`restart` are for tests of what clients do then.

Trap: a single node killed within a second after a transaction was committed often never writes the commit marker; the
transaction's records then stay invisible and block read_committed readers. Prove broker kills on a `Cluster`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from services.errors import BrokerError, NotRunningError
from services.kafka.jars import broker_jars
from services.kafka.node_files import HOST, Node, NodeFiles, free_ports, is_free, new_nodes
from services.kafka.process import BrokerProcess
from services.kafka.programs import find_java

HEAP_MB = 512  # 256 is enough for tests, 128 is not
START_TIMEOUT_S = 90.0  # it takes 3 to 5 s; a busy machine with cold disks takes longer
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class BrokerStatus:
    """What is known of a broker from its directory."""

    running: bool
    answers: bool  # it serves clients now
    bootstrap: str | None
    pid: int | None
    data: str
    log: str
    stale: bool  # a pid file without its process: the broker was killed


class Broker:
    """The broker of one directory."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        heap_mb: int = HEAP_MB,
        node: Node | None = None,
        console: Console | None = None,
    ) -> None:
        self.files = NodeFiles(Path(directory).expanduser().absolute())
        self.process = BrokerProcess(self.files)
        self.console = console or Console(stderr=True)
        self._port, self._heap_mb, self._given = port, heap_mb, node

    @property
    def node(self) -> Node:
        """Who this broker is; known from its first start on."""
        node = self.files.read_node()
        if node is None:
            raise BrokerError(f"no broker was ever started in {self.files.directory}; start it first")
        return node

    @property
    def bootstrap(self) -> str:
        """Its address for clients."""
        return self.node.bootstrap

    @property
    def running(self) -> bool:
        return self.process.pid() is not None

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts it and waits until it serves clients."""
        self.launch()
        try:
            self.wait_ready(timeout_s)
        except BaseException:  # Ctrl-C too: nobody would know that it runs
            self.stop()
            raise

    def launch(self) -> None:
        """Starts the process without waiting for it to serve."""
        jars, java = broker_jars(self.console), find_java()
        try:
            self.files.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerError(f"{self.files.directory} cannot be made: {error.strerror}; give another one") from None
        with self._starting():
            pid = self.process.pid()
            if pid is not None:
                raise BrokerError(
                    f"a broker is already running in {self.files.directory} (process {pid}, {self.bootstrap}); "
                    "use it, stop it, or give another directory"
                )
            node = self._choose_node()
            self.files.write(node)
            classpath = os.pathsep.join(map(str, jars))
            if not self.files.formatted:
                self._format(java, classpath, node)
            # A broker that swallows memory errors would hang instead of ending.
            # In a heap this small a message of a megabyte counts as huge to the default collector, which then marks the heap
            # all the time: more than a third of the broker's processor time at full load.
            options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
            options.append("-Djava.awt.headless=true")
            logging = f"-Dlog4j2.configurationFile={self.files.logging}"
            command = [str(java), *options, logging, "-cp", classpath, "kafka.Kafka", str(self.files.properties)]
            self.process.spawn(command, node.bootstrap)

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until it serves clients; one that does not in time is ended, and the error says what its log says."""
        node, started = self.node, time.monotonic()
        with self.console.status(f"starting Kafka at {node.bootstrap} …") as status:
            while not answers(node.bootstrap, {node.number}):
                waited_s = time.monotonic() - started
                status.update(f"starting Kafka at {node.bootstrap}: {waited_s:.0f} s …")
                if not self.running:
                    self.process.forget()
                    raise BrokerError(f"the broker ended while starting: {self._last_words()}; see {self.files.log}")
                if waited_s > timeout_s:
                    self.kill()
                    raise BrokerError(
                        f"the broker did not answer at {node.bootstrap} within {timeout_s:g} s and was ended: "
                        f"{self._last_words()}; see {self.files.log}"
                    )
                time.sleep(0.1)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Ends it in order, by force after the time; whether one was running."""
        if not self.running:
            self.process.forget()
            return False
        self.ask_to_stop()
        with self.console.status("stopping Kafka …"):
            if not self.process.wait_gone(timeout_s):
                self.kill()
        self.process.forget()
        return True

    def ask_to_stop(self) -> None:
        """Tells it to end in order, without waiting; nothing if it does not run."""
        with contextlib.suppress(NotRunningError):
            self.process.signal(signal.SIGTERM)
            self.process.signal(signal.SIGCONT)  # a paused one could not hear it

    def kill(self) -> None:
        """Ends it at once (-9). The pid file stays, as after a crash."""
        self.process.signal(signal.SIGKILL)
        if not self.process.wait_gone(STOP_TIMEOUT_S):
            raise BrokerError(f"the broker in {self.files.directory} does not even end when killed; see its process")

    def restart(self) -> None:
        """Stops it if it runs, and starts it again on the same ports."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freezes it: connections stay open and nobody answers."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.signal(signal.SIGCONT)

    def status(self) -> BrokerStatus:
        """What can be known of it now."""
        pid, node = self.process.pid(), self.files.read_node()
        return BrokerStatus(
            running=pid is not None,
            answers=pid is not None and node is not None and answers(node.bootstrap, {node.number}),
            bootstrap=node.bootstrap if node is not None else None,
            pid=pid,
            data=str(self.files.directory),
            log=str(self.files.log),
            stale=pid is None and self.process.noted_pid() is not None,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _choose_node(self) -> Node:
        """Who it was before, else who it was told to be, else new; with ports that are free."""
        node = self.files.read_node() or self._given or new_nodes([self._port])[0]
        if self._port is not None and node.port != self._port:
            node = replace(node, port=self._port)
        if not is_free(node.port):
            raise BrokerError(f"port {node.port} is in use by another program; give another one with --port")
        if not is_free(node.own.controller_port):
            if len(node.voters) > 1:
                raise BrokerError(f"port {node.own.controller_port}, which node {node.number} is known by, is in use")
            node = replace(node, voters=(replace(node.own, controller_port=free_ports(1)[0]),))
        return node

    def _format(self, java: Path, classpath: str, node: Node) -> None:
        """Prepares the data directory, as Kafka wants it before the first start."""
        shutil.rmtree(self.files.data, ignore_errors=True)  # what an interrupted formatting left
        if len(node.voters) == 1:
            quorum = ["--standalone"]
        else:
            voters = (f"{each.number}@{HOST}:{each.controller_port}:{each.directory_id}" for each in node.voters)
            quorum = ["--initial-controllers", ",".join(voters)]
        logging = f"-Dlog4j2.configurationFile={self.files.logging}"
        tool = [str(java), "-XX:TieredStopAtLevel=1", logging, "-cp", classpath, "kafka.tools.StorageTool", "format"]
        command = [*tool, "--cluster-id", node.cluster_id, "--config", str(self.files.properties), *quorum]
        with self.console.status("preparing Kafka's data directory …"):
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0 or not self.files.formatted:
            said = " ".join((answer.stdout + answer.stderr).split())[:500]
            raise BrokerError(
                f"Kafka could not prepare {self.files.data}: {said}; give a directory that can be written"
            )

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """One start at a time in a directory; the lock goes with the process, however that ends."""
        with (self.files.directory / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _last_words(self) -> str:
        """The last line of its log that says what went wrong."""
        try:
            lines = self.files.log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return "it left no log"
        grave = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return (grave or lines or ["its log is empty"])[-1].strip()[:500]


def answers(bootstrap: str, numbers: set[int]) -> bool:
    """Whether the broker at this address serves clients and knows these nodes as alive."""
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()  # far cheaper than a client that keeps trying
    except OSError:
        return False
    # What a client logs about a broker that is still starting is of no interest.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        return numbers <= set(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        return False
