"""Random schemas of the types that are compiled, and values of them, for hypothesis; and codecs kept between examples.

A schema costs seconds to compile, so schemas come from seeds and are few; values are hypothesis's own and many.
"""

from __future__ import annotations

import io
import json
import random
from functools import cache
from typing import Any

import fastavro
from hypothesis import strategies as st

from services.codec.tree import parse

PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")


def random_record(seed: int, fields: int = 5) -> dict[str, Any]:
    """A record of so many fields, of every compiled kind; nested records twice deep at most."""
    draw = random.Random(seed)
    names = iter(range(1000))

    def kind(depth: int) -> Any:
        what = draw.randrange(8)
        primitive = draw.choice(PRIMITIVES)
        if what == 0:
            return draw.choice([["null", primitive], [primitive, "null"]])
        if what == 1:
            return {"type": "array", "items": primitive}
        if what == 2 and depth < 2:
            return record(depth + 1, 2)
        if what == 3:
            return "null"
        return primitive

    def record(depth: int, count: int) -> dict[str, Any]:
        parts = [{"name": f"f{number}", "type": kind(depth)} for number in range(count)]
        return {"type": "record", "name": f"R{seed}_{next(names)}", "fields": parts}

    return record(0, fields)


def random_chunk(seed: int) -> dict[str, Any]:
    """A chunk of two record types, with a header."""
    items = [random_record(1000 * seed + number, 3) for number in range(1, 3)]
    header = [{"name": "source", "type": "long"}, {"name": "note", "type": ["null", "string"]}]
    events = {"name": "events", "type": {"type": "array", "items": items}}
    return {"type": "record", "name": f"Chunk{seed}", "fields": [*header, events]}


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema as fastavro takes them; records in unions carry their name."""
    if isinstance(schema, str):
        return _VALUES[schema]
    if isinstance(schema, list):
        return st.one_of([named(branch) for branch in schema])
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=4)
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def named(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, dict) and schema["type"] == "record":
        return values(schema).map(lambda value: (schema["name"], value))
    return values(schema)


@cache
def _parsed(text: str) -> Any:
    return parse(json.loads(text))


def written(schema: Any, value: Any) -> bytes:
    """The bytes that fastavro writes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(json.dumps(schema)), value)
    return out.getvalue()


def read(schema: Any, body: bytes, reader: Any = None) -> Any:
    """What fastavro reads."""
    wanted = None if reader is None else _parsed(json.dumps(reader))
    return fastavro.schemaless_reader(io.BytesIO(body), _parsed(json.dumps(schema)), wanted, return_record_name=True)
