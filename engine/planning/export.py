"""A task precedence graph for people to look at: its counts, as DOT, and as an SVG picture (strata from left to right)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from engine.planning.graph_kernel import FD, PD, SD, TD
from engine.planning.task_graph import EDGE_KINDS, TaskGraph

EDGE_COLOURS = {"TD": "#1f77b4", "PD": "#d62728", "SD": "#7f7f7f", "FD": "#9467bd"}
COLUMN_WIDTH, ROW_HEIGHT, BOX_WIDTH, BOX_HEIGHT, MARGIN = 190, 46, 140, 30, 40


def describe(graph: TaskGraph) -> dict[str, int]:
    """Counts of the graph as a whole."""
    strata = graph.strata
    return {
        "operations": graph.operation_count,
        "transactions": graph.transactions,
        "TD": graph.count(TD),
        "PD": graph.count(PD),
        "LD": graph.logical_dependencies,
        "SD": graph.count(SD),
        "FD": graph.count(FD),
        "strata": int(strata.max()) + 1 if strata.size else 0,
        "widest_stratum": int(np.bincount(strata).max()) if strata.size else 0,
        "components": int(np.unique(graph.components).size),
    }


def _edges(graph: TaskGraph) -> list[tuple[int, int, str]]:
    return sorted(graph.edge_set())


def _label(graph: TaskGraph, labels: Sequence[str] | None, operation: int) -> str:
    return labels[operation] if labels is not None else f"O{operation + 1}"


def to_dot(graph: TaskGraph, labels: Sequence[str] | None = None) -> str:
    """The graph in Graphviz' language; logical dependencies are the clusters."""
    lines = ["digraph tpg {", "  rankdir=LR; node [shape=box, style=rounded];"]
    owners = graph.operations.transaction[graph.edges.base :] - graph.first_transaction
    for transaction in range(graph.transactions):
        members = np.flatnonzero(owners == transaction)
        names = " ".join(f'o{o} [label="{_label(graph, labels, int(o))}"];' for o in members)
        lines.append(f'  subgraph cluster_{transaction} {{ label="txn {transaction + 1}"; {names} }}')
    lines += [f'  o{a} -> o{b} [label="{kind}", color="{EDGE_COLOURS[kind]}"];' for a, b, kind in _edges(graph)]
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(graph: TaskGraph, labels: Sequence[str] | None = None, failed: Sequence[bool] | None = None) -> str:
    """The graph as a picture: a box an operation (red where its transaction failed), an arrow a dependency."""
    strata = graph.strata
    owners = graph.operations.transaction[graph.edges.base :] - graph.first_transaction
    place: dict[int, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for operation, stratum in enumerate(strata.tolist()):
        row = filled.get(stratum, 0)
        filled[stratum] = row + 1
        place[operation] = (MARGIN + stratum * COLUMN_WIDTH, MARGIN + 30 + row * ROW_HEIGHT)
    width = MARGIN * 2 + (int(strata.max()) + 1 if strata.size else 1) * COLUMN_WIDTH
    height = MARGIN * 2 + 60 + max(filled.values(), default=1) * ROW_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        "<defs>",
        *(
            f'<marker id="{kind}" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
            f'<path d="M0,0 L7,3 L0,6 z" fill="{colour}"/></marker>'
            for kind, colour in EDGE_COLOURS.items()
        ),
        "</defs>",
    ]
    for stratum in sorted(filled):
        x = MARGIN + stratum * COLUMN_WIDTH
        parts.append(f'<text x="{x}" y="{MARGIN}" fill="#555">stratum {stratum}</text>')
    for source, target, kind in _edges(graph):
        (x1, y1), (x2, y2) = place[source], place[target]
        x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
        bend = (x2 - x1) // 2
        parts.append(
            f'<path d="M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}" fill="none" '
            f'stroke="{EDGE_COLOURS[kind]}" marker-end="url(#{kind})"/>'
        )
    for operation, (x, y) in place.items():
        bad = failed is not None and failed[int(owners[operation])]
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
            f'fill="{"#fbd5d5" if bad else "#e3f1e3"}" stroke="{"#c33" if bad else "#393"}"/>'
            f'<text x="{x + 8}" y="{y + 19}">{escape(_label(graph, labels, operation))}</text>'
        )
    for number, (kind, colour) in enumerate(EDGE_COLOURS.items()):
        meaning = {"TD": "temporal", "PD": "parametric", "SD": "same transaction", "FD": "fence"}[kind]
        x = MARGIN + number * 160
        parts.append(
            f'<line x1="{x}" y1="{height - 24}" x2="{x + 24}" y2="{height - 24}" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{x + 30}" y="{height - 20}">{kind} {meaning}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


assert set(EDGE_COLOURS) == set(EDGE_KINDS.values())
