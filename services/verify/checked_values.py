"""Numbers and records for the oracle: on them a user's plain Python function goes wrong when the contract says so.

A `CheckedInt` is a Python integer whose every result must lie in 64 bits; a `CheckedFloat`'s results must be finite.
What goes wrong is a `Fault`, raised at once, so the first fault in evaluation order is the one that is seen.
Nothing here knows the engine: its rewriting of user functions is what this is compared with.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from engine.api.types import INT64, FieldType, ListType, ScalarType, VectorType
from engine.errors import Reason
from engine.functions.udf import UserFunction

LOWEST, HIGHEST = -(2**63), 2**63 - 1
Plain = int | float | bool | tuple[Any, ...]  # how the oracle's state holds a field
PlainRecord = dict[str, Plain]


class Fault(Exception):  # noqa: N818 - the contract's word
    """A user function went wrong."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.name)
        self.reason = reason


def checked(value: Any) -> Any:
    """`value` as a checked number, or the fault that it is. Truth values and what is no number stay as they are."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not LOWEST <= value <= HIGHEST:
            raise Fault(Reason.OVERFLOW)
        return CheckedInt(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise Fault(Reason.NOT_A_NUMBER)
        if math.isinf(value):
            raise Fault(Reason.OVERFLOW)
        return CheckedFloat(value)
    if isinstance(value, complex):  # a root of a negative number
        raise Fault(Reason.NOT_A_NUMBER)
    return value


def _calculate(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """One operator on plain numbers. An integer that meets a float, or that `/` divides, becomes a float64 first."""
    if isinstance(left, float) or isinstance(right, float) or operation is operator.truediv:
        left, right = float(left), float(right)
    else:
        left, right = int(left), int(right)
        if operation is operator.pow:
            if right < 0:
                raise Fault(Reason.NOT_A_NUMBER)
            if right > 64 and abs(left) > 1:  # too large to wait for
                raise Fault(Reason.OVERFLOW)
        if operation in (operator.lshift, operator.rshift) and not 0 <= right < 64:
            raise Fault(Reason.OVERFLOW)
    try:
        return checked(operation(left, right))
    except ZeroDivisionError:
        raise Fault(Reason.DIVISION_BY_ZERO) from None
    except OverflowError:
        raise Fault(Reason.OVERFLOW) from None


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
_COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")


def _arithmetic(number: type) -> type:
    """Gives the class every operator in checked form."""

    def forward(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda self, other: (
            _calculate(operation, self, other) if isinstance(other, int | float) else NotImplemented
        )

    def reflected(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda self, other: (
            _calculate(operation, other, self) if isinstance(other, int | float) else NotImplemented
        )

    def comparison(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def compare(self: Any, other: Any) -> Any:
            if not isinstance(other, int | float):
                return NotImplemented
            both = int if isinstance(self, int) and isinstance(other, int) else float
            return operation(both(self), both(other))

        return compare

    def unary(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def apply(self: Any) -> Any:
            result = operation(self)
            return (
                CheckedFloat(result) if isinstance(result, float) else checked(result)
            )  # a sign makes nothing infinite

        return apply

    for name in _OPERATORS:
        operation = getattr(operator, name)
        setattr(number, f"__{name.strip('_')}__", forward(operation))
        setattr(number, f"__r{name.strip('_')}__", reflected(operation))
    for name in _COMPARISONS:
        setattr(number, f"__{name}__", comparison(getattr(operator, name)))
    ordinary: Any = number.__base__
    for name in ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc"):
        if hasattr(ordinary, f"__{name}__"):
            setattr(number, f"__{name}__", unary(getattr(ordinary, f"__{name}__")))
    number.__hash__ = ordinary.__hash__  # type: ignore[method-assign]
    return number


@_arithmetic
class CheckedInt(int):
    """An integer whose results must lie in 64 bits."""

    __slots__ = ()


@_arithmetic
class CheckedFloat(float):
    """A float whose results must be finite."""

    __slots__ = ()


class CheckedVector(list[Any]):
    """A vector field, or the records of a list of keys: an index out of bounds is a fault."""

    def __init__(self, items: Iterable[Any], element: ScalarType | None = None) -> None:
        super().__init__(items)
        self.element = element  # None: records, which cannot be assigned

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(int(index))
        except IndexError:
            raise Fault(Reason.BAD_INDEX) from None

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.element is None:
            raise TypeError("a record that was read cannot be replaced")
        try:
            super().__setitem__(int(index), stored(self.element, value))
        except IndexError:
            raise Fault(Reason.BAD_INDEX) from None


def presented(kind: FieldType, value: Any) -> Any:
    """A value of a field of type `kind` as user functions see it. Never a fault: an empty window's min is inf."""
    if isinstance(kind, VectorType):
        return CheckedVector((presented(kind.element, item) for item in value), kind.element)
    if isinstance(kind, ListType):
        raise TypeError("a list of the event is no value for a user function")
    if kind.name == "boolean":
        return bool(value)
    return CheckedInt(value) if kind.name == "int64" else CheckedFloat(value)


def stored(kind: FieldType, value: Any) -> Any:
    """What storing `value` in a field of type `kind` makes of it, or the fault that it is."""
    if kind == INT64 and isinstance(value, float):
        raise TypeError("a float does not go into an int64 field")
    return checked(presented(kind, value))


def plain(value: Any) -> Plain:
    """A checked value as an ordinary one."""
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value)


class Record:
    """A record as a user function sees it: fields by attribute; only its own record may it change."""

    __slots__ = ("_fields", "_values", "_writable")

    def __init__(self, fields: Mapping[str, FieldType], values: Mapping[str, Any], writable: bool = False) -> None:
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_values", {name: presented(kind, values[name]) for name, kind in fields.items()})
        object.__setattr__(self, "_writable", writable)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._writable or name not in self._fields:
            raise TypeError(f"field {name} cannot be assigned")
        self._values[name] = stored(self._fields[name], value)

    def plain(self) -> PlainRecord:
        return {name: plain(value) for name, value in self._values.items()}


def _of_mathematics(name: str) -> Callable[..., Any]:
    function = getattr(math, name)

    def call(*arguments: Any) -> Any:
        try:
            return checked(function(*arguments))
        except OverflowError:
            raise Fault(Reason.OVERFLOW) from None
        except ValueError:
            # Python names no reason here; the limit that numpy gives tells a pole (infinite) from what is undefined.
            with np.errstate(all="ignore"):
                limit = float(getattr(np, name, lambda *_: math.nan)(*map(float, arguments)))
            raise Fault(Reason.OVERFLOW if math.isinf(limit) else Reason.NOT_A_NUMBER) from None

    return call


def _range(*bounds: Any) -> Iterable[CheckedInt]:
    return map(CheckedInt, range(*map(int, bounds)))


def _to_integer(value: Any) -> Any:
    return checked(math.trunc(value))


_MATHEMATICS = SimpleNamespace(
    **{
        name: _of_mathematics(name) if callable(value) else value
        for name, value in vars(math).items()
        if name[0] != "_"
    }
)
_REPLACED: dict[str, Any] = {
    "int": _to_integer,
    "float": lambda value: CheckedFloat(value),
    "len": lambda values: CheckedInt(len(values)),
    "range": _range,
}


@cache
def executable(function: UserFunction) -> Callable[..., Any]:
    """The user's own function; its constants and what would lose the checks are replaced by checked ones."""
    original = function.python
    names: dict[str, Any] = dict(original.__globals__)
    for name in original.__code__.co_names:
        value = names.get(name)
        if name in _REPLACED and name not in names:
            names[name] = _REPLACED[name]
        elif value is math:
            names[name] = _MATHEMATICS
        elif isinstance(value, UserFunction):
            names[name] = executable(value)
        elif getattr(value, "__module__", None) == "math":
            names[name] = getattr(_MATHEMATICS, str(getattr(value, "__name__", name)))
        elif isinstance(value, int | float):
            names[name] = _constant(value)
    code = original.__code__
    code = code.replace(co_consts=tuple(_constant(value) for value in code.co_consts))
    return FunctionType(code, names, original.__name__, None, original.__closure__)


def _constant(value: Any) -> Any:
    try:
        return checked(value)
    except Fault:  # a constant that no field could hold faults where it is used
        return value
