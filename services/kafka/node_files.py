"""The files of one Kafka node in its directory: who it is, what it reads when it starts, and where its records are.

    node.json          who it is: cluster, number, ports, the other nodes; written once, ports may change
    server.properties  what Kafka reads, log4j2.properties for its log; written anew at each start
    data/              the records
    broker.log         warnings and errors
    broker.json        the running process (`process.py`)

`Node` is all that differs between nodes; the texts follow from it and hold what was found worth setting for brokers on
one machine: one partition for the internal topics, no delays meant for large clusters, and a session of one second, so
that a restart after a kill takes 3 s instead of 12.
"""

from __future__ import annotations

import base64
import json
import os
import random
import socket
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from services.errors import BrokerError

HOST = "127.0.0.1"  # loopback only: there is no password
_PORTS = range(20_000, 32_000)  # below what Linux (32768), macOS and Windows (49152) give to outgoing connections


@dataclass(frozen=True)
class Voter:
    """What the nodes of a cluster know of each other."""

    number: int
    controller_port: int
    directory_id: str


@dataclass(frozen=True)
class Node:
    """One node: broker and controller in one process."""

    number: int
    port: int
    cluster_id: str
    voters: tuple[Voter, ...]
    proxied: tuple[int, int] | None = None  # a second listener: its port, and that of the proxy where clients find it

    @property
    def own(self) -> Voter:
        return next(voter for voter in self.voters if voter.number == self.number)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def behind_proxy(self, port: int, proxy_port: int) -> Node:
        """The same node with a listener for clients that come through a proxy."""
        return replace(self, proxied=(port, proxy_port))


def new_id() -> str:
    """A random id as Kafka writes them: 22 characters, the first no dash, which a command line would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def new_nodes(ports: list[int | None]) -> list[Node]:
    """The nodes of a new cluster, a port each; None stands for any free one."""
    taken = free_ports(len(ports) * 2)
    voters = tuple(Voter(number, taken.pop(), new_id()) for number in range(1, len(ports) + 1))
    cluster_id = new_id()
    return [Node(number, port or taken.pop(), cluster_id, voters) for number, port in enumerate(ports, start=1)]


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now, at random.

    Not those the system would give out: it gives the same ones to outgoing connections, one of which could take a broker's
    port while the broker is down, and then it could not come back.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does: old connections do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class NodeFiles:
    """Where a node keeps what."""

    directory: Path

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def logging(self) -> Path:
        return self.directory / "log4j2.properties"  # log4j tells the format from the ending

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def running(self) -> Path:
        return self.directory / "broker.json"

    @property
    def identity(self) -> Path:
        return self.directory / "node.json"

    @property
    def formatted(self) -> bool:
        return (self.data / "meta.properties").exists()

    def read_node(self) -> Node | None:
        """Who this node is, if it was started here before."""
        try:
            found = json.loads(self.identity.read_text("utf-8"))
            voters = tuple(Voter(**voter) for voter in found["voters"])
            proxied = tuple(found["proxied"]) if found.get("proxied") else None
            return Node(**{**found, "voters": voters, "proxied": proxied})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise BrokerError(
                f"{self.identity} is not what a broker left there ({error}); give another directory"
            ) from None

    def write(self, node: Node) -> None:
        """Writes everything that the node reads when it starts."""
        if "," in str(self.data):
            raise BrokerError(
                f"{self.directory} has a comma, where Kafka would begin another directory; give another one"
            )
        write_whole(self.identity, json.dumps(asdict(node), indent=2) + "\n")
        lines = [f"{key}={_escaped(value)}\n" for key, value in server_properties(node, self.data).items()]
        write_whole(self.properties, "".join(lines))
        write_whole(self.logging, _LOGGING)


def write_whole(path: Path, text: str) -> None:
    """All of the text or none of it."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, path)


def server_properties(node: Node, data: Path) -> dict[str, str]:
    """Kafka's settings for this node."""
    replicas = len(node.voters)
    in_sync = min(2, replicas)
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{voter.controller_port}" for voter in node.voters),
        "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{HOST}:{node.own.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{node.bootstrap}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",  # a misspelt topic is an error, not a new topic
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # not 10 s after their time-out
    }
    if node.proxied is not None:
        port, proxy_port = node.proxied
        properties["listeners"] += f",PROXIED://{HOST}:{port}"
        properties["advertised.listeners"] += f",PROXIED://{HOST}:{proxy_port}"
        properties["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.num.partitions"] = "1"
        properties[f"{topic}.replication.factor"] = str(replicas)
        if topic != "offsets.topic":  # it has no such setting, and takes min.insync.replicas
            properties[f"{topic}.min.isr"] = str(in_sync)
    return properties


def _escaped(value: str) -> str:
    """As Java reads properties: Latin-1, with escapes for backslashes and everything beyond ASCII."""
    halves = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(halves[place : place + 2]) for place in range(0, len(halves), 2))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in units)


_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
