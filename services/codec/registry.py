"""Schema ids from a Schema Registry, through confluent-kafka's client (its `schemaregistry` extra).

Ids do not change, so each is asked for once. Nothing here tries a second time: an unknown id is an
`UnknownSchemaError`, an unreachable registry a `RegistryError`, and the service decides how long to wait.
"""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import urlsplit

from services.codec.errors import CodecError, UnknownSchemaError
from services.codec.tree import Schema, canonical, expand

NOT_FOUND = 404
TIMEOUT_S = 5  # and no second try: the service asks again by itself


class RegistryError(CodecError):
    """The registry did not answer, or refused."""


class RegistryIds:
    """Ids from a registry's URL. `register` lets `id_of` add a schema that is not there yet, subject to its rules."""

    def __init__(self, url: str, user: str = "", password: str = "", register: bool = True, **options: Any) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise RegistryError(
                f"a Schema Registry needs more of confluent-kafka ({error.name} is missing): "
                "pip install 'confluent-kafka[schemaregistry]'"
            ) from error
        settings = {"url": url, "timeout": TIMEOUT_S, "max.retries": 0, **options}
        if user:
            settings["basic.auth.user.info"] = f"{user}:{password}"
        self._url = _without_secrets(url)
        self._register = register
        self._client = SchemaRegistryClient(settings)
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Closes the connection to the registry."""
        self._client.close()

    def id_of(self, subject: str, schema: Schema) -> int:
        from confluent_kafka import schema_registry

        make: Any = schema_registry.Schema  # its types are known only where the extra is installed

        key = subject, canonical(schema)
        with self._lock:
            if key not in self._ids:
                expand(schema)
                text = make(json.dumps(schema), "AVRO")
                what = f"the schema of {subject}"
                if self._register:
                    self._ids[key] = self._ask(what, self._client.register_schema, subject, text)
                else:
                    self._ids[key] = self._ask(what, self._client.lookup_schema, subject, text).schema_id
            return self._ids[key]

    def schema_of(self, schema_id: int) -> Schema:
        with self._lock:
            if schema_id not in self._schemas:
                found = self._ask(f"schema id {schema_id}", self._client.get_schema, schema_id)
                self._schemas[schema_id] = json.loads(found.schema_str)
            return self._schemas[schema_id]

    def versions_of(self, subject: str) -> dict[int, Schema]:
        try:
            versions = self._ask(f"subject {subject}", self._client.get_versions, subject)
        except UnknownSchemaError:
            return {}
        what = f"the schema of {subject}"
        found = [self._ask(what, self._client.get_version, subject, version) for version in versions]
        return {each.schema_id: json.loads(each.schema.schema_str) for each in found}

    def _ask(self, what: str, call: Any, *arguments: Any) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call(*arguments)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise UnknownSchemaError(
                    f"{what} is not in the registry at {self._url}: {error.error_message}"
                ) from error
            raise RegistryError(f"the registry at {self._url} refused {what}: {error.error_message}") from error
        except Exception as error:  # the transport's own errors, of a library that is the client's affair
            raise RegistryError(
                f"the registry at {self._url} does not answer: {type(error).__name__}: {error}"
            ) from error


def _without_secrets(url: str) -> str:
    """What may stand in a log."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
