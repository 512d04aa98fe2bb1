"""What running an epoch gives: verdicts, outputs, changes, counters and times, as columns; Python objects on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import Kind
from engine.errors import Reason
from engine.planning.stage import StageEvents
from engine.scheduling.choice import Explanation
from engine.state.changes import EpochChanges
from engine.state.key_encoding import EncodedKeys, KeyTypes, decode_keys

COMMITTED, FAILED, FILTERED = range(3)
VERDICTS = ("committed", "failed", "filtered")


@dataclass(frozen=True)
class Outcome:
    """What became of one transaction."""

    stage: int
    record_type: str
    ts: int
    source: int
    seq: int
    emission: tuple[int, ...]
    verdict: str
    reason: Reason
    statement: int
    key: Any
    output: dict[str, Any] | None


@dataclass(frozen=True)
class KeyColumn:
    """Keys at some positions of a stage, as the index stores them; decoded when someone asks."""

    positions: NDArray[np.int64]
    key_types: KeyTypes
    keys: EncodedKeys

    def decode(self) -> list[Any]:
        return decode_keys(self.key_types, self.keys)


@dataclass(frozen=True)
class Failures:
    """Failed transactions: places in the total order, reasons, statements."""

    position: NDArray[np.int64]
    reason: NDArray[Any]
    statement: NDArray[np.int64]

    @classmethod
    def nowhere(cls) -> Failures:
        return cls(NOTHING, NOTHING, NOTHING)


NOTHING: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass
class StageResult:
    """One stage's verdicts in the total order. `reason` and `statement` are made when someone asks: most epochs fail little."""

    events: StageEvents
    verdict: NDArray[np.int8]
    failures: Failures
    failed_key_columns: list[KeyColumn] = field(default_factory=list)
    # (batch, statement) → positions and records of what outputs and derived records it made
    sinks: dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[Any]]] = field(default_factory=dict)

    @cached_property
    def reason(self) -> NDArray[np.int8]:
        """Why each event failed; 0 where it did not."""
        reason = self.events.reason.copy()
        reason[self.failures.position] = self.failures.reason
        return reason

    @cached_property
    def statement(self) -> NDArray[np.int64]:
        """The statement that failed; -1 where none did."""
        statement = np.full(self.verdict.size, -1, np.int64)
        statement[self.failures.position] = self.failures.statement
        return statement

    @property
    def outputs(self) -> dict[int, tuple[NDArray[np.int64], NDArray[Any]]]:
        """Batch → positions and output records."""
        return {
            batch: made
            for (batch, statement), made in self.sinks.items()
            if self.events.batches[batch].template.statements[statement].kind is Kind.OUTPUT
        }


@dataclass(frozen=True)
class Times:
    """Seconds of one epoch, as section 8.3 divides them; all but `plan` and `other` are summed over threads."""

    total: float
    plan: float
    useful: float
    explore: float
    abort: float
    sync: float
    other: float


@dataclass(frozen=True)
class Moment:
    """What one thread did from `begin` to `end`, in seconds since the first of all: an operation's number in the epoch, or
    one of layout's WAITING, SETTLING, RUNNING_SERIALLY."""

    thread: int
    what: int
    begin: float
    end: float


@dataclass
class EpochResult:
    """One epoch's result. `outcomes()` is for people and tests; columns are for machines."""

    epoch: int
    punctuation_ts: int
    policies: list[str]
    stages: list[StageResult]
    counters: dict[str, int]
    operations_per_thread: list[int]
    times: Times
    working_bytes: int
    collect_changes: Callable[[], EpochChanges]
    trace: list[tuple[int, str]] = field(default_factory=list)
    choices: list[Explanation] = field(default_factory=list)  # why each stage ran as it did
    timeline: list[Moment] = field(
        default_factory=list
    )  # what threads did when, if ExecutionOptions.timeline asked for it

    @cached_property
    def changes(self) -> EpochChanges:
        """What the epoch changed. To be asked for before the next epoch runs, unless the engine keeps changes."""
        return self.collect_changes()

    def count(self, verdict: int) -> int:
        """Transactions with this verdict among the input events (self-firing and derived ones are counted apart)."""
        if not self.stages:
            return 0
        stage = self.stages[0]
        fires = np.array([batch.template.period > 0 for batch in stage.events.batches])[stage.events.batch]
        return int(np.count_nonzero((stage.verdict == verdict) & ~fires))

    @property
    def committed(self) -> int:
        return self.count(COMMITTED)

    @property
    def failed(self) -> int:
        return self.count(FAILED)

    @property
    def filtered(self) -> int:
        return self.count(FILTERED)

    def outcomes(self) -> list[Outcome]:
        """All transactions in the total order."""
        result: list[Outcome] = []
        for stage in self.stages:
            events = stage.events
            keys: dict[int, Any] = {}
            for column in stage.failed_key_columns:
                keys.update(zip(column.positions.tolist(), column.decode(), strict=True))
            outputs: dict[int, dict[str, Any]] = {}
            for number, (positions, records) in stage.outputs.items():
                names = list(events.batches[number].template.output_fields)
                for position, record in zip(positions.tolist(), records, strict=True):
                    outputs[position] = {name: _plain(record[name]) for name in names}
            for position in range(events.count):
                batch_number, row = int(events.batch[position]), int(events.row[position])
                batch = events.batches[batch_number]
                result.append(
                    Outcome(
                        events.stage,
                        batch.template.record_type,
                        int(batch.ts[row]),
                        int(batch.source[row]),
                        int(batch.seq[row]),
                        tuple(batch.path[row].tolist()),
                        VERDICTS[stage.verdict[position]],
                        Reason(int(stage.reason[position])),
                        int(stage.statement[position]),
                        keys.get(position),
                        outputs.get(position),
                    )
                )
        return result


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item()
