"""What the HTTP port answers: health, readiness, metrics, status, and point reads of the state.

| path | answers |
|---|---|
| `/health` | 200 while the main loop turns, else 503 |
| `/ready` | 200 while epochs can be committed, 503 while recovering or while no broker answers |
| `/metrics` | Prometheus' text format |
| `/status` | one JSON object for live views |
| `/state/<table>?key=…&key=…` | the values of keys of one table, as of one epoch |
| `POST /state` with `{table: [key, …], …}` | the same for several tables, all as of one epoch |

A key is an integer or a string as the table has it, a tuple a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from engine import Application
from engine.errors import InputError
from services.engine.progress import Progress
from services.engine.serving.metrics import CONTENT_TYPE, Metrics
from services.engine.serving.server import Request, Response, problem

KEYS_MAX = 1_000
_OPEN = ("/health", "/ready")

Reads = dict[str, Sequence[Any]]
Values = dict[str, list[dict[str, Any] | None]]
# As of which epoch, and the values; None while there is no state to read.
Read = Callable[[Reads], tuple[int | None, Values] | None]


class _BadRequestError(Exception):
    """What is wrong with a request, for its sender."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class ServicePages:
    """One service's pages."""

    application: Application
    progress: Progress
    metrics: Metrics
    read: Read

    def is_open(self, target: str) -> bool:
        """Probes of orchestrators carry no token, and these pages say one word."""
        return target in _OPEN

    def answer(self, request: Request) -> Response:
        try:
            parts = urlsplit(request.target)
            return self._answer(request, parts.path, parts.query)
        except _BadRequestError as bad:
            return problem(bad.status, str(bad))
        except ValueError:  # of urlsplit
            return problem(400, "the path is no path")

    def _answer(self, request: Request, path: str, query: str) -> Response:
        if path == "/state" and request.method == "POST":
            return self._values(self._reads_of_body(request.body))
        if request.method != "GET":
            raise _BadRequestError("GET was expected; POST at /state alone", 405)
        match path:
            case "/health":
                stuck_s = self.progress.stuck_s
                return problem(503, f"stuck for {stuck_s:.0f} s") if stuck_s else _word("alive")
            case "/ready":
                away = "no broker answers" if self.progress.broker_away else "recovering"
                return _word("ready") if self.progress.ready else problem(503, away)
            case "/metrics":
                return Response(200, self.metrics.text(), CONTENT_TYPE)
            case "/status":
                return _json({"application": self.application.name, **self.progress.status()})
        folder, _, table = path.removeprefix("/").partition("/")
        if folder == "state" and table:
            return self._values(self._reads_of_query(unquote(table), query))
        raise _BadRequestError("there is no such page: /health, /ready, /metrics, /status, /state/<table>?key=…", 404)

    # --- point reads ----------------------------------------------------------------------------------------------------

    def _reads_of_query(self, table: str, query: str) -> Reads:
        types = self._key_types(table)
        given = parse_qs(query, keep_blank_values=True, max_num_fields=KEYS_MAX)
        if set(given) != {"key"}:
            raise _BadRequestError("?key=… was expected, once for each key, and nothing else")
        if len(types) > 1:
            return {table: [_key(_parsed(text), types) for text in given["key"]]}
        integers = types[0] == "int"
        return {table: [_key(_parsed(text) if integers else text, types) for text in given["key"]]}

    def _reads_of_body(self, body: bytes) -> Reads:
        given = _parsed(body)
        if not isinstance(given, dict) or not all(isinstance(keys, list) for keys in given.values()):
            raise _BadRequestError("a JSON object {table: [key, …], …} was expected")
        if sum(map(len, given.values())) > KEYS_MAX:
            raise _BadRequestError(f"at most {KEYS_MAX} keys were expected")
        return {table: [_key(key, self._key_types(table)) for key in keys] for table, keys in given.items()}

    def _key_types(self, table: str) -> tuple[str, ...]:
        if table not in self.application.tables:
            raise _BadRequestError(f"there is no such table; there are {', '.join(self.application.tables)}", 404)
        return self.application.tables[table].key_types

    def _values(self, reads: Reads) -> Response:
        try:
            found = self.read(reads)
        except InputError as error:  # a key that cannot be one
            raise _BadRequestError(str(error)) from error
        if found is None:
            return problem(503, "recovering", {"Retry-After": "1"})
        epoch, values = found
        tables = {
            table: [{"key": key, "value": value} for key, value in zip(reads[table], got, strict=True)]
            for table, got in values.items()
        }
        return _json({"epoch": epoch, "tables": tables})


def _parsed(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise _BadRequestError("JSON was expected") from None


def _key(given: Any, types: tuple[str, ...]) -> Any:
    parts = given if len(types) > 1 and isinstance(given, list) else [given]
    wanted = [{"int": int, "string": str}[kind] for kind in types]
    if len(parts) != len(types) or any(type(part) is not kind for part, kind in zip(parts, wanted, strict=True)):
        expected = f"[{', '.join(types)}]" if len(types) > 1 else types[0]
        raise _BadRequestError(f"a key that is {expected} was expected")
    return tuple(parts) if len(types) > 1 else parts[0]


def _word(text: str) -> Response:
    return Response(200, (text + "\n").encode(), "text/plain; charset=utf-8")


def _json(value: Any) -> Response:
    return Response(200, json.dumps(value, allow_nan=False).encode())
