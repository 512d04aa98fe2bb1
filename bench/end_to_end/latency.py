"""From when an event was meant to happen to when a reader of committed records has its result, under a steady load."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench import figures
from bench.data import Data, Row
from bench.end_to_end.feed import ledger_epochs
from bench.end_to_end.open_loop import Schedule, producing
from bench.end_to_end.pipeline import Pipeline
from bench.end_to_end.watching import LedgerCounts, Reader, answer_of, fresh_engine
from bench.experiment import THREADS, Cell, Context, Experiment, Measured, Size
from services.codec import unframe

IN_PROCESS, KAFKA = "the engine alone", "Kafka to Kafka"
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
EPOCH_VALUES = ("commit_p50_ms", "commit_p99_ms")  # from an epoch's last event on: without the wait for the others
VALUES = (*QUANTILES, *EPOCH_VALUES, "service_cpu_share", "broker_cpu_share")
WARM_SHARE = 0.2  # of the epochs: processes have just started, brokers and kernels are still compiled


def _measure(context: Context, cell: Cell) -> Measured:
    rate, period_ms, seconds = int(cell["events_per_s"]), float(cell["epoch_ms"]), float(cell["seconds"])
    count, transactions = round(seconds * 1000 / period_ms), round(rate * period_ms / 1000)
    keys, seed = int(cell["keys"]), context.seed
    if cell["path"] == IN_PROCESS:
        return Measured([dict.fromkeys(VALUES, 0.0)], _in_process(transactions, keys, count, seed))
    with Pipeline(keys) as pipeline:
        with pipeline.service() as service:
            service.wait_ready()
            schedule = Schedule(pipeline.broker.bootstrap, transactions, keys, seed, count, period_ms / 1000)
            with producing(schedule) as start_s:
                broker_cpu_s, service_cpu_s = pipeline.broker_cpu_s(), service.cpu_s
                seen_s = _results_seen(pipeline, count, service.check)
            wall_s = time.monotonic() - start_s
            shares = {
                "service_cpu_share": (service.cpu_s - service_cpu_s) / wall_s,
                "broker_cpu_share": (pipeline.broker_cpu_s() - broker_cpu_s) / wall_s,
            }
            service.stop()
        answer = answer_of(pipeline)
    due_s = start_s + (np.arange(count) + 1) * schedule.period_s
    return Measured([{**latencies(seen_s - due_s, schedule.period_s, transactions), **shares}], answer)


def latencies(after_due_s: NDArray[np.float64], period_s: float, transactions: int) -> Row:
    """Quantiles over events, each as old as its place in its epoch says; warm-up left out."""
    kept = after_due_s[round(WARM_SHARE * after_due_s.size) :]
    waited = period_s * (1 - (np.arange(transactions) + 0.5) / transactions)
    events_ms = np.add.outer(kept, waited).ravel() * 1e3
    row: Row = {name: float(np.quantile(events_ms, quantile)) for name, quantile in QUANTILES.items()}
    row["commit_p50_ms"], row["commit_p99_ms"] = (float(np.quantile(kept * 1e3, q)) for q in (0.5, 0.99))
    return row


def _results_seen(pipeline: Pipeline, count: int, check: object) -> NDArray[np.float64]:
    """When a reader of the committed results had each epoch's, on the monotonic clock."""
    assert callable(check)
    seen = np.zeros(count)
    reader = Reader(pipeline, pipeline.names.committed)
    for value in reader.records(check):
        now_s = time.monotonic()
        epoch = int(pipeline.wire.committed.decode(unframe(value)[1]).header["epoch"])
        seen[epoch] = now_s  # the last chunk of an epoch counts
        if epoch == count - 1:
            break
    reader.close()
    return seen


def _in_process(transactions: int, keys: int, count: int, seed: int) -> str:
    counts = LedgerCounts()
    with fresh_engine(keys, threads=THREADS) as engine:
        for epoch in ledger_epochs(transactions, keys, count, seed):
            counts.add(engine.run_epoch(epoch))
        return counts.answer(engine)


def _grid(size: Size) -> list[Cell]:
    rates, seconds, keys = size.of(((100_000,), 20, 100_000), ((50_000,), 4, 10_000), ((5_000,), 1, 100))
    return [
        {"events_per_s": rate, "epoch_ms": 20, "seconds": seconds, "keys": keys, "path": path}
        for rate in rates
        for path in (IN_PROCESS, KAFKA)
    ]


def _draw(data: Data, figure: Figure) -> None:
    axes = figure.subplots()
    through = data.where(path=KAFKA)
    found = [through.spread(name, ("events_per_s",)) for name in QUANTILES]
    for number, spreads in enumerate(found):
        for spread in spreads.values():
            axes.bar(number, spread.median, color=figures.MORE_COLOURS[0])
            axes.vlines(number, spread.minimum, spread.maximum, color="black", linewidth=0.8)
    axes.set_xticks(range(len(QUANTILES)), [name.removesuffix("_ms") for name in QUANTILES])
    axes.set_ylabel("ms from event to committed result")


def _summarise(data: Data) -> list[str]:
    through = data.where(path=KAFKA)
    lines = ["| | ms | middle half |", "|---|---|---|"]
    words = {name: f"{name.removesuffix('_ms')} of events" for name in QUANTILES}
    words |= {"commit_p50_ms": "p50 from an epoch's end", "commit_p99_ms": "p99 from an epoch's end"}
    for name, text in words.items():
        for spread in through.spread(name, ("events_per_s",)).values():
            lines.append(f"| {text} | {spread.median:.1f} | {spread.low_quartile:.1f}–{spread.high_quartile:.1f} |")
    return lines


LATENCY = Experiment(
    name="end-to-end-latency",
    figure="our target: p99 ≤ 100 ms at 100 K events/s",
    title="Streaming Ledger from Kafka to Kafka at 100 K events/s in epochs of 20 ms: latency",
    shows="milliseconds from when an event was meant to happen to when its committed result was read; the producer keeps to its "
    "schedule",
    claim="p99 from produce to committed at most 100 ms at 100 K events/s with epochs of 20 ms. Styx: p50 19 ms, p99 34 ms at "
    "2 K transactions/s.",
    grid=_grid,
    measure=_measure,
    values=VALUES,
    main="p99_ms",
    answer_by=("events_per_s", "epoch_ms", "seconds", "keys"),
    draw=_draw,
    cell_seconds=lambda cell: 40,
    summarise=_summarise,
    needs_broker=True,
)
