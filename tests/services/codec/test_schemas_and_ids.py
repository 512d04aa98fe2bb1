"""Framing, schema ids from a file and from a registry, and schemas that are refused."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from services.codec.errors import DecodeError, EncodeError, Malformed, SchemaError, UnknownSchemaError
from services.codec.framing import frame, unframe
from services.codec.ids import FileIds
from services.codec.objects import ObjectCodec
from services.codec.plan import plan_of
from services.codec.registry import RegistryError, RegistryIds
from services.codec.tree import expand

LONG = {"type": "record", "name": "L", "fields": [{"name": "x", "type": "long"}]}
TEXT = {"type": "record", "name": "T", "fields": [{"name": "x", "type": "string"}]}


def test_a_frame_is_a_zero_and_four_bytes() -> None:
    assert frame(258, b"body") == b"\x00\x00\x00\x01\x02body"
    schema_id, body = unframe(frame(2**32 - 1, b"body"))
    assert (schema_id, bytes(body)) == (2**32 - 1, b"body")
    with pytest.raises(EncodeError):
        frame(2**32, b"")


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x"])
def test_what_is_no_frame(value: bytes | None) -> None:
    with pytest.raises(DecodeError) as caught:
        unframe(value)
    assert caught.value.reason is Malformed.BAD_FRAME


def test_ids_in_a_file_are_stable(tmp_path: Path) -> None:
    path = tmp_path / "ids.json"
    first = FileIds.add(path, {"one": LONG, "two": TEXT})
    assert (first.id_of("one", LONG), first.id_of("two", TEXT)) == (1, 2)
    again = FileIds.add(path, {"two": TEXT, "three": LONG, "one": LONG})
    assert (again.id_of("one", LONG), again.id_of("two", TEXT), again.id_of("three", LONG)) == (1, 2, 3)
    assert FileIds(path).schema_of(2) == TEXT
    reordered = dict(reversed(TEXT.items()))  # the same schema, written in another order
    assert FileIds(path).id_of("two", reordered) == 2


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    ids = FileIds.add(tmp_path / "ids.json", {"one": LONG})
    with pytest.raises(UnknownSchemaError, match=r"schema id 77 is not in .*ids.json, which has 1"):
        ids.schema_of(77)
    with pytest.raises(UnknownSchemaError, match="no id for this schema of one"):
        ids.id_of("one", TEXT)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"schemas": [{"id": "1"}]}', '{"schemas": [{"id": -1, "subject": "a", "schema": "long"}]}'],
)
def test_a_file_that_holds_no_ids(tmp_path: Path, text: str) -> None:
    (tmp_path / "ids.json").write_text(text)
    with pytest.raises(SchemaError, match="cannot be read as schema ids"):
        FileIds(tmp_path / "ids.json")


def test_one_id_for_two_schemas(tmp_path: Path) -> None:
    entries = [{"id": 1, "subject": name, "schema": schema} for name, schema in (("a", LONG), ("b", TEXT))]
    (tmp_path / "ids.json").write_text(json.dumps({"schemas": entries}))
    with pytest.raises(SchemaError, match="id 1 is given to two schemas"):
        FileIds(tmp_path / "ids.json")


def test_a_recursive_schema_is_refused_by_name() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(SchemaError, match="record 'Node' contains itself"):
        ObjectCodec(node)


def test_names_are_written_out() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "long"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "Inner"}, {"name": "c", "type": "space.Inner"}]
    plan = plan_of(expand({"type": "record", "name": "Outer", "namespace": "space", "fields": fields}))
    assert plan is not None and [leaf.name for leaf in plan.leaves] == ["a.x", "b.x", "c.x"]  # type: ignore[union-attr]


def test_logical_types_are_what_is_below_them() -> None:
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    codec = ObjectCodec({"type": "record", "name": "R", "fields": [{"name": "at", "type": stamp}]})
    assert codec.decode(codec.encode({"at": 5})) == {"at": 5}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "nonsense"}]},
        {"type": "record", "fields": []},
        "nonsense",
        17,
        {"type": "array", "items": "string", "millrace.length": 2},
        {"type": "array", "items": "long", "millrace.length": 0},
    ],
)
def test_what_is_no_schema(schema: Any) -> None:
    with pytest.raises(SchemaError):
        expand(schema)


@pytest.mark.parametrize("value", [{"x": 2**63}, {"x": "a"}, {}, None, {"x": 1, "y": 2}])
def test_values_that_do_not_fit(value: Any) -> None:
    with pytest.raises(EncodeError):
        ObjectCodec(LONG).encode(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "int"}, [2**31]),
        ({"type": "array", "items": "long", "millrace.length": 2}, [1, 2, 3]),
        ({"type": "array", "items": "null"}, [None] * 5000),
    ],
)
def test_nothing_is_written_that_would_be_refused(kind: Any, value: Any) -> None:
    codec = ObjectCodec({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})
    with pytest.raises(EncodeError):
        codec.encode({"x": value})


class Registry(BaseHTTPRequestHandler):
    """The few answers of a Schema Registry that the client asks for."""

    schemas: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.schemas:
            self.schemas.append(schema)
        self._answer(200, {"id": 100 + self.schemas.index(schema)})

    def do_GET(self) -> None:
        number = int(self.path.split("?")[0].rsplit("/", 1)[1]) - 100
        if 0 <= number < len(self.schemas):
            self._answer(200, {"schema": self.schemas[number]})
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry_url() -> Iterator[str]:
    Registry.schemas.clear()
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_ids_from_a_registry(registry_url: str) -> None:
    pytest.importorskip("authlib", reason="confluent-kafka's schemaregistry extra is not installed")
    ids = RegistryIds(registry_url)
    assert (ids.id_of("one", LONG), ids.id_of("two", TEXT), ids.id_of("one", LONG)) == (100, 101, 100)
    assert RegistryIds(registry_url).schema_of(101) == TEXT
    with pytest.raises(UnknownSchemaError, match="schema id 777 is not in the registry"):
        ids.schema_of(777)


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(RegistryError) as caught:
        RegistryIds("http://name:secret@127.0.0.1:1", **{"max.retries": 0}).schema_of(1)
    assert "secret" not in str(caught.value)


def test_row_15_what_producers_write_is_resolved_or_refused_by_name(tmp_path: Path) -> None:
    from services.apps.streaming_ledger import build
    from services.engine.wire import Wire, schemas_of

    app, path = build(), tmp_path / "ids.json"
    schemas = schemas_of(app)
    wanted = schemas["streaming-ledger.record.Deposit"]
    fields = {field["name"]: field for field in wanted["fields"]}
    newer = [fields["amount"] | {"type": "int"}, *(fields[name] for name in ("ts", "account", "asset"))]
    compatible = {**wanted, "fields": [*newer, {"name": "note", "type": "string"}]}
    FileIds.add(path, schemas)
    Wire(app, FileIds.add(path, {"streaming-ledger.record.Deposit": compatible})).check()
    without = {**wanted, "fields": newer[1:]}
    ids = FileIds.add(path, {"streaming-ledger.record.Deposit": without})
    with pytest.raises(SchemaError, match=r"schema id \d+ of .*record.Deposit.*Deposit.amount was not written"):
        Wire(app, ids).check()


def test_an_id_that_is_added_to_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ids.json"
    ids = FileIds.add(path, {"one": LONG})
    with pytest.raises(UnknownSchemaError):
        ids.schema_of(2)
    FileIds.add(path, {"two": TEXT})
    assert ids.schema_of(2) == TEXT and ids.versions_of("two") == {2: TEXT}
