"""Avro schemas as a tree with every name written out: the one form that the codec's other parts look at.

`expand` checks the schema by Avro's own rules through fastavro, replaces references to named types by their definitions, and
drops logical types: values are what is on the wire. A recursive schema is refused by name, because it has no columns and
because fastavro's reader ends the process on it.
"""

from __future__ import annotations

import json
from typing import Any

import fastavro

from services.codec.errors import SchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
NAMED = ("record", "error", "enum", "fixed")
VECTOR_LENGTH = "millrace.length"  # on an array: every value has so many items
TYPE_NAME = "millrace.type"  # on a record: the application's name for it, where Avro's rules forbid it
DEPTH_MAX = 32

Schema = Any  # what JSON gives: a name, a list (union) or an object


def expand(schema: Schema) -> dict[str, Any]:
    """The schema as nodes `{"type": ..., ...}` all the way down."""
    parse(schema)
    tree: dict[str, Any] = _expand(schema, "", {}, (), 0)
    return tree


def parse(schema: Schema) -> Any:
    """The schema as fastavro wants it, logical types dropped, or SchemaError with fastavro's reason."""
    try:
        return fastavro.parse_schema(plain(schema))
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except Exception as error:  # fastavro raises many types: SchemaParseException, UnknownType, KeyError, ...
        raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from error


def plain(schema: Schema) -> Schema:
    """Without logical types and without fastavro's own marks."""
    if isinstance(schema, dict):
        return {k: plain(v) for k, v in schema.items() if k != "logicalType" and not k.startswith("__")}
    return [plain(part) for part in schema] if isinstance(schema, list) else schema


def canonical(schema: Schema) -> str:
    """One text for one schema: what is hashed and compared."""
    return json.dumps(plain(schema), sort_keys=True, separators=(",", ":"))


def _expand(schema: Schema, namespace: str, known: dict[str, Any], inside: tuple[str, ...], depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise SchemaError(f"the schema is nested more than {DEPTH_MAX} deep")
    if isinstance(schema, list):
        return {"type": "union", "branches": [_expand(part, namespace, known, inside, depth + 1) for part in schema]}
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return {"type": schema}
        return _reference(schema, namespace, known, inside, depth)
    kind = schema["type"]
    if isinstance(kind, list | dict):
        return _expand(kind, namespace, known, inside, depth + 1)
    if kind in PRIMITIVES:
        return {"type": kind}
    if kind == "array":
        node = {"type": "array", "items": _expand(schema["items"], namespace, known, inside, depth + 1)}
        return node | ({"length": _vector_length(schema, node)} if VECTOR_LENGTH in schema else {})
    if kind == "map":
        return {"type": "map", "values": _expand(schema["values"], namespace, known, inside, depth + 1)}
    if kind not in NAMED:
        return _reference(kind, namespace, known, inside, depth)
    full = _full_name(schema["name"], schema.get("namespace", namespace))
    known[full] = schema | {"name": full}
    return _named(known[full], known, inside, depth)


def _vector_length(schema: dict[str, Any], node: dict[str, Any]) -> int:
    length, kind = schema[VECTOR_LENGTH], node["items"]["type"]
    if not isinstance(length, int) or length < 1 or kind not in ("int", "long", "float", "double"):
        raise SchemaError(
            f"{VECTOR_LENGTH} is a whole number of at least 1 on an array of numbers, not {length!r} of {kind}"
        )
    return length


def _reference(name: str, namespace: str, known: dict[str, Any], inside: tuple[str, ...], depth: int) -> Any:
    full = _full_name(name, namespace)
    full = full if full in known else name
    if full in inside:
        raise SchemaError(f"record {full!r} contains itself; recursive schemas are not supported, flatten it")
    if full not in known:
        raise SchemaError(f"type {name!r} is not defined before it is used")
    return _named(known[full], known, inside, depth)


def _named(schema: dict[str, Any], known: dict[str, Any], inside: tuple[str, ...], depth: int) -> dict[str, Any]:
    full = schema["name"]
    node: dict[str, Any] = {"name": full, "aliases": [str(alias) for alias in schema.get("aliases", ())]}
    if schema["type"] == "enum":
        return node | {"type": "enum", "symbols": list(schema["symbols"])}
    if schema["type"] == "fixed":
        return node | {"type": "fixed", "size": int(schema["size"])}
    namespace = full.rpartition(".")[0]
    fields = []
    for field in schema["fields"]:
        part = {
            "name": field["name"],
            "type": _expand(field["type"], namespace, known, (*inside, full), depth + 1),
            "aliases": [str(alias) for alias in field.get("aliases", ())],
        }
        fields.append(part | ({"default": field["default"]} if "default" in field else {}))
    return node | {
        "type": "record",
        "fields": fields,
        "label": schema.get(TYPE_NAME, full.rpartition(".")[2]),
    }


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
