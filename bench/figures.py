"""Draws measured data: lines, bars, stacked bars and heat maps, always with the spread of the repeats.

A line is the median over repeats, its band the middle half of them, its whiskers the least and the greatest. A policy
has one colour in all figures. Figures are made without pyplot, so drawing keeps no state, and as PNG and SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bench.data import Data

if TYPE_CHECKING:
    from bench.experiment import Experiment

COLOURS = {
    "serial": "#444444",
    "ordered": "#00a8c6",
    "cost": "#d62728",
    "paper": "#ff7f0e",
    "nested": "#8c1c13",
    "hand": "#000000",
    "lock": "#8c564b",
    "mvlk": "#c49c94",
    "pat": "#bcbd22",
    "pat:16": "#bcbd22",
    "tstream": "#9467bd",
    "no-lock": "#bbbbbb",
    "breadth-first/fine/eager": "#1f77b4",
    "breadth-first/coarse/eager": "#6baed6",
    "breadth-first/fine/lazy": "#08519c",
    "breadth-first/coarse/lazy": "#9ecae1",
    "depth-first/fine/eager": "#2ca02c",
    "depth-first/coarse/eager": "#74c476",
    "depth-first/fine/lazy": "#006d2c",
    "depth-first/coarse/lazy": "#a1d99b",
    "unstructured/fine/eager": "#e377c2",
    "unstructured/coarse/eager": "#f7b6d2",
    "unstructured/fine/lazy": "#ad1457",
    "unstructured/coarse/lazy": "#ce6dbd",
}
# What a column is called on an axis, with its unit.
AXIS_NAMES = {
    "abort_share": "share of transactions that abort",
    "busy_us": "C, µs",
    "computed_share": "share of transactions with computed keys",
    "epoch": "epoch",
    "interval": "transactions an epoch",
    "multiple_share": "share of transactions with several accesses",
    "partitions_touched": "partitions a transaction touches",
    "period": "events from one query to the next",
    "read_share": "share of reads",
    "states": "keys in each table",
    "theta": "skew θ",
    "transactions": "transactions an epoch",
    "window": "window, units of event time",
}
MORE_COLOURS = ("#17becf", "#7f7f7f", "#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02")
MARKERS = "osD^vP*X<>hd"
PNG_DOTS_PER_INCH = 140


def save(experiment: Experiment, data: Data, stem: Path) -> list[Path]:
    """Draws an experiment into `stem`.png and `stem`.svg; a tiny run, which nobody looks at, gets a rough SVG alone."""
    tiny = data.header.get("size") == "tiny"
    figure = Figure(figsize=experiment.figure_inches, layout=None if tiny else "constrained")
    experiment.draw(data, figure)
    for axes in figure.axes:
        if axes.get_yscale() == "linear" and not axes.images and axes.get_autoscaley_on():
            axes.set_ylim(bottom=None if axes.dataLim.y0 < 0 else 0.0)  # from zero, unless something is below it
    size = data.header.get("size")
    warning = "" if size == "full" else f"\n({size} run: shows that it works, not how fast)"
    width = int(experiment.figure_inches[0] * 11)  # characters that fit at this size
    figure.suptitle("\n".join(wrap(experiment.title, width)) + warning, fontsize=10)
    figure.supxlabel(footer(data), fontsize=7, color="#666666")
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in (("svg",) if tiny else ("png", "svg"))}
    with matplotlib.rc_context({"svg.hashsalt": experiment.name}):  # the same data gives the same bytes
        for kind, path in paths.items():
            metadata = {"Software": None} if kind == "png" else {"Date": None}
            figure.savefig(path, dpi=PNG_DOTS_PER_INCH, metadata=metadata)
    return list(paths.values())


def footer(data: Data) -> str:
    header = data.header
    repeats = len(data.distinct("repeat"))
    return (
        f"median of {repeats} repeat(s), band: middle half, whiskers: least and greatest; {header.get('cpu', '?')}, "
        f"{header.get('cores', '?')} cores; millrace {header.get('millrace', '?')}, seed {header.get('seed', '?')}"
    )


def colour_of(name: Any, position: int) -> str:
    return COLOURS.get(str(name), MORE_COLOURS[position % len(MORE_COLOURS)])


def lines(
    axes: Axes, data: Data, x: str, y: str, by: str = "policy", *,
    scale: float = 1.0, label: str = "", dashed: bool = False, suffix: str = "",
) -> None:  # fmt: skip
    """One line for each value of `by`."""
    for position, name in enumerate(data.distinct(by)):
        found = sorted(data.where(**{by: name}).spread(y, (x,)).items())
        if not found:
            continue
        at = [key[0] for key, _ in found]
        spreads = [spread for _, spread in found]
        middle = np.array([spread.median for spread in spreads]) * scale
        colour = colour_of(name, position)
        axes.plot(
            at, middle, color=colour, marker=MARKERS[position % len(MARKERS)], markersize=4, linewidth=1.4,
            linestyle="--" if dashed else "-", label=f"{name}{suffix}",
        )  # fmt: skip
        low, high = ([getattr(s, part) * scale for s in spreads] for part in ("low_quartile", "high_quartile"))
        axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
        ends = np.array([[s.minimum for s in spreads], [s.maximum for s in spreads]]) * scale
        axes.vlines(at, ends[0], ends[1], color=colour, linewidth=0.6, alpha=0.7)
    finish(axes, x, label or y)


def bars(
    axes: Axes, data: Data, group: str, y: str, by: str = "policy", *, scale: float = 1.0, label: str = ""
) -> None:
    """For each value of `group` a bar for each value of `by`."""
    groups, names = data.distinct(group), data.distinct(by)
    width = 0.8 / max(1, len(names))
    for position, name in enumerate(names):
        spreads = data.where(**{by: name}).spread(y, (group,))
        for place, at in enumerate(groups):
            if (at,) not in spreads:
                continue
            spread = spreads[(at,)]
            x = place - 0.4 + width * (position + 0.5)
            first = (at,) == next(iter(spreads))
            axes.bar(
                x, spread.median * scale, width * 0.92, color=colour_of(name, position),
                label=str(name) if first else None,
            )  # fmt: skip
            axes.vlines(x, spread.minimum * scale, spread.maximum * scale, color="black", linewidth=0.7)
            axes.vlines(x, spread.low_quartile * scale, spread.high_quartile * scale, color="black", linewidth=2.0)
    axes.set_xticks(range(len(groups)), [f"{at:,}" if isinstance(at, int) else str(at) for at in groups])
    finish(axes, group, label or y)


def stacked(axes: Axes, data: Data, group: str, parts: dict[str, str], *, scale: float = 1.0, label: str = "") -> None:
    """For each value of `group` the medians of the parts (column → what it is) on top of each other; whiskers: of the sum."""
    groups = data.distinct(group)
    base = np.zeros(len(groups))
    for position, (column, name) in enumerate(parts.items()):
        medians = data.medians(column, (group,))
        heights = np.array([medians.get((at,), 0.0) for at in groups]) * scale
        axes.bar(range(len(groups)), heights, 0.7, bottom=base, label=name, color=MORE_COLOURS[position])
        base += heights
    summed = Data(
        data.header, data.parameters, [{**row, "sum": sum(float(row[name]) for name in parts)} for row in data.rows]
    )
    for place, spread in enumerate(summed.spread("sum", (group,)).values()):
        axes.vlines(place, spread.minimum * scale, spread.maximum * scale, color="black", linewidth=0.7)
        axes.vlines(place, spread.low_quartile * scale, spread.high_quartile * scale, color="black", linewidth=2.0)
    axes.set_xticks(range(len(groups)), [str(at).replace("/", "/\n").replace(", ", ",\n") for at in groups])
    finish(axes, "", label)
    axes.tick_params(axis="x", labelsize=6 if len(groups) > 4 else 8)


def heat_map(
    axes: Axes, values: np.ndarray[Any, Any], rows: Sequence[str], columns: Sequence[str], *, label: str, top: float
) -> None:
    """Numbers as colours, written into their fields; `top` and beyond have the same colour."""
    image = axes.imshow(np.minimum(values, top), aspect="auto", cmap="RdYlGn_r", vmin=0.0, vmax=top)
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = value < 0.15 * top or value > 0.85 * top  # the ends of the colours
            colour = "white" if dark else "black"
            axes.text(column, row, f"{value:.0%}", ha="center", va="center", fontsize=7, color=colour)
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label=label, format=PercentFormatter(1.0))


def logarithmic(axes: Axes, data: Data, x: str) -> None:
    """A logarithmic x axis with the measured values as its ticks."""
    axes.set_xscale("log")
    places = sorted(value for value in data.distinct(x) if value > 0)
    axes.set_xticks(places, [f"{value:,}" for value in places], fontsize=7)
    axes.minorticks_off()


def finish(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Labels and a grid."""
    axes.set_xlabel(AXIS_NAMES.get(x, x), fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(True, axis="y", linewidth=0.3)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, fontsize=9)


def legend(figure: Figure) -> None:
    """One legend for all axes of a figure."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if found:
        figure.legend(
            found.values(), found.keys(), loc="outside right center", fontsize=7, frameon=False, handlelength=3.0
        )
