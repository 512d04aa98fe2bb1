"""The user functions and layouts that generated applications are put together from.

All applications share them, so each is compiled once for each layout it meets. Every function asks only for the fields
that both table layouts have, unless its section says otherwise. Amounts from `BAD_AMOUNT` on are what `guard` refuses.
"""

from __future__ import annotations

import math
from typing import Any

from engine.api.types import BOOLEAN, FLOAT64, INT64, STRING, list_of, vector
from engine.functions.udf import udf

BAD_AMOUNT = 1000
COMPUTED_KEYS = 7  # computed keys lie below this

PLAIN = {"value": INT64, "count": INT64}
RICH = {"value": INT64, "share": FLOAT64, "open": BOOLEAN, "slots": vector(INT64, 3)}
SLIM_EVENT = {"key": INT64, "amount": INT64}
WIDE_EVENT = {
    "key": INT64,
    "other": INT64,
    "amount": INT64,
    "rate": FLOAT64,
    "flag": BOOLEAN,
    "weights": vector(FLOAT64, 2),
    "name": STRING,
    "label": STRING,
    "keys": list_of(INT64),
    "names": list_of(STRING),
    "amounts": list_of(INT64),
}
ACCUMULATOR = {"most": INT64, "seen": INT64}
OUTPUT = {"seen": INT64}
FLOAT_OUTPUT = {"level": FLOAT64}


# Writes that look at the event's amount


@udf
def deposit(record: Any, event: Any) -> None:
    record.value += event.amount


@udf
def debit(record: Any, event: Any) -> Any:
    record.value -= event.amount
    return record.value >= 0


@udf
def assign(record: Any, event: Any) -> None:
    record.value = event.amount


@udf
def multiply(record: Any, event: Any) -> None:
    record.value *= event.amount


@udf
def divide(record: Any, event: Any) -> None:
    record.value = (event.amount * 100) // (record.value - 3)


@udf
def guard(record: Any, event: Any) -> Any:
    record.value += 1
    return event.amount < BAD_AMOUNT


@udf
def add_each(record: Any, event: Any, amount: Any) -> Any:
    record.value += amount
    return record.value < BAD_AMOUNT


@udf
def credit_if(record: Any, event: Any, other: Any) -> Any:
    record.value += event.amount
    return other.value >= event.amount


@udf
def pick_from(record: Any, event: Any, others: Any) -> None:
    record.value = others[event.amount % 4 - 1].value


@udf
def merge(record: Any, event: Any, first: Any, second: Any) -> Any:
    record.value += first.value - 2 * second.value
    return record.value != event.amount


# Writes that do not look at the event's amount: fires may use them too


@udf
def stamp(record: Any, event: Any) -> None:
    record.value = event.ts


@udf
def decay(record: Any, event: Any) -> None:
    record.value //= 2


@udf
def raise_high(record: Any, event: Any) -> None:
    record.value = 100


@udf
def copy_from(record: Any, event: Any, other: Any) -> None:
    record.value = other.value + 1


@udf
def refuse_above(record: Any, event: Any, other: Any) -> Any:
    record.value += 1
    return other.value <= 50


@udf
def add_number(record: Any, event: Any, number: Any) -> None:
    record.value = (record.value + number) % 1000003


@udf
def sum_of(record: Any, event: Any, others: Any) -> None:
    for other in others:
        record.value += other.value


@udf
def note_fold(record: Any, event: Any, accumulator: Any) -> None:
    record.value += accumulator.seen * 10 + accumulator.most


# Writes of plain and of rich records alone; the last four need a wide event


@udf
def tally(record: Any, event: Any) -> None:
    record.count += 1
    record.value -= record.count


@udf
def toggle(record: Any, event: Any) -> None:
    record.open = not record.open
    if record.open:
        record.slots[-1] += 1


@udf
def add_share(record: Any, event: Any, number: Any) -> None:
    record.share += number


@udf
def index_slot(record: Any, event: Any) -> None:
    record.slots[event.amount % 4] += event.amount


@udf
def scale(record: Any, event: Any) -> None:
    record.share = record.share * event.rate + event.weights[0]


@udf
def root(record: Any, event: Any) -> None:
    record.share = math.sqrt(event.rate + record.share)


@udf
def quotient(record: Any, event: Any) -> Any:
    record.share = (record.share + 1.0) / event.rate
    return event.flag or record.share < 100.0


@udf
def round_off(record: Any, event: Any) -> None:
    record.value += int(event.rate * 4.0)
    record.share = float(record.value) / 8.0


# Conditions, computed keys, folds, constraints, pre-processing


@udf
def is_even(event: Any) -> Any:
    return event.amount % 2 == 0


@udf
def holds(event: Any, other: Any) -> Any:
    return other.value >= 10


@udf
def is_low(event: Any, number: Any) -> Any:
    return number < 60


@udf
def at_value(event: Any, other: Any) -> Any:
    return other.value % COMPUTED_KEYS


@udf
def at_quotient(event: Any, other: Any) -> Any:
    return (50 // other.value) % COMPUTED_KEYS


@udf
def at_amount(event: Any) -> Any:
    return event.amount % COMPUTED_KEYS


@udf
def at_random(event: Any) -> Any:
    return event.random % COMPUTED_KEYS


@udf
def keep_most(accumulator: Any, version: Any) -> Any:
    accumulator.seen += 1
    if version.value > accumulator.most:
        accumulator.most = version.value
    return version.value != 13


@udf
def non_negative(record: Any) -> Any:
    return record.value >= 0


@udf
def bounded(record: Any) -> Any:
    return -5000 < record.value < 5000


@udf
def is_kept(event: Any) -> Any:
    return event.amount % 5 != 0


@udf
def halved(event: Any) -> Any:
    return event.amount // 2


@udf
def hundredth(event: Any) -> Any:
    return 100 // event.amount


# Outputs and derived records


@udf
def show(output: Any, event: Any, other: Any) -> None:
    output.seen = other.value


@udf
def show_number(output: Any, event: Any, number: Any) -> None:
    output.seen = number


@udf
def show_level(output: Any, event: Any, number: Any) -> None:
    output.level = number / 3


@udf
def show_all(output: Any, event: Any, others: Any) -> Any:
    for other in others:
        output.seen = output.seen * 3 + other.value
    return output.seen < 10**9


@udf
def show_time(output: Any, event: Any) -> None:
    output.seen = event.ts


@udf
def pass_on(derived: Any, event: Any) -> None:
    derived.key = event.key
    derived.amount = event.amount - 1


@udf
def pass_read(derived: Any, event: Any, other: Any) -> None:
    derived.key = other.value % COMPUTED_KEYS
    derived.amount = other.value


@udf
def pass_time(derived: Any, event: Any) -> None:
    derived.key = event.ts % 5
    derived.amount = event.ts % 11
