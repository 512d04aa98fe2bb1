"""How long a killed service takes until it reads again, with a million keys: out of a snapshot, and out of the changelog."""

from __future__ import annotations

import re
import signal
import time

from matplotlib.figure import Figure

from bench import figures
from bench.data import Data
from bench.end_to_end.feed import ledger_epochs, messages_of, preload
from bench.end_to_end.pipeline import RECOVERED, Pipeline, Service
from bench.end_to_end.watching import LedgerCounts, answer_of, fresh_engine, wait_for_epoch
from bench.experiment import THREADS, Cell, Context, Experiment, Measured, Size

IN_PROCESS, SNAPSHOT, CHANGELOG = "the engine alone", "snapshot", "changelog"
PARTS = {"start_s": "process, imports, application", "recovery_s": "recovery"}
SNAPSHOT_EVERY = 4
SNAPSHOT_TIMEOUT_S = 60.0
_SECONDS = re.compile(RECOVERED + r" (-?\d+) in ([\d.]+) s .*epochs_followed=(\d+)")


def _measure(context: Context, cell: Cell) -> Measured:
    keys, count, transactions = int(cell["keys_a_table"]), int(cell["epochs"]), int(cell["transactions"])
    epochs = ledger_epochs(transactions, keys, count, context.seed)
    if cell["state"] == IN_PROCESS:
        counts = LedgerCounts()
        with fresh_engine(keys, threads=THREADS) as engine:
            for epoch in epochs:
                counts.add(engine.run_epoch(epoch))
            return Measured(
                [{**dict.fromkeys(PARTS, 0.0), "ready_s": 0.0, "epochs_followed": 0}], counts.answer(engine)
            )
    with Pipeline(keys) as pipeline:
        folder = pipeline.directory / "snapshots"
        options = ["--snapshots", str(folder), "--snapshot-every", str(SNAPSHOT_EVERY)]
        options = options if cell["state"] == SNAPSHOT else []
        preload(pipeline.settings, pipeline.names.events, (messages_of(pipeline.wire, epoch) for epoch in epochs))
        with pipeline.service(*options) as service:
            wait_for_epoch(pipeline, count - 1, service.check)
            if options:
                _wait_for_snapshot(service)
            time.sleep(1.5)  # a single node killed a client of right after a commit may leave it unmarked
            service.process.send_signal(signal.SIGKILL)
            service.process.wait()
        with pipeline.service(*options) as service:
            ready_s = service.wait_ready() - service.started_s
            line = next(line for line in service.lines if RECOVERED in line)
            service.stop()
        found = _SECONDS.search(line)
        assert found is not None and int(found[1]) == count - 1, line
        answer = answer_of(pipeline)
    recovery_s = float(found[2])
    row = {
        "start_s": ready_s - recovery_s,
        "recovery_s": recovery_s,
        "ready_s": ready_s,
        "epochs_followed": int(found[3]),
    }
    return Measured([row], answer)


def _wait_for_snapshot(service: Service) -> None:
    begin = time.monotonic()
    while service.status()["snapshots"]["written"] < 1:
        service.check()
        if time.monotonic() - begin > SNAPSHOT_TIMEOUT_S:
            raise service.failure("no snapshot was written")
        time.sleep(0.1)


def _grid(size: Size) -> list[Cell]:
    keys, epochs, transactions = size.of((500_000, 14, 102_400), (50_000, 6, 10_240), (100, 5, 200))
    return [
        {"keys_a_table": keys, "epochs": epochs, "transactions": transactions, "state": state}
        for state in (IN_PROCESS, SNAPSHOT, CHANGELOG)
    ]


def _draw(data: Data, figure: Figure) -> None:
    axes = figure.subplots()
    figures.stacked(
        axes, data.where(state=(SNAPSHOT, CHANGELOG)), "state", PARTS, label="seconds from start to reading"
    )
    axes.legend(fontsize=8, frameon=False)


def _summarise(data: Data) -> list[str]:
    recoveries, ready = data.spread("recovery_s", ("state",)), data.spread("ready_s", ("state",))
    followed = data.medians("epochs_followed", ("state",))
    lines = [
        "| out of | recovery, s | middle half | process start to reading, s | epochs of changelog |",
        "|---|---|---|---|---|",
    ]
    for (state,), spread in recoveries.items():
        if state == IN_PROCESS:
            continue
        whole = ready[state,]
        middle = f"{spread.low_quartile:.2f}–{spread.high_quartile:.2f}"
        lines.append(f"| {state} | {spread.median:.2f} | {middle} | {whole.median:.2f} | {followed[state,]:.0f} |")
    return lines


RECOVERY = Experiment(
    name="end-to-end-recovery",
    figure="our target: 1 M keys under 5 s",
    title="Recovery of a killed service with a million keys",
    shows="seconds from a new process to its first read of input: state out of the newest snapshot and the changelog after it, "
    "or out of first tables and the whole changelog",
    claim="Recovery of 1 M keys under 5 s.",
    grid=_grid,
    measure=_measure,
    values=(*PARTS, "ready_s", "epochs_followed"),
    main="ready_s",
    answer_by=("keys_a_table", "epochs", "transactions"),
    draw=_draw,
    cell_seconds=lambda cell: 40,
    summarise=_summarise,
    needs_broker=True,
)
