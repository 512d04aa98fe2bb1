"""The service's log: one line for each notable event, as text for people or as one JSON object for machines.

`log_event` names what happened and gives its numbers as fields; the sentence is for people. Settings are never logged whole, and
a `Secret` has no text form, so no line holds one.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

REPEATED_AFTER_S = 10.0  # librdkafka says twenty times a second that a broker is away
_LOGGER = logging.getLogger("millrace.engine")


def log_event(level: int, name: str, text: str, **fields: Any) -> None:
    """One line: the event's name, a sentence, and its numbers."""
    _LOGGER.log(level, "%s", text, extra={"event": name, "fields": fields})


def set_up(form: str) -> None:
    """Sends everything to stderr, as `text` or `json` lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    handler.addFilter(_Sparing())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields = getattr(record, "fields", {})
        return line + "".join(f" {name}={json.dumps(value, default=str)}" for name, value in fields.items())


class _JsonLines(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower(),
            "event": getattr(record, "event", record.name), "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }  # fmt: skip
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Sparing(logging.Filter):
    """Lets a Kafka client's report through once in a while, not each time that it is made."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != "millrace.kafka":
            return True
        kind = " ".join(record.getMessage().split()[:2])  # what is reported, and by which client
        now_s = time.monotonic()
        if now_s - self._said_s.get(kind, -REPEATED_AFTER_S) < REPEATED_AFTER_S:
            return False
        self._said_s[kind] = now_s
        return True
