"""`millrace demo --in-process`: the ledger in one process: epochs under different policies, verdicts, speed, a picture."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from engine import Application, Engine, Epoch, Policy, Reason, TestDriver
from engine.execution.layout import Ints
from engine.planning.export import describe, to_svg
from engine.planning.task_graph import TaskGraph
from engine.result import EpochResult
from services import compiling
from services.apps import streaming_ledger
from services.apps.workloads import Parameters
from services.apps.workloads import streaming_ledger as ledger_epochs

POLICIES = ("serial", "unstructured/fine/eager", "breadth-first/coarse/lazy", "depth-first/fine/eager", "serial")
STATES = 10_000
EVENTS = 100_000
START_BALANCE = 1_000_000


class _EachInTurn:
    """A chooser that takes the demo's policies one after another."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, operations: int, graph: Callable[[], TaskGraph]) -> list[tuple[Policy, Ints | None]]:
        from engine.scheduling.policy import policy_named

        return [(policy_named(POLICIES[self.turn % len(POLICIES)]), None)]


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; the exit code is 0 if the money adds up."""
    console = Console(stderr=arguments.json)
    chooser = _EachInTurn()
    with compiling.shown(console, "compiling kernels (a minute or two the first time, then cached)"):
        app = streaming_ledger.build()
        _warm_up(app)
    engine = Engine(app, policy=chooser, wait=True)
    keys = np.arange(STATES)
    for name in ("accounts", "assets"):
        engine.load(name, keys.tolist(), {"balance": np.full(STATES, START_BALANCE)})
    per_epoch = max(1, (arguments.events or EVENTS) // arguments.epochs)
    parameters = Parameters(states=STATES, transactions=per_epoch, abort_share=0.05)
    table = Table(
        title=f"Streaming Ledger, {arguments.epochs} epochs of {per_epoch:,} events on {engine.threads} threads",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("epoch", "policy", "committed", "failed", "events/s", "redone"):
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    seconds, expected = 0.0, 2 * STATES * START_BALANCE
    for turn, epoch in enumerate(ledger_epochs(parameters, arguments.epochs, arguments.seed)):
        chooser.turn = turn
        started = time.perf_counter()
        result = engine.run_epoch(epoch)
        elapsed = time.perf_counter() - started
        seconds += elapsed
        totals.update(committed=result.committed, failed=result.failed, filtered=result.filtered)
        reasons.update(_reasons(result))
        expected += 2 * _deposited(epoch, result)
        table.add_row(
            str(epoch.number), result.policies[0], f"{result.committed:,}", f"{result.failed:,}",
            f"{per_epoch / elapsed:,.0f}", f"{result.counters['rollbacks']:,}",
        )  # fmt: skip
    money = sum(r["balance"] for name in ("accounts", "assets") for r in engine.state(name).values())
    engine.close()
    svg = Path(arguments.svg or "build/demo/tpg.svg")
    counts = _draw(svg)
    events = sum(totals.values())
    if arguments.json:
        print(
            json.dumps(
                {
                    "events": events, **{name: totals[name] for name in ("committed", "failed", "filtered")},
                    "seconds": round(seconds, 3), "events_per_second": round(events / seconds),
                    "policies": sorted(set(POLICIES)), "money_adds_up": money == expected, "svg": str(svg),
                }
            )
        )  # fmt: skip
        return 0 if money == expected else 1
    console.print(table)
    console.print("failed because: " + (", ".join(f"{name} {count:,}" for name, count in reasons.most_common()) or "-"))
    console.print(f"money: {money:,} in all accounts and assets, expected {expected:,}: "
                  + ("[green]adds up[/green]" if money == expected else "[red]DOES NOT ADD UP[/red]"))  # fmt: skip
    console.print(f"{svg}: the task precedence graph of a small epoch ({_words(counts)})")
    return 0 if money == expected else 1


def _warm_up(app: Application) -> None:
    """Compiles every kernel on a tiny ledger, so that the epochs below are timed without it."""
    for policy in set(POLICIES):
        driver = TestDriver(app, policy=policy, wait=True)
        driver.send("Deposit", ts=1, account=1, asset=1, amount=5)
        driver.punctuate()
        driver.close()


def _reasons(result: EpochResult) -> Counter[str]:
    """Why transactions failed, and how many."""
    codes = np.concatenate([stage.reason for stage in result.stages])
    return Counter(Reason(code).name.lower() for code in codes[codes > 0].tolist())


def _deposited(epoch: Epoch, result: EpochResult) -> int:
    """What committed deposits brought in, for each of account and asset."""
    stage = result.stages[0]
    for number, batch in enumerate(stage.events.batches):
        if batch.template.record_type == "Deposit":
            committed = (stage.events.batch == number) & (stage.verdict == 0)
            return int(batch.rows["amount"][stage.events.row[committed]].sum())
    return 0


def _draw(svg: Path) -> dict[str, int]:
    """Writes the picture of a five-event epoch with one failure."""
    graphs: list[TaskGraph] = []

    def keep(operations: int, graph: Callable[[], TaskGraph]) -> list[tuple[Policy, Ints | None]]:
        graphs.append(graph())
        return [(Policy(), None)]

    driver = TestDriver(streaming_ledger.build(), policy=keep)  # type: ignore[arg-type]
    driver.send("Deposit", ts=1, account=1, asset=1, amount=50)
    for ts, (giver, taker, amount) in enumerate([(1, 2, 30), (2, 1, 10), (3, 2, 99), (1, 2, 5)], start=2):
        driver.send("Transfer", ts=ts, sender_account=giver, sender_asset=giver, receiver_account=taker,
                    receiver_asset=taker, amount=amount)  # fmt: skip
    result = driver.punctuate()
    graph = graphs[0]
    program = driver.engine.program
    labels = []
    for operation in range(graph.operation_count):
        _, statement = program.statements[int(graph.operations.statement[operation])]
        assert statement.access is not None
        table = driver.engine.store.table(statement.access.table.name)
        key = table.index.key_of(int(graph.operations.row[operation]))
        name = statement.function.name if statement.function is not None else statement.kind.name.lower()
        labels.append(f"{graph.operations.transaction[operation] + 1}: {name} {table.name}[{key}]")
    svg.parent.mkdir(parents=True, exist_ok=True)
    svg.write_text(to_svg(graph, labels, [o.verdict == "failed" for o in result.outcomes()]), encoding="utf-8")
    driver.close()
    return describe(graph)


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in ("operations", "strata", "TD", "PD", "LD"))
