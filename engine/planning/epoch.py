"""An epoch as users give it, checked, and as batches of event rows that user functions can read.

Everything wrong with the input is found here, before anything runs: an unknown record type, a missing or extra column, a wrong
type, event ids that are not dense from 0 for each source, times outside the epoch.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.api.model import Template
from engine.api.types import INT64
from engine.buffers import Buffers
from engine.config import Limits
from engine.errors import InputError, LimitError
from engine.planning.batch import Batch, Column
from engine.planning.identity import Turns, check_identities
from engine.state.columns import as_column

FIRE_SOURCE = -1  # self-firing transactions come before all events with their ts
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Epoch:
    """The events between two punctuations, as columns for each record type; `ts`, `source` and `seq` are columns too.

    `source` may be left out (0), and `seq` where there is one source and one record type (the rows' positions).
    Events that arrived chunk by chunk (`OpenEpoch`) are in `arrived`, checked one by one already.
    """

    number: int
    punctuation_ts: int
    events: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arrived: tuple[Batch, ...] = ()

    def __post_init__(self) -> None:
        # The state keeps both numbers, and a snapshot cannot hold numpy's.
        for name in ("number", "punctuation_ts"):
            if isinstance(value := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(value))


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer: the random numbers of events come from their identity alone, so a replay repeats them."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_of(source: NDArray[np.int64], epoch: NDArray[np.int64] | int, seq: NDArray[np.int64]) -> NDArray[np.int64]:
    """63 random bits from an event's identity."""
    with np.errstate(over="ignore"):
        first = mix(source.astype(np.uint64)) + np.asarray(epoch, np.int64).astype(np.uint64)
        return (mix(mix(first) + seq.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)


def random_of_derived(parent: NDArray[np.int64], emission: NDArray[np.int64]) -> NDArray[np.int64]:
    with np.errstate(over="ignore"):
        return (mix(parent.astype(np.uint64) + emission.astype(np.uint64) + np.uint64(1)) >> np.uint64(1)).astype(
            np.int64
        )


def input_batches(
    application: Application, epoch: Epoch, last_punctuation_ts: int | None, limits: Limits, buffers: Buffers
) -> tuple[list[Batch], Turns | None]:
    """The checked batches of an epoch's own events; and their order, where checking found it."""
    _check_header(epoch)
    if last_punctuation_ts is not None and epoch.punctuation_ts < last_punctuation_ts:
        raise InputError(
            f"epoch {epoch.number} is punctuated at {epoch.punctuation_ts}, before the last one at {last_punctuation_ts}"
        )
    whole = len(epoch.events) == 1 and not epoch.arrived
    batches = [
        checked_batch(application, epoch.number, record_type, given, numbered=not whole)
        for record_type, given in epoch.events.items()
    ]
    batches = [batch for batch in (*epoch.arrived, *batches) if batch.ts.size > 0]
    check_size(epoch.number, sum(batch.ts.size for batch in batches), limits)
    if not batches:
        return batches, None
    turns = check_identities(epoch.number, epoch.punctuation_ts, batches, last_punctuation_ts, buffers)
    _check_windows(application, epoch, batches)
    return batches, turns


def check_size(number: int, events: int, limits: Limits) -> None:
    """Refuses an epoch that is larger than the limit."""
    if events > limits.events:
        raise LimitError(f"epoch {number} has {events} events, the limit is {limits.events}")


def check_number(number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= INT64_MAX:
        raise InputError(f"an epoch's number is a whole number from 0 to {INT64_MAX}, not {number!r}")


def _check_header(epoch: Epoch) -> None:
    number, ts = epoch.number, epoch.punctuation_ts
    check_number(number)
    # Below the largest time, because the next epoch begins one later.
    if not isinstance(ts, int) or isinstance(ts, bool) or not INT64_MIN <= ts < INT64_MAX:
        raise InputError(
            f"epoch {number} is punctuated at {ts!r}, expected a whole number from {INT64_MIN} to {INT64_MAX - 1}"
        )
    if not isinstance(epoch.events, Mapping):
        raise InputError(f"epoch {number}: events= maps record types to columns, found {type(epoch.events).__name__}")


def _check_windows(application: Application, epoch: Epoch, batches: list[Batch]) -> None:
    """Windows begin at a time that int64 can hold: kernels subtract without looking."""
    size = max((table.window_size for table in application.tables.values()), default=-1)
    if size < 0:
        return
    first_ts = min(int(batch.ts.min()) for batch in batches)
    if first_ts - size < INT64_MIN:
        raise InputError(
            f"epoch {epoch.number} has an event at {first_ts}, too early for a window of {size}; "
            f"event times begin at {INT64_MIN + size}"
        )


def checked_batch(application: Application, number: int, record_type: str, given: Any, *, numbered: bool) -> Batch:
    """Columns of one record type as a batch, each column checked; `numbered` requires a `seq` column."""
    allowed = application.input_types
    if record_type not in allowed:
        known = record_type in application.templates
        what = "is emitted or fires by itself, it cannot be sent" if known else "triggers no transaction"
        raise InputError(f"epoch {number}: record type {record_type!r} {what}; send {', '.join(allowed)}")
    template = application.templates[record_type]
    where = f"epoch {number}, {record_type}"
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected columns by name, found {type(given).__name__}")
    for name in given:
        if name not in template.event.fields and name not in ("ts", "source", "seq"):
            raise InputError(f"{where}: column {name!r} is not a field of the record type")
    if "ts" not in given:
        raise InputError(f"{where}: column 'ts' is missing")
    columns: dict[str, Column] = {}
    for name, kind in template.event.fields.items():
        if name not in given:
            raise InputError(f"{where}: column {name!r} ({kind!r}) is missing")
        columns[name] = as_column(f"{where}.{name}", kind, given[name])
    ts = as_column(f"{where}.ts", INT64, given["ts"])
    assert isinstance(ts, np.ndarray)
    size = ts.size
    source = as_column(f"{where}.source", INT64, given["source"]) if "source" in given else np.zeros(size, np.int64)
    if "seq" in given:
        seq = as_column(f"{where}.seq", INT64, given["seq"])
    elif not numbered and "source" not in given:
        seq = np.arange(size, dtype=np.int64)
    else:
        raise InputError(
            f"{where}: column 'seq' is missing; it may be left out with one record type, one source and no chunks only"
        )
    assert isinstance(source, np.ndarray) and isinstance(seq, np.ndarray)
    for name, column in {**columns, "source": source, "seq": seq}.items():
        if len(column) != size:
            raise InputError(f"{where}: column {name!r} has {len(column)} rows, 'ts' has {size}")
    random = random_of(source, number, seq) if template.uses_random or _emits_random(template) else source
    return Batch(template, ts, source, seq, columns, random, np.empty((size, 0), np.int64))


def _emits_random(template: Template) -> bool:
    return bool(template.emitted_types)


def fire_batches(application: Application, epoch: Epoch, next_fires: dict[str, int], limits: Limits) -> list[Batch]:
    """The self-firing transactions due by the epoch's punctuation."""
    batches = []
    for position, template in enumerate(application.templates.values()):
        first = next_fires.get(template.record_type)
        if not template.period or first is None or first > epoch.punctuation_ts:
            continue
        count = (epoch.punctuation_ts - first) // template.period + 1
        if count > limits.fires:
            raise LimitError(
                f"epoch {epoch.number}: {template.record_type} would fire {count} times (every {template.period} up to "
                f"{epoch.punctuation_ts}), the limit is {limits.fires}; punctuate more often"
            )
        ts = first + template.period * np.arange(count, dtype=np.int64)
        name = np.full(count, zlib.crc32(template.record_type.encode()), np.int64)
        random = random_of(name, ts, np.zeros(count, np.int64))
        source, seq = np.full(count, FIRE_SOURCE, np.int64), np.full(count, position, np.int64)
        batches.append(Batch(template, ts, source, seq, {}, random, np.empty((count, 0), np.int64)))
    return batches


def first_fires(application: Application, batches: list[Batch]) -> dict[str, int]:
    """When each self-firing transaction fires first: at its first multiple after the first event ever."""
    start = min(int(batch.ts.min()) for batch in batches)
    return {
        template.record_type: (start // template.period + 1) * template.period
        for template in application.templates.values()
        if template.period
    }
