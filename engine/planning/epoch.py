"""An epoch as users give it, checked, and as batches of event rows that user functions can read.

Everything wrong with the input is found here, before anything runs: an unknown record type, a missing or extra column, a wrong
type, event ids that are not dense from 0 for each source, times outside the epoch.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.api.model import KeyExpression, Template
from engine.api.types import INT64
from engine.config import Limits
from engine.errors import InputError, LimitError
from engine.planning.order_kernel import IN_ORDER, check_one_source, count_sources, mark_identities
from engine.state.columns import ListColumn, StringColumn, as_column
from engine.state.key_encoding import EncodedKeys

Column = NDArray[Any] | StringColumn | ListColumn
LOWEST_TS, HIGHEST_TS = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
SOURCES_COUNTED = 1024  # sources below this are checked by counting; with more, or any mistake, by sorting
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


@dataclass
class Batch:
    """The events of one record type in one stage, in any order."""

    template: Template
    ts: NDArray[np.int64]
    source: NDArray[np.int64]
    seq: NDArray[np.int64]
    columns: dict[str, Column]
    random: NDArray[np.int64]
    path: NDArray[np.int64]  # the emitting statements that led here, one column a stage; no column for input
    in_order: bool | None = None  # whether its rows are in the total order; None: not known yet
    # Made in the stream phase of an open epoch, or when the stage is planned: what depends on the events alone.
    prepared: tuple[NDArray[np.int8], NDArray[np.int8]] | None = None  # outcome and reason of derive and filter
    encoded: dict[tuple[int, KeyExpression], EncodedKeys] = field(default_factory=dict)  # by table
    lists_checked: set[tuple[str, str]] = field(default_factory=set)  # list fields, alone ("") or against another

    @cached_property
    def rows(self) -> NDArray[Any]:
        """The events as packed records, for user functions that are called through their address."""
        rows = np.zeros(self.ts.size, self.template.event_dtype)
        for name in self.template.event_fields:
            if name == "ts":
                rows[name] = self.ts
            elif name == "random":
                rows[name] = self.random
            elif name in self.columns:
                rows[name] = self.columns[name]
        return rows

    def column(self, name: str) -> Column:
        """A field's column, derived ones included."""
        if name in self.columns:
            return self.columns[name]
        if name == "ts":
            return self.ts
        return np.ascontiguousarray(self.rows[name])


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
    application: Application, epoch: Epoch, last_punctuation_ts: int | None, limits: Limits
) -> list[Batch]:
    """The checked batches of an epoch's own events."""
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
    if batches:
        _check_identities(epoch, batches, last_punctuation_ts)
        _check_windows(application, epoch, min(int(batch.ts.min()) for batch in batches))
    return batches


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


def _check_windows(application: Application, epoch: Epoch, first_ts: int) -> None:
    """Windows begin at a time that int64 can hold: kernels subtract without looking."""
    size = max((table.window_size for table in application.tables.values()), default=-1)
    if first_ts - max(size, 0) < INT64_MIN:
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


def _check_identities(epoch: Epoch, batches: list[Batch], last_punctuation_ts: int | None) -> None:
    """Event ids are dense from 0 for each source, times lie within the epoch: found by counting, without a sort."""
    if _check_one_source(epoch, batches, last_punctuation_ts):
        return
    sources = np.zeros(SOURCES_COUNTED, np.int64)
    bounds = np.array([HIGHEST_TS, LOWEST_TS])
    fine = all(count_sources(batch.source, batch.seq, batch.ts, sources, bounds) for batch in batches)
    if fine and bounds[1] <= epoch.punctuation_ts and (last_punctuation_ts is None or bounds[0] > last_punctuation_ts):
        begin = np.zeros(SOURCES_COUNTED + 1, np.int64)
        np.cumsum(sources, out=begin[1:])
        seen = np.zeros(int(begin[-1]), np.uint8)
        if all(mark_identities(batch.source, batch.seq, begin, seen) for batch in batches):
            return
    _find_wrong_identity(epoch, batches, last_punctuation_ts)


def _check_one_source(epoch: Epoch, batches: list[Batch], last_punctuation_ts: int | None) -> bool:
    """The usual case in one pass: one source. False: to be looked at more closely."""
    seen = np.zeros(sum(batch.ts.size for batch in batches), np.uint8)
    bounds = np.array([HIGHEST_TS, LOWEST_TS])
    for batch in batches:
        order = check_one_source(batch.ts, batch.source, batch.seq, seen, bounds)
        if order < 0:
            return False
        batch.in_order = order == IN_ORDER
    lowest, highest = bounds.tolist()
    return highest <= epoch.punctuation_ts and (last_punctuation_ts is None or lowest > last_punctuation_ts)


def _find_wrong_identity(epoch: Epoch, batches: list[Batch], last_punctuation_ts: int | None) -> None:
    """Names the first event that is wrong; slower, and also right for sources too many to be counted."""
    ts = np.concatenate([batch.ts for batch in batches])
    source = np.concatenate([batch.source for batch in batches])
    seq = np.concatenate([batch.seq for batch in batches])
    if ts.max() > epoch.punctuation_ts:
        raise InputError(f"epoch {epoch.number} is punctuated at {epoch.punctuation_ts} but has an event at {ts.max()}")
    if last_punctuation_ts is not None and ts.min() <= last_punctuation_ts:
        raise InputError(
            f"epoch {epoch.number} has an event at {ts.min()}, not after the last punctuation at {last_punctuation_ts}"
        )
    if source.min() < 0:
        raise InputError(f"epoch {epoch.number} has an event of source {source.min()}; sources count from 0")
    order = np.lexsort((seq, source))
    source, seq = source[order], seq[order]
    starts = np.flatnonzero(np.concatenate([[True], source[1:] != source[:-1]]))
    lengths = np.diff(np.append(starts, seq.size))
    expected = np.arange(seq.size) - np.repeat(starts, lengths)
    wrong = np.flatnonzero(seq != expected)
    if wrong.size:
        at = wrong[0]
        twice = at > 0 and source[at - 1] == source[at] and seq[at - 1] == seq[at]
        what = f"has event {seq[at]} twice" if twice else f"misses event {expected[at]} (next is {seq[at]})"
        raise InputError(
            f"epoch {epoch.number}: source {source[at]} {what}; seq is dense from 0 for each source and epoch"
        )


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
