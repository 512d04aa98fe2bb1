# mypy: ignore-errors
"""What checked arithmetic costs: a user function as Millrace compiles it against the same body compiled by plain numba.

Both are C functions of one signature, called through their address by the same kernel, over the same records; the only
difference is the checking (overflow, division by zero, NaN, bounds). Repeats of the two alternate, so that a slow moment of
the machine hits both; the table shows medians and the spread between the quartiles. After each repeat the records are held
against an answer that numpy computed.

Run: python -m bench.micro.checked_arithmetic [--calls 1000000] [--repeats 15] [--json]
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np
from numba import cfunc, from_dtype, njit

from engine.execution.atomics import call_entry
from engine.functions.entry import SIGNATURE, Parameter, compile_entry
from engine.functions.memory import record_at
from engine.functions.udf import udf

ROWS = 128  # a power of two; records and events fit into the first-level cache, so that arithmetic is what is measured
RECORD = np.dtype([("balance", "<i8"), ("share", "<f8"), ("items", "<i8", (8,))], align=True)
EVENT = np.dtype([("amount", "<i8"), ("divisor", "<i8"), ("factor", "<f8"), ("place", "<i8")], align=True)
RECORD_TYPE, EVENT_TYPE = from_dtype(RECORD), from_dtype(EVENT)


def ledger_debit(record, event):
    record.balance = record.balance + event.amount - event.divisor
    return record.balance >= 0


def integer_multiply(record, event):
    record.balance = event.amount * event.divisor
    return record.balance >= 0


def floor_divide(record, event):
    record.balance = event.amount // event.divisor
    return record.balance >= 0


def float_divide(record, event):
    record.share = event.factor / event.divisor
    return record.share >= 0


def vector_index(record, event):
    record.items[event.place] = event.amount
    return record.items[event.place] >= 0


def expected_debits(records, events, calls_a_row):
    records["balance"] += calls_a_row * (events["amount"] - events["divisor"])


def expected_products(records, events, calls_a_row):
    records["balance"] = events["amount"] * events["divisor"]


def expected_quotients(records, events, calls_a_row):
    records["balance"] = events["amount"] // events["divisor"]


def expected_shares(records, events, calls_a_row):
    records["share"] = events["factor"] / events["divisor"]


def expected_items(records, events, calls_a_row):
    records["items"][np.arange(ROWS), events["place"]] = events["amount"]


BODIES = {
    ledger_debit: expected_debits,
    integer_multiply: expected_products,
    floor_divide: expected_quotients,
    float_divide: expected_shares,
    vector_index: expected_items,
}


@dataclass(frozen=True)
class Figure:
    """Nanoseconds a call, medians over the repeats; a spread is from the first to the third quartile."""

    body: str
    checked_ns: float
    plain_ns: float
    checked_spread_ns: float
    plain_spread_ns: float


@njit(nogil=True)
def call_often(address, records, record_size, events, event_size, calls):
    """How many of the calls succeeded."""
    good = 0
    for at in range(calls):
        row = at & (ROWS - 1)
        good += call_entry(address, records + row * record_size, events + row * event_size, 0, 0)
    return good


def compile_checked(body):
    """What the engine would call."""
    return compile_entry(udf(body), (Parameter("own", RECORD, writable=True), Parameter("event", EVENT)), "verdict")


def compile_plain(body):
    """The same body, unchecked, behind the same signature."""
    inner = njit(error_model="numpy", nogil=True)(body)

    def entry(own, event, each, args):
        return 1 if inner(record_at(own, RECORD_TYPE), record_at(event, EVENT_TYPE)) else 0

    return cfunc(SIGNATURE, error_model="numpy")(entry)


def make_rows():
    draw = np.random.default_rng(1)
    events = np.zeros(ROWS, EVENT)
    events["amount"], events["divisor"] = draw.integers(100, 1000, ROWS), draw.integers(1, 100, ROWS)
    events["factor"], events["place"] = draw.random(ROWS), draw.integers(0, 8, ROWS)
    return np.zeros(ROWS, RECORD), events


def seconds_of(compiled, calls, expected):
    """One repeat on fresh records, its answer checked."""
    records, events = make_rows()
    places = records.ctypes.data, RECORD.itemsize, events.ctypes.data, EVENT.itemsize
    begin = time.perf_counter()
    good = call_often(compiled.address, *places, calls)
    seconds = time.perf_counter() - begin
    answer = np.zeros(ROWS, RECORD)
    expected(answer, events, calls // ROWS)
    if good != calls or answer.tobytes() != records.tobytes():
        raise SystemExit(f"wrong answer: {good} of {calls} calls succeeded, records differ or a call failed")
    return seconds


def measure(body, expected, calls, repeats):
    compiled = {"checked": compile_checked(body), "plain": compile_plain(body)}
    nanoseconds = {name: [] for name in compiled}
    for entry in compiled.values():
        seconds_of(entry, ROWS, expected)
    for repeat in range(repeats):
        for name in sorted(compiled, reverse=repeat % 2 == 1):  # each goes first in turn
            nanoseconds[name].append(1e9 * seconds_of(compiled[name], calls, expected) / calls)
    middle = {name: statistics.median(times) for name, times in nanoseconds.items()}
    quartiles = {name: statistics.quantiles(times, n=4) for name, times in nanoseconds.items()}
    spread = {name: found[2] - found[0] for name, found in quartiles.items()}
    return Figure(body.__name__, middle["checked"], middle["plain"], spread["checked"], spread["plain"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description="What checked arithmetic costs a call of a user function.")
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls a repeat, rounded to whole passes")
    parser.add_argument("--repeats", type=int, default=15, help="how often each side is run; at least 2")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(arguments)
    calls = max(1, chosen.calls // ROWS) * ROWS
    figures = [measure(body, expected, calls, max(2, chosen.repeats)) for body, expected in BODIES.items()]
    if chosen.json:
        json.dump([asdict(figure) for figure in figures], sys.stdout, indent=2)
        print()
        return
    print(f"{'body':<18}{'checked':>16}{'plain':>16}{'difference':>12}   ns a call, {calls:,} calls")
    for each in figures:
        checked = f"{each.checked_ns:.2f} ± {each.checked_spread_ns / 2:.2f}"
        plain = f"{each.plain_ns:.2f} ± {each.plain_spread_ns / 2:.2f}"
        print(f"{each.body:<18}{checked:>16}{plain:>16}{each.checked_ns - each.plain_ns:>12.2f}")


if __name__ == "__main__":
    main()
