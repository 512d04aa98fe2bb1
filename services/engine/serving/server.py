"""The HTTP port: a bounded number of short connections, none of which can hold up the engine.

Each connection has one request and a deadline for all of it, however slowly its client sends or reads; beyond `CONNECTIONS_MAX` a
client is told to come back. What a request means is `pages.py`'s affair; here are only bytes, limits and the token.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from services.secret import Secret

CONNECTIONS_MAX = 16
DEADLINE_S = 10.0
BODY_BYTES_MAX = 1 << 20
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LOGGER = logging.getLogger("millrace.http")


@dataclass(frozen=True)
class Request:
    """One request, read whole."""

    method: str
    target: str  # path and query, as they came
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """One answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Pages(Protocol):
    """What the port serves."""

    def is_open(self, target: str) -> bool:
        """Whether it needs no token."""
        ...

    def answer(self, request: Request) -> Response: ...


class HttpPort:
    """Serves pages from a thread of its own, until it is closed."""

    def __init__(
        self, host: str, port: int, pages: Pages, token: Secret | None, deadline_s: float = DEADLINE_S
    ) -> None:
        self._server = _Server((host, port), pages, token, deadline_s)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def __enter__(self) -> HttpPort:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.cut_all()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], pages: Pages, token: Secret | None, deadline_s: float) -> None:
        self.pages, self.token, self.deadline_s = pages, token, deadline_s
        self._lock = threading.Lock()
        self._ends: dict[socket.socket, float] = {}  # by connection: when it is cut
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._ends) >= CONNECTIONS_MAX
            if not full:
                self._ends[request] = time.monotonic() + self.deadline_s
        if full:
            with contextlib.suppress(OSError):
                request.setblocking(False)
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        request.settimeout(self.deadline_s)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Between requests, a few times a second: cuts connections whose time is up."""
        now_s = time.monotonic()
        with self._lock:
            overdue = [connection for connection, end_s in self._ends.items() if end_s <= now_s]
        for connection in overdue:
            _cut(connection)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._ends.pop(request, None)
        super().shutdown_request(request)

    def cut_all(self) -> None:
        with self._lock:
            connections = list(self._ends)
        for connection in connections:
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOGGER.debug("a client went away or was cut", exc_info=True)


def _cut(connection: socket.socket) -> None:
    """Wakes whoever reads or writes it; that thread then closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "millrace", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        self.close_connection = True
        response = self._response()
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)

    def _response(self) -> Response:
        if not self.server.pages.is_open(self.path) and not self._is_allowed():
            return problem(401, "a bearer token was expected", {"WWW-Authenticate": "Bearer"})
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            return problem(411, "a body's length was expected")
        if len(length) > 12 or int(length) > BODY_BYTES_MAX:
            return problem(413, f"a body of at most {BODY_BYTES_MAX} bytes was expected")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return problem(408, f"{length} bytes were announced, {len(body)} came")
        return self.server.pages.answer(Request(self.command, self.path, body))

    def _is_allowed(self) -> bool:
        token = self.server.token
        if token is None:
            return True
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        expected = token.reveal().encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), expected)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a line for each request would drown the service's own, and paths may hold keys."""


def problem(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """An error as text for people."""
    return Response(status, (why + "\n").encode(), "text/plain; charset=utf-8", headers or {})
