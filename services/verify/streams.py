"""Random streams for any application that the generator made: initial records and epochs of events.

Each stream draws its own hardness: how skewed its keys are (Zipf, theta 0 to 1.5), how many there are (1 to 10,000), how
many events carry an amount that makes functions fail, how many sources there are and how timestamps tie. An epoch's
events lie in order of arrival, which is that of neither their timestamps nor always their numbers.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

from engine.api.application import Application
from engine.api.model import TableSpec
from engine.api.types import BOOLEAN, FLOAT64, INT64, STRING, FieldType, ListType, VectorType
from services.verify.oracle import Event
from services.verify.pool import BAD_AMOUNT

_NAMES = ("k0", "k1", "", "é", "zz" * 20, "k10", "𝄞", "K1", "k1 ", "日本")  # of the most frequent ranks
_RATES = (0.5, 1.0, 2.0, 0.1, -0.25, 3.7, 0.0, 1e200, 1e-300)
_BAD_AMOUNTS = (BAD_AMOUNT, BAD_AMOUNT + 1, 10**6, 2**62, -(2**62), -7, 0)
_SMALL_KEYS = 16  # ranks below are their own integer keys, where computed keys lie; above they are spread over 64 bits


@dataclass(frozen=True)
class EpochInput:
    """One epoch's events in order of arrival."""

    number: int
    punctuation_ts: int
    events: list[Event]


@dataclass(frozen=True)
class Stream:
    """What one run of an application gets."""

    description: str
    tables: dict[str, dict[Any, dict[str, Any]]]
    epochs: list[EpochInput]

    def first(self, count: int) -> Stream:
        """The same stream, cut after `count` epochs."""
        return replace(self, epochs=self.epochs[:count])


@dataclass(frozen=True)
class _Hardness:
    """What stays the same through one stream."""

    keys: int
    theta: float
    failing: float
    sources: int
    pattern: str  # "zipf"; "chain": each event's key is the one before's other; "pairs": A to B, B to A
    span: float  # units of event time an event; below 1 timestamps tie


def generate_epochs(app: Application, seed: int, epochs: int = 5, hot: bool = False) -> Stream:
    """A stream of `epochs` epochs for `app`; the same seed gives the same stream. `hot`: few keys, some failures."""
    rng = random.Random(f"stream {app.name} {seed}")
    hardness = _Hardness(
        keys=rng.choice((5, 12, 20) if hot else (1, 2, 5, 5, 20, 20, 100, 1000, 10_000)),
        theta=rng.choice((0.0, 0.4, 0.8, 1.0, 1.2, 1.5)),
        failing=rng.choice((0.1, 0.2, 0.3) if hot else (0.0, 0.05, 0.05, 0.2, 0.2, 0.5, 0.8, 1.0)),
        sources=rng.choice((1, 1, 2, 3, 5)),
        pattern=rng.choice(("chain", "chain", "pairs") if hot else ("zipf", "zipf", "zipf", "chain", "pairs")),
        span=rng.choice((0.1, 0.5, 1.0, 3.0)),
    )
    made, begin = [], rng.choice((0, 0, 100, 10**12, -60))
    for number in range(epochs):
        count = _size(rng)
        width = max(1, int(count * hardness.span))
        events = _events(rng, app, hardness, count, begin, width)
        end = begin + width + rng.choice((0, 0, 3, 40))
        made.append(EpochInput(number, end, events))
        begin = end + 1
    tables = {spec.name: _records(rng, spec, made, hardness) for spec in app.tables.values()}
    shape = "/".join(str(len(epoch.events)) for epoch in made)
    return Stream(f"{shape} events, {hardness}", tables, made)


def _size(rng: random.Random) -> int:
    low, high = rng.choices(((0, 0), (1, 5), (5, 60), (100, 400)), (8, 20, 68, 4))[0]
    return rng.randint(low, high)


@cache
def _weights(keys: int, theta: float) -> list[float]:
    return list(accumulate(1.0 / (rank + 1) ** theta for rank in range(keys)))


def _rank(rng: random.Random, hardness: _Hardness) -> int:
    weights = _weights(hardness.keys, hardness.theta)
    return min(bisect_left(weights, rng.random() * weights[-1]), hardness.keys - 1)


def _integer_key(rank: int) -> int:
    if rank < _SMALL_KEYS:
        return rank
    return (rank * 0x9E3779B97F4A7C15) % 2**64 - 2**63


def _string_key(rank: int) -> str:
    return _NAMES[rank] if rank < len(_NAMES) else f"key number {rank}"


def _events(
    rng: random.Random, app: Application, hardness: _Hardness, count: int, begin: int, width: int
) -> list[Event]:
    times = [begin + rng.randrange(width) for _ in range(count)]
    if rng.random() < 0.5:
        times.sort()  # in order, or nearly: the usual case
        for _ in range(count // 10):
            one, two = rng.randrange(count), rng.randrange(count)
            times[one], times[two] = times[two], times[one]
    types, following = app.input_types, [0] * hardness.sources
    events: list[Event] = []
    for position, ts in enumerate(times):
        source = rng.randrange(hardness.sources)
        record_type = rng.choice(types)
        ranks = _ranks(rng, hardness, position)
        fields = _fields(rng, app.events[record_type].fields, hardness, ranks)
        events.append((record_type, ts, source, following[source], fields))
        following[source] += 1
    if rng.random() < 0.3:
        rng.shuffle(events)  # they arrive in any order, also within a source
    return events


def _ranks(rng: random.Random, hardness: _Hardness, position: int) -> tuple[int, int]:
    """The ranks of an event's key and other key."""
    if hardness.pattern == "chain":
        return position % hardness.keys, (position + 1) % hardness.keys
    if hardness.pattern == "pairs":
        pair = (_rank(rng, hardness), (_rank(rng, hardness) + 1) % hardness.keys)
        return (min(pair), max(pair)) if position % 2 else (max(pair), min(pair))
    return _rank(rng, hardness), _rank(rng, hardness)


def _fields(
    rng: random.Random, fields: dict[str, FieldType], hardness: _Hardness, ranks: tuple[int, int]
) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    elements = rng.choice((0, 1, 2, 3, 3, 6))
    for name, kind in fields.items():
        if name in ("key", "name"):
            chosen[name] = _integer_key(ranks[0]) if kind == INT64 else _string_key(ranks[0])
        elif name in ("other", "label"):
            chosen[name] = _integer_key(ranks[1]) if kind == INT64 else _string_key(ranks[1])
        elif name == "amount":
            chosen[name] = rng.choice(_BAD_AMOUNTS) if rng.random() < hardness.failing else rng.randint(1, 12)
        elif name == "amounts":
            chosen[name] = [rng.randint(-3, 12) for _ in range(elements)]
        elif isinstance(kind, ListType):
            make = _string_key if kind.element == STRING else _integer_key
            chosen[name] = [make(_rank(rng, hardness)) for _ in range(elements)]
        elif isinstance(kind, VectorType):
            chosen[name] = tuple(rng.choice(_RATES[:5]) for _ in range(kind.length))
        elif kind == FLOAT64:
            chosen[name] = rng.choice(_RATES if rng.random() < hardness.failing else _RATES[:6])
        else:
            assert kind == BOOLEAN
            chosen[name] = rng.random() < 0.5
    return chosen


def _records(
    rng: random.Random, spec: TableSpec, epochs: list[EpochInput], hardness: _Hardness
) -> dict[Any, dict[str, Any]]:
    """Initial records: most of the keys that events will touch where the table creates none, else some of them."""
    integers = {k: None for k in range(_SMALL_KEYS)}  # dicts, because a set's order of strings changes from run to run
    strings = dict.fromkeys(_NAMES)
    for epoch in epochs:
        for _, _, _, _, fields in epoch.events:
            integers |= dict.fromkeys((fields["key"], fields.get("other", 0), *fields.get("keys", ())))
            strings |= dict.fromkeys((fields.get("name", ""), fields.get("label", ""), *fields.get("names", ())))
    options: list[list[Any]] = [list(integers if part == "int" else strings) for part in spec.key_types]
    share = rng.choice((0.0, 0.3, 0.8)) if spec.creates_keys else rng.choice((0.8, 0.95, 1.0))
    keys = options[0]
    if len(options) > 1:  # all pairs would be too many: each first part with a few of the most frequent second ones
        keys = [(one, two) for one in options[0] for two in options[1][: 600 // len(options[0]) + 3]]
    return {key: _record(rng, spec) for key in keys if rng.random() < share}


def _record(rng: random.Random, spec: TableSpec) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, kind in spec.fields.items():
        if isinstance(kind, VectorType):
            record[name] = tuple(rng.randint(0, 5) for _ in range(kind.length))
        elif kind == FLOAT64:
            record[name] = rng.choice((0.0, 0.5, 2.25, 10.0))
        elif kind == BOOLEAN:
            record[name] = rng.random() < 0.5
        else:
            record[name] = rng.choice((0, 0, 3, 10, 40, 100)) if name == "value" else 0
    return record
