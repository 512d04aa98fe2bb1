"""`TestDriver`: an application in one process, without a broker, on the real engine, real aborts included."""

from __future__ import annotations

from typing import Any

from engine.api.application import Application
from engine.engine import Engine
from engine.errors import InputError
from engine.planning.epoch import Epoch
from engine.result import EpochResult
from engine.scheduling.policy import Policy


class TestDriver:
    """Send events one by one, punctuate, look at outcomes and state.

    >>> driver = TestDriver(app)
    >>> driver.load("accounts", {"alice": {"balance": 100}})
    >>> driver.send("Transfer", ts=1, sender="alice", receiver="bob", amount=30)
    >>> driver.punctuate().outcomes()[0].verdict
    'committed'
    """

    __test__ = False  # not a test class, whatever its name says to pytest

    def __init__(
        self, application: Application, *, threads: int = 2, policy: Policy | str | None = None, **options: Any
    ) -> None:
        self.engine = Engine(application, threads=threads, policy=policy, **options)
        self.epoch = 0
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._next_seq: dict[int, int] = {}

    def load(self, table: str, records: dict[Any, dict[str, Any]]) -> None:
        """Fills a table before the first epoch."""
        names = {name for record in records.values() for name in record}
        for key, record in records.items():
            if set(record) != names:
                raise InputError(
                    f"table {table!r}: key {key!r} has fields {sorted(record)}, others have {sorted(names)}"
                )
        self.engine.load(table, list(records), {name: [r[name] for r in records.values()] for name in names})

    def send(self, record_type: str, *, ts: int, source: int = 0, **fields: Any) -> None:
        """One event; its sequence number is the next of its source in this epoch."""
        seq = self._next_seq.get(source, 0)
        self._next_seq[source] = seq + 1
        self._events.setdefault(record_type, []).append({"ts": ts, "source": source, "seq": seq, **fields})

    def punctuate(self, ts: int | None = None) -> EpochResult:
        """Ends the epoch at event time `ts` (the largest sent, unless given) and runs it."""
        if ts is None:
            sent = [event["ts"] for events in self._events.values() for event in events]
            last = self.engine.store.last_punctuation_ts
            ts = max(sent) if sent else (last if last is not None else 0)
        sent_events, self._events, self._next_seq = self._events, {}, {}
        columns = {}
        for record_type, events in sent_events.items():
            names = set().union(*events)
            for event in events:
                if set(event) != names:
                    raise InputError(f"{record_type}: an event has fields {sorted(event)}, others have {sorted(names)}")
            columns[record_type] = {name: [event[name] for event in events] for name in sorted(names)}
        result = self.engine.run_epoch(Epoch(self.epoch, ts, columns))
        self.epoch += 1
        return result

    def state(self, table: str) -> dict[Any, dict[str, Any]]:
        return self.engine.state(table)

    def get(self, table: str, key: Any) -> dict[str, Any] | None:
        return self.engine.read({table: [key]})[1][table][0]

    def close(self) -> None:
        self.engine.close()
