"""Another reader's schema: resolved as fastavro resolves, or refused with the names of the fields."""

from typing import Any

import pytest

from services.codec.codec import ResolvedChunks, ResolvedRows, compile_reader
from services.codec.errors import DecodeError, Malformed, SchemaError
from services.codec.objects import same
from services.codec.slow_rows import SlowRowCodec
from services.codec.tree import expand
from services.verify.codec import as_value, records_of
from tests.services.codec.generated import read, written


def record(fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    made = [
        {"name": field} | (kind if isinstance(kind, dict) and "as" in kind else {"type": kind})
        for field, kind in fields.items()
    ]
    for field in made:
        if "as" in field:
            field["type"] = field.pop("as")
    return {"type": "record", "name": name, "fields": made} | more


INNER = record({"x": "int", "y": "string"}, "Inner")
WRITER = record(
    {
        "a": "int", "b": "string", "c": ["null", "int"], "d": {"type": "array", "items": "int"}, "e": "long", "inner": INNER,
        "gone": "string", "f": "float",
    }
)  # fmt: skip
READER = record(
    {
        "f": "double", "inner": record({"y": "bytes", "z": {"as": "long", "default": 7}, "x": "long"}, "Inner"),
        "a": ["null", "long"], "b": "bytes", "c": ["long", "null"], "d": {"type": "array", "items": "double"},
        "renamed": {"as": "double", "aliases": ["e"]}, "new": {"as": "string", "default": "é"},
        "missing": {"as": ["null", "long"], "default": None},
        "whole": {"as": record({"p": "int", "q": {"as": "boolean", "default": True}}, "Whole"), "default": {"p": 4}},
        "list": {"as": {"type": "array", "items": "long"}, "default": [1, 2]},
    }
)  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"a": 1, "b": "x", "c": None, "d": [], "e": 2**40, "inner": {"x": 3, "y": "é"}, "gone": "?", "f": 0.5},
    {"a": -5, "b": "", "c": 9, "d": [1, -2], "e": -1, "inner": {"x": 0, "y": ""}, "gone": "", "f": 1.5},
]


def test_rows_are_resolved_as_fastavro_does() -> None:
    codec = compile_reader(WRITER, READER)
    assert isinstance(codec, ResolvedRows)
    bodies = [written(WRITER, row) for row in ROWS]
    found = records_of(expand(READER), codec.decode(bodies), len(bodies))
    expected = [read(WRITER, body, READER) for body in bodies]
    for row in expected:
        row["whole"].setdefault("q", True)  # fastavro leaves a default's own defaults out
    assert same(found, expected)
    assert codec.decode([])["list"].to_list() == []


def test_bytes_that_become_a_string_must_be_one() -> None:
    codec = compile_reader(record({"b": "bytes"}), record({"b": "string"}))
    assert codec.decode([written(record({"b": "bytes"}), {"b": "é".encode()})])["b"].to_list() == ["é"]  # type: ignore[index, call-overload, arg-type, union-attr]
    with pytest.raises(DecodeError) as caught:
        codec.decode([written(record({"b": "bytes"}), {"b": b"\xff"})])  # type: ignore[arg-type]
    assert caught.value.reason is Malformed.BAD_UTF8


def chunk(*items: Any, **header: Any) -> dict[str, Any]:
    return record({"source": "long", **header, "events": {"type": "array", "items": list(items)}}, "Chunk")


def test_chunks_are_resolved_type_by_type() -> None:
    first, second = record({"a": "int"}, "First"), record({"b": "string", "old": "long"}, "Second")
    new_second = record({"b": "string", "c": {"as": "long", "default": 3}}, "Second")
    writer = chunk(first, second)
    reader = chunk(
        record({}, "Added"), new_second, record({"a": "long"}, "First"), note={"as": "string", "default": "-"}
    )
    codec = compile_reader(writer, reader)
    assert isinstance(codec, ResolvedChunks)
    events = [("Second", {"b": "x", "old": 1}), ("First", {"a": 5}), ("Second", {"b": "y", "old": 2})]
    body = written(writer, {"source": 8, "events": events})
    found = codec.decode(body)
    assert found.rows == {"Added": 0, "Second": 2, "First": 1} and found.kinds.tolist() == [1, 2, 1]
    expected = [("Second", {"b": "x", "c": 3}), ("First", {"a": 5}), ("Second", {"b": "y", "c": 3})]
    assert same(as_value(found, expand(reader)), {"source": 8, "note": "-", "events": expected})


def test_rare_types_are_resolved_by_fastavro() -> None:
    colours = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    writer, reader = record({"m": colours}), record({"m": colours, "n": {"as": "long", "default": 1}})
    codec = compile_reader(writer, reader)
    assert isinstance(codec, SlowRowCodec)
    found = codec.decode([written(writer, {"m": "BLUE"})])
    assert (found["m"].tolist(), found["n"].tolist()) == (["BLUE"], [1])


def test_what_only_fastavro_refuses_is_typed_too() -> None:
    colours = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    writer, reader = record({"m": colours, "b": "bytes"}), record({"m": colours, "b": "string"})
    with pytest.raises(DecodeError) as caught:
        compile_reader(writer, reader).decode([written(writer, {"m": "RED", "b": b"\xff"})])  # type: ignore[arg-type]
    assert caught.value.reason is Malformed.NOT_READ


@pytest.mark.parametrize(
    ("writer", "reader", "sentence"),
    [
        (record({"a": "long"}), record({"a": "int"}), "R.a is written as long, expected int"),
        (record({"a": "string"}), record({"a": "long"}), "R.a is written as string, expected long"),
        (record({"a": "long"}), record({"a": "long", "b": "long"}), "R.b was not written and has no default"),
        (record({"a": ["null", "long"]}), record({"a": "long"}), "R.a is written as null, expected long"),
        (
            record({"a": "string"}),
            record({"a": ["null", "long"]}),
            "R.a is written as string, the reader has null or long",
        ),
        (record({"a": "long"}), record({"a": "long"}, "Other"), "Other is written as record R, expected Other"),
        (
            record({"a": INNER}),
            record({"a": record({"x": "string"}, "Inner")}),
            "R.a.x is written as int, expected string",
        ),
        (
            record({"a": {"type": "array", "items": "long"}}),
            record({"a": {"type": "array", "items": "int"}}),
            r"R.a\[\] is written as long, expected int",
        ),
        (
            record({"a": {"type": "array", "items": "long", "millrace.length": 2}}),
            record({"a": {"type": "array", "items": "long", "millrace.length": 3}}),
            "R.a has vectors of 2, expected 3",
        ),
        (
            record({"a": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}),
            record({"a": {"type": "enum", "name": "E", "symbols": ["A"]}}),
            "R.a may hold B, which the reader does not know",
        ),
    ],
)
def test_what_cannot_be_read_is_named(writer: Any, reader: Any, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        compile_reader(writer, reader)
