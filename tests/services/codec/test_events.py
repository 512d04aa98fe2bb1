"""An application's chunks: declared, written with types interleaved, read into columns, run by the engine."""

import io
import json
import zlib
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from engine.api.application import Application
from engine.api.types import BOOLEAN, FLOAT64, INT64, list_of, vector
from engine.engine import Engine
from engine.errors import DeclarationError
from engine.functions.udf import udf
from schemas import NAMES, load
from schemas.application import (
    check_event_schemas,
    committed_schema,
    event_chunk_schema,
    event_schemas,
    read_event_schemas,
    result_schemas,
)
from services.apps.streaming_ledger import build
from services.codec.chunks import ChunkCodec
from services.codec.codec import compile_codec
from services.codec.errors import EncodeError
from services.codec.events import ChunkDecoder, ChunkEncoder, checksum
from services.codec.tree import expand, parse

KINDS = np.array([0, 1, 1, 0, 1])
COLUMNS: dict[str, dict[str, Any]] = {
    "Deposit": {
        "seq": np.array([0, 3]), "ts": np.array([10, 13]), "account": np.array([1, 2]), "asset": np.array([1, 2]),
        "amount": np.array([100, 50]),
    },
    "Transfer": {
        "seq": np.array([1, 2, 4]), "ts": np.array([11, 12, 14]), "sender_account": np.array([1, 9, 2]),
        "sender_asset": np.array([1, 9, 2]), "receiver_account": np.array([2, 1, 1]),
        "receiver_asset": np.array([2, 1, 1]), "amount": np.array([30, 5, 60]),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def ledger() -> Application:
    return build()


def test_every_file_is_an_avro_schema() -> None:
    for name in NAMES:
        assert expand(load(name))["type"] == "record"


def test_interleaved_types_are_written_as_fastavro_writes_them(ledger: Application) -> None:
    schema = event_chunk_schema(ledger)
    encoder = ChunkEncoder(schema)
    assert encoder.record_types == ("Deposit", "Transfer")
    body = encoder.encode(7, 3, 1, COLUMNS, KINDS)
    rows = {
        name: [dict(zip(c, values, strict=True)) for values in zip(*c.values(), strict=True)]
        for name, c in COLUMNS.items()
    }
    order = [
        ("millrace.streaming_ledger." + n, rows[n].pop(0)) for n in np.array(["Deposit", "Transfer"])[KINDS].tolist()
    ]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parse(schema), {"source": 7, "epoch": 3, "chunk": 1, "events": order})
    assert body == out.getvalue()


def test_chunks_go_through_the_engine(ledger: Application) -> None:
    schema = event_chunk_schema(ledger)
    body = ChunkEncoder(schema).encode(7, 3, 1, COLUMNS, KINDS)
    chunk = ChunkDecoder(schema).decode(memoryview(body))
    assert (chunk.source, chunk.epoch, chunk.chunk, chunk.events, chunk.kinds.tolist()) == (7, 3, 1, 5, KINDS.tolist())
    engine = Engine(ledger)
    epoch = engine.open_epoch(3)
    for record_type, columns in chunk.batches():
        epoch.add(record_type, columns)
    result = engine.run_epoch(epoch.close(20))
    assert (result.committed, result.failed) == (4, 1)
    assert ChunkEncoder(schema).encode(7, 3, 1, chunk.columns, chunk.kinds) == body


def test_a_chunk_without_events(ledger: Application) -> None:
    schema = event_chunk_schema(ledger)
    chunk = ChunkDecoder(schema).decode(ChunkEncoder(schema).encode(1, 2, 3, {}))
    assert (chunk.events, list(chunk.batches())) == (0, [])


@pytest.mark.parametrize(
    ("columns", "kinds", "sentence"),
    [
        (COLUMNS, np.array([0, 1]), "kinds has 1 rows of Deposit, its columns have 2"),
        (COLUMNS, np.array([0, 2]), "kinds are from 0 to 1, found 0 to 2"),
        ({"Loan": {}}, None, "EventChunk has no record type Loan; it has Deposit, Transfer"),
        (
            {"Deposit": COLUMNS["Deposit"] | {"amount": np.array([1.5, 2])}},
            None,
            "Deposit: column 'amount' is an array of float64",
        ),
        ({"Deposit": COLUMNS["Deposit"] | {"more": np.array([1, 2])}}, None, "Deposit has no field 'more'"),
        ({"Deposit": COLUMNS["Deposit"] | {"amount": np.array([1])}}, None, "column 'amount' has 1 rows, expected 2"),
        ({"Deposit": {"seq": np.array([1])}}, None, "column 'ts' is missing"),
    ],
)
def test_columns_that_do_not_fit(ledger: Application, columns: Any, kinds: Any, sentence: str) -> None:
    with pytest.raises(EncodeError, match=sentence.replace("'", ".")):
        ChunkEncoder(event_chunk_schema(ledger)).encode(1, 1, 1, columns, kinds)


def wide_application() -> Application:
    app = Application("wide-types")
    table = app.table("cells", key=str, value={"total": INT64})
    app.event(
        "Odd-Name",
        {
            "key": str,
            "share": FLOAT64,
            "flag": BOOLEAN,
            "names": list_of(str),
            "numbers": list_of(INT64),
            "at": vector(FLOAT64, 3),
        },
    )

    @udf
    def add(cell: Any, event: Any) -> bool:
        cell.total += 1
        return True

    @udf
    def out(output: Any, event: Any, cell: Any) -> bool:
        output.total = cell.total
        output.place[0] = 1.0
        return True

    @app.transaction("Odd-Name", output={"total": INT64, "place": vector(FLOAT64, 2)})
    def touch(txn: Any, event: Any) -> None:
        cell = table[event.key]
        txn.write(cell, add)
        txn.output(out, reads=[cell])

    return app


@pytest.fixture(scope="module")
def wide() -> Application:
    return wide_application()


def test_every_declared_type_has_a_schema(wide: Application) -> None:
    schema = event_schemas(wide)["Odd-Name"]
    assert (schema["name"], schema["millrace.type"], schema["namespace"]) == (
        "Odd_Name",
        "Odd-Name",
        "millrace.wide_types",
    )
    assert [(field["name"], field["type"]) for field in schema["fields"]] == [
        ("seq", "long"),
        ("ts", "long"),
        ("key", "string"),
        ("share", "double"),
        ("flag", "boolean"),
        ("names", {"type": "array", "items": "string"}),
        ("numbers", {"type": "array", "items": "long"}),
        ("at", {"type": "array", "items": "double", "millrace.length": 3}),
    ]


def test_every_declared_type_reaches_the_engine(wide: Application) -> None:
    schema = event_chunk_schema(wide)
    columns = {
        "seq": np.array([0, 1]), "ts": np.array([5, 6]), "key": ["é", "b"], "share": np.array([0.5, -1.0]),
        "flag": np.array([True, False]), "names": _lists(["x", "y", "z"], [0, 1, 3]),
        "numbers": _lists(np.array([4]), [0, 0, 1]), "at": np.arange(6.0).reshape(2, 3),
    }  # fmt: skip
    chunk = ChunkDecoder(schema).decode(ChunkEncoder(schema).encode(0, 1, 0, {"Odd-Name": columns}))
    found = dict(chunk.batches())["Odd-Name"]
    assert found["at"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]  # type: ignore[union-attr]
    engine = Engine(wide)
    epoch = engine.open_epoch(1)
    epoch.add("Odd-Name", found)
    assert engine.run_epoch(epoch.close(9)).committed == 2


def _lists(values: Any, offsets: list[int]) -> Any:
    from engine.state.columns import ListColumn, StringColumn

    return ListColumn(StringColumn.from_strings(values) if isinstance(values, list) else values, np.array(offsets))


def test_results_have_schemas_too(wide: Application) -> None:
    assert [field["name"] for field in result_schemas(wide)["Odd-Name"]["fields"]] == [
        "source", "seq", "ts", "stage", "path", "output",
    ]  # fmt: skip
    codec = compile_codec(committed_schema(wide))
    assert isinstance(codec, ChunkCodec)
    assert [leaf.name for leaf in codec.plan.records[0].leaves][-2:] == ["output.total", "output.place"]
    assert codec.plan.records[0].name == "Odd-Name"


def test_an_application_brings_its_own_schemas(ledger: Application, tmp_path: Path) -> None:
    given = list(event_schemas(ledger).values())
    given[0]["fields"][4]["type"] = "int"  # promoted
    given[1]["fields"].append({"name": "remark", "type": "string"})  # more than declared: skipped when read
    path = tmp_path / "events.avsc"
    path.write_text(json.dumps(given))
    assert list(read_event_schemas(path, ledger)) == ["Deposit", "Transfer"]
    chunk = ChunkDecoder(
        event_chunk_schema(ledger, dict(zip(("Deposit", "Transfer"), given, strict=True))), event_chunk_schema(ledger)
    )
    assert chunk is not None


def test_schemas_that_do_not_fit_are_named(ledger: Application, tmp_path: Path) -> None:
    given = list(event_schemas(ledger).values())
    given[0]["fields"][4]["type"] = "string"
    del given[1]["fields"][2]
    given.append({"type": "record", "name": "Loan", "fields": []})
    with pytest.raises(DeclarationError) as caught:
        check_event_schemas(given, ledger, "events.avsc")
    assert str(caught.value) == (
        "events.avsc does not fit the application streaming-ledger: Deposit.amount is string, expected long; "
        "Transfer.sender_account is missing, expected long; record type Loan triggers no transaction of streaming-ledger"
    )
    with pytest.raises(DeclarationError, match="record type Deposit is missing; record type Transfer is missing"):
        check_event_schemas([], ledger, "x")
    with pytest.raises(DeclarationError, match="cannot be read"):
        read_event_schemas(tmp_path / "none.avsc", ledger)


def test_the_checksum_is_easy() -> None:
    bodies = [b"one", b"two" * 100]
    assert checksum(bodies) == (zlib.crc32(bodies[0]) + zlib.crc32(bodies[1])) % 2**32
