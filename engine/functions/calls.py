"""Which functions a user function may call, and what each call becomes.

Invariant: a call never raises in compiled code and never lets NaN or infinity pass unseen.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from types import ModuleType

import numpy as np


@dataclass(frozen=True)
class Call:
    """How a call is rewritten: `target` is written into the module; `form` says what is put around it."""

    target: str
    form: str  # "checked": target(_fault, ...); "plain": target(...); "finite": finite(_fault, target(...)); "range"
    arguments_min: int = 1
    arguments_max: int = 1


MODULES: dict[ModuleType, str] = {math: "_math", np: "_numpy"}

_MANY = 64  # more operands of min or max than anyone writes

ALLOWED: dict[Hashable, Call] = {
    abs: Call("_checked.absolute", "checked"),
    int: Call("_checked.to_integer", "checked"),
    float: Call("_checked.to_float", "checked"),
    bool: Call("_checked.to_boolean", "checked"),
    round: Call("_checked.round_even", "checked"),  # to an integer only: numba's round(x, digits) differs from Python's
    min: Call("_min", "plain", 2, _MANY),
    max: Call("_max", "plain", 2, _MANY),
    len: Call("_len", "plain"),
    range: Call("_places.span", "range", 1, 3),
    math.floor: Call("_checked.floor", "checked"),
    math.ceil: Call("_checked.ceil", "checked"),
    math.trunc: Call("_checked.to_integer", "checked"),
    math.fabs: Call("_math.fabs", "finite"),
    np.absolute: Call("_checked.absolute", "checked"),
    np.int64: Call("_checked.to_integer", "checked"),
    np.float64: Call("_checked.to_float", "checked"),
    np.bool_: Call("_checked.to_boolean", "checked"),
}

_FINITE_UNARY = {
    math: "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "degrees radians erf erfc gamma lgamma",
    np: "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh "
    "arctanh floor ceil trunc rint fabs degrees radians sign",
}
_FINITE_BINARY = {
    math: "pow atan2 hypot fmod copysign",
    np: "arctan2 hypot fmod copysign minimum maximum",
}
_TESTS = "isnan isinf isfinite"

for _module, _prefix in MODULES.items():
    for _name in _FINITE_UNARY[_module].split():
        ALLOWED[getattr(_module, _name)] = Call(f"{_prefix}.{_name}", "finite")
    for _name in _FINITE_BINARY[_module].split():
        ALLOWED[getattr(_module, _name)] = Call(f"{_prefix}.{_name}", "finite", 2, 2)
    for _name in _TESTS.split():
        ALLOWED[getattr(_module, _name)] = Call(f"{_prefix}.{_name}", "plain")


def allowed(function: object) -> Call | None:
    """The rule for calling `function`, if it may be called."""
    return ALLOWED.get(function) if isinstance(function, Hashable) else None
