"""Schema ids: from a file that is shipped with the application, or from a Schema Registry.

The file is JSON that any language reads: `{"schemas": [{"id": 1, "subject": "...", "schema": {...}}, ...]}`. An id is never
given to another schema: `FileIds.add` keeps what is there and numbers on.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol

from services.codec.errors import SchemaError, UnknownSchemaError
from services.codec.framing import ID_MAX
from services.codec.tree import Schema, canonical, expand


class SchemaIds(Protocol):
    """Where ids come from."""

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id to write with. UnknownSchemaError if there is none."""

    def schema_of(self, schema_id: int) -> Schema:
        """The schema that bytes with this id were written with. UnknownSchemaError if nobody knows it (yet)."""

    def versions_of(self, subject: str) -> dict[int, Schema]:
        """Every schema that the subject is known to have, by id."""


class FileIds:
    """Ids from a JSON file, which is read again when somebody asks for an id that it did not have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[tuple[str, str], int] = {}
        for entry in _entries(path):
            self._take(entry)

    @classmethod
    def add(cls, path: Path, schemas: dict[str, Schema]) -> FileIds:
        """The file with these schemas (by subject) in it: known ones keep their ids, new ones get the next, in order."""
        entries = _entries(path) if path.exists() else []
        known = {(entry["subject"], canonical(entry["schema"])) for entry in entries}
        following = max((entry["id"] for entry in entries), default=0) + 1
        for subject, schema in schemas.items():
            expand(schema)
            if (subject, canonical(schema)) not in known:
                entries.append({"id": following, "subject": subject, "schema": schema})
                following += 1
        _write(path, json.dumps({"schemas": entries}, indent=2) + "\n")
        return cls(path)

    def id_of(self, subject: str, schema: Schema) -> int:
        try:
            return self._ids[subject, canonical(schema)]
        except KeyError:
            raise UnknownSchemaError(
                f"{self.path} has no id for this schema of {subject}; add it with `FileIds.add`, and ship the file"
            ) from None

    def schema_of(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas and self.path.exists():  # somebody may have added it meanwhile
            for entry in _entries(self.path):
                self._take(entry)
        try:
            return self._schemas[schema_id]
        except KeyError:
            known = ", ".join(map(str, sorted(self._schemas)))
            raise UnknownSchemaError(
                f"schema id {schema_id} is not in {self.path}, which has {known or 'none'}"
            ) from None

    def versions_of(self, subject: str) -> dict[int, Schema]:
        return {number: self._schemas[number] for (name, _), number in self._ids.items() if name == subject}

    def _take(self, entry: dict[str, Any]) -> None:
        number, subject = entry["id"], entry["subject"]
        if number in self._schemas and canonical(self._schemas[number]) != canonical(entry["schema"]):
            raise SchemaError(f"{self.path}: id {number} is given to two schemas")
        expand(entry["schema"])
        self._schemas[number] = entry["schema"]
        self._ids[subject, canonical(entry["schema"])] = number


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text("utf-8"))["schemas"]
        for entry in entries:
            if (
                not isinstance(entry["id"], int)
                or not 0 <= entry["id"] <= ID_MAX
                or not isinstance(entry["subject"], str)
            ):
                raise ValueError(f"an id is a whole number from 0 to {ID_MAX}, a subject is text: {entry['id']!r}")
            _ = entry["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SchemaError(
            f"{path}: cannot be read as schema ids ({type(error).__name__}: {error}); expected "
            '{"schemas": [{"id": 1, "subject": "...", "schema": {...}}]}'
        ) from error
    return list(entries)


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
