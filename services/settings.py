"""The services' settings, and the only reader of the environment and of files for them.

A value comes from the first of: a flag, a `MILLRACE_…` environment variable, the TOML file (`--config` or
`MILLRACE_CONFIG`), the default. A secret may also come from a file of its own, named where the secret would be with
`_file` added (`--sasl-password-file`, `MILLRACE_KAFKA_SASL_PASSWORD_FILE`, `sasl_password_file`), never from a flag.

To add a setting, add a field to its section; to add a section, add a dataclass and a field of `Settings`. Flags, environment
names and file keys follow: `kafka.bootstrap` is `--kafka-bootstrap` (`--bootstrap` where the section is the command's
own), `MILLRACE_KAFKA_BOOTSTRAP`, and `bootstrap` under `[kafka]`.

Invariants: all settings are checked in `read`, before anything starts; a mistake is one sentence that names the setting and where
its value came from, and no message holds a secret. (The engine's cache reads `MILLRACE_CACHE_DIR`, see there.)
"""

from __future__ import annotations

import argparse
import difflib
import os
import tomllib
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from services.secret import Secret
from services.setting_fields import (
    Setting,
    addresses,
    at_least,
    is_loopback,
    listening_address,
    port_number,
    readable_file,
    setting,
    settings_of,
    source_numbers,
    web_address,
)


@dataclass(frozen=True)
class KafkaSettings:
    """How to reach Kafka, as a client."""

    bootstrap: str = setting("127.0.0.1:9092", "brokers to ask first: host:port, several with commas", addresses)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = setting(
        None, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, with the SASL protocols"
    )
    sasl_username: str | None = setting(None, "user, with the SASL protocols")
    sasl_password: Secret | None = setting(None, "the user's password")
    ca_file: Path | None = setting(None, "PEM file of the authorities to trust, with the SSL protocols", readable_file)
    certificate_file: Path | None = setting(None, "PEM file of the client's own certificate", readable_file)
    key_file: Path | None = setting(None, "PEM file of that certificate's private key", readable_file)
    key_password: Secret | None = setting(None, "the private key's password")
    client_id: str = setting("millrace", "the name that brokers' logs and quotas see")
    request_timeout_s: float = setting(30.0, "how long a request may take before it is an error", at_least(0.1))
    transaction_timeout_s: float = setting(60.0, "how long brokers keep an open transaction alive", at_least(1))

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """What does not fit together: the setting to blame, and why."""
        if "SASL" in self.security_protocol:
            for name in ("sasl_mechanism", "sasl_username", "sasl_password"):
                if getattr(self, name) is None:
                    yield name, f"is missing, but security_protocol is {self.security_protocol}"
        elif self.sasl_mechanism or self.sasl_username or self.sasl_password:
            yield (
                "security_protocol",
                f"is {self.security_protocol}, but SASL settings are given: SASL_SSL was expected",
            )
        if "SSL" not in self.security_protocol and (self.ca_file or self.certificate_file or self.key_file):
            yield "security_protocol", f"is {self.security_protocol}, but certificates are given: SSL was expected"
        if (self.certificate_file is None) != (self.key_file is None):
            missing = "certificate_file" if self.certificate_file is None else "key_file"
            yield missing, "is missing: a certificate and its key go together"


@dataclass(frozen=True)
class BrokerSettings:
    """The broker that `millrace broker` runs on this machine."""

    data: Path = setting(Path("~/.local/share/millrace/broker").expanduser(), "directory of the broker's data and log")
    port: int | None = setting(None, "loopback port for clients (the one used before, else any free one)", port_number)
    heap_mb: int = setting(512, "the broker's Java heap", at_least(256))  # with 128 MB it dies while starting


@dataclass(frozen=True)
class EngineSettings:
    """The engine service, `millrace run`."""

    app: str = setting("", "the application: module:name of an Application or of a function that gives one")
    tables: str | None = setting(
        None, "module:name of a function that gives the tables' first contents: {table: (keys, columns)}"
    )
    input: Literal["chunks", "records"] = setting(
        "chunks",
        "chunks and punctuations (APP.events.v1), or single records that the engine punctuates (APP.records.v1)",
    )
    epoch_events: int | None = setting(None, "of records: events an epoch (none: epochs by event time)", at_least(1))
    epoch_interval: int = setting(1000, "of records: epochs end at multiples of so much event time", at_least(1))
    disorder: int = setting(0, "of records: event time that one may be behind the newest of its partition", at_least(0))
    idle_timeout_s: float = setting(5.0, "of records: a partition empty for so long holds nothing up", at_least(0))
    results: Literal["chunks", "records"] = setting("chunks", "results in chunks, or one keyed record a transaction")
    results_key: str | None = setting(None, "of records: the event field that is the key (none: each type's first)")
    sources: str = setting("0", "the sources that punctuate, with commas", source_numbers)
    threads: int | None = setting(None, "threads that run epochs (one a core)", at_least(1))
    policy: str = setting("cost", "how epochs are run: cost, paper, or a policy such as serial")
    snapshots: str | None = setting(None, "directory or fsspec URL for snapshots (none: recovery reads the changelog)")
    snapshot_every: int = setting(100, "epochs from one snapshot to the next", at_least(1))
    memory_mb: int = setting(2048, "what may wait in memory for its epoch", at_least(1))
    incomplete_timeout_s: float = setting(60.0, "how long chunks may miss once all punctuations are there", at_least(0))
    on_incomplete: Literal["halt", "dead-letter"] = setting("halt", "what happens to such an epoch then")
    schema_timeout_s: float = setting(60.0, "how long to ask for a schema id that nobody knows", at_least(0))
    schema_ids: Path | None = setting(
        None, "JSON file of schema ids (made if it is not there; none: numbered in order)"
    )
    epoch_timeout_s: float = setting(
        300.0, "how long one epoch may run: after it the process ends, exit code 4", at_least(0.1)
    )
    attempts: int = setting(3, "how often such an epoch is begun before it goes to the dead letters", at_least(1))
    log_format: Literal["text", "json"] = setting("text", "text for people, or one JSON object a line")
    http: str | None = setting(
        None, "host:port for health, metrics and queries; port 0 is any free one (none: no port)", listening_address
    )
    http_token: Secret | None = setting(None, "the bearer token for metrics, status and queries")

    registry: str | None = setting(None, "URL of a Schema Registry, which gives the ids instead of a file", web_address)
    registry_user: str | None = setting(None, "user, if the registry wants one")
    registry_password: Secret | None = setting(None, "the user's password")

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """What does not fit together: the setting to blame, and why."""
        if self.http is not None and self.http_token is None and not is_loopback(self.http):
            yield "http_token", f"is missing: without one engine.http is on loopback only, not {self.http}"
        if self.registry is not None and self.schema_ids is not None:
            yield "schema_ids", "names a file of ids, but they come from engine.registry: give one of both"
        if (self.registry_user is None) != (self.registry_password is None):
            missing = "registry_user" if self.registry_user is None else "registry_password"
            yield missing, "is missing: user and password go together"


@dataclass(frozen=True)
class SparkSettings:
    """The Spark that jobs run on. Under spark-submit its own options win."""

    master: str = setting("local[2]", "where Spark runs: local[threads], or a cluster's address")
    memory_mb: int = setting(1024, "the driver's Java heap", at_least(512))
    log: Path | None = setting(None, "file for what Spark itself says (none: standard error)")


@dataclass(frozen=True)
class Settings:
    """Everything that can be set; each field is a section."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)


TABLE: dict[str, tuple[Setting, ...]] = {
    name: tuple(settings_of(name, section)) for name, section in typing.get_type_hints(Settings).items()
}
_PREFIX = "setting:"  # of what flags leave in the namespace: (text, flag as it was written)


def add_flags(
    parser: argparse.ArgumentParser, *sections: str, own: str | None = None, only: Collection[str] | None = None
) -> None:
    """Adds the flags of these sections, and short ones of the command's own (only some of that, if told).

    Values stay text until `read`.
    """
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings (MILLRACE_CONFIG)")
    for section in ((own,) if own else ()) + sections:
        group = parser.add_argument_group(f"{section} settings")
        for each in TABLE[section]:
            if section == own and only is not None and each.field not in only:
                continue
            group.add_argument(
                each.flag(section == own),
                dest=_PREFIX + each.name,
                action=_Flag,
                nargs="?" if each.kind is bool else None,
                const="true" if each.kind is bool else None,
                metavar="FILE" if each.secret else each.field.split("_")[-1].upper(),
                help=(f"file that holds {each.help}" if each.secret else each.help) + _default_text(each),
            )


def _default_text(each: Setting) -> str:
    shown = each.default is not None and not each.secret
    return f" ({str(each.default).replace('%', '%%')})" if shown else ""


class _Flag(argparse.Action):
    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, (values, option))


def read(arguments: argparse.Namespace | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """All settings, checked; SettingsError names every mistake."""
    given = vars(arguments) if arguments is not None else {}
    environment = os.environ if environment is None else environment
    chosen = given.get("config") or environment.get("MILLRACE_CONFIG")
    file = _File(Path(chosen).expanduser()) if chosen else None
    mistakes = [*_misspelt(environment), *(file.unknown() if file else ())]
    tree: dict[str, Any] = {}
    for section, kind in typing.get_type_hints(Settings).items():
        values, origins = {}, {}
        for each in TABLE[section]:
            raw, origin = _find(each, given, environment, file)
            origins[each.field] = origin
            if raw is _ABSENT:
                continue
            try:
                values[each.field] = each.convert(_text_of_file(raw) if isinstance(raw, _InFile) else raw)
            except ValueError as error:
                shown = "" if each.secret else f" is {str(raw)!r}:"
                mistakes.append(f"{each.name}{shown} {error} (from {origin})")
        tree[section] = kind(**values)
        if len(mistakes) == 0 and hasattr(kind, "mistakes"):
            mistakes += [f"{section}.{name} {why} (from {origins[name]})" for name, why in tree[section].mistakes()]
    if mistakes:
        _refuse("; ".join(mistakes))
    return Settings(**tree)


_ABSENT = object()


@dataclass(frozen=True)
class _InFile:
    """A secret that is in a file of its own."""

    path: str


def _find(
    each: Setting, given: Mapping[str, Any], environment: Mapping[str, str], file: _File | None
) -> tuple[Any, str]:
    """The value as it was written, and where. An empty environment variable counts as none, as is the custom."""
    flag = given.get(_PREFIX + each.name)
    if flag is not None:
        text, written = flag
        return (_InFile(text) if each.secret else text), written
    names = (each.variable, each.variable + "_FILE") if each.secret else (each.variable,)
    for name in names:
        if environment.get(name):
            return (_InFile(environment[name]) if name != each.variable else environment[name]), name
    if file is not None:
        keys = (each.field, each.field + "_file") if each.secret else (each.field,)
        for key in keys:
            value = file.value(each.section, key)
            if value is not _ABSENT:
                return (_InFile(str(value)) if key != each.field else value), f"{file.path}, [{each.section}] {key}"
    return _ABSENT, f"the default; set {each.variable}"


def _text_of_file(source: _InFile) -> str:
    try:
        text = Path(source.path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ValueError(f"the file {source.path} cannot be read ({why})") from None
    return text.rstrip("\r\n")  # editors and `echo` end a file with a newline that is not part of the password


class _File:
    """A TOML file of settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as opened:
                self.sections: dict[str, Any] = tomllib.load(opened)
        except OSError as error:
            _refuse(f"the settings file {path} cannot be read: {error.strerror}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            # tomllib names the place, not the line's text: there may be a password in it.
            _refuse(f"the settings file {path} is not TOML: {error}")

    def value(self, section: str, key: str) -> Any:
        content = self.sections.get(section)
        return content.get(key, _ABSENT) if isinstance(content, dict) else _ABSENT

    def unknown(self) -> Iterator[str]:
        """Sections and keys that nobody reads: a setting that is misspelt would otherwise be left out in silence."""
        for section, content in self.sections.items():
            if section not in TABLE or not isinstance(content, dict):
                yield f"[{section}] is no section of settings{_meant(section, list(TABLE))} (from {self.path})"
                continue
            known = [each.field for each in TABLE[section]]
            known += [each.field + "_file" for each in TABLE[section] if each.secret]
            for key in content:
                if key not in known:
                    yield f"{section}.{key} is no setting{_meant(key, known)} (from {self.path})"


def _misspelt(environment: Mapping[str, str]) -> Iterator[str]:
    """Only near misses: Kubernetes puts names of its own (`MILLRACE_KAFKA_PORT`) beside ours, and tests have theirs."""
    known = [each.variable for rows in TABLE.values() for each in rows]
    known += [each.variable + "_FILE" for rows in TABLE.values() for each in rows if each.secret]
    for name in environment:
        if name.startswith("MILLRACE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.94)
            if near:
                yield f"{name} is no setting; did you mean {near[0]}? (from the environment)"


def _meant(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f": {', '.join(known)} are"


def _refuse(sentence: str) -> NoReturn:
    # Imported here, because every error's root is the engine's and `millrace --help` must not load the engine.
    from services.errors import SettingsError

    raise SettingsError(sentence) from None


def java_home() -> Path | None:
    """Where the user says that Java is, if anywhere; `PATH` comes after it, as everywhere."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None
