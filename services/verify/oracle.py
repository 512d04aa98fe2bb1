"""The oracle: an epoch's answer by the plainest means. Dicts, one transaction after another, unbounded integers.

It shares the declarations with the engine and nothing else: no planning, no scheduling, no compiled function. The order
of an epoch is (stage, ts, source, seq, emission). A transaction's writes go into its own dict, which becomes
state only if no operation failed; the first failing operation ends it. Every key keeps all
versions it ever had, for windows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.api.application import Application
from engine.api.model import Template
from engine.errors import Reason
from services.verify.checked_values import Fault, PlainRecord, Record, executable, plain, stored
from services.verify.oracle_transaction import Failure, TransactionRun, default_record

Key = Any  # int, str, or a tuple of them
Address = tuple[str, Key]  # table name and key
Event = tuple[str, int, int, int, Mapping[str, Any]]  # record type, ts, source, seq, fields
_WORD = 2**64 - 1


class OracleOutcome(NamedTuple):
    """What became of one event, derived record or fire; the same fields as the engine's outcome."""

    stage: int
    record_type: str
    ts: int
    source: int
    seq: int
    emission: tuple[int, ...]
    verdict: str
    reason: Reason
    statement: int
    key: Key | None
    output: PlainRecord | None


class Version(NamedTuple):
    """A record as one committed transaction left it."""

    ts: int
    epoch: int
    record: PlainRecord


class Trigger(NamedTuple):
    """What makes a transaction run: an event, a derived record or a fire."""

    ts: int
    source: int
    seq: int
    emission: tuple[int, ...]
    template: Template
    fields: dict[str, Any]
    random: int


def mixed(number: int) -> int:
    """One step of splitmix64."""
    number = (number + 0x9E3779B97F4A7C15) & _WORD
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _WORD
    return number ^ number >> 31


def random_of(first: int, second: int, third: int) -> int:
    """The random number of an identity of three numbers."""
    return mixed(mixed(mixed(first) + second) + third) >> 1


class Oracle:
    """The state of one application, and its epochs one after another.

    `notes` counts what made the input hard: `window_across_epochs` (window accesses that saw a version of an earlier
    epoch), `same_key_rewrites` (committed transactions that wrote a key more than once), and as `cascade_depth` the
    longest chain of transactions, the first of them failed, each touching a key that the one before would have written.
    """

    def __init__(self, app: Application) -> None:
        app.check_complete()
        self.app = app
        self.tables: dict[str, dict[Key, PlainRecord]] = {name: {} for name in app.tables}
        self.versions: dict[Address, list[Version]] = {}
        self.notes: Counter[str] = Counter()
        self._next_fire: dict[str, int] = {}
        self._depths: dict[Address, int] = {}

    def load(self, table_name: str, records: Mapping[Key, Mapping[str, Any]]) -> None:
        """Initial records; they are no versions."""
        spec = self.app.tables[table_name]
        for key, given in records.items():
            values = {**default_record(spec), **given}
            self.tables[table_name][key] = Record(spec.fields, values).plain()

    def state(self) -> dict[str, dict[Key, PlainRecord]]:
        return {name: {key: dict(record) for key, record in table.items()} for name, table in self.tables.items()}

    def run_epoch(self, number: int, punctuation_ts: int, events: Iterable[Event]) -> list[OracleOutcome]:
        """Runs one epoch and gives its outcomes in order."""
        stages: dict[int, list[Trigger]] = {}
        given = list(events)
        for record_type, ts, source, seq, fields in given:
            template, random = self.app.templates[record_type], random_of(source, number, seq)
            trigger = Trigger(ts, source, seq, (), template, dict(fields), random)
            stages.setdefault(template.stage, []).append(trigger)
        for trigger in self._fires(punctuation_ts, given):
            stages.setdefault(trigger.template.stage, []).append(trigger)
        self._depths.clear()
        outcomes = []
        while stages:
            stage = min(stages)
            for trigger in sorted(stages.pop(stage), key=lambda each: each[:4]):
                outcome, emitted = self._run(number, trigger)
                outcomes.append(outcome)
                for derived in emitted:
                    stages.setdefault(derived.template.stage, []).append(derived)
        return outcomes

    def _fires(self, punctuation_ts: int, events: list[Event]) -> list[Trigger]:
        fires = []
        for index, (name, template) in enumerate(self.app.templates.items()):
            if not template.period:
                continue
            if events and name not in self._next_fire:
                earliest = min(ts for _, ts, *_ in events)
                self._next_fire[name] = (earliest // template.period + 1) * template.period
            while name in self._next_fire and self._next_fire[name] <= punctuation_ts:
                ts = self._next_fire[name]
                random = random_of(zlib.crc32(name.encode()), ts, 0)
                fires.append(Trigger(ts, -1, index, (), template, {}, random))
                self._next_fire[name] = ts + template.period
        return fires

    def _run(self, epoch: int, trigger: Trigger) -> tuple[OracleOutcome, list[Trigger]]:
        template = trigger.template
        verdict, reason, statement, key = "committed", Reason.NONE, -1, None
        values = {**trigger.fields, "ts": trigger.ts, "random": trigger.random}
        run: TransactionRun | None = None
        try:
            if not self._prepared(template, values):
                verdict = "filtered"
            else:
                run = TransactionRun(self, template, epoch, values)
                run.execute()
        except Fault as fault:  # in a derived column or the filter
            verdict, reason = "failed", fault.reason
        except Failure as failure:
            verdict, reason, statement, key = "failed", failure.reason, failure.statement, failure.key
        output, emitted = None, []
        if run is not None:
            self._note_cascade(run, verdict)
        if run is not None and verdict == "committed":
            self._commit(epoch, trigger.ts, run)
            output = run.output
            emitted = [self._derived(trigger, *each) for each in run.emitted]
        place = (template.stage, template.record_type, trigger.ts, trigger.source, trigger.seq, trigger.emission)
        return OracleOutcome(*place, verdict, reason, statement, key, output), emitted

    @staticmethod
    def _prepared(template: Template, values: dict[str, Any]) -> bool:
        """Adds the derived columns to `values`; whether the filter lets the event through."""
        known = {n: k for n, k in template.event_fields.items() if n in values}
        for name, function in template.derive:
            result = executable(function)(Record(known, values))
            known[name] = template.event_fields[name]
            values[name] = plain(stored(known[name], result))
        return template.filter is None or executable(template.filter)(Record(known, values)) is not False

    def _commit(self, epoch: int, ts: int, run: TransactionRun) -> None:
        for (table, key), record in run.own.items():
            if record is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = record
                self.versions.setdefault((table, key), []).append(Version(ts, epoch, record))
        self.notes["same_key_rewrites"] += run.rewrites > 0
        self.notes["window_across_epochs"] += run.windows_across_epochs

    def _derived(self, parent: Trigger, statement: int, record_type: str, fields: dict[str, Any]) -> Trigger:
        random = mixed(parent.random + statement + 1) >> 1
        place = (parent.ts, parent.source, parent.seq, (*parent.emission, statement))
        return Trigger(*place, self.app.templates[record_type], fields, random)

    def _note_cascade(self, run: TransactionRun, verdict: str) -> None:
        behind = max((self._depths.get(address, 0) for address in run.touched), default=0)
        depth = behind + 1 if behind or verdict == "failed" else 0
        for address in run.own:
            self._depths[address] = depth
        self.notes["cascade_depth"] = max(self.notes["cascade_depth"], depth)
