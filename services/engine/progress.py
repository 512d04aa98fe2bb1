"""What the service knows about itself while it runs: counts, times, latencies; for metrics, live views and health.

The runner's threads write, the HTTP port's read at any time. What several values must agree on is under the lock; plain numbers
are read as they are. Counts of `tally` and `epochs` are since the state began, all others since this process began.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine import EpochResult
from engine.errors import Reason
from engine.result import FAILED
from services.engine.facts import Cursor, Memory, Tally

PHASES = ("decode", "plan", "execute", "encode", "commit")
LATENCY_BOUNDS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
RECENT_S = 5.0  # what "now" means for throughput and percentiles
RECENT_COMMITS = 10_000
STUCK_AFTER_S = (
    30.0  # the main loop turns every few milliseconds; recovery is the only longer thing that it does itself
)


@dataclass(frozen=True)
class _Recent:
    """A commit a moment ago."""

    at_s: float
    events: int
    latency_s: float | None


@dataclass(frozen=True)
class _Seen:
    """The first message of an epoch: when it was polled, and how old it was then."""

    at_s: float
    age_s: float


class Progress:
    """One service's counts and times."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.started_s = self._beat_s = clock()
        self.epochs = 0
        self.tally = Tally()
        self.cursors: dict[int, Cursor] = {}
        self.policies: list[str] = []  # of the last epoch
        self.policies_chosen: Counter[str] = Counter()  # stages of epochs
        self.failed_by_reason: Counter[str] = Counter()
        self.phase_seconds = dict.fromkeys(PHASES, 0.0)
        self.waiting_bytes = 0
        self.paused: frozenset[int] = frozenset()
        self.recoveries = 0
        self.recovery_seconds = 0.0  # of the last one
        self.recovery_seconds_total = 0.0
        self.recovering = True
        self.broker_away = False
        self.input_problem: str | None = None  # what the broker watch found wrong with the input topic
        self.high_watermarks: dict[int, int] = {}
        self.snapshots, self.snapshots_failed, self.snapshot_epoch = 0, 0, -1
        self.latency_counts = [0] * (len(LATENCY_BOUNDS_S) + 1)  # by bucket, the last one is endless
        self.latency_sum_s = 0.0
        self._recent: deque[_Recent] = deque(maxlen=RECENT_COMMITS)
        self._seen: dict[int, _Seen] = {}

    # --- what the runner tells ------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """The main loop turned."""
        self._beat_s = self._clock()

    def saw(self, epoch: int, age_s: float) -> None:
        """A message of an epoch was polled, so many seconds after a broker took it."""
        if epoch not in self._seen and epoch >= self.epochs:
            with self._lock:
                self._seen[epoch] = _Seen(self._clock(), max(age_s, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time spent in the body belongs to this phase."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add_phase(name, time.perf_counter() - begin)

    def add_phase(self, name: str, seconds: float) -> None:
        with self._lock:
            self.phase_seconds[name] += seconds

    def executed(self, result: EpochResult) -> None:
        """The engine ran an epoch, which may not be committed yet."""
        self.add_phase("plan", result.times.plan)
        self.add_phase("execute", result.times.total - result.times.plan)

    def committed(self, memory: Memory, result: EpochResult | None) -> None:
        """A commit took effect; with it an epoch, if there is a result."""
        now_s = self._clock()
        with self._lock:
            events = _events(memory.tally) - _events(self.tally)
            self.epochs, self.tally, self.cursors = memory.epoch + 1, memory.tally, memory.cursors
            latency_s = None
            if result is not None:
                self.policies = result.policies
                self.policies_chosen.update(result.policies)
                self.failed_by_reason.update(_reasons(result))
                seen = self._seen.pop(result.epoch, None)
                latency_s = now_s - seen.at_s if seen is not None else None
            self._recent.append(_Recent(now_s, events, latency_s))
            if latency_s is not None:
                self.latency_counts[bisect.bisect_left(LATENCY_BOUNDS_S, latency_s)] += 1
                self.latency_sum_s += latency_s

    def recovery_began(self) -> None:
        with self._lock:
            self.recovering, self.waiting_bytes = True, 0
            self._seen.clear()

    def recovered(self, memory: Memory, seconds: float) -> None:
        with self._lock:
            self.recoveries += 1
            self.recovery_seconds = seconds
            self.recovery_seconds_total += seconds
            self.epochs, self.tally, self.cursors = memory.epoch + 1, memory.tally, memory.cursors
            self.recovering, self._beat_s = False, self._clock()

    def snapshot_ended(self, epoch: int, error: str | None) -> None:
        if error is None:
            self.snapshots, self.snapshot_epoch = self.snapshots + 1, epoch
        else:
            self.snapshots_failed += 1

    # --- what others ask ------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return not self.recovering and not self.broker_away

    @property
    def stuck_s(self) -> float:
        """How long the main loop has not turned, beyond what is normal; a recovery is no standstill."""
        silent_s = self._clock() - self._beat_s
        return silent_s if silent_s >= STUCK_AFTER_S and not self.recovering else 0.0

    def lag_messages(self) -> dict[int, int]:
        """By partition: messages that brokers have and no commit has handled."""
        with self._lock:
            cursors = self.cursors
            return {p: max(high - _handled(cursors.get(p)), 0) for p, high in self.high_watermarks.items()}

    def lag_s(self) -> float:
        """How old the oldest message is that was read and not committed; 0 if there is none."""
        with self._lock:
            oldest = self._seen[min(self._seen)] if self._seen else None
        return 0.0 if oldest is None else self._clock() - oldest.at_s + oldest.age_s

    def recent(self) -> tuple[float, list[float]]:
        """Events a second and the latencies of epochs, over the last moments."""
        since = self._clock() - RECENT_S
        with self._lock:
            recent = [each for each in self._recent if each.at_s >= since]
        span = min(RECENT_S, max(self._clock() - self.started_s, 0.001))
        return sum(each.events for each in recent) / span, [e.latency_s for e in recent if e.latency_s is not None]

    def status(self) -> dict[str, Any]:
        """Everything, as one JSON object."""
        rate, latencies = self.recent()
        lag, lag_s = self.lag_messages(), self.lag_s()
        with self._lock:
            return {
                "ready": self.ready, "recovering": self.recovering, "broker_away": self.broker_away,
                "uptime_seconds": self._clock() - self.started_s,
                "epochs": self.epochs, "tally": asdict(self.tally), "failed_by_reason": dict(self.failed_by_reason),
                "policies": list(self.policies), "policies_chosen": dict(self.policies_chosen),
                "events_per_second": rate,
                "latency_seconds": {"p50": _percentile(latencies, 50), "p99": _percentile(latencies, 99)},
                "phase_seconds": dict(self.phase_seconds),
                "lag": {"messages": sum(lag.values()) if lag else None, "seconds": lag_s},
                "waiting_bytes": self.waiting_bytes, "paused_partitions": sorted(self.paused),
                "recoveries": self.recoveries, "recovery_seconds": self.recovery_seconds,
                "snapshots": {
                    "written": self.snapshots, "failed": self.snapshots_failed, "last_epoch": self.snapshot_epoch,
                },
            }  # fmt: skip


def _handled(cursor: Cursor | None) -> int:
    return cursor.low + len(cursor.handled) if cursor is not None else 0


def _events(tally: Tally) -> int:
    return tally.committed + tally.failed + tally.filtered + tally.dead_lettered


def _reasons(result: EpochResult) -> dict[str, int]:
    """Input events that failed, by reason; as `EpochResult.failed` counts them."""
    if not result.stages:
        return {}
    stage = result.stages[0]
    fires = np.array([batch.template.period > 0 for batch in stage.events.batches], np.bool_)[stage.events.batch]
    counts = np.bincount(stage.reason[(stage.verdict == FAILED) & ~fires], minlength=1)
    return {Reason(number).name.lower(): int(count) for number, count in enumerate(counts) if count}


def _percentile(values: list[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None
