"""One stream through the oracle and through engines under every policy and thread count; they must agree on everything.

One engine replays each epoch under all configurations (`ExecutionOptions.replays`): verdicts, reasons and every version of
a committed transaction must be the same bytes. Two more run the stream alone, each under one configuration that changes
from stream to stream, and two run it inlined where the application can be: serially, and ordered on as many threads as any.
Compared with the oracle are all fields of every outcome and the state after each epoch; the snapshots of the engines must be
the same bytes. One engine gets its events chunk by chunk in random order and is replaced halfway by one restored from its
snapshot. One more runs nothing and follows the changes of another. In a share of the streams all threads are held up at random,
so that small epochs, too, are run by several, in other orders than usual.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine import Engine, Epoch, ExecutionOptions, Policy
from engine.api.application import Application
from engine.api.types import INT64
from engine.errors import MillraceError
from engine.scheduling.policy import ORDERED, SERIAL
from engine.state.columns import as_column, take_rows
from services.verify.oracle import Oracle, OracleOutcome
from services.verify.streams import EpochInput, Stream

CHUNKS_MAX = 4  # of one record type
RESTORED_AFTER = 1  # the epoch after which the first engine is replaced by one restored from its snapshot
DELAYED = 0.3  # share of the streams whose threads are held up at random; such an epoch takes some tenths longer

NOT_INLINED = ExecutionOptions(inlines=False)


@dataclass(frozen=True)
class Configuration:
    """One way to run the engine."""

    policy: Policy
    threads: int


@dataclass(frozen=True)
class Mismatch:
    """Where an engine's answer first differs from the oracle's, or from the first engine's bytes."""

    epoch: int
    policy: str
    threads: int
    what: str
    expected: str
    found: str


@dataclass
class StreamReport:
    """What one stream showed. `counters` are sums, but those ending in `_max` are maxima over epochs and engines."""

    epochs: int = 0
    runs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    mismatch: Mismatch | None = None

    def add(self, other: StreamReport) -> None:
        self.epochs += other.epochs
        self.runs += other.runs
        self.verdicts.update(other.verdicts)
        self.count(other.counters)

    def count(self, counters: dict[str, int]) -> None:
        for name, number in counters.items():
            if name.endswith("_max"):
                self.counters[name] = max(self.counters[name], number)
            else:
                self.counters[name] += number


def compare(app: Application, stream: Stream, configurations: Sequence[Configuration], turn: int) -> StreamReport:
    """Runs the stream everywhere, up to the first difference; `turn` picks the configurations that run it alone."""
    report = StreamReport()
    oracle = Oracle(app)
    for table, records in stream.tables.items():
        oracle.load(table, records)
    with ExitStack() as open_engines:
        replays = tuple((configuration.policy, configuration.threads) for configuration in configurations)
        most = max(configuration.threads for configuration in configurations)
        held_up = turn + 1 if random.Random(f"delays {turn}").random() < DELAYED else 0
        options = ExecutionOptions(inlines=False, delay_seed=held_up)
        alone = [configurations[(turn + shift) % len(configurations)] for shift in (0, len(configurations) // 2)]
        engines = [(c, Engine(app, threads=c.threads, policy=c.policy, options=options)) for c in alone]
        inlined = Engine(app, threads=1, policy=SERIAL, wait=True)
        if inlined.inlines:
            engines.append((Configuration(SERIAL, 1), inlined))
            delayed = ExecutionOptions(delay_seed=turn + 1)  # its epochs would be over before the second thread wakes
            engines.append((Configuration(ORDERED, most), Engine(app, threads=most, policy=ORDERED, options=delayed)))
            report.counters["inlined_epochs"] += len(stream.epochs)
        replaying = Engine(
            app, threads=most, policy=SERIAL, options=ExecutionOptions(replays=replays, delay_seed=held_up)
        )
        engines.append((Configuration(SERIAL, most), replaying))
        follower = Engine(app, threads=1, policy=SERIAL, options=NOT_INLINED)
        for engine in (follower, *(engine for _, engine in engines)):
            open_engines.enter_context(engine)
            load(engine, stream)
        for epoch in stream.epochs:
            expected = oracle.run_epoch(epoch.number, epoch.punctuation_ts, epoch.events)
            report.epochs += 1
            report.verdicts.update(outcome.verdict for outcome in expected)
            columns = columns_of(app, epoch)
            chunked = _in_chunks(engines[0][1], columns, random.Random(turn + epoch.number))
            epochs = [chunked] + [columns] * (len(engines) - 1)
            report.mismatch = _compare_epoch(report, engines, follower, epochs, expected, oracle)
            if report.mismatch is not None:
                break
            if epoch.number == RESTORED_AFTER:  # from here on one engine goes on from its own snapshot
                alone_again = alone[0]
                restored = Engine.restore(
                    app, engines[0][1].snapshot(), threads=alone_again.threads, policy=alone_again.policy,
                    options=options,
                )  # fmt: skip
                engines[0] = engines[0][0], open_engines.enter_context(restored)
    report.count({name: number for name, number in oracle.notes.items() if name != "cascade_depth"})
    report.count(
        {"dependent_failures_max": oracle.notes["cascade_depth"], "delayed_epochs": report.epochs * (held_up > 0)}
    )
    return report


def _compare_epoch(
    report: StreamReport,
    engines: list[tuple[Configuration, Engine]],
    follower: Engine,
    epochs: list[Epoch],
    expected: list[OracleOutcome],
    oracle: Oracle,
) -> Mismatch | None:
    first_bytes: bytes | None = None
    for (configuration, engine), epoch in zip(engines, epochs, strict=True):
        place = (epoch.number, configuration.policy.name, configuration.threads)
        try:
            result = engine.run_epoch(epoch)
        except MillraceError as error:
            return Mismatch(*place, "an exception", "none", f"{type(error).__name__}: {error}")
        report.runs += len(engine.options.replays) + 1
        report.count(result.counters)
        how = "replays" if engine.options.replays else configuration.policy.name.partition("/")[0]
        report.count({f"by_others_{how}": sum(result.operations_per_thread[1:])})
        difference = _first_difference(expected, [OracleOutcome(**_fields(o)) for o in result.outcomes()])
        if difference is not None:
            return Mismatch(*place, *difference)
        data = engine.snapshot()
        if first_bytes is None or data != first_bytes:
            difference = _state_difference(oracle, engine)
            if difference is not None:
                return Mismatch(*place, *difference)
        if first_bytes is not None and data != first_bytes:
            at = next((i for i, (a, b) in enumerate(zip(first_bytes, data, strict=False)) if a != b), -1)
            other = engines[0][0]
            what = f"snapshot bytes (the state is right), first at byte {at}"
            return Mismatch(
                *place, what, f"those of {other.policy.name}, {len(first_bytes)} bytes", f"{len(data)} bytes"
            )
        if first_bytes is None:
            follower.follow(result.changes)
            if follower.snapshot() != data:
                where, *values = _state_difference(oracle, follower) or ("its snapshot", f"{len(data)} bytes", "others")
                return Mismatch(*place, f"the engine that follows its changes: {where}", *values)
        first_bytes = data
    return None


def _fields(outcome: Any) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in OracleOutcome._fields}


def _first_difference(expected: list[OracleOutcome], found: list[OracleOutcome]) -> tuple[str, str, str] | None:
    if expected == found:
        return None
    for number, (right, given) in enumerate(zip(expected, found, strict=False)):
        if right != given:
            fields = [name for name in OracleOutcome._fields if getattr(right, name) != getattr(given, name)]
            return f"outcome {number} ({', '.join(fields)})", str(right), str(given)
    return "number of outcomes", str(len(expected)), str(len(found))


def _state_difference(oracle: Oracle, engine: Engine) -> tuple[str, str, str] | None:
    for table, records in oracle.state().items():
        given = engine.state(table)
        if records != given:
            keys = [*records, *(key for key in given if key not in records)]
            key = next(key for key in keys if records.get(key) != given.get(key))
            return f"state of {table}[{key!r}]", str(records.get(key)), str(given.get(key))
    return None


def load(engine: Engine, stream: Stream) -> None:
    for table, records in stream.tables.items():
        if records:
            names = list(engine.application.tables[table].fields)
            engine.load(table, list(records), {name: [r[name] for r in records.values()] for name in names})


def columns_of(app: Application, epoch: EpochInput) -> Epoch:
    """The epoch as columns, made once for all engines."""
    given: dict[str, dict[str, list[Any]]] = {}
    for record_type, ts, source, seq, fields in epoch.events:
        columns = given.setdefault(record_type, {})
        for name, value in {"ts": ts, "source": source, "seq": seq, **fields}.items():
            columns.setdefault(name, []).append(value)
    made = {
        record_type: {
            name: as_column(name, app.events[record_type].fields.get(name, INT64), values)
            for name, values in columns.items()
        }
        for record_type, columns in given.items()
    }
    return Epoch(epoch.number, epoch.punctuation_ts, made)


def _in_chunks(engine: Engine, epoch: Epoch, chance: random.Random) -> Epoch:
    """The same epoch through an open one: rows in random order, cut into chunks, which come in random order too."""
    chunks = []
    for record_type, columns in epoch.events.items():
        rows = np.arange(len(columns["ts"]))
        if chance.random() < 0.5:  # else the rows of a chunk stay in order
            chance.shuffle(rows)  # type: ignore[arg-type]
        for part in np.array_split(rows, chance.randint(1, CHUNKS_MAX)):
            chunks.append((record_type, {name: take_rows(column, part) for name, column in columns.items()}))
    chance.shuffle(chunks)
    opened = engine.open_epoch(epoch.number)
    for record_type, columns in chunks:
        opened.add(record_type, columns)
    return opened.close(epoch.punctuation_ts)
