"""Single Avro records become rows of every type that an event may hold."""

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from engine import Application
from engine.state.columns import ListColumn, StringColumn
from millrace import boolean, float64, int64, list_of, vector
from schemas.application import record_schemas
from services.codec import compile_codec
from services.engine.command import load_application
from services.settings import Settings
from spark_jobs.messages import Target, known_ids
from spark_jobs.rows import PLACE, TS, TYPE, _decoded, field_types

SHAPES = [
    {"name": "háló", "sides": 3, "area": 0.5, "round": False, "corner": [1.0, -2.0], "notes": ["a", ""], "marks": []},
    {"name": "", "sides": -1, "area": -0.0, "round": True, "corner": [0.0, 9.0], "notes": [], "marks": [7, 8]},
]


def build() -> Application:
    app = Application("all-shapes")
    app.event(
        "Shape",
        {"name": str, "sides": int64, "area": float64, "round": boolean, "corner": vector(float64, 2),
         "notes": list_of(str), "marks": list_of(int64)},
    )  # fmt: skip
    app.event("Plain", {"sides": int64})
    shapes = app.table("shapes", key=int, value={"seen": int64})

    @app.transaction("Shape")
    def shape(txn, event):
        txn.read(shapes[event.sides])

    @app.transaction("Plain")
    def plain(txn, event):
        txn.read(shapes[event.sides])

    return app


def framed(wire, record_type, columns):
    codec = compile_codec(record_schemas(wire.application)[record_type])
    return [wire.frame(f"record.{record_type}", body) for body in codec.encode(columns).tolist()]


def test_records_of_several_types_become_rows():
    name = "tests.spark_jobs.test_rows:build"
    app = load_application(name)
    target = Target(name, known_ids(Settings(), app), 1)
    columns = {name: np.array([item[name] for item in SHAPES]) for name in ("sides", "area", "round", "corner")}
    columns |= {
        "ts": np.array([4, 2]),
        "name": StringColumn.from_strings([item["name"] for item in SHAPES]),
        "notes": ListColumn(StringColumn.from_strings(SHAPES[0]["notes"]), np.array([0, 2, 2])),
        "marks": ListColumn(np.array(SHAPES[1]["marks"]), np.array([0, 0, 2])),
    }
    first, second = framed(target.wire, "Shape", columns)
    (plain,) = framed(target.wire, "Plain", {"ts": np.array([3]), "sides": np.array([8])})
    partition = pa.array([0, 1, 0], pa.int64())
    messages = pa.RecordBatch.from_pydict(
        {"topic": ["t"] * 3, "partition": partition, "offset": [5, 6, 7], "value": [first, plain, second]}
    )
    types = {TYPE: T.StringType(), TS: T.LongType(), PLACE[0]: T.StringType(), PLACE[1]: T.LongType(),
             PLACE[2]: T.LongType(), **field_types(app, None)}  # fmt: skip
    schema = to_arrow_schema(T.StructType([T.StructField(each, kind) for each, kind in types.items()]))
    rows = [row for batch in _decoded(target, messages, schema) for row in batch.to_pylist()]
    path, block, row = PLACE
    assert rows == [
        {TYPE: "Shape", TS: 4, path: "t", block: 0, row: 5, **SHAPES[0]},
        {TYPE: "Shape", TS: 2, path: "t", block: 0, row: 7, **SHAPES[1]},
        {TYPE: "Plain", TS: 3, path: "t", block: 1, row: 6, **dict.fromkeys(SHAPES[0]), "sides": 8},
    ]
