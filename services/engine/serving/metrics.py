"""The service's progress in Prometheus' text format, read anew at each scrape; names begin with `millrace_`, in base units."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from services.engine.progress import LATENCY_BOUNDS_S, Progress

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OUTCOMES = ("committed", "failed", "filtered", "dead_lettered")


class Metrics:
    """One service's metrics page."""

    def __init__(self, progress: Progress) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collected(progress))
        ProcessCollector(namespace="millrace", registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Collected(Collector):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        yield from self._counts()
        yield from self._times()
        yield from self._levels()

    def _counts(self) -> Iterator[Metric]:
        tally, progress = self._progress.tally, self._progress
        outcomes = {name: getattr(tally, name) for name in _OUTCOMES}
        yield _counters("events", "distinct input events since the state began", "outcome", outcomes)
        yield _counters("failed", "failed input events of this process", "reason", progress.failed_by_reason)
        yield _counter("duplicate_events", "events that came again", tally.duplicates)
        yield _counter("conflicting_events", "events that came again with another payload", tally.conflicts)
        yield _counter("repeated_messages", "messages that came again", tally.repeated)
        yield _counter("undecodable_messages", "messages that could not be read", tally.undecodable)
        yield _counter("epochs", "epochs committed since the state began", progress.epochs)
        yield _counters("policies_chosen", "stages of epochs run under a policy", "policy", progress.policies_chosen)
        yield _counter("recoveries", "recoveries of this process", progress.recoveries)
        written = {"written": progress.snapshots, "failed": progress.snapshots_failed}
        yield _counters("snapshots", "snapshots tried by this process", "result", written)

    def _times(self) -> Iterator[Metric]:
        progress = self._progress
        phases = dict(progress.phase_seconds)
        yield _counters("phase_seconds", "time spent, by phase; phases overlap", "phase", phases)
        yield _counter("recovery_seconds", "time spent recovering", progress.recovery_seconds_total)
        bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
        counts = itertools.accumulate(progress.latency_counts)
        latency = HistogramMetricFamily(
            "millrace_epoch_latency_seconds", "from the first poll of an epoch's messages to its commit"
        )
        latency.add_metric([], list(zip(bounds, counts, strict=True)), progress.latency_sum_s)
        yield latency

    def _levels(self) -> Iterator[Metric]:
        progress = self._progress
        yield _gauge("ready", "1 while epochs can be committed", int(progress.ready))
        yield _gauge("broker_away", "1 while no broker answers", int(progress.broker_away))
        yield _gauge("recovering", "1 while recovering", int(progress.recovering))
        lag = GaugeMetricFamily("millrace_lag_messages", "messages that no commit has handled", labels=["partition"])
        for partition, messages in sorted(progress.lag_messages().items()):
            lag.add_metric([str(partition)], messages)
        yield lag
        yield _gauge("lag_seconds", "age of the oldest message read and not committed", progress.lag_s())
        yield _gauge("waiting_bytes", "memory of messages that wait for their epoch", progress.waiting_bytes)
        yield _gauge("paused_partitions", "partitions not read because too much waits", len(progress.paused))
        yield _gauge("snapshot_epoch", "epoch of this process's last snapshot, -1 before", progress.snapshot_epoch)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"millrace_{name}", text, value=value)


def _counters(name: str, text: str, label: str, values: dict[str, int] | dict[str, float]) -> Metric:
    family = CounterMetricFamily(f"millrace_{name}", text, labels=[label])
    for each, value in list(values.items()):
        family.add_metric([each], value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"millrace_{name}", text, value=value)
