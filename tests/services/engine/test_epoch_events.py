"""Copies of events in chunks that overlap: the first place wins, as a few lines of plain Python say, whatever the columns."""

import numpy as np
import pytest

from engine import Application, Engine, float64, int64, list_of, udf
from engine.state.columns import ListColumn
from schemas.application import event_chunk_schema
from services.codec import ChunkDecoder, ChunkEncoder
from services.codec.columns import column_items
from services.engine.command import schema_ids
from services.engine.epoch_events import gather, gather_first_copies
from services.engine.facts import Place
from services.engine.wire import Wire, schemas_of


@pytest.fixture(scope="module")
def parts():
    app = Application("copies")
    cells = app.table("cells", key=int, value={"total": int64})
    app.event("Add", {"cell": int64, "weight": float64, "name": str, "more": list_of(int64)})
    app.event("Clear", {"cell": int64})

    @udf
    def bump(cell, event):
        cell.total += 1
        return True

    @app.transaction("Add")
    def adding(txn, event):
        txn.write(cells[event.cell], bump)

    @app.transaction("Clear")
    def clearing(txn, event):
        txn.write(cells[event.cell], bump)

    schema = event_chunk_schema(app)
    wire = Wire(app, schema_ids(None, schemas_of(app)))
    with Engine(app, threads=1, policy="serial") as engine:
        yield engine, wire, ChunkEncoder(schema), ChunkDecoder(schema)


def make_event(chance: np.random.Generator, seq: int):
    """An event; of few values, so that copies are equal or not."""
    if chance.random() < 0.3:
        return "Clear", {"seq": seq, "ts": 5, "cell": int(chance.integers(0, 2))}
    weight = [0.0, -0.0, float("nan"), 1.5][chance.integers(0, 4)]
    more = [1] * int(chance.integers(0, 2))
    return "Add", {
        "seq": seq,
        "ts": 5,
        "cell": 1,
        "weight": weight,
        "name": "xy"[: chance.integers(1, 3)],
        "more": more,
    }


def encode(encoder, source, number, events):
    columns = {}
    for record_type in dict(events):
        mine = [event for name, event in events if name == record_type]
        given = {name: [event[name] for event in mine] for name in mine[0]}
        offsets = np.cumsum([0, *map(len, given.get("more", []))])
        flat = np.array([item for items in given.get("more", []) for item in items], np.int64)
        columns[record_type] = {
            name: np.array(values) if name not in ("name", "more") else values for name, values in given.items()
        }
        if "more" in given:
            columns[record_type]["more"] = ListColumn(flat, offsets)
    return encoder.encode(source, 0, number, columns)


@pytest.mark.parametrize("seed", range(30))
def test_row_08_the_copy_at_the_first_place_wins_and_others_are_duplicates_or_conflicts(parts, seed):
    engine, wire, encoder, decoder = parts
    chance = np.random.default_rng(seed)
    chunks, expected, duplicates, conflicts = [], {}, 0, set()
    for number in range(int(chance.integers(1, 6))):
        source, place = int(chance.integers(0, 2)), Place(0, number * 3)
        seqs = chance.permutation(8)[: chance.integers(1, 8)]
        events = sorted((make_event(chance, int(seq)) for seq in seqs), key=lambda each: each[0])
        chunks.append((place, decoder.decode(encode(encoder, source, number, events))))
        for record_type, event in events:
            said = record_type, repr(event)
            if expected.setdefault((source, event["seq"]), said) == said:
                continue
            conflicts.add((place, source, event["seq"]))
    duplicates = sum(chunk.events for _, chunk in chunks) - len(expected) - len(conflicts)

    gathered = gather_first_copies(engine, wire.events, 0, 10, chunks)
    assert gathered.duplicates == duplicates
    assert {(c.place, c.source, seq) for c in gathered.conflicts for seq in c.seqs} == conflicts
    found = {}
    for batch in gathered.epoch.arrived:
        names = [name for name in ("seq", "ts", *batch.template.event.fields)]
        columns = [column_items(getattr(batch, n) if n in ("seq", "ts") else batch.columns[n]) for n in names]
        for source, *values in zip(batch.source.tolist(), *columns, strict=True):
            event = dict(zip(names, values, strict=True))
            found[source, event["seq"]] = batch.template.record_type, repr(event)
    assert found == expected


def test_without_copies_both_ways_give_the_same(parts):
    engine, wire, encoder, decoder = parts
    events = [("Clear", {"seq": seq, "ts": 5, "cell": seq}) for seq in range(4)]
    chunks = [(Place(0, 0), decoder.decode(encode(encoder, 0, 0, events)))]
    ways = gather(engine, 0, 10, chunks), gather_first_copies(engine, wire.events, 0, 10, chunks)
    seqs = [[batch.seq.tolist() for batch in way.epoch.arrived] for way in ways]
    assert seqs[0] == seqs[1] == [[0, 1, 2, 3]] and (ways[1].duplicates, ways[1].conflicts) == (0, [])
    assert gather_first_copies(engine, wire.events, 1, 10, []).epoch.arrived == ()
