"""How many events a second go from Kafka to Kafka when the input is there already, and where the time goes between."""

from __future__ import annotations

import time
from functools import lru_cache

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data, Row, readable
from bench.end_to_end.feed import ledger_epochs, messages_of, preload
from bench.end_to_end.pipeline import Pipeline
from bench.end_to_end.watching import LedgerCounts, answer_of, fresh_engine, wait_for_epoch
from bench.experiment import THREADS, Cell, Context, Experiment, Measured, Size
from engine import Epoch

IN_PROCESS, KAFKA = "the engine alone", "Kafka to Kafka"
# Seconds of the service's threads, which overlap: how busy each of them is.
PHASES = {
    "decode_us": "decode", "plan_us": "plan", "execute_us": "execute", "encode_us": "encode",
    "commit_us": "produce and commit (waiting included)",
}  # fmt: skip
PROCESSORS = {"service_cpu_us": "the service", "broker_cpu_us": "the broker", "idle_cpu_us": "nobody, or others"}
VALUES = ("events_per_s", "later_half_per_s", "seconds", *PHASES, *PROCESSORS)
CORES = 2


@lru_cache(maxsize=2)
def _epochs(transactions: int, keys: int, count: int, seed: int) -> list[Epoch]:
    return list(ledger_epochs(transactions, keys, count, seed))


def _measure(context: Context, cell: Cell) -> Measured:
    transactions, keys, count = int(cell["transactions"]), int(cell["keys"]), int(cell["epochs"])
    epochs = _epochs(transactions, keys, count, context.seed)
    return _through_kafka(epochs, keys) if cell["path"] == KAFKA else _in_process(epochs, keys)


def _in_process(epochs: list[Epoch], keys: int) -> Measured:
    """What the engine makes of the same columns: the answer to compare with, and the speed that Kafka costs."""
    counts, seconds = LedgerCounts(), []
    with fresh_engine(keys, threads=THREADS, wait=True) as engine:
        for epoch in epochs:
            begin = time.perf_counter()
            result = engine.run_epoch(epoch)
            seconds.append(time.perf_counter() - begin)
            counts.add(result)
        answer = counts.answer(engine)
    events, half = sum(_events(epoch) for epoch in epochs), len(epochs) // 2
    later = sum(_events(epoch) for epoch in epochs[half:]) / sum(seconds[half:])
    row: Row = dict.fromkeys(VALUES, 0.0)
    row |= {"events_per_s": events / sum(seconds), "later_half_per_s": later, "seconds": sum(seconds)}
    return Measured([row], answer)


def _through_kafka(epochs: list[Epoch], keys: int) -> Measured:
    """The clock runs from when the service begins to read to when a reader of committed markers has the last one."""
    with Pipeline(keys) as pipeline:
        preload(pipeline.settings, pipeline.names.events, (messages_of(pipeline.wire, epoch) for epoch in epochs))
        with pipeline.service() as service:
            begin, broker_cpu_s, service_cpu_s = service.wait_ready(), pipeline.broker_cpu_s(), service.cpu_s
            seen = wait_for_epoch(pipeline, epochs[-1].number, service.check)
            seconds = seen[-1].seen_s - begin
            service_cpu_s, broker_cpu_s = service.cpu_s - service_cpu_s, pipeline.broker_cpu_s() - broker_cpu_s
            phases = service.status()["phase_seconds"]
            service.stop()
        answer = answer_of(pipeline)
    events, half = sum(_events(epoch) for epoch in epochs), len(seen) // 2
    later = sum(_events(epoch) for epoch in epochs[half:]) / (
        seen[-1].seen_s - (seen[half - 1].seen_s if half else begin)
    )
    a_us = 1e6 / events
    row: Row = {
        "events_per_s": events / seconds,
        "later_half_per_s": later,
        "seconds": seconds,
        **{name: phases[name.removesuffix("_us")] * a_us for name in PHASES},
        "service_cpu_us": service_cpu_s * a_us,
        "broker_cpu_us": broker_cpu_s * a_us,
        "idle_cpu_us": max(0.0, CORES * seconds - service_cpu_s - broker_cpu_s) * a_us,
    }
    return Measured([row], answer)


def _events(epoch: Epoch) -> int:
    return sum(len(columns["ts"]) for columns in epoch.events.values())


def _grid(size: Size) -> list[Cell]:
    shapes = size.of(((102_400, 100_000, 60), (10_240, 100_000, 200)), ((10_240, 10_000, 20),), ((200, 100, 3),))
    return [
        {"transactions": transactions, "keys": keys, "epochs": epochs, "path": path}
        for transactions, keys, epochs in shapes
        for path in (IN_PROCESS, KAFKA)
    ]


def _draw(data: Data, figure: Figure) -> None:
    left, middle, right = figure.subplots(1, 3)
    figures.bars(left, data, "transactions", "events_per_s", by="path", scale=1e-6, label="M events/s")
    left.legend(fontsize=7, frameon=False)
    left.set_title("(a) throughput, by events an epoch", fontsize=9)
    through = data.where(path=KAFKA)
    figures.stacked(middle, through, "transactions", PHASES, label="µs an event")
    middle.set_title("(b) the service's phases (they overlap)", fontsize=9)
    figures.stacked(right, through, "transactions", PROCESSORS, label="µs an event")
    right.set_title("(c) processor time of two cores", fontsize=9)
    for axes in (middle, right):
        axes.margins(y=0.35)
        axes.legend(fontsize=6, frameon=False)


def _summarise(data: Data) -> list[str]:
    found = data.spread("events_per_s", ("transactions", "path"))
    later = data.medians("later_half_per_s", ("transactions", "path"))
    lines = ["| events an epoch | | M events/s | middle half | later half |", "|---|---|---|---|---|"]
    for (transactions, path), spread in found.items():
        lines.append(
            f"| {transactions:,} | {path} | {spread.median / 1e6:.2f} | {spread.low_quartile / 1e6:.2f}–"
            f"{spread.high_quartile / 1e6:.2f} | {later[transactions, path] / 1e6:.2f} |"
        )
    through = data.where(path=KAFKA)
    parts = {**PHASES, **{name: f"processor time of {words}" for name, words in PROCESSORS.items()}}
    sizes = through.distinct("transactions")
    lines += ["", "Where the time goes, µs an event (phases of different epochs overlap):", ""]
    lines += ["| | " + " | ".join(f"{size:,} an epoch" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for name, words in parts.items():
        medians = through.medians(name, ("transactions",))
        lines.append(f"| {words} | " + " | ".join(readable(medians[size,]) for size in sizes) + " |")
    return lines


THROUGHPUT = Experiment(
    name="end-to-end-throughput",
    figure="our target: 1 M events/s, Kafka to Kafka",
    title="Streaming Ledger from Kafka to Kafka, exactly once: throughput and where the time goes",
    shows="events a second through a real broker on the same two cores, input preloaded, C = 0, half of it transfers",
    claim="At least 1 M events/s on two cores with the broker on the same machine. Styx reaches 8 to 15 K transactions/s on "
    "two workers.",
    grid=_grid,
    measure=_measure,
    values=VALUES,
    main="events_per_s",
    answer_by=("transactions", "keys", "epochs"),
    draw=_draw,
    cell_seconds=lambda cell: 25,
    figure_inches=(13.0, 4.5),
    summarise=_summarise,
    needs_broker=True,
)
