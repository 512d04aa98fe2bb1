"""A value that is used but never shown: passwords travel as `Secret` from where they are read to where they are needed.

Invariants: no text form (`repr`, `str`, formatting, logging, `asdict`, JSON) holds the value, and it cannot be pickled.
Only `reveal()` gives it out, so a search for that word finds every use.
"""

from __future__ import annotations

import hmac
from typing import Any, NoReturn


class Secret:
    """A password; `reveal()` gives it out."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The value itself, for the one call that needs it."""
        return self.__value

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self.__value.encode(), other.__value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    # Copies are the same object, so that `dataclasses.asdict` works without the pickling below.
    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: pass the setting's file or environment variable on instead")
