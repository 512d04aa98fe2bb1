"""The graphs that the engine's planner builds, caught while it runs, and the same events for the reference planner.

`run_and_catch` is the only place that knows how an engine hands out its graph.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from engine import Application, Engine, Epoch, Policy
from engine.execution.layout import Ints
from engine.execution.shared import share
from engine.planning.chain_kernel import assign_chains
from engine.planning.reference import PlannedEvent, Planner, ReferenceGraph
from engine.planning.task_graph import TaskGraph
from engine.result import EpochResult
from engine.scheduling.policy import Granularity
from engine.scheduling.units import UnitGraph, build_units
from services.verify.checked_values import Fault, Record, executable, plain, stored
from services.verify.oracle import Event, random_of

Records = Mapping[Any, Mapping[str, Any]]
Vertex = tuple[int, str, int, str | None, Any]  # transaction, record type, statement, table, key


@dataclass(frozen=True)
class Planned:
    """What the engine planned for the first stage of an epoch."""

    graph: TaskGraph
    vertices: list[Vertex]
    chains: list[list[int]]
    fine: UnitGraph
    coarse: UnitGraph

    @property
    def units(self) -> list[frozenset[int]]:
        """The operations of each coarse unit."""
        return members(self.coarse)


@dataclass(frozen=True)
class Run:
    """One epoch: None is planned where the first stage has no operation."""

    planned: Planned | None
    result: EpochResult


def members(graph: UnitGraph) -> list[frozenset[int]]:
    begin, member = graph.units.member_begin.tolist(), graph.units.member.tolist()
    return [frozenset(member[a:b]) for a, b in pairwise(begin)]


def run_and_catch(app: Application, tables: Mapping[str, Records], epochs: list[Epoch]) -> Iterator[Run]:
    """Runs the epochs one after another on one engine, with each epoch's first-stage graph."""
    caught: list[Planned] = []

    def choose(operations: int, graph: Callable[[], TaskGraph]) -> list[tuple[Policy, Ints | None]]:
        if graph().first_transaction == 0:
            caught.append(_planned(engine, graph()))
        return [(Policy(), None)]

    with Engine(app, threads=1, policy=choose) as engine:
        for table, records in tables.items():
            if records:
                fields = next(iter(records.values()))
                engine.load(table, list(records), {name: [r[name] for r in records.values()] for name in fields})
        for epoch in epochs:
            caught.clear()
            result = engine.run_epoch(epoch)
            yield Run(caught[0] if caught else None, result)


def _planned(engine: Engine, graph: TaskGraph) -> Planned:
    vertices: list[Vertex] = []
    for number in range(graph.operation_count):
        template, statement = engine.program.statements[int(graph.operations.statement[number])]
        table = statement.access.table.name if statement.access is not None else None
        row = int(graph.operations.row[number])
        key = engine.store.table(table).index.key_of(row) if table is not None and row >= 0 else None
        transaction = int(graph.operations.transaction[number])
        vertices.append((transaction, template.record_type, statement.index, table, key))
    fine, coarse = (
        build_units(g, graph.program, graph.tables, graph.operations, graph.edges, graph.operation_count)
        for g in (Granularity.FINE, Granularity.COARSE)
    )
    return Planned(graph, vertices, _chains(graph), fine, coarse)


def _chains(graph: TaskGraph) -> list[list[int]]:
    """The operations of each chain, in the order of their first ones."""
    chain = np.empty(graph.operation_count, np.int64)
    shared = share(graph.program), share(graph.tables), share(graph.operations)
    count = assign_chains(*shared, graph.edges.base, graph.edges.base + graph.operation_count, chain)
    return [np.flatnonzero(chain == number).tolist() for number in range(count)]


def plan_by_hand(
    app: Application, *sent: tuple[str, dict[str, Any]], tables: Mapping[str, Records] | None = None
) -> Planned:
    """The graph of an epoch of one source, whose events come one time unit after another."""
    events: list[Event] = [(name, ts, 0, ts, fields) for ts, (name, fields) in enumerate(sent)]
    (run,) = run_and_catch(app, tables or {}, [as_columns(0, len(events), events)])
    assert run.planned is not None
    return run.planned


def as_columns(number: int, punctuation_ts: int, events: list[Event]) -> Epoch:
    columns: dict[str, dict[str, list[Any]]] = {}
    for record_type, ts, source, seq, fields in events:
        for name, value in {"ts": ts, "source": source, "seq": seq, **fields}.items():
            columns.setdefault(record_type, {}).setdefault(name, []).append(value)
    return Epoch(number, punctuation_ts, columns)


def refer(app: Application, events: list[PlannedEvent], seed: int) -> ReferenceGraph:
    """The reference's graph of these events, which arrive shuffled."""
    planner = Planner(app.templates)
    for event in random.Random(seed).sample(events, len(events)):
        planner.add(event)
    return planner.punctuate()


def planned_events(app: Application, epoch_number: int, events: list[Event]) -> list[PlannedEvent]:
    """The epoch's events that become transactions: derived columns added, those filtered or failed on the way left out."""
    found = []
    for record_type, ts, source, seq, fields in events:
        template = app.templates[record_type]
        values = {**fields, "ts": ts, "random": random_of(source, epoch_number, seq)}
        known = {name: kind for name, kind in template.event_fields.items() if name in values}
        try:
            for name, function in template.derive:
                kind = template.event_fields[name]
                values[name] = plain(stored(kind, executable(function)(Record(known, values))))
                known[name] = kind
            if template.filter is not None and executable(template.filter)(Record(known, values)) is False:
                continue
        except Fault:
            continue
        found.append(PlannedEvent(record_type, ts, source, seq, values))
    return found


class Fires:
    """The self-firing transactions of a stream: at each multiple of the period after the first event ever."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.begin: int | None = None
        self.fired_until = 0

    def until(self, punctuation_ts: int, events: list[Event]) -> list[PlannedEvent]:
        if self.begin is None and events:
            self.begin = self.fired_until = min(ts for _, ts, *_ in events)
        if self.begin is None:
            return []
        due = range(self.fired_until + 1, punctuation_ts + 1)
        self.fired_until = max(self.fired_until, punctuation_ts)
        return [
            PlannedEvent(template.record_type, ts, -1, position, {})
            for position, template in enumerate(self.app.templates.values())
            if template.period
            for ts in due
            if ts % template.period == 0
        ]
