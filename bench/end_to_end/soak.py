"""`python -m bench.end_to_end.soak`: a steady load for a long time; the service's memory must stay flat and nothing be lost.

Memory is sampled once a second. Flat means: over the second half, when all buffers and memories of duplicates have their size,
a straight line through the samples rises by less than `RISE_MAX_SHARE` of the memory over the whole of the soak. The load
is `--share` of `--highest`, which is best taken from `millrace bench run end-to-end-throughput` on the same machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.end_to_end.open_loop import Schedule, producing
from bench.end_to_end.pipeline import Pipeline, Service
from bench.end_to_end.watching import Reader
from services.engine.wire import MARKER

PERIOD_S = 0.1
DISTINCT_EPOCHS = 20
RISE_MAX_SHARE = 0.05
SNAPSHOT_EVERY = 200
KEPT_BYTES = 256 << 20  # of each topic: what is kept is not what is soaked, and disks are finite


@dataclass(frozen=True)
class Soaked:
    """What a soak found."""

    events: int
    minutes: float
    events_per_s: float
    resident_mb: tuple[float, float, float]  # at the half, at the end, the most
    rise_mb_per_hour: float  # over the second half
    behind_epochs_max: int  # how far the service was behind the schedule, after the start
    flat: bool
    complete: bool

    @property
    def fine(self) -> bool:
        return self.flat and self.complete


def soak(events_per_s: float, minutes: float, keys: int, seed: int = 1) -> Soaked:
    """One soak on a broker of its own."""
    transactions, epochs = max(20, round(events_per_s * PERIOD_S)), max(20, round(minutes * 60 / PERIOD_S))
    with Pipeline(keys) as pipeline:
        _bound_topics(pipeline)
        options = ["--snapshots", str(pipeline.directory / "snapshots"), "--snapshot-every", str(SNAPSHOT_EVERY)]
        with pipeline.service(*options) as service:
            service.wait_ready()
            schedule = Schedule(
                pipeline.broker.bootstrap, transactions, keys, seed, epochs, PERIOD_S, min(DISTINCT_EPOCHS, epochs)
            )
            with producing(schedule) as start_s:
                samples, behind, tally = _watch(pipeline, service, schedule, start_s)
            wall_s = time.monotonic() - start_s
            service.stop()
    half = samples[len(samples) // 2 :]
    rise_mb_per_s = float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) if len(half) > 2 else 0.0
    first, last = float(half[0, 1]), float(half[-1, 1])
    return Soaked(
        events=tally["committed"] + tally["failed"],
        minutes=wall_s / 60,
        events_per_s=epochs * transactions / wall_s,
        resident_mb=(first, last, float(samples[:, 1].max())),
        rise_mb_per_hour=rise_mb_per_s * 3600,
        behind_epochs_max=behind,
        flat=rise_mb_per_s * wall_s < RISE_MAX_SHARE * first,
        complete=tally["committed"] + tally["failed"] == epochs * transactions,
    )


def _bound_topics(pipeline: Pipeline) -> None:
    """Old records go, as an operator would let them; snapshots come often enough that none is needed again."""
    admin = AdminClient({"bootstrap.servers": pipeline.broker.bootstrap})
    names = pipeline.names
    wanted = {"retention.bytes": KEPT_BYTES, "segment.bytes": KEPT_BYTES // 4}
    resources = [
        ConfigResource(
            ResourceType.TOPIC, name,
            incremental_configs=[
                ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET) for key, value in wanted.items()
            ],
        )
        for name in (names.events, names.committed, names.failed, names.changelog)
    ]  # fmt: skip
    for future in admin.incremental_alter_configs(resources).values():
        future.result()


def _watch(
    pipeline: Pipeline, service: Service, schedule: Schedule, start_s: float
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], int, dict[str, int]]:
    """Samples of (seconds, MB) until the last epoch is committed, the most epochs behind, and the last marker."""
    samples, behind = [(0.0, service.resident_mb)], 0
    reader = Reader(pipeline, pipeline.names.epochs)
    for value in reader.records(service.check):
        now_s = time.monotonic() - start_s
        if now_s - samples[-1][0] < 1 and int(now_s / schedule.period_s) < schedule.epochs:
            continue
        marker = pipeline.wire.decode(MARKER, value)
        samples.append((now_s, service.resident_mb))
        due = min(int(now_s / schedule.period_s), schedule.epochs) - 1
        if now_s > 0.2 * schedule.epochs * schedule.period_s:
            behind = max(behind, due - marker["epoch"])
        if marker["epoch"] == schedule.epochs - 1:
            break
    reader.close()
    return np.array(samples), behind, marker


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.end_to_end.soak", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--share", type=float, default=0.8, help="of the highest load (%(default)s)")
    parser.add_argument("--highest", type=float, default=1e6, help="events a second (%(default)g)")
    parser.add_argument("--keys", type=int, default=100_000, help="of each of two tables (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="seconds at a low load: shows that it works")
    given = parser.parse_args()
    found = soak(10_000, 0.1, 1_000) if given.quick else soak(given.share * given.highest, given.minutes, given.keys)
    print(json.dumps({**found.__dict__, "fine": found.fine}))
    return 0 if found.fine or (given.quick and found.complete) else 1


if __name__ == "__main__":
    sys.exit(main())
