"""What a run is about: a generated application, its stream, the messages that carry it, and what the oracle makes of it.

An engine process needs the application and the tables' first contents only; it finds them in a file (`Given`), because making the
stream again would take longer than starting.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from engine import Engine
from engine.api.application import Application
from services.engine.command import schema_ids
from services.engine.facts import Tally
from services.engine.publishing import SourceEpoch
from services.engine.results import committed_bodies, failed_bodies
from services.engine.wire import Wire, schemas_of
from services.verify.comparison import columns_of
from services.verify.generator import APPLICATIONS, generate_application
from services.verify.oracle import Oracle, OracleOutcome
from services.verify.streams import EpochInput, Stream, generate_epochs

PARTITIONS = 2
REPEATED, LATER, BROKEN = (
    0.15,
    0.3,
    0.05,
)  # messages that come again, of these epochs later; epochs with a broken message
_JUNK = b"\x00\x00\x00\x00\x01\x7f"

Tables = dict[str, dict[Any, dict[str, Any]]]


class Row(NamedTuple):
    """One transaction as a consumer of the result topics sees it; `what` is its output, or why it failed."""

    stage: int
    ts: int
    source: int
    seq: int
    path: tuple[int, ...]
    record_type: str
    verdict: str
    what: str

    @property
    def identity(self) -> tuple[Any, ...]:
        return self[:6]


class Sent(NamedTuple):
    """A message of the input topic; `epoch` is that with which it is sent. `events` counts those that it repeats."""

    epoch: int
    partition: int
    value: bytes
    repeated: bool
    events: int
    broken: bool


@dataclass
class Subject:
    """An application and its stream by seed; `number` names the application, else that follows from the seed, too."""

    seed: int
    epochs: int
    number: int = -1
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"crash {self.seed}")
        chosen = self.chance.randrange(APPLICATIONS)
        self.number = chosen if self.number < 0 else self.number

    @cached_property
    def application(self) -> Application:
        return generate_application(self.number)[0]

    @cached_property
    def stream(self) -> Stream:
        return generate_epochs(self.application, self.seed, self.epochs)

    @cached_property
    def sources(self) -> list[int]:
        return sorted({event[2] for epoch in self.stream.epochs for event in epoch.events}) or [0]

    def messages(self, wire: Wire) -> Iterator[list[Sent]]:
        """Each epoch's messages in the order to send them: shuffled, some twice, some again epochs later, some broken."""
        later: list[Sent] = []
        for epoch in self.stream.epochs:
            plain = source_messages(wire, epoch, self.sources, self.chance.randint(3, 30))
            mine = [Sent(epoch.number, *message, False, 0, False) for message in plain]
            again: list[Sent] = []
            for message in mine:
                if self.chance.random() < REPEATED:
                    item, _ = wire.read(message.value)
                    copy = message._replace(repeated=True, events=getattr(item, "events", 0))
                    if copy.events and hasattr(item, "ts"):  # a punctuation says how many there are, it has none
                        copy = copy._replace(events=0)
                    (later if self.chance.random() < LATER else again).append(copy)
            mine += again
            if later and self.chance.random() < 0.5:
                mine.append(later.pop(self.chance.randrange(len(later)))._replace(epoch=epoch.number))
            if self.chance.random() < BROKEN:
                mine.append(Sent(epoch.number, self.chance.randrange(PARTITIONS), _JUNK, False, 0, True))
            self.chance.shuffle(mine)
            yield mine

    def expected(self, epochs: int) -> Expected:
        """What must come of the first epochs."""
        oracle = Oracle(self.application)
        for table, records in self.stream.tables.items():
            oracle.load(table, records)
        rows, tally = [], Tally()
        for epoch in self.stream.epochs[:epochs]:
            outcomes = oracle.run_epoch(epoch.number, epoch.punctuation_ts, epoch.events)
            rows.append([_row(outcome) for outcome in outcomes if outcome.verdict != "filtered"])
            # Derived records and fires are counted apart from the events.
            verdicts = [each.verdict for each in outcomes if each.source >= 0 and not each.emission]
            tally += Tally(verdicts.count("committed"), verdicts.count("failed"), verdicts.count("filtered"))
        return Expected(rows, tally, oracle.state())


@dataclass(frozen=True)
class Expected:
    """The oracle's answer: each epoch's transactions in order, their counts, the tables at the end."""

    rows: list[list[Row]]
    tally: Tally
    state: Tables


def _row(outcome: OracleOutcome) -> Row:
    failed = outcome.verdict == "failed"
    key = None if outcome.key is None else json.dumps(outcome.key)
    what = f"{outcome.reason.name.lower()} at {outcome.statement}, key {key}" if failed else as_text(outcome.output)
    place = (outcome.stage, outcome.ts, outcome.source, outcome.seq, tuple(outcome.emission), outcome.record_type)
    return Row(*place, outcome.verdict, what)


def as_text(output: dict[str, Any] | None) -> str:
    """An output in one form, whoever made it."""
    return "-" if not output else repr(sorted(output.items()))


@dataclass(frozen=True)
class Given:
    """What an engine process is told of the subject; `epochs` are some to rehearse with."""

    number: int
    tables: Tables
    epochs: list[EpochInput]

    def write(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def read(path: Path) -> Given:
        found = pickle.loads(path.read_bytes())
        assert isinstance(found, Given), f"{path} is ours"
        return found

    @cached_property
    def application(self) -> Application:
        return generate_application(self.number)[0]

    def first_tables(self) -> dict[str, tuple[list[Any], dict[str, list[Any]]]]:
        """As `engine.tables` wants them."""
        return {
            name: (list(records), {each: [r[each] for r in records.values()] for each in next(iter(records.values()))})
            for name, records in self.tables.items()
            if records
        }

    def rehearse(self, threads: int) -> None:
        """Loads (compiles, the first time) what an engine needs, so that it is there when a process is forked."""
        app = self.application
        wire = Wire(app, schema_ids(None, schemas_of(app)))
        with self.make_engine(None, threads) as engine:
            for epoch in self.epochs:
                result = engine.run_epoch(columns_of(app, epoch))
                for body in committed_bodies(wire, result):
                    wire.committed.decode(body)
                for body in failed_bodies(wire, result):
                    wire.failed.decode(body)
                for _, value in source_messages(wire, epoch, [0, 1], 10):
                    wire.read(value)

    def make_engine(self, state: bytes | None, threads: int) -> Engine:
        """An engine restored from a snapshot, or with the first tables."""
        if state is not None:
            return Engine.restore(self.application, state, threads=threads)
        made = Engine(self.application, threads=threads)
        for table, (keys, columns) in self.first_tables().items():
            made.load(table, keys, columns)
        return made


def source_messages(
    wire: Wire, epoch: EpochInput, sources: list[int], rows_a_chunk: int
) -> Iterator[tuple[int, bytes]]:
    """An epoch's messages, partition and value, in the order in which the sources would send them."""
    for number in sources:
        source = SourceEpoch(wire, number, epoch.number, PARTITIONS)
        columns: dict[str, dict[str, list[Any]]] = {}
        for record_type, ts, origin, seq, fields in epoch.events:
            if origin == number:
                for name, value in {"seq": seq, "ts": ts, **fields}.items():
                    columns.setdefault(record_type, {}).setdefault(name, []).append(value)
        for record_type, given in columns.items():
            source.add(record_type, given, rows_a_chunk=rows_a_chunk)
        yield from source.close(epoch.punctuation_ts)
