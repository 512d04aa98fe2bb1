"""A TCP proxy between engine and broker that cuts, freezes and delays connections, also right at the commit.

A broker lists the proxy's port as where one of its listeners is to be found (`Node.proxied`), so that clients that come through
the proxy stay behind it. Requests are told apart by Kafka's framing: four bytes of length, then the number of the request's kind.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from enum import Enum

END_TRANSACTION = 26  # Kafka's number for the request that commits
_BLOCK = 64 << 10


class Cut(Enum):
    """What is done to the connections."""

    NOW = "now"
    BEFORE_COMMIT = "before the commit reached the broker"
    AFTER_COMMIT = "after the commit reached the broker"  # its answer is lost
    HALF_OPEN = "half-open"
    DELAY = "delay"


AT_COMMIT = (Cut.BEFORE_COMMIT, Cut.AFTER_COMMIT)


@dataclass
class _Link:
    """A connection from a client and its own to the broker."""

    client: socket.socket
    broker: socket.socket
    frozen: threading.Event = field(default_factory=threading.Event)  # nothing passes any more
    unanswered: threading.Event = field(default_factory=threading.Event)  # no answer passes any more

    def cut(self) -> None:
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no farewell
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on one port of the loopback and passes on to another."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._broker_port = broker_port
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._delay_s = 0.0
        self._armed: Cut | None = None  # a cut that waits for the next commit
        self._listener = socket.create_server(("127.0.0.1", port))
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def arm(self, cut: Cut) -> None:
        """The next commit will be cut; until then `is_armed`."""
        self._armed = cut

    @property
    def is_armed(self) -> bool:
        return self._armed is not None

    def trouble(self, cut: Cut, seconds: float) -> None:
        """Does it. A delay or frozen connections last so long."""
        if cut is Cut.DELAY:
            self._delay_s = 0.3
            time.sleep(seconds)
            self._delay_s = 0.0
        else:
            with self._lock:
                links, self._links = self._links, []
            for link in links:
                link.frozen.set()
            if cut is Cut.HALF_OPEN:
                time.sleep(seconds)
            for link in links:
                link.cut()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.trouble(Cut.NOW, 0)
        for thread in self._threads:
            thread.join(5)

    def _run(self, body: object, *arguments: object) -> None:
        thread = threading.Thread(target=body, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker_port), 5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            link = _Link(client, broker)
            with self._lock:
                self._links.append(link)
            self._run(self._requests, link)
            self._run(self._answers, link)

    def _requests(self, link: _Link) -> None:
        """Whole requests, so that their kind is known."""
        stream = link.client.makefile("rb")
        try:
            while head := stream.read(4):
                body = stream.read(int.from_bytes(head, "big"))
                armed = self._armed if int.from_bytes(body[:2], "big") == END_TRANSACTION else None
                if armed is Cut.AFTER_COMMIT:
                    link.unanswered.set()  # before the broker can answer
                if armed is not Cut.BEFORE_COMMIT:
                    self._pass_on(link, link.broker, head + body)
                if armed is not None:
                    time.sleep(0.05 if armed is Cut.AFTER_COMMIT else 0)  # the broker has read it by then
                    self._armed = None
                    link.cut()
                    return
        except (OSError, ValueError):
            pass
        finally:
            self._end(link)

    def _answers(self, link: _Link) -> None:
        try:
            while data := link.broker.recv(_BLOCK):
                self._pass_on(link, link.client, data)
        except OSError:
            pass
        finally:
            self._end(link)

    def _pass_on(self, link: _Link, to: socket.socket, data: bytes) -> None:
        if self._delay_s:
            time.sleep(self._delay_s)
        if not link.frozen.is_set() and not (to is link.client and link.unanswered.is_set()):
            to.sendall(data)

    def _end(self, link: _Link) -> None:
        """One side has ended, so must the other; frozen ones stay as they are until they are cut."""
        if not link.frozen.is_set():
            link.cut()
        with self._lock:
            if link in self._links:
                self._links.remove(link)
