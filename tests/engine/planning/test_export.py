"""The graph for people: counts, DOT and SVG are well formed and leave nothing out."""

# mypy: ignore-errors

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from engine.planning.export import EDGE_COLOURS, describe, to_dot, to_svg
from tests.engine.planning.cells import LOADED, A, B, C, at, between, cells, gather
from tests.engine.planning.graphs import plan_by_hand

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def graph():
    """All kinds of edges: 0 sets A; 1, 2 move A to B; 3, 4 write C twice; 5 gathers B and C into A; 6 is a fence; 7 sets B."""
    sent = [at("Set", A), between("Move", A, B), at("Twice", C), gather([B, C], A), at("Jump", 0), at("Set", B)]
    return plan_by_hand(cells, *sent, tables={"cells": LOADED}).graph


def test_the_counts(graph):
    kinds = Counter(kind for _, _, kind in graph.edge_set())
    assert kinds == {"TD": 3, "PD": 3, "SD": 1, "FD": 7}
    whole = {"operations": 8, "transactions": 6, "LD": 2, "strata": 5, "widest_stratum": 3, "components": 1}
    assert describe(graph) == {**whole, **kinds}


def test_dot_has_every_operation_in_its_transaction_and_every_edge(graph):
    text = to_dot(graph)
    assert text.startswith("digraph tpg {") and text.endswith("}\n")
    assert text.count("{") == text.count("}") and text.count('"') % 2 == 0
    clusters = [re.findall(r"\bo(\d+) \[label=", line) for line in text.splitlines() if "subgraph cluster_" in line]
    assert [[int(name) for name in cluster] for cluster in clusters] == [[0], [1, 2], [3, 4], [5], [6], [7]]
    found = re.findall(r"^  o(\d+) -> o(\d+) \[label=\"(\w\w)\", color=\"#[0-9a-f]{6}\"\];$", text, re.MULTILINE)
    assert {(int(a), int(b), kind) for a, b, kind in found} == graph.edge_set()
    assert len(found) == len(graph.edge_set())


def test_svg_has_a_box_for_every_operation_and_an_arrow_for_every_edge(graph):
    root = ElementTree.fromstring(to_svg(graph))
    assert root.tag == f"{SVG}svg"
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert [word for word in words if re.fullmatch(r"O\d+", word)] == [f"O{number}" for number in range(1, 9)]
    assert [word for word in words if word.startswith("stratum")] == [f"stratum {number}" for number in range(5)]
    arrows = [path.get("marker-end") for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert Counter(arrows) == Counter(f"url(#{kind})" for _, _, kind in graph.edge_set())
    assert {marker.get("id") for marker in root.iter(f"{SVG}marker")} == set(EDGE_COLOURS)
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("rx")]
    assert len({(box.get("x"), box.get("y")) for box in boxes}) == len(boxes) == 8
    width, height = int(root.get("width")), int(root.get("height"))
    assert all(0 <= int(box.get("x")) < width and 0 <= int(box.get("y")) < height for box in boxes)


def test_labels_and_failures_are_shown(graph):
    labels = [f'<{number}> & "quoted"' for number in range(8)]
    root = ElementTree.fromstring(to_svg(graph, labels, failed=[False, True, False, False, False, False]))
    assert set(labels) <= {text.text for text in root.iter(f"{SVG}text")}
    colours = Counter(box.get("fill") for box in root.iter(f"{SVG}rect") if box.get("rx"))
    assert sorted(colours.values()) == [2, 6]  # both operations of the failed transaction, and the others


def test_a_fence_is_one_vertex_in_every_picture(graph):
    """Operation 6 may go to any of ten cells; it is one box, with one arrow for each write before it."""
    assert {edge for edge in graph.edge_set() if edge[1] == 6} == {(write, 6, "FD") for write in range(6)}
    assert to_dot(graph).count('o6 [label="O7"]') == 1
    assert to_svg(graph).count(">O7<") == 1
