"""An application's own schemas, made from its declaration, or checked against it where it brings them as a file.

An event is `{seq, ts, <declared fields in order>}`; a result `{source, seq, ts, stage, path, output: {<declared outputs>}}`.
Names that Avro forbids (`-`) are written with `_`; the record then says its own name in `millrace.type`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine.api.application import Application
from engine.api.types import FieldType, ListType, ScalarType, VectorType
from engine.errors import DeclarationError
from schemas import load

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS = {"int64": "long", "float64": "double", "boolean": "boolean", "string": "string"}
# What a file may say for a declared type: whatever Avro's rules promote to it.
_ACCEPTED = {"long": ("int", "long"), "double": ("int", "long", "float", "double"), "string": ("string",)}
_IDENTITY = ("seq", "ts")

Schema = dict[str, Any]


def avro_type(kind: FieldType) -> Any:
    """A declared type as Avro's."""
    if isinstance(kind, VectorType):
        return {"type": "array", "items": _SCALARS[kind.element.name], "millrace.length": kind.length}
    if isinstance(kind, ListType):
        return {"type": "array", "items": _SCALARS[kind.element.name]}
    assert isinstance(kind, ScalarType)
    return _SCALARS[kind.name]


def event_schemas(application: Application) -> dict[str, Schema]:
    """The schema of each record type that may arrive, by its declared name."""
    made: dict[str, Schema] = {}
    for name in application.input_types:
        fields = {"seq": "long", "ts": "long"}
        fields |= {field: avro_type(kind) for field, kind in application.events[name].fields.items()}
        made[name] = _record(application, name, "", fields)
    _check_distinct(application, made)
    return made


def record_schemas(application: Application) -> dict[str, Schema]:
    """What single records are read as, by record type: events without `seq`, which their offsets give."""
    made = event_schemas(application)
    return {
        name: {**schema, "fields": [field for field in schema["fields"] if field["name"] != "seq"]}
        for name, schema in made.items()
    }


def event_chunk_schema(application: Application, events: dict[str, Schema] | None = None) -> Schema:
    """`EventChunk` with the application's input record types, its own file's where they are given."""
    chunk = load("event-chunk")
    chunk["fields"][-1]["type"]["items"] = list((events or event_schemas(application)).values())
    return chunk | {"namespace": _namespace(application)}


def result_schemas(application: Application) -> dict[str, Schema]:
    """The schema of each record type's results: also of types that are emitted or fire by themselves."""
    made: dict[str, Schema] = {}
    for name, template in application.templates.items():
        fields: dict[str, Any] = {
            "source": "long", "seq": "long", "ts": "long", "stage": "long", "path": {"type": "array", "items": "long"},
        }  # fmt: skip
        if template.output_fields:
            outputs = {field: avro_type(kind) for field, kind in template.output_fields.items()}
            fields["output"] = _record(application, name, "Output", outputs)
        made[name] = _record(application, name, "Result", fields)
    _check_distinct(application, made)
    return made


def single_result_schemas(application: Application) -> dict[str, Schema]:
    """The schema of each record type's results where they leave one by one: with their epoch."""
    return {
        name: {
            **schema,
            "name": schema["name"].removesuffix("Result") + "Committed",
            "fields": [{"name": "epoch", "type": "long"}, *schema["fields"]],
        }
        for name, schema in result_schemas(application).items()
    }


def failure_schema() -> Schema:
    """A failure that leaves by itself: as in its chunk, with its epoch."""
    item = load("failed")["fields"][-1]["type"]["items"]
    fields = [{"name": "epoch", "type": "long"}, *item["fields"]]
    return {**item, "name": "Failure", "namespace": "millrace", "fields": fields}


def committed_schema(application: Application) -> Schema:
    """`CommittedChunk` with the application's results."""
    chunk = load("committed")
    chunk["fields"][-1]["type"]["items"] = list(result_schemas(application).values())
    return chunk | {"namespace": _namespace(application)}


def read_event_schemas(path: Path, application: Application) -> dict[str, Schema]:
    """The application's own event schemas from its .avsc file (a record, or a list of records), checked."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{path}: the event schemas cannot be read: {error}") from error
    return check_event_schemas(found, application, str(path))


def check_event_schemas(found: Any, application: Application, where: str) -> dict[str, Schema]:
    """Event schemas by declared name, or DeclarationError with every difference from the declaration."""
    records = found if isinstance(found, list) else [found]
    given = {str(each.get("millrace.type", each["name"])): each for each in records if isinstance(each, dict)}
    wanted = event_schemas(application)
    wrong = [f"record type {name} is missing" for name in wanted if name not in given]
    wrong += [
        f"record type {name} triggers no transaction of {application.name}" for name in given if name not in wanted
    ]
    for name in wanted.keys() & given.keys():
        wrong += [f"{name}.{sentence}" for sentence in _differences(wanted[name], given[name])]
    if wrong:
        raise DeclarationError(f"{where} does not fit the application {application.name}: {'; '.join(sorted(wrong))}")
    return {name: given[name] for name in wanted}


def _differences(wanted: Schema, given: Schema) -> list[str]:
    fields = {field["name"]: field["type"] for field in given.get("fields", ())}
    wrong = []
    for field in wanted["fields"]:
        name, expected = field["name"], field["type"]
        if name not in fields:
            wrong.append(f"{name} is missing, expected {_shown(expected)}")
        elif not _fits(expected, fields[name]):
            wrong.append(f"{name} is {_shown(fields[name])}, expected {_shown(expected)}")
    return wrong


def _fits(expected: Any, found: Any) -> bool:
    if isinstance(found, dict) and found.get("type") in _SCALARS.values():
        found = found["type"]
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.get("type") != "array":
            return False
        same_length = expected.get("millrace.length") == found.get("millrace.length")
        return same_length and _fits(expected["items"], found.get("items"))
    return isinstance(found, str) and found in _ACCEPTED.get(expected, (expected,))


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _namespace(application: Application) -> str:
    return f"millrace.{application.name.replace('-', '_')}"


def _record(application: Application, name: str, ending: str, fields: dict[str, Any]) -> Schema:
    for field in fields:
        if not _NAME.fullmatch(field):
            raise DeclarationError(
                f"{name}.{field}: Avro's names are letters, digits and _, not beginning with a digit; rename the field"
            )
    written = name.replace("-", "_") + ending
    schema: Schema = {"type": "record", "name": written, "namespace": _namespace(application)}
    if written != name:
        schema["millrace.type"] = name
    return schema | {"fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def _check_distinct(application: Application, made: dict[str, Schema]) -> None:
    seen: dict[str, str] = {}
    for name, schema in made.items():
        if schema["name"] in seen:
            raise DeclarationError(
                f"{application.name}: record types {seen[schema['name']]!r} and {name!r} are the same name in Avro; rename one"
            )
        seen[schema["name"]] = name
