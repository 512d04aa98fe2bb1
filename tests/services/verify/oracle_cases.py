"""User functions and small applications that the oracle's hand-computed cases share."""

from typing import Any

from engine.api.application import Application
from engine.api.tracing import TableProxy
from engine.api.types import INT64, list_of, vector
from engine.functions.udf import udf
from services.verify.oracle import Oracle, OracleOutcome


@udf
def add(record, event):
    record.balance += event.amount


@udf
def add_each(record, event, amount):
    record.balance += amount


@udf
def double(record, event):
    record.balance *= 2


@udf
def take(record, event):
    record.balance -= event.amount
    return record.balance >= 0


@udf
def add_of(record, event, other):
    record.balance += other.balance


@udf
def add_sum(record, event, others):
    for other in others:
        record.balance += other.balance


@udf
def add_number(record, event, number):
    record.balance += number


@udf
def refuse_if_above_five(record, event, other):
    return other.balance <= 5


@udf
def divide(record, event):
    record.balance //= event.amount


@udf
def to_the_top(record, event):
    record.balance += 9223372036854775807


@udf
def root(record, event):
    record.share = (float(event.amount)) ** 0.5


@udf
def multiply_share(record, event):
    record.share = (record.share + 1e308) * event.amount


@udf
def put_slot(record, event):
    record.slots[event.amount] = 7


@udf
def non_negative(record):
    return record.balance >= 0


@udf
def is_rich(event, record):
    return record.balance >= 10


@udf
def is_large(event):
    return event.amount >= 10


@udf
def at_balance(event, record):
    return record.balance


@udf
def at_quotient(event):
    return 10 // event.amount


@udf
def at_random(event):
    return event.random % 1000


@udf
def show(output, event, record):
    output.seen = record.balance


@udf
def show_number(output, event, number):
    output.seen = number


@udf
def show_ts(output, event):
    output.seen = event.ts


@udf
def half(event):
    return event.amount // 2


@udf
def share_of_hundred(event):
    return 100 // event.amount


@udf
def is_even(event):
    return event.amount % 2 == 0


@udf
def same_amount(derived, event):
    derived.amount = event.amount


@udf
def amount_plus_one(derived, event):
    derived.amount = event.amount + 1


@udf
def longest(accumulator, version):
    accumulator.count += 1
    if version.balance > accumulator.most:
        accumulator.most = version.balance
    return version.balance < 1000


@udf
def add_longest(record, event, accumulator):
    record.balance += accumulator.count * 100 + accumulator.most


SLOTS = {"balance": INT64, "share": float, "slots": vector(INT64, 3)}


def small(create: bool = True, **table: Any) -> tuple[Application, TableProxy]:
    """An application with one table of integer keys and the record type Step(key, other, keys, amounts, amount)."""
    app = Application("small")
    accounts = app.table("accounts", key=int, value={"balance": INT64}, create=create, **table)
    app.event(
        "Step",
        {"key": INT64, "other": INT64, "keys": list_of(INT64), "amounts": list_of(INT64), "amount": INT64},
    )
    return app, accounts


class Case:
    """An oracle, its epochs numbered from 0, with short ways to send and look."""

    def __init__(self, app: Application, **tables: dict[Any, int]) -> None:
        self.oracle = Oracle(app)
        for name, balances in tables.items():
            self.oracle.load(name, {key: {"balance": balance} for key, balance in balances.items()})
        self.number = 0

    def epoch(self, *events: tuple[str, int, dict[str, Any]], until: int = 1000) -> list[OracleOutcome]:
        """Runs (record type, ts, fields) as events of source 0, seq in the order given."""
        return self.identified(*((name, ts, 0, seq, f) for seq, (name, ts, f) in enumerate(events)), until=until)

    def identified(self, *events: tuple[str, int, int, int, dict[str, Any]], until: int = 1000) -> list[OracleOutcome]:
        filled = [
            (name, ts, source, seq, {"key": 0, "other": 0, "keys": [], "amounts": [], "amount": 0, **fields})
            for name, ts, source, seq, fields in events
        ]
        outcomes = self.oracle.run_epoch(self.number, until, filled)
        self.number += 1
        return outcomes

    def balances(self, table: str = "accounts") -> dict[Any, Any]:
        return {key: record["balance"] for key, record in self.oracle.state()[table].items()}


def verdicts(outcomes: list[OracleOutcome]) -> list[tuple[Any, ...]]:
    """What became of each: ("committed",), ("filtered",) or ("failed", reason, statement, key)."""
    return [(o.verdict, o.reason.name, o.statement, o.key) if o.verdict == "failed" else (o.verdict,) for o in outcomes]


def seen(outcomes: list[OracleOutcome]) -> list[Any]:
    return [None if o.output is None else o.output["seen"] for o in outcomes]
