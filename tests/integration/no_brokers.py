"""A broker that can say that there are no brokers, as one does that stood still, until its controller knows it again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from services.kafka.broker import Broker
from services.kafka.node_files import free_ports, new_nodes

METADATA = 3  # Kafka's number for the request that asks for brokers and leaders
COMPACT_SINCE = 9  # the version from which on an answer is laid out as `without_brokers` expects it


class Denier:
    """Passes on everything between clients and a broker; while `denies`, answers that name brokers name none."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.denies, self.denied = False, 0
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = []
        self._run(self._accept)

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _run(self, body: object, *arguments: object) -> None:
        threading.Thread(target=body, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._sockets += [client, broker]
                asked: dict[bytes, int] = {}  # by correlation id: the version of a request for metadata
                self._run(self._pass_on, client, broker, asked, True)
                self._run(self._pass_on, broker, client, asked, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, asked: dict[bytes, int], request: bool) -> None:
        with contextlib.suppress(OSError, ValueError), source.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(int.from_bytes(head, "big"))
                if request and int.from_bytes(body[:2], "big") == METADATA:
                    asked[body[4:8]] = int.from_bytes(body[2:4], "big")
                elif not request and asked.pop(body[:4], 0) >= COMPACT_SINCE and self.denies:
                    body = without_brokers(body)
                    self.denied += 1
                target.sendall(len(body).to_bytes(4, "big") + body)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def without_brokers(answer: bytes) -> bytes:
    """An answer to a request for metadata with its list of brokers emptied."""
    begin = at = 9  # after correlation id, tags and throttle time
    count, at = _varint(answer, at)
    for _ in range(count - 1):
        host, at = _varint(answer, at + 4)  # after the number
        rack, at = _varint(answer, at + host - 1 + 4)  # after the host and the port
        at += max(rack - 1, 0) + 1  # and the tags, of which there are none
    return answer[:begin] + b"\1" + answer[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


@contextmanager
def denied_broker(directory: Path) -> Iterator[tuple[Broker, str, Denier]]:
    """A broker, the address where it may be denied, and who denies it."""
    behind, front = free_ports(2)
    (plain,) = new_nodes([None])
    with Broker(directory, node=plain.behind_proxy(behind, front), console=Console(quiet=True)) as broker:
        denier = Denier(front, behind)
        try:
            yield broker, f"127.0.0.1:{front}", denier
        finally:
            denier.close()
