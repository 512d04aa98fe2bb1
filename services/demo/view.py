"""What the demo shows while it runs: steps with their times, then the pipeline's figures, then what happened when."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
SPARKS = 48  # readings of the throughput that the picture keeps


@dataclass
class Step:
    """Something slow."""

    what: str
    begun_s: float = field(default_factory=time.monotonic)
    ended_s: float | None = None
    failed: bool = False


class Steps:
    """Slow steps, several at once, each with its time; on a terminal they move, elsewhere each is a line when it ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steps: list[Step] = []
        self._lock = threading.Lock()
        self._spinner = Spinner("dots")

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, get_renderable=self._render, refresh_per_second=8):
            yield

    @contextmanager
    def step(self, what: str) -> Iterator[Step]:
        step = Step(what)
        with self._lock:
            self._steps.append(step)
        try:
            yield step
        except BaseException:
            step.failed = True
            raise
        finally:
            step.ended_s = time.monotonic()
            if not self.console.is_terminal:
                ending = "failed after" if step.failed else "took"
                self.console.print(
                    f"{step.what}: {ending} {step.ended_s - step.begun_s:.0f} s", highlight=False, soft_wrap=True
                )

    def _render(self) -> RenderableType:
        now_s = time.monotonic()
        table = Table.grid(padding=(0, 1))
        with self._lock:
            for step in self._steps:
                sign: RenderableType = self._spinner
                if step.ended_s is not None:
                    sign = Text("✗", "red") if step.failed else Text("✓", "green")
                seconds = (step.ended_s or now_s) - step.begun_s
                table.add_row(sign, step.what, Text(f"{seconds:.0f} s", "dim"))
        return table


class Figures:
    """The live view of the pipeline."""

    def __init__(self, console: Console, events: int) -> None:
        self.console = console
        self.events = events
        self.published = 0
        self.status: dict[str, Any] = {}
        self.alive = False
        self.happened: list[str] = []
        self.rates: list[float] = []
        self.policies: Counter[str] = Counter()
        self._begun_s = time.monotonic()

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, get_renderable=self._render, refresh_per_second=6):
            yield

    def note(self, what: str) -> None:
        """Something that a reader should know happened."""
        line = f"{time.monotonic() - self._begun_s:5.1f} s  {what}"
        self.happened.append(line)
        if not self.console.is_terminal:
            self.console.print(line, highlight=False, soft_wrap=True)

    def update(self, status: dict[str, Any] | None) -> None:
        """What the engine says of itself now; None while it does not answer."""
        self.alive = status is not None and bool(status["ready"])
        rate = 0.0
        if status is not None and not status["recovering"]:
            self.status = status
            rate = float(status["events_per_second"] or 0.0)
        self.rates = [*self.rates, rate][-SPARKS:]

    @property
    def done(self) -> int:
        """Events that are dealt with."""
        tally = self.status.get("tally", {})
        return sum(int(tally.get(name, 0)) for name in ("committed", "failed", "filtered", "dead_lettered"))

    def _render(self) -> RenderableType:
        tally = self.status.get("tally", {})
        reasons = _shares(self.status.get("failed_by_reason", {}))
        latency = self.status.get("latency_seconds", {})
        chosen = self.status.get("policies_chosen", {})
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        table.add_row("published by Spark", f"{self.published:,} of {self.events:,} events")
        table.add_row("committed", f"{tally.get('committed', 0):,}")
        table.add_row("failed", f"{tally.get('failed', 0):,}" + reasons)
        table.add_row("epochs", f"{self.status.get('epochs', 0):,}, each one Kafka transaction")
        table.add_row("policy", f"{', '.join(self.status.get('policies', [])) or '-'}{_shares(chosen)}")
        table.add_row("throughput", f"{self.rates[-1] if self.rates else 0:>9,.0f} events/s  {_sparkline(self.rates)}")
        table.add_row(
            "latency", f"p50 {_ms(latency.get('p50'))}, p99 {_ms(latency.get('p99'))}, from arrival to commit"
        )
        state = Text("running", "green") if self.alive else Text("starting, recovering", "yellow")
        title = Text.assemble("Spark → Kafka → engine → Kafka    engine: ", state)
        return Panel(Group(table, *(Text(line, "bold") for line in self.happened)), title=title, title_align="left")


def _shares(counts: dict[str, int]) -> str:
    """Which of several there were, in percent: the engine counts them from its own start, the events from the first one on."""
    total = sum(counts.values())
    shares = (f"{name.replace('_', ' ')} {count / total:.0%}" for name, count in counts.items())
    return f"   ({', '.join(shares)})" if total else ""


def _sparkline(rates: list[float]) -> str:
    top = max(rates, default=0.0) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(rate / top * (len(BARS) - 1)))] for rate in rates)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.0f} ms"
