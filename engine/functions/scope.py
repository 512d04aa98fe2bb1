"""What the names of a user function mean: its own locals, or values found in its closure, its module and the builtins.

Invariant: a free name is looked up once, when the function is transformed; a later change of it has no effect.
"""

from __future__ import annotations

import builtins
import inspect

from engine.functions.udf import UserFunction


class UnknownNameError(Exception):
    """A name that means nothing where the function was defined."""


class Scope:
    """The names one function can see."""

    def __init__(self, function: UserFunction) -> None:
        code = function.python.__code__
        self.locals = frozenset(code.co_varnames)
        self._globals = function.python.__globals__
        self._cells = dict(zip(code.co_freevars, function.python.__closure__ or (), strict=True))

    def value(self, name: str) -> object:
        """What the free name `name` stands for."""
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:
                raise UnknownNameError(name) from None
        if name in self._globals:
            return self._globals[name]
        try:
            return inspect.getattr_static(builtins, name)
        except AttributeError:
            raise UnknownNameError(name) from None
