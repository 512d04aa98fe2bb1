"""Measurements on disk: one CSV an experiment, with a header that says where the numbers come from; and their spread.

A row is one measured line of one cell and repeat: `repeat`, the cell's parameters, `line` (its place among the `lines` of
that cell and repeat), the measured values and a hash of the answer. Invariants: a cell and repeat is there with all of
its lines or not at all (what a crash left half written is dropped on reading); the header's lines start with `# `.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Scalar = int | float | str
Row = dict[str, Any]
Key = tuple[tuple[str, Scalar], ...]

BOOKKEEPING = ("repeat", "line", "lines", "answer")


@dataclass(frozen=True)
class Spread:
    """What repeats of one number gave."""

    median: float
    low_quartile: float
    high_quartile: float
    minimum: float
    maximum: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = np.array(sorted(values), np.float64)
        if not found.size:
            raise ValueError("no values to take the spread of")
        low, middle, high = np.quantile(found, (0.25, 0.5, 0.75)).tolist()
        return cls(middle, low, high, float(found[0]), float(found[-1]), int(found.size))

    def __str__(self) -> str:
        return f"{readable(self.median)} [{readable(self.low_quartile)}–{readable(self.high_quartile)}]"

    def as_json(self) -> dict[str, float]:
        return {
            "median": self.median, "q1": self.low_quartile, "q3": self.high_quartile,
            "min": self.minimum, "max": self.maximum, "repeats": self.count,
        }  # fmt: skip


@dataclass
class Data:
    """All rows of one experiment, with the header they were written under."""

    header: dict[str, str]
    parameters: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    def key(self, row: Mapping[str, Any]) -> Key:
        return tuple((name, row[name]) for name in self.parameters)

    def done(self) -> set[tuple[int, Key]]:
        """(repeat, cell) that are measured."""
        return {(int(row["repeat"]), self.key(row)) for row in self.rows}

    def where(self, **wanted: Any) -> Data:
        """The rows with these values; a tuple means any of them."""

        def matches(row: Row) -> bool:
            return all(row[n] in w if isinstance(w, tuple) else row[n] == w for n, w in wanted.items())

        return Data(self.header, self.parameters, [row for row in self.rows if matches(row)])

    def distinct(self, name: str) -> list[Any]:
        """The values of a column in the order of their first row."""
        return list(dict.fromkeys(row[name] for row in self.rows))

    def spread(self, value: str, by: Sequence[str]) -> dict[tuple[Any, ...], Spread]:
        """Over repeats, for each combination of the columns `by`. Lines left over within a repeat are averaged first."""
        found: dict[tuple[Any, ...], dict[int, list[float]]] = {}
        for row in self.rows:
            if row[value] == "":
                continue
            at = found.setdefault(tuple(row[name] for name in by), {})
            at.setdefault(int(row["repeat"]), []).append(float(row[value]))
        return {key: Spread.of(float(np.mean(v)) for v in repeats.values()) for key, repeats in found.items()}

    def medians(self, value: str, by: Sequence[str]) -> dict[tuple[Any, ...], float]:
        return {key: spread.median for key, spread in self.spread(value, by).items()}


def readable(value: float) -> str:
    """Three significant digits, thousands apart."""
    if abs(value) >= 1_000:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def parse(text: str) -> Scalar:
    """A number if it looks like one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read(path: Path) -> tuple[dict[str, str], list[Row]]:
    """Header and complete rows of a file; nothing if there is no file."""
    if not path.exists():
        return {}, []
    lines = path.read_text(encoding="utf-8").splitlines()
    notes = [line[2:] for line in lines if line.startswith("# ")]
    header = dict(note.split(": ", 1) for note in notes if ": " in note)
    table = [line for line in lines if line and not line.startswith("# ")]
    rows: list[Row] = []
    for raw in csv.DictReader(table):
        if None not in raw.values() and None not in raw:
            rows.append({name: parse(text) for name, text in raw.items()})
            rows[-1]["answer"] = raw["answer"]  # a hash may look like a number
    return header, rows


def complete(rows: list[Row], parameters: Sequence[str]) -> list[Row]:
    """Without the cells and repeats that lack lines."""

    def cell(row: Row) -> tuple[Any, ...]:
        return (row["repeat"], *(row[name] for name in parameters))

    found = Counter(cell(row) for row in rows)
    return [row for row in rows if found[cell(row)] == row["lines"]]


class Writer:
    """Appends rows to a file, a cell and repeat at once."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.columns = list(columns)

    def start(self, header: Mapping[str, str], rows: Sequence[Row]) -> None:
        """Writes the file anew, with what is kept of the earlier one, in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8", newline="") as file:
            for name, text in header.items():
                file.write(f"# {name}: {text}\n")
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        os.replace(temporary, self.path)

    def append(self, rows: Sequence[Row]) -> None:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerows(rows)
