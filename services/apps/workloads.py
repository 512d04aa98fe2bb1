"""The benchmark workloads: seeded columns of events for SL, GS, TP, OB and the bank.

Invariants: the same parameters, seed and epoch number give the same columns; an epoch can be made without those before
it; (source, seq) is dense in every epoch; nothing happens per event in Python. Zipf draws key i with a probability
proportional to 1/(i + 1)^theta. A column of lists is two-dimensional, a row an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from engine import Epoch

Column = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Column]

STARTING_BALANCE = 1_000_000
BEYOND_ANY_BALANCE = 10**15
REDRAWS_MAX = 64


@dataclass(frozen=True)
class Parameters:
    """One column of the table in workloads.md, and how the events arrive."""

    theta: float = 0.2
    abort_share: float = 0.01
    length: int = 1  # l: states a transaction accesses
    busy_us: float = 10.0  # C: a busy loop in each user function, see busy.iterations_of
    reads: int = 2  # r: states a user function reads
    transactions: int = 10_240  # T: transactions an epoch
    states: int = 100_000
    disorder: float = 0.0  # share of the events that do not arrive in the order of their ts
    sources: int = 1


STREAMING_LEDGER = Parameters(length=4)
GREP_SUM = Parameters()
GREP_SUM_WINDOWED = Parameters(transactions=102_400)
TOLL_PROCESSING = Parameters(length=2, reads=1, transactions=40_960, states=100)
ONLINE_BIDDING = Parameters(theta=0.6, length=20, busy_us=0.0, reads=1, states=10_000)
BANK = Parameters(length=4, busy_us=0.0)

VEHICLES = 100_000


@lru_cache(maxsize=16)
def _cumulative(theta: float, states: int) -> Column:
    cumulative = np.cumsum(1.0 / np.arange(1, states + 1, dtype=np.float64) ** theta)
    cumulative /= cumulative[-1]
    cumulative.flags.writeable = False
    return cumulative


def zipf(random: np.random.Generator, theta: float, states: int, shape: int | tuple[int, ...]) -> Column:
    """Keys from 0 to states - 1; key 0 is the hottest."""
    found = np.searchsorted(_cumulative(theta, states), random.random(shape), side="right")
    return np.minimum(found, states - 1).astype(np.int64)  # the last sum may be a rounding error below 1


def distinct_zipf(random: np.random.Generator, theta: float, states: int, rows: int, width: int) -> Column:
    """`width` different keys in each row: a key that its row has already is drawn again."""
    if width > states:
        raise ValueError(f"{width} different keys of {states} cannot be drawn; ask for fewer or declare more states")
    keys = zipf(random, theta, states, (rows, width))
    for _ in range(REDRAWS_MAX):
        order = np.argsort(keys, axis=1, kind="stable")
        ordered = np.take_along_axis(keys, order, axis=1)
        repeated = np.zeros(keys.shape, dtype=np.bool_)
        np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        if not repeated.any():
            return keys
        keys[repeated] = zipf(random, theta, states, int(repeated.sum()))
    # So hot, or so few keys, that redrawing does not end: these rows take the neighbours of their first key.
    stubborn = repeated.any(axis=1)
    keys[stubborn] = (keys[stubborn, :1] + np.arange(width)) % states
    return keys


def streaming_ledger(
    parameters: Parameters = STREAMING_LEDGER,
    epochs: int = 1,
    seed: int = 1,
    transfer_share: float = 0.5,
    first_epoch: int = 0,
) -> Iterator[Epoch]:
    """Deposits and transfers. A transfer made to abort asks for more than anyone has; a deposit takes it."""
    for number in range(first_epoch, first_epoch + epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        kind = (random.random(rows) < transfer_share).astype(np.int64)
        accounts = distinct_zipf(random, parameters.theta, parameters.states, rows, 2)
        assets = distinct_zipf(random, parameters.theta, parameters.states, rows, 2)
        amount = random.integers(1, 101, rows)
        aborting = random.random(rows) < parameters.abort_share
        yield _epoch(number, parameters, random, kind, {
            "Deposit": {
                "account": accounts[:, 0],
                "asset": assets[:, 0],
                "amount": np.where(aborting, -BEYOND_ANY_BALANCE, amount),
            },
            "Transfer": {
                "sender_account": accounts[:, 0],
                "sender_asset": assets[:, 0],
                "receiver_account": accounts[:, 1],
                "receiver_asset": assets[:, 1],
                "amount": np.where(aborting, BEYOND_ANY_BALANCE, amount),
            },
        })  # fmt: skip


def dynamic_streaming_ledger(
    parameters: Parameters = STREAMING_LEDGER, epochs_per_phase: int = 4, seed: int = 1
) -> Iterator[Epoch]:
    """MorphStream's Fig. 12: scattered deposits; skew rising to 0.6; transfers to 95 %; aborts to 60 %."""
    steps = np.linspace(0.0, 1.0, epochs_per_phase).tolist()
    phases = [
        *((0.0, 0.05, 0.0) for _ in steps),
        *((0.6 * step, 0.05, 0.0) for step in steps),
        *((0.6, 0.05 + 0.9 * step, 0.0) for step in steps),
        *((0.6, 0.95, 0.6 * step) for step in steps),
    ]
    for number, (theta, transfer_share, abort_share) in enumerate(phases):
        now = replace(parameters, theta=theta, abort_share=abort_share)
        yield from streaming_ledger(now, 1, seed, transfer_share, first_epoch=number)


def grep_sum(
    parameters: Parameters = GREP_SUM,
    epochs: int = 1,
    seed: int = 1,
    query_share: float = 0.0,
    first_epoch: int = 0,
) -> Iterator[Epoch]:
    """Sums over `length` keys written, each from itself and `reads` - 1 others; and queries of `reads` keys."""
    for number in range(first_epoch, first_epoch + epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        kind = (random.random(rows) < query_share).astype(np.int64)
        width = parameters.length + parameters.reads - 1
        keys = distinct_zipf(random, parameters.theta, parameters.states, rows, width)
        yield _epoch(number, parameters, random, kind, {
            "Sum": {
                "keys": keys[:, : parameters.length],
                "others": keys[:, parameters.length :],
                "allowed": random.random(rows) >= parameters.abort_share,
            },
            "Query": {"keys": keys[:, : parameters.reads]},
        })  # fmt: skip


def windowed_grep_sum(
    parameters: Parameters = GREP_SUM_WINDOWED, epochs: int = 1, seed: int = 1, period: int = 100, keys_read: int = 100
) -> Iterator[Epoch]:
    """Sums, and every `period`-th event a window query over `keys_read` random keys."""
    for number in range(epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        kind = (np.arange(number * rows, (number + 1) * rows) % period == period - 1).astype(np.int64)
        width = parameters.length + parameters.reads - 1
        keys = distinct_zipf(random, parameters.theta, parameters.states, rows, width)
        # Drawn for the queries only: for every row, a hundred keys each would be the whole cost.
        asked = np.zeros((rows, keys_read), dtype=np.int64)
        asked[kind == 1] = random.integers(0, parameters.states, (int(kind.sum()), keys_read))
        yield _epoch(number, parameters, random, kind, {
            "Sum": {
                "keys": keys[:, : parameters.length],
                "others": keys[:, parameters.length :],
                "allowed": random.random(rows) >= parameters.abort_share,
            },
            "WindowQuery": {"keys": asked},
        })  # fmt: skip


def computed_grep_sum(
    parameters: Parameters = GREP_SUM, epochs: int = 1, seed: int = 1, computed_share: float = 0.01
) -> Iterator[Epoch]:
    """Sums, of which a share computes the keys it writes and reads from the state of two keys."""
    for number in range(epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        kind = (random.random(rows) < computed_share).astype(np.int64)
        width = max(2, parameters.length + parameters.reads - 1)
        keys = distinct_zipf(random, parameters.theta, parameters.states, rows, width)
        allowed = random.random(rows) >= parameters.abort_share
        yield _epoch(number, parameters, random, kind, {
            "Sum": {
                "keys": keys[:, : parameters.length],
                "others": keys[:, parameters.length : parameters.length + parameters.reads - 1],
                "allowed": allowed,
            },
            "ComputedSum": {"write_seed": keys[:, 0], "read_seed": keys[:, 1], "allowed": allowed},
        })  # fmt: skip


def toll_processing(
    parameters: Parameters = TOLL_PROCESSING,
    epochs: int = 1,
    seed: int = 1,
    vehicles: int = VEHICLES,
    nested: Parameters | None = None,
    first_epoch: int = 0,
) -> Iterator[Epoch]:
    """A third each of road speeds, vehicle counts and toll notifications; an impossible speed or vehicle aborts.

    With `nested`, the upper half of the segments is region 1 and follows those parameters (skew and aborts) instead.
    """
    for number in range(first_epoch, first_epoch + epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        kind = random.integers(0, 3, rows)
        aborting = random.random(rows)
        if nested is None:
            region = np.zeros(rows, dtype=np.int64)
            segment = zipf(random, parameters.theta, parameters.states, rows)
            aborts = aborting < parameters.abort_share
        else:
            half = parameters.states // 2
            region = random.integers(0, 2, rows)
            lower = zipf(random, parameters.theta, half, rows)
            upper = half + zipf(random, nested.theta, parameters.states - half, rows)
            segment = np.where(region == 0, lower, upper)
            aborts = aborting < np.where(region == 0, parameters.abort_share, nested.abort_share)
        place = {"region": region, "segment": segment}
        vehicle = np.where(aborts, -1, random.integers(0, vehicles, rows))
        yield _epoch(number, parameters, random, kind, {
            "RoadSpeed": {**place, "speed": np.where(aborts, -1, random.integers(10, 100, rows))},
            "VehicleCount": {**place, "vehicle": vehicle},
            "TollNotification": {**place, "vehicle": vehicle},
        })  # fmt: skip


def online_bidding(
    parameters: Parameters = ONLINE_BIDDING, epochs: int = 1, seed: int = 1, first_epoch: int = 0
) -> Iterator[Epoch]:
    """Bids, alters and tops as 6 : 1 : 1; a bid made to abort offers nothing."""
    for number in range(first_epoch, first_epoch + epochs):
        random = np.random.default_rng((seed, number))
        rows, width = parameters.transactions, parameters.length
        kind = np.searchsorted(np.array([6, 7]), random.integers(0, 8, rows), side="right")
        items = np.zeros((rows, width), dtype=np.int64)
        listed = kind != 0
        items[listed] = distinct_zipf(random, parameters.theta, parameters.states, int(listed.sum()), width)
        # Asking prices stay below 100 (and items start with far more than is sold), so other bids go through.
        price = np.where(random.random(rows) < parameters.abort_share, 0, random.integers(100, 200, rows))
        yield _epoch(number, parameters, random, kind, {
            "Bid": {
                "item": zipf(random, parameters.theta, parameters.states, rows),
                "price": price,
                "quantity": random.integers(1, 5, rows),
            },
            "Alter": {"items": items, "prices": random.integers(1, 100, (rows, width))},
            "Top": {"items": items, "quantities": random.integers(1, 20, (rows, width))},
        })  # fmt: skip


def bank(
    parameters: Parameters = BANK, epochs: int = 1, seed: int = 1, amount_max: int = 100, first_epoch: int = 0
) -> Iterator[Epoch]:
    """Deposits, withdrawals and transfers, a third each; ts in milliseconds, one operation a millisecond."""
    for number in range(first_epoch, first_epoch + epochs):
        random = np.random.default_rng((seed, number))
        rows = parameters.transactions
        users = distinct_zipf(random, parameters.theta, parameters.states, rows, 2)
        amount = random.integers(1, amount_max + 1, rows)
        out = np.where(random.random(rows) < parameters.abort_share, BEYOND_ANY_BALANCE, amount)
        yield _epoch(number, parameters, random, random.integers(0, 3, rows), {
            "Deposit": {"user": users[:, 0], "amount": amount},
            "Withdrawal": {"user": users[:, 0], "amount": out},
            "Transfer": {"sender": users[:, 0], "receiver": users[:, 1], "amount": out},
        })  # fmt: skip


def _epoch(
    number: int,
    parameters: Parameters,
    random: np.random.Generator,
    kind: Column,
    fields: Mapping[str, Columns],
) -> Epoch:
    """Gives each row its identity and time, one unit of event time a row, and parts the rows by kind."""
    rows = parameters.transactions
    arrival = np.arange(rows, dtype=np.int64)
    ts = number * rows + arrival
    moved = np.flatnonzero(random.random(rows) < parameters.disorder)
    ts[moved] = random.permutation(ts[moved])
    identity = {"ts": ts, "source": arrival % parameters.sources, "seq": arrival // parameters.sources}
    columns = {}
    for index, (record_type, given) in enumerate(fields.items()):
        chosen = np.flatnonzero(kind == index)
        columns[record_type] = {name: column[chosen] for name, column in {**identity, **given}.items()}
    return Epoch(number, (number + 1) * rows - 1, columns)
