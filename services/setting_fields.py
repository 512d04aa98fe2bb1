"""How one setting is declared and its text understood; what is read, and from where, is `settings.py`'s affair.

A section of settings is a frozen dataclass whose fields are made by `setting(default, help, check=...)`. A field's name
and type are all else there is to declare: the flag, the environment variable and the key in the file follow from
the name, the conversion of text from the type.

Types: str, int, float, bool, Path, Secret, Literal of words; each also `| None`, which means that it may be left out.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from services.secret import Secret

# A check takes the converted value and says what is wrong with it, or nothing.
Check = Callable[[Any], str | None]

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_EXPECTED = {int: "a whole number", float: "a number", bool: "true or false"}


def setting(default: Any, help: str, check: Check | None = None) -> Any:
    """Declares a setting as a field of a section."""
    return dataclasses.field(default=default, metadata={"help": help, "check": check})


@dataclass(frozen=True)
class Setting:
    """One row of the table of settings."""

    section: str
    field: str
    kind: Any  # the type, without None
    default: Any
    help: str
    check: Check | None

    @property
    def secret(self) -> bool:
        return self.kind is Secret

    @property
    def name(self) -> str:
        """What messages call it, and where it is found in a file."""
        return f"{self.section}.{self.field}"

    @property
    def variable(self) -> str:
        return f"MILLRACE_{self.section}_{self.field}".upper()

    def flag(self, own: bool) -> str:
        """A command's own section has short flags. A secret has no flag but its file's: everyone sees a command line."""
        words = self.field if own else f"{self.section}_{self.field}"
        return "--" + words.replace("_", "-") + ("-file" if self.secret else "")

    @property
    def choices(self) -> tuple[str, ...]:
        return typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else _EXPECTED.get(self.kind, "text")

    def convert(self, raw: Any) -> Any:
        """The value that text, or a value from a TOML file, stands for; ValueError says what was expected."""
        value = self._converted(raw)
        if self.check is not None and (problem := self.check(value)):
            raise ValueError(problem)
        return value

    def _converted(self, raw: Any) -> Any:
        if self.choices:
            for choice in self.choices:
                if isinstance(raw, str) and raw.upper() == choice.upper():
                    return choice
        elif self.kind is bool:
            text = str(raw).lower() if isinstance(raw, str | bool) else ""
            if text in _TRUE + _FALSE:
                return text in _TRUE
        elif self.kind in (int, float):
            number = _number(self.kind, raw)
            if number is not None:
                return number
        elif isinstance(raw, str) and raw:
            return Path(raw).expanduser() if self.kind is Path else self.kind(raw)
        raise ValueError(f"{self.expected} was expected")


def _number(kind: Any, raw: Any) -> int | float | None:
    if isinstance(raw, bool) or (kind is int and isinstance(raw, float)):
        return None
    try:
        number: int | float = kind(raw)
    except (TypeError, ValueError):
        return None
    return number if number == number and abs(number) != float("inf") else None


def settings_of(section: str, declared: type) -> Iterator[Setting]:
    """The rows that a section's dataclass declares."""
    hints = typing.get_type_hints(declared)
    for field in dataclasses.fields(declared):
        kind = hints[field.name]
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
        yield Setting(section, field.name, kind, field.default, field.metadata["help"], field.metadata.get("check"))


def at_least(least: float) -> Check:
    return lambda value: None if value >= least else f"{least:g} or more was expected"


def port_number(value: int) -> str | None:
    return None if 1 <= value <= 65_535 else "a port from 1 to 65535 was expected"


def readable_file(value: Path) -> str | None:
    try:
        value.open("rb").close()
    except OSError as error:
        return f"a file that can be read was expected ({error.strerror})"
    return None


def addresses(value: str) -> str | None:
    """host:port, several with commas; an IPv6 address in brackets."""
    for address in value.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
            return "host:port was expected, several separated by commas"
    return None


def listening_address(value: str) -> str | None:
    """host:port of this machine; port 0 stands for any free one."""
    host, colon, port = value.rpartition(":")
    if colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535:
        return None
    return "host:port was expected, such as 127.0.0.1:8080"


def split_address(value: str) -> tuple[str, int]:
    """Host and port of a checked address; an IPv6 address loses its brackets."""
    host, _, port = value.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(value: str) -> bool:
    """Whether a checked address can be reached from this machine alone."""
    host = split_address(value)[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def source_numbers(value: str) -> str | None:
    """Whole numbers from 0 on, several with commas."""
    if all(number.strip().isascii() and number.strip().isdigit() for number in value.split(",")):
        return None
    return "whole numbers from 0 on were expected, several separated by commas"


def web_address(value: str) -> str | None:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "http://host:port or https://… was expected"
    return "no password belongs in an address; see registry_user" if "@" in parts.netloc else None
