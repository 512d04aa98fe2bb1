# mypy: ignore-errors
"""Checked arithmetic, the kernels that a user function's operators become.

Invariants: every operation takes the fault cell first; the first fault wins; after a fault the result is 0. Nothing
raises. Integers are int64 (booleans count as integers) with Python's floor semantics, floats are float64. A fault is
a `Reason`. Where Python's integers are exact and floats are not (`/` and comparisons of an integer beyond 2**53 with
a float), the integer is rounded to float64 first.

Each operation is a marker function that numba overloads by the types of its operands; types that do not fit are
refused with a message behind `REFUSAL`, which `diagnosis.py` finds in numba's text.
"""

import math

import numpy as np
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload

from engine.errors import Reason
from engine.functions.memory import add_with_overflow, multiply_with_overflow, subtract_with_overflow

OVERFLOW, DIVISION_BY_ZERO = int(Reason.OVERFLOW), int(Reason.DIVISION_BY_ZERO)
NOT_A_NUMBER, BAD_INDEX = int(Reason.NOT_A_NUMBER), int(Reason.BAD_INDEX)
INT64_MIN = -(2**63)
REFUSAL = "millrace: "
OPTIONS = {"error_model": "numpy", "nogil": True}


def type_name(numba_type: types.Type) -> str:
    """A short name of a type for the user."""
    numba_type = types.unliteral(numba_type)
    if isinstance(numba_type, types.Record):
        return "a record"
    if isinstance(numba_type, types.Array):
        return "records" if isinstance(numba_type.dtype, types.Record) else "a vector"
    if isinstance(numba_type, types.Optional):
        return f"{type_name(numba_type.type)} or None"
    return {types.none: "None", types.boolean: "boolean"}.get(numba_type, str(numba_type))


def is_integer(operand):
    operand = types.unliteral(operand)
    return isinstance(operand, types.Boolean) or (isinstance(operand, types.Integer) and operand.signed)


def is_float(operand):
    return isinstance(operand, types.Float)


def refuse(what):
    raise TypingError(REFUSAL + what)


def require_numbers(symbol, *operands):
    for operand in operands:
        if not (is_integer(operand) or is_float(operand)):
            refuse(f"{symbol} takes numbers, got {type_name(operand)}")


@njit(**OPTIONS)
def fail(fault, reason):
    """Record a fault, unless there is one."""
    if fault[0] == 0:
        fault[0] = reason


@njit(**OPTIONS)
def settle(fault, value):
    """`value`, or 0.0 and a fault where it is not finite."""
    if math.isfinite(value):
        return value
    fail(fault, NOT_A_NUMBER if math.isnan(value) else OVERFLOW)
    return 0.0


@njit(**OPTIONS)
def truncate(fault, value):
    """The integer part of a float."""
    if value >= -9223372036854775808.0 and value < 9223372036854775808.0:
        return np.int64(value)
    fail(fault, NOT_A_NUMBER if math.isnan(value) else OVERFLOW)
    return 0


def binary(symbol, on_integers, on_floats):
    def operation(fault, left, right):
        """Compiled by type through the overload below."""

    @overload(operation, jit_options=OPTIONS)
    def choose(fault, left, right):
        require_numbers(symbol, left, right)
        if is_integer(left) and is_integer(right):
            return on_integers
        if on_floats is None:
            refuse(f"{symbol} takes integers, got {type_name(left)} and {type_name(right)}")
        return on_floats

    return operation


def unary(symbol, on_integer, on_float):
    def operation(fault, value):
        """Compiled by type through the overload below."""

    @overload(operation, jit_options=OPTIONS)
    def choose(fault, value):
        require_numbers(symbol, value)
        if is_integer(value):
            return on_integer
        if on_float is None:
            refuse(f"{symbol} takes an integer, got {type_name(value)}")
        return on_float

    return operation


def _flagged(with_overflow):
    def on_integers(fault, left, right):
        result, overflowed = with_overflow(np.int64(left), np.int64(right))
        if overflowed:
            fail(fault, OVERFLOW)
            return 0
        return result

    return on_integers


def _floor_divide_integers(fault, left, right):
    dividend, divisor = np.int64(left), np.int64(right)
    if divisor == 0:
        fail(fault, DIVISION_BY_ZERO)
        return 0
    if divisor == -1:  # the one quotient that overflows; the machine's division would trap
        if dividend == INT64_MIN:
            fail(fault, OVERFLOW)
            return 0
        return -dividend
    return dividend // divisor


def _modulo_integers(fault, left, right):
    dividend, divisor = np.int64(left), np.int64(right)
    if divisor == 0:
        fail(fault, DIVISION_BY_ZERO)
        return 0
    if divisor == -1:
        return 0
    return dividend % divisor


def _divided(operator):
    def on_numbers(fault, left, right):
        divisor = np.float64(right)
        if divisor == 0.0:
            fail(fault, DIVISION_BY_ZERO)
            return 0.0
        return settle(fault, operator(np.float64(left), divisor))

    return on_numbers


def _power_integers(fault, left, right):
    base, exponent, result = np.int64(left), np.int64(right), np.int64(1)
    if exponent < 0:
        fail(fault, NOT_A_NUMBER)
        return 0
    overflowed = False
    while exponent != 0:
        if exponent & 1:
            result, overflowed = multiply_with_overflow(result, base)
            if overflowed:
                break
        exponent >>= 1
        if exponent != 0:  # squared only when still needed, so an overflow here is one of the result
            base, overflowed = multiply_with_overflow(base, base)
            if overflowed:
                break
    if overflowed:
        fail(fault, OVERFLOW)
        return 0
    return result


def _power_floats(fault, left, right):
    base, exponent = np.float64(left), np.float64(right)
    if base == 0.0 and exponent < 0.0:
        fail(fault, DIVISION_BY_ZERO)
        return 0.0
    return settle(fault, base**exponent)


def _shift_left(fault, left, right):
    value, count = np.int64(left), np.int64(right)
    if count < 0 or count >= 64 or ((value << count) >> count) != value:
        fail(fault, OVERFLOW)
        return 0
    return value << count


def _shift_right(fault, left, right):
    value, count = np.int64(left), np.int64(right)
    if count < 0 or count >= 64:
        fail(fault, OVERFLOW)
        return 0
    return value >> count


def _negate_integer(fault, value):
    number = np.int64(value)
    if number == INT64_MIN:
        fail(fault, OVERFLOW)
        return 0
    return -number


def _absolute_integer(fault, value):
    number = np.int64(value)
    if number == INT64_MIN:
        fail(fault, OVERFLOW)
        return 0
    return -number if number < 0 else number


@njit(**OPTIONS)
def _true_quotient(left, right):
    return left / right


@njit(**OPTIONS)
def _floor_quotient(left, right):
    return left // right


@njit(**OPTIONS)
def _remainder(left, right):
    return left % right


def _same_integer(fault, value):
    return np.int64(value)


add = binary("+", _flagged(add_with_overflow), lambda fault, left, right: settle(fault, np.float64(left) + right))
subtract = binary(
    "-", _flagged(subtract_with_overflow), lambda fault, left, right: settle(fault, np.float64(left) - right)
)
multiply = binary(
    "*", _flagged(multiply_with_overflow), lambda fault, left, right: settle(fault, np.float64(left) * right)
)
divide = binary("/", _divided(_true_quotient), _divided(_true_quotient))
floor_divide = binary("//", _floor_divide_integers, _divided(_floor_quotient))
modulo = binary("%", _modulo_integers, _divided(_remainder))
power = binary("**", _power_integers, _power_floats)
shift_left = binary("<<", _shift_left, None)
shift_right = binary(">>", _shift_right, None)
negate = unary("-", _negate_integer, lambda fault, value: -value)
plus = unary("+", _same_integer, lambda fault, value: value)
invert = unary("~", lambda fault, value: ~np.int64(value), None)
absolute = unary("abs()", _absolute_integer, lambda fault, value: abs(value))
to_integer = unary("int()", _same_integer, lambda fault, value: truncate(fault, value))
to_float = unary("float()", lambda fault, value: np.float64(value), lambda fault, value: value)
to_boolean = unary("bool()", lambda fault, value: value != 0, lambda fault, value: value != 0.0)
floor = unary("floor()", _same_integer, lambda fault, value: truncate(fault, np.floor(value)))
ceil = unary("ceil()", _same_integer, lambda fault, value: truncate(fault, np.ceil(value)))
round_even = unary("round()", _same_integer, lambda fault, value: truncate(fault, np.rint(value)))
finite = unary("the result", lambda fault, value: value, lambda fault, value: settle(fault, value))
