"""The wrapper around a user's plain Python function; it compiles nothing.

Invariant: calling the wrapper calls the plain function, so that user functions can be tested without the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from engine.errors import DeclarationError


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A Python function that the engine may compile; equal only to itself."""

    python: FunctionType

    @property
    def name(self) -> str:
        return self.python.__name__

    @property
    def file(self) -> str:
        return self.python.__code__.co_filename

    @property
    def line(self) -> int:
        return self.python.__code__.co_firstlineno

    @property
    def parameters(self) -> tuple[str, ...]:
        code = self.python.__code__
        return code.co_varnames[: code.co_argcount]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.python(*arguments, **named)

    def error(self, line: int, what: str) -> DeclarationError:
        """The error to raise for something wrong at `line` of the user's file."""
        return DeclarationError(f"{self.name} ({self.file}:{line}): {what}")


def udf(function: Callable[..., Any]) -> UserFunction:
    """Mark `function` as a user function of the engine."""
    if isinstance(function, UserFunction):
        return function
    if not isinstance(function, FunctionType):
        raise DeclarationError(f"udf takes a function written with def, got {function!r}")
    wrapped = UserFunction(function)
    if function.__name__ == "<lambda>":
        raise wrapped.error(wrapped.line, "a lambda cannot be a user function; write it with def")
    return wrapped
