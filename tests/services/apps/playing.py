"""Runs an application on epochs of columns, and gives the same events as plain rows to the answers the tests write."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine import Application, Epoch, Policy, Reason, TestDriver


class Row(NamedTuple):
    """One event as plain Python values."""

    record_type: str
    ts: int
    source: int
    seq: int
    fields: dict[str, Any]


class Verdict(NamedTuple):
    """What became of one transaction: what the engine says and what an answer expects."""

    record_type: str
    ts: int
    source: int
    seq: int
    reason: Reason = Reason.NONE
    key: Any = None
    output: dict[str, Any] | None = None


def rows_of(epoch: Epoch) -> list[Row]:
    """The events of an epoch, in the total order (ts, source, seq)."""
    rows = []
    for record_type, columns in epoch.events.items():
        names = list(columns)
        plain = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
        for values in zip(*plain, strict=True):
            fields = dict(zip(names, values, strict=True))
            rows.append(Row(record_type, fields.pop("ts"), fields.pop("source"), fields.pop("seq"), fields))
    return sorted(rows, key=lambda row: (row.ts, row.source, row.seq))


def play(
    app: Application,
    epochs: Iterable[Epoch],
    tables: Mapping[str, dict[Any, dict[str, Any]]] | None = None,
    threads: int = 2,
    policy: Policy | str | None = None,
) -> tuple[TestDriver, list[list[Any]]]:
    """Loads the tables, runs the epochs; the driver, and the outcomes of each epoch."""
    driver = TestDriver(app, threads=threads, policy=policy)
    for table, records in (tables or {}).items():
        driver.load(table, records)
    outcomes = []
    for epoch in epochs:
        for row in sorted(rows_of(epoch), key=lambda row: (row.source, row.seq)):
            driver.send(row.record_type, ts=row.ts, source=row.source, **row.fields)
        outcomes.append(driver.punctuate(epoch.punctuation_ts).outcomes())
    return driver, outcomes


def verdicts(outcomes: Iterable[Any]) -> list[Verdict]:
    """The outcomes in the form that answers have; a failed one has a reason, a committed one none."""
    found = []
    for each in outcomes:
        assert each.verdict == ("committed" if each.reason == Reason.NONE else "failed")
        found.append(Verdict(each.record_type, each.ts, each.source, each.seq, each.reason, each.key, each.output))
    return found


def plain_state(driver: TestDriver, table: str) -> dict[Any, dict[str, Any]]:
    """A table with its vectors as tuples."""
    return {
        key: {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
        for key, record in driver.state(table).items()
    }
