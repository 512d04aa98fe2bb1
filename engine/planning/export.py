"""A task precedence graph for people to look at: its counts, as DOT, and as an SVG picture (strata from left to right)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from engine.planning.graph_kernel import FD, PD, SD, TD
from engine.planning.task_graph import EDGE_KINDS, TaskGraph

EDGE_COLOURS = {"TD": "#1f77b4", "PD": "#d62728", "SD": "#7f7f7f", "FD": "#9467bd"}
EDGE_MEANINGS = {"TD": "temporal", "PD": "parametric", "SD": "same transaction", "FD": "fence"}
COLUMN_WIDTH, ROW_HEIGHT, BOX_WIDTH, BOX_HEIGHT, MARGIN = 250, 46, 196, 30, 40
LABEL_MAX = 27  # characters that fit a box
COMMITTED, FAILED = ("#e3f1e3", "#339933"), ("#fbd5d5", "#cc3333")


@dataclass(frozen=True)
class Look:
    """How a picture looks: what is in the boxes, which operations are drawn (None: all), their colours, and what is said.

    A colour is (inside, border); `legend` names those that occur.
    """

    labels: Sequence[str] | None = None
    colours: Sequence[tuple[str, str]] | None = None
    drawn: Sequence[int] | None = None
    legend: dict[str, tuple[str, str]] = field(default_factory=dict)
    caption: str = ""


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


def part_to_draw(graph: TaskGraph, limit: int) -> tuple[list[int], str]:
    """The operations of a picture of at most so many boxes, and a sentence about what is left out."""
    count = graph.operation_count
    if count <= limit:
        return list(range(count)), f"all {count:,} operations"
    component = graph.components[graph.operations.transaction[graph.edges.base :][:count] - graph.first_transaction]
    numbers, sizes = np.unique(component, return_counts=True)
    largest = np.flatnonzero(component == numbers[np.argmax(sizes)])
    drawn = largest[:limit].tolist()
    which = "all" if largest.size <= limit else f"the first {limit}"
    return drawn, (
        f"{which} of the {largest.size:,} operations of the largest of {numbers.size:,} components; "
        f"the epoch has {count:,} operations"
    )


def _edges(graph: TaskGraph) -> list[tuple[int, int, str]]:
    return sorted(graph.edge_set())


def _label(labels: Sequence[str] | None, operation: int) -> str:
    return labels[operation] if labels is not None else f"O{operation + 1}"


def to_dot(graph: TaskGraph, labels: Sequence[str] | None = None) -> str:
    """The graph in Graphviz' language; logical dependencies are the clusters."""
    lines = ["digraph tpg {", "  rankdir=LR; node [shape=box, style=rounded];"]
    owners = graph.operations.transaction[graph.edges.base :] - graph.first_transaction
    for transaction in range(graph.transactions):
        members = np.flatnonzero(owners == transaction)
        names = " ".join(f'o{o} [label="{_label(labels, int(o))}"];' for o in members)
        lines.append(f'  subgraph cluster_{transaction} {{ label="txn {transaction + 1}"; {names} }}')
    lines += [f'  o{a} -> o{b} [label="{kind}", color="{EDGE_COLOURS[kind]}"];' for a, b, kind in _edges(graph)]
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(graph: TaskGraph, labels: Sequence[str] | None = None, failed: Sequence[bool] | None = None) -> str:
    """The graph as a picture: a box an operation (red where its transaction failed), an arrow a dependency."""
    owners = graph.operations.transaction[graph.edges.base :] - graph.first_transaction
    bad = [failed is not None and failed[int(owner)] for owner in owners[: graph.operation_count]]
    return draw(graph, Look(labels, [FAILED if each else COMMITTED for each in bad]))


def draw(graph: TaskGraph, look: Look) -> str:
    """The graph, or a part of it, as a picture with its legend."""
    drawn = list(look.drawn) if look.drawn is not None else list(range(graph.operation_count))
    edges = [edge for edge in _edges(graph) if edge[0] in set(drawn) and edge[1] in set(drawn)]
    place, columns = _places(graph, drawn, edges)
    width = max(MARGIN * 2 + len(columns) * COLUMN_WIDTH, 900)
    height = MARGIN * 2 + 110 + (max((row for _, row in place.values()), default=0) + 1) * ROW_HEIGHT
    at = {o: (MARGIN + column * COLUMN_WIDTH, MARGIN + 46 + row * ROW_HEIGHT) for o, (column, row) in place.items()}
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
        *([f'<text x="{MARGIN}" y="24" font-size="14">{escape(look.caption)}</text>'] if look.caption else []),
    ]
    for column, stratum in enumerate(columns):
        parts.append(
            f'<text x="{MARGIN + column * COLUMN_WIDTH}" y="{MARGIN + 28}" fill="#555">stratum {stratum}</text>'
        )
    parts += [_arrow(at[source], at[target], kind) for source, target, kind in edges]
    for operation, (x, y) in sorted(at.items()):
        inside, border = look.colours[operation] if look.colours is not None else COMMITTED
        text = _label(look.labels, operation)
        text = text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{inside}" stroke="{border}"/>'
            f'<text x="{x + 8}" y="{y + 19}">{escape(text)}</text>'
        )
    parts += _legend(look, height)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _places(
    graph: TaskGraph, drawn: list[int], edges: list[tuple[int, int, str]]
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """(column, row) of each operation: beside an operation it depends on where that row is free, so chains run straight."""
    strata = graph.strata
    columns = sorted({int(strata[operation]) for operation in drawn})
    number = {stratum: column for column, stratum in enumerate(columns)}
    before: dict[int, int] = {}
    for source, target, kind in edges:
        if target not in before or kind == "TD":
            before[target] = source
    place: dict[int, tuple[int, int]] = {}
    taken: set[tuple[int, int]] = set()
    for operation in sorted(drawn, key=lambda o: (int(strata[o]), o not in before, o)):
        column = number[int(strata[operation])]
        wanted = place[before[operation]][1] if operation in before else 0
        row = next(r for step in range(len(drawn) + wanted + 1) for r in (wanted + step, wanted - step)
                   if r >= 0 and (column, r) not in taken)  # fmt: skip
        place[operation] = (column, row)
        taken.add((column, row))
    return place, columns


def _arrow(source: tuple[int, int], target: tuple[int, int], kind: str) -> str:
    (x1, y1), (x2, y2) = source, target
    x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
    bend = (x2 - x1) // 2
    # An arrow along a row would hide behind the boxes between: it goes through the gap above, three quarters of this high.
    lift = -31 if y1 == y2 and x2 - x1 > COLUMN_WIDTH else 0
    return (
        f'<path d="M{x1},{y1} C{x1 + bend},{y1 + lift} {x2 - bend},{y2 + lift} {x2},{y2}" fill="none" '
        f'stroke="{EDGE_COLOURS[kind]}" marker-end="url(#{kind})"/>'
    )


def _legend(look: Look, height: int) -> list[str]:
    parts = []
    for number, (kind, colour) in enumerate(EDGE_COLOURS.items()):
        x = MARGIN + number * 160
        parts.append(
            f'<line x1="{x}" y1="{height - 24}" x2="{x + 24}" y2="{height - 24}" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{x + 30}" y="{height - 20}">{kind} {EDGE_MEANINGS[kind]}</text>'
        )
    for number, (name, (inside, border)) in enumerate(look.legend.items()):
        x = MARGIN + number * 160
        parts.append(
            f'<rect x="{x}" y="{height - 56}" width="24" height="16" rx="4" fill="{inside}" stroke="{border}"/>'
            f'<text x="{x + 30}" y="{height - 44}">{escape(name)}</text>'
        )
    return parts


assert set(EDGE_COLOURS) == set(EDGE_KINDS.values()) == set(EDGE_MEANINGS)
