"""Quotes and trades for SEA: a loader for SSE-style CSV files, and a seeded stream in the same form.

Both give epochs of `Quote` and `Trade` events: quotes are source 0, trades source 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine import Epoch
from engine.errors import InputError
from services.apps.workloads import Column, Columns, zipf


@dataclass(frozen=True)
class CsvColumns:
    """The names of the columns in a file's header."""

    time: str = "time"
    stock: str = "stock_id"
    price: str = "price"
    quantity: str = "quantity"


@dataclass(frozen=True)
class Market:
    """Quotes and trades, each in time order: columns ts, stock, quantity and price."""

    quotes: Columns
    trades: Columns

    def epochs(self, span: int) -> Iterator[Epoch]:
        """Cuts both streams by time, on a common grid of `span` units that starts at 0."""
        times = np.concatenate([self.quotes["ts"], self.trades["ts"]])
        if len(times) == 0:
            return
        first, last = int(times.min()) // span, int(times.max()) // span
        for number, cell in enumerate(range(first, last + 1)):
            stop = (cell + 1) * span
            quotes = _between(self.quotes, cell * span, stop, source=0)
            trades = _between(self.trades, cell * span, stop, source=1)
            yield Epoch(number, stop - 1, {"Quote": quotes, "Trade": trades})


def load(quotes: Path, trades: Path, names: CsvColumns | None = None) -> Market:
    """Reads one CSV file of quotes and one of trades, each with a header; times are whole numbers (milliseconds)."""
    header = names or CsvColumns()
    return Market(_read(quotes, header), _read(trades, header))


def generate(
    events: int = 10_000,
    stocks: int = 100,
    seed: int = 1,
    trade_share: float = 0.4,
    theta: float = 0.6,
    gap_max: int = 3,
) -> Market:
    """A seeded stream: a few stocks are busy; a trade's quantity is about half of a quote's."""
    random = np.random.default_rng(seed)
    ts = np.cumsum(random.integers(0, gap_max + 1, events)).astype(np.int64)
    codes = np.array([f"{600_000 + number}" for number in range(stocks)])
    stock = codes[zipf(random, theta, stocks, events)]
    traded = random.random(events) < trade_share
    quantity = random.integers(1, 101, events) * np.where(traded, 50, 100)
    price = np.round(random.uniform(5.0, 50.0, events), 2)
    columns = {"ts": ts, "stock": stock, "quantity": quantity, "price": price}
    return Market(
        {name: column[~traded] for name, column in columns.items()},
        {name: column[traded] for name, column in columns.items()},
    )


def _between(stream: Columns, start: int, stop: int, source: int) -> Columns:
    begin, end = np.searchsorted(stream["ts"], [start, stop]).tolist()
    cut = {name: column[begin:end] for name, column in stream.items()}
    rows = end - begin
    return {**cut, "source": np.full(rows, source, dtype=np.int64), "seq": np.arange(rows, dtype=np.int64)}


def _read(path: Path, names: CsvColumns) -> Columns:
    rows: list[tuple[int, str, int, float]] = []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        wanted = (names.time, names.stock, names.quantity, names.price)
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path} has no column {', '.join(missing)}; its header is {reader.fieldnames}")
        for row in reader:
            try:
                rows.append((int(row[names.time]), row[names.stock], int(row[names.quantity]), float(row[names.price])))
            except (TypeError, ValueError):
                raise InputError(f"{path}:{reader.line_num}: {row} is not a time, stock, quantity and price") from None
    rows.sort(key=lambda row: row[0])
    kinds: list[Any] = [np.int64, np.str_, np.int64, np.float64]
    fields = ("ts", "stock", "quantity", "price")
    return {
        name: _column([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(zip(fields, kinds, strict=True))
    }


def _column(values: list[Any], kind: Any) -> Column:
    return np.array(values, dtype=kind)
