"""Groups of a stage that may run under policies of their own (section 8.2.3, the nested configuration).

A group is a set of whole connected components, so no edge crosses. Declared groups have equal values of the group key; those
that turn out to be connected are merged. Found groups are components with like abort histories, and the one giant component
where there is one. Aborts are remembered by key (or by group value), because components live for one epoch only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.execution.layout import Ints
from engine.planning.task_graph import TaskGraph
from engine.scheduling.choice import Stage

GROUPS_MAX = 4  # more would cut the threads too thin; declared groups beyond it are put together by their aborts
BUCKETS = 4096  # of remembered aborts: 64 kB, and few keys share one
MEMORY = 0.5  # what an epoch's aborts count for, against all before
SHARE_MIN = 0.1  # of the operations, for a group worth its own threads
GAP_MIN = 0.25  # between two groups' abort ratios, for them to be different
BINS = 20  # of abort ratios, where they are split


@dataclass(frozen=True)
class Grouping:
    """Each transaction's group, the groups' names and abort ratios, and what there is to say about them."""

    of_transaction: Ints
    names: list[str]
    abort_ratios: NDArray[np.float64]
    notes: list[str]

    @property
    def count(self) -> int:
        return len(self.names)

    def members(self, group: int) -> Ints:
        return np.flatnonzero(self.of_transaction == group)


class AbortHistory:
    """Which keys, or group values, aborted how often in earlier epochs."""

    def __init__(self) -> None:
        self.seen = np.zeros(BUCKETS)
        self.aborted = np.zeros(BUCKETS)

    def learn(self, buckets: Ints, aborted: NDArray[np.int8]) -> None:
        known = buckets >= 0
        for total, counts in ((self.seen, None), (self.aborted, aborted[known].astype(np.float64))):
            total *= 1 - MEMORY
            total += MEMORY * np.bincount(buckets[known], counts, minlength=BUCKETS)

    def ratios(self, buckets: Ints, group: Ints, groups: int, otherwise: float) -> NDArray[np.float64]:
        """The expected share of aborting transactions of each group."""
        known = buckets >= 0
        seen = np.bincount(group[known], self.seen[buckets[known]], minlength=groups)
        aborted = np.bincount(group[known], self.aborted[buckets[known]], minlength=groups)
        return np.where(seen > 0, aborted / np.maximum(seen, 1e-9), otherwise)


def buckets_of(stage: Stage) -> Ints:
    """Where each transaction's aborts are remembered: by its group value, else by its first key; -1: it has neither."""
    values = stage.group_values()
    if values is not None:
        return values % BUCKETS
    graph = stage.graph()
    operations = graph.operations
    first = operations.first[graph.first_transaction :][: graph.transactions]
    some = operations.first[graph.first_transaction + 1 :][: graph.transactions] > first
    at = np.where(some, first, 0)
    row, table = operations.row[at].astype(np.int64), graph.program.table[operations.statement[at]]
    with np.errstate(over="ignore"):
        mixed = (row * 0x9E3779B1 + table * 0x85EBCA77).astype(np.uint64) >> np.uint64(7)
    return np.where(some & (row >= 0), (mixed % np.uint64(BUCKETS)).astype(np.int64), -1)


def one_group(stage: Stage, abort_ratio: float) -> Grouping:
    """Everything together."""
    return Grouping(np.zeros(stage.transactions, np.int64), ["all"], np.array([abort_ratio]), [])


def find_groups(stage: Stage, history: AbortHistory, abort_ratio: float, split_giant: bool) -> Grouping:
    """The groups of a stage: declared ones if there are, else found by their aborts (and their size, if asked for)."""
    graph = stage.graph()
    values = stage.group_values()
    buckets = buckets_of(stage)
    notes: list[str] = []
    if values is not None:
        distinct, group = np.unique(values, return_inverse=True)
        atoms = merge_connected(group.astype(np.int64), graph.components, distinct.size)
        count = int(atoms.max()) + 1 if atoms.size else 0
        if count < distinct.size:
            notes.append(f"{distinct.size} declared groups are connected in the graph and became {count}")
        if 1 < count <= GROUPS_MAX:
            ratios = history.ratios(buckets, atoms, count, abort_ratio)
            return Grouping(atoms, [f"group {number}" for number in range(count)], ratios, notes)
    else:
        _, group = np.unique(graph.components, return_inverse=True)
        atoms = group.astype(np.int64)
        count = int(atoms.max()) + 1 if atoms.size else 0
    if count < 2:
        return one_group(stage, abort_ratio)
    weights = np.bincount(atoms, _operations_of(graph), minlength=count).astype(np.float64)
    ratios = history.ratios(buckets, atoms, count, abort_ratio)
    part, names = split_by_aborts(ratios, weights)
    if split_giant:
        part, names = _split_giant(part, names, weights)
    if len(names) < 2:
        return one_group(stage, abort_ratio)
    of_transaction = part[atoms]
    found = history.ratios(buckets, of_transaction, len(names), abort_ratio)
    return Grouping(of_transaction, names, found, notes)


def merge_connected(group: Ints, components: Ints, groups: int) -> Ints:
    """The same groups, those that share a component put together and numbered anew."""
    parent = np.arange(groups)
    # A transaction's component is named after its lowest transaction: join the groups of both.
    pairs = np.unique(np.column_stack([group, group[components]]), axis=0)
    for a, b in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    for number in range(groups):  # parents are lower, so theirs are final
        parent[number] = parent[parent[number]]
    _, merged = np.unique(parent, return_inverse=True)
    return merged.astype(np.int64)[group]


def split_by_aborts(ratios: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[Ints, list[str]]:
    """Two classes of abort ratios if they are clearly apart (Otsu's split of their histogram), else one."""
    place = np.minimum((ratios * BINS).astype(np.int64), BINS - 1)
    weight = np.bincount(place, weights, minlength=BINS)
    mass = np.bincount(place, weights * ratios, minlength=BINS)
    low, total = np.cumsum(weight)[:-1], weight.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        low_mean, high_mean = np.cumsum(mass)[:-1] / low, (mass.sum() - np.cumsum(mass)[:-1]) / (total - low)
        between = low * (total - low) * (high_mean - low_mean) ** 2
    fits = (low >= SHARE_MIN * total) & (total - low >= SHARE_MIN * total) & (high_mean - low_mean >= GAP_MIN)
    if not fits.any():
        return np.zeros(ratios.size, np.int64), ["all"]
    cut = int(np.argmax(np.where(fits, between, -1.0)))
    return (place > cut).astype(np.int64), ["few aborts", "many aborts"]


def _split_giant(part: Ints, names: list[str], weights: NDArray[np.float64]) -> tuple[Ints, list[str]]:
    """The largest component on its own, where it is a good part but not all of the work."""
    giant = int(np.argmax(weights))
    share = weights[giant] / weights.sum()
    if not SHARE_MIN <= share <= 1 - SHARE_MIN:
        return part, names
    part = part.copy()
    part[giant] = len(names)
    used, part = np.unique(part, return_inverse=True)
    scattered = ["the other components" if name == "all" else name for name in names]
    return part.astype(np.int64), [[*scattered, "the largest component"][number] for number in used]


def _operations_of(graph: TaskGraph) -> NDArray[np.float64]:
    first = graph.operations.first[graph.first_transaction :][: graph.transactions + 1]
    return np.diff(first).astype(np.float64)


def balanced_shares(graph: TaskGraph, parts: int) -> Ints | None:
    """Components dealt out to `parts` of nearly equal work: each transaction's part; None where one outweighs its share."""
    _, atoms = np.unique(graph.components, return_inverse=True)
    weights = np.bincount(atoms, _operations_of(graph))
    if weights.size < parts or weights.max() > weights.sum() / parts:
        return None
    order = np.argsort(-weights, kind="stable")
    # Back and forth like dealing cards, so that no part always gets the larger one.
    turn = np.arange(order.size) % (2 * parts)
    part = np.empty(order.size, np.int64)
    part[order] = np.where(turn < parts, turn, 2 * parts - 1 - turn)
    return part[atoms]
