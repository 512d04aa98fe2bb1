"""A look at a stage's graph for the cost model: its properties, its shapes, and how it could be parted into groups."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.execution.layout import Ints
from engine.planning.graph_kernel import FD
from engine.planning.task_graph import TaskGraph
from engine.scheduling.choice import Stage
from engine.scheduling.groups import AbortHistory, Grouping, balanced_shares, find_groups
from engine.scheduling.policy import Granularity
from engine.scheduling.prediction import Work
from engine.scheduling.profile import Profile
from engine.scheduling.properties import Properties, Shape, measure, measure_shapes


@dataclass(frozen=True)
class GroupWork:
    """One group of a partition: its name, its transactions, and what it is to run."""

    name: str
    members: Ints
    work: Work


@dataclass(frozen=True)
class Look:
    """What was seen: the whole stage as work, and partitions of it (none where there is nothing to part)."""

    properties: dict[str, Properties]
    work: Work
    partitions: list[list[GroupWork]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def look_at(
    stage: Stage,
    profile: Profile,
    history: AbortHistory,
    threads: float,
    granularities: set[Granularity],
    whole: bool,
    parted: bool,
) -> Look:
    """Measures the stage with the units of these granularities; finds properties (`whole`) and partitions if asked to."""
    graph = stage.graph()
    everything = np.zeros(stage.transactions, np.int64)
    coarse = stage.units(Granularity.COARSE) if Granularity.COARSE in granularities else None
    shapes = _shapes(stage, graph, everything, [threads], granularities)[0]
    fenced = min(1.0, graph.count(FD) / max(1, stage.operations))
    work = Work(stage.operations, stage.transactions, profile.abort_ratio, threads, shapes, fenced)
    look = Look({}, work)
    if parted and threads >= 2:
        grouping = find_groups(stage, history, profile.abort_ratio, split_giant=True)
        look.notes.extend(grouping.notes)
        if 1 < grouping.count <= threads:
            look.partitions.append(_partition(stage, graph, grouping, threads, granularities))
            if whole:
                each = measure(
                    graph, grouping.of_transaction, grouping.count, profile.complexity_us, grouping.abort_ratios, coarse
                )
                look.properties.update(zip(grouping.names, each, strict=True))
        shares = balanced_shares(graph, int(threads))
        if shares is not None:
            names = [f"share {number}" for number in range(int(threads))]
            ratios = np.full(len(names), profile.abort_ratio)
            look.partitions.append(_partition(stage, graph, Grouping(shares, names, ratios, []), threads, set()))
    if whole and not look.properties:
        look.properties["all"] = measure(
            graph, everything, 1, profile.complexity_us, np.array([profile.abort_ratio]), coarse
        )[0]
    return look


def _partition(
    stage: Stage, graph: TaskGraph, grouping: Grouping, threads: float, granularities: set[Granularity]
) -> list[GroupWork]:
    first = graph.operations.first[graph.first_transaction :][: graph.transactions + 1]
    sizes = np.bincount(grouping.of_transaction, np.diff(first), minlength=grouping.count)
    dealt = deal_threads(sizes.tolist(), int(threads))
    shapes = _shapes(stage, graph, grouping.of_transaction, dealt, granularities)
    return [
        GroupWork(
            name,
            members := grouping.members(number),
            Work(int(sizes[number]), members.size, float(grouping.abort_ratios[number]), dealt[number], shapes[number]),
        )
        for number, name in enumerate(grouping.names)
    ]


def _shapes(
    stage: Stage, graph: TaskGraph, group: Ints, threads: list[float], granularities: set[Granularity]
) -> list[dict[Granularity, Shape]]:
    shapes: list[dict[Granularity, Shape]] = [{} for _ in threads]
    for granularity in sorted(granularities):
        for number, shape in enumerate(measure_shapes(graph, stage.units(granularity), group, threads)):
            shapes[number][granularity] = shape
    return shapes


def deal_threads(sizes: list[float], threads: int) -> list[float]:
    """As the executor deals them: one each, then to whoever has most for its threads."""
    counts = [1.0] * len(sizes)
    for _ in range(threads - len(sizes)):
        busiest = max(range(len(sizes)), key=lambda g: sizes[g] / counts[g])
        counts[busiest] += 1
    return counts
