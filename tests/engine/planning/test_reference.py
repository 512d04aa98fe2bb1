"""The engine's planner against the readable reference: the same graph, whatever the application and order of arrival."""

from collections import Counter
from collections.abc import Iterator

import pytest

from engine import Application
from engine.planning.reference import ReferenceGraph
from services.verify.generator import APPLICATIONS, generate_application
from services.verify.streams import Stream, generate_epochs
from tests.engine.planning.graphs import Fires, Planned, Vertex, as_columns, planned_events, refer, run_and_catch

QUICK = range(0, APPLICATIONS, 7)  # `make check` takes these, `make test` all


def references(app: Application, stream: Stream, seed: int) -> Iterator[ReferenceGraph]:
    """The reference's graph of each epoch's first stage."""
    fires = Fires(app)
    for epoch in stream.epochs:
        events = planned_events(app, epoch.number, epoch.events) + fires.until(epoch.punctuation_ts, epoch.events)
        yield refer(app, events, seed)


def assert_same(app: Application, where: str, planned: Planned | None, reference: ReferenceGraph) -> None:
    if planned is None:
        assert reference.operations == [], where
        return
    graph = planned.graph
    assert planned.vertices == vertices_of(app, reference), where
    assert graph.transactions == reference.transactions, where
    assert graph.edge_set() == reference.edges, where
    assert graph.logical_dependencies == len(reference.logical_dependencies), where
    assert graph.components.tolist() == reference.components(), where
    assert graph.strata.tolist() == reference.strata(), where
    assert planned.chains == reference.chains, where
    assert set(planned.units) == set(reference.units()), where
    assert planned.coarse.merged_cycles == len(reference.cycles()), where


def vertices_of(app: Application, reference: ReferenceGraph) -> list[Vertex]:
    """The reference's operations as the engine's are told."""
    owner = {id(s): template.record_type for template in app.templates.values() for s in template.statements}
    return [
        (
            transaction,
            owner[id(o.statement)],
            o.statement.index,
            o.table,
            o.key[0] if o.key and len(o.key) == 1 else o.key,
        )
        for transaction, o in zip(reference.transaction_of, reference.operations, strict=True)
    ]


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in range(APPLICATIONS)]
)
def test_the_planner_agrees_with_the_reference(number: int) -> None:
    app, _ = generate_application(number)
    for seed in (number, 1000 + number):
        stream = generate_epochs(app, seed)
        columns = [as_columns(epoch.number, epoch.punctuation_ts, epoch.events) for epoch in stream.epochs]
        runs = run_and_catch(app, stream.tables, columns)
        for epoch, (run, reference) in enumerate(zip(runs, references(app, stream, seed), strict=True)):
            where = f"{app.name}, stream seed {seed}, epoch {epoch} ({stream.description})"
            assert_same(app, where, run.planned, reference)


def test_what_the_planner_is_compared_on_is_not_tame() -> None:
    """Every kind of edge, cycles, fences and several components occur in the quick part already."""
    seen: Counter[str] = Counter()
    for number in QUICK:
        app, _ = generate_application(number)
        for reference in references(app, generate_epochs(app, number), number):
            seen.update(kind for _, _, kind in reference.edges)
            seen["cycles"] += len(reference.cycles())
            seen["fences"] += sum(operation.statement.is_fence for operation in reference.operations)
            seen["apart"] += len(set(reference.components())) > 1
    assert all(seen[what] >= 5 for what in ("TD", "PD", "SD", "FD", "cycles", "fences", "apart")), seen
