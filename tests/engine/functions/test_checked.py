"""Checked arithmetic against Python's own: the same number, or the right fault, never a wrong number."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.errors import Reason
from engine.functions.udf import udf

pytestmark = pytest.mark.slow

LOW, HIGH = -(2**63), 2**63 - 1
edges = st.sampled_from([0, 1, -1, 2, -2, LOW, LOW + 1, HIGH, HIGH - 1, 2**31, -(2**31), 2**32, 3037000499, 3037000500])
integers = st.one_of(edges, st.integers(-100, 100), st.integers(LOW, HIGH))
floats = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e308]))
examples = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@udf
def add(a, b):
    return a + b


@udf
def subtract(a, b):
    return a - b


@udf
def multiply(a, b):
    return a * b


@udf
def floor_divide(a, b):
    return a // b


@udf
def modulo(a, b):
    return a % b


@udf
def divide(a, b):
    return a / b


@udf
def power(a, b):
    return a**b


@udf
def shift_left(a, b):
    return a << b


@udf
def shift_right(a, b):
    return a >> b


@udf
def negate(a):
    return -a


@udf
def absolute(a):
    return abs(a)


@udf
def to_int(a):
    return int(a)


@udf
def rounded(a):
    return round(a)


@udf
def floored(a):
    return math.floor(a)


@udf
def ceiled(a):
    return math.ceil(a)


def fitting(number: int) -> int | Reason:
    return number if LOW <= number <= HIGH else Reason.OVERFLOW


@pytest.mark.parametrize("function", [add, subtract, multiply], ids=lambda each: each.name)
@given(a=integers, b=integers)
@examples
def test_sums_and_products_of_integers(evaluate: Any, function: Any, a: int, b: int) -> None:
    assert evaluate(function, a, b) == fitting(function(a, b))


@pytest.mark.parametrize("function", [floor_divide, modulo], ids=lambda each: each.name)
@given(a=integers, b=integers)
@example(a=LOW, b=-1)
@examples
def test_quotients_and_remainders_of_integers(evaluate: Any, function: Any, a: int, b: int) -> None:
    assert evaluate(function, a, b) == (fitting(function(a, b)) if b else Reason.DIVISION_BY_ZERO)


@given(a=integers, b=integers)
@examples
def test_true_division_of_integers(evaluate: Any, a: int, b: int) -> None:
    assert evaluate(divide, a, b) == (float(a) / float(b) if b else Reason.DIVISION_BY_ZERO)


@given(a=integers, b=st.integers(-3, 70))
@example(a=-2, b=63)
@example(a=2, b=63)
@example(a=LOW, b=1)
@example(a=0, b=0)
@examples
def test_powers_of_integers(evaluate: Any, a: int, b: int) -> None:
    assert evaluate(power, a, b) == (fitting(a**b) if b >= 0 else Reason.NOT_A_NUMBER)


@pytest.mark.parametrize("function", [shift_left, shift_right], ids=lambda each: each.name)
@given(a=integers, b=st.one_of(st.integers(-2, 66), integers))
@examples
def test_shifts(evaluate: Any, function: Any, a: int, b: int) -> None:
    assert evaluate(function, a, b) == (fitting(function(a, b)) if 0 <= b < 64 else Reason.OVERFLOW)


@pytest.mark.parametrize("function", [negate, absolute, to_int, rounded, floored, ceiled], ids=lambda each: each.name)
@given(a=integers)
@examples
def test_one_integer(evaluate: Any, function: Any, a: int) -> None:
    assert evaluate(function, a) == fitting(function(a))


@pytest.mark.parametrize("function", [to_int, rounded, floored, ceiled], ids=lambda each: each.name)
@given(a=st.one_of(floats, st.floats(-100, 100), st.sampled_from([-(2.0**63), 2.0**63, 0.5, 1.5, 2.5, -0.5])))
@examples
def test_integers_from_floats(evaluate: Any, function: Any, a: float) -> None:
    assert evaluate(function, a) == fitting(function(a))


def settled(operation: Callable[[float, float], Any], a: float, b: float) -> float | Reason:
    try:
        result = operation(a, b)
    except ZeroDivisionError:
        return Reason.DIVISION_BY_ZERO
    except OverflowError:
        return Reason.OVERFLOW
    if isinstance(result, complex) or math.isnan(result):
        return Reason.NOT_A_NUMBER
    return Reason.OVERFLOW if math.isinf(result) else result


@pytest.mark.parametrize(
    "function", [add, subtract, multiply, divide, floor_divide, modulo], ids=lambda each: each.name
)
@given(a=floats, b=floats)
@examples
def test_floats(evaluate: Any, function: Any, a: float, b: float) -> None:
    assert evaluate(function, a, b) == settled(function, a, b)


@given(a=floats, b=st.floats(-10, 10))
@example(a=-8.0, b=0.5)
@example(a=0.0, b=-1.0)
@example(a=10.0, b=400.0)
@examples
def test_powers_of_floats(evaluate: Any, a: float, b: float) -> None:
    # Python leaves the real numbers where the base is negative and the exponent is not whole; here there are no others.
    complex_result = a < 0 and not b.is_integer()
    expected = Reason.NOT_A_NUMBER if complex_result else settled(operator.pow, a, b)
    assert evaluate(power, a, b) == (expected if isinstance(expected, Reason) else pytest.approx(expected, rel=1e-14))


@pytest.mark.parametrize("function", [add, subtract, multiply, floor_divide], ids=lambda each: each.name)
def test_booleans_count_as_integers(evaluate: Any, function: Any) -> None:
    assert evaluate(function, True, True) == function(True, True)
    assert evaluate(function, HIGH, True) == fitting(function(HIGH, True))


def test_a_boolean_alone(evaluate: Any) -> None:
    assert (evaluate(negate, True), evaluate(absolute, True), evaluate(to_int, True)) == (-1, 1, 1)


def test_mixed_operands_are_floats(evaluate: Any) -> None:
    assert evaluate(add, 1, 0.5) == 1.5
    assert evaluate(multiply, 0.5, True) == 0.5
    assert evaluate(floor_divide, 7, 2.0) == 3.0
    assert evaluate(power, 2, 0.5) == math.sqrt(2)


def test_special_floats_have_no_integer(evaluate: Any) -> None:
    @udf
    def of_nan(a):
        return int(math.nan) + a

    @udf
    def of_infinity(a):
        return int(-math.inf) + a

    assert evaluate(of_nan, 1) == Reason.NOT_A_NUMBER
    assert evaluate(of_infinity, 1) == Reason.OVERFLOW


def test_the_first_fault_wins(evaluate: Any) -> None:
    @udf
    def twice(a, b):
        c = a // b
        return c + a * a

    assert evaluate(twice, HIGH, 0) == Reason.DIVISION_BY_ZERO
    assert evaluate(twice, HIGH, 1) == Reason.OVERFLOW


@pytest.mark.parametrize(
    ("x", "outcome"), [(4.0, 2.0), (-1.0, Reason.NOT_A_NUMBER), (0.0, 0.0)], ids=["plain", "negative", "zero"]
)
def test_math_functions_are_checked(evaluate: Any, x: float, outcome: object) -> None:
    @udf
    def root(a):
        return math.sqrt(a)

    @udf
    def numpy_root(a):
        return np.sqrt(a)

    assert evaluate(root, x) == outcome
    assert evaluate(numpy_root, x) == outcome


def test_infinite_results_of_math_functions(evaluate: Any) -> None:
    @udf
    def exponential(a):
        return math.exp(a)

    @udf
    def logarithm(a):
        return math.log(a)

    assert evaluate(exponential, 1000.0) == Reason.OVERFLOW
    assert evaluate(logarithm, 0.0) == Reason.OVERFLOW
    assert evaluate(logarithm, -1.0) == Reason.NOT_A_NUMBER
    assert evaluate(logarithm, 1) == 0.0


def test_operations_that_cannot_fail(evaluate: Any) -> None:
    @udf
    def bits(a, b):
        return (a & b) | (a ^ ~b)

    @udf
    def choices(a, b):
        return min(a, b, 5) + max(a, b) + (1 if a < b <= 10 and not a >= 3 else 0)

    @udf
    def tests(a):
        return bool(a) and math.isfinite(a) and not np.isnan(a)

    assert evaluate(bits, 12, 10) == bits(12, 10)
    assert evaluate(choices, 2, 9) == choices(2, 9)
    assert (evaluate(tests, 1.0), evaluate(tests, 0.0)) == (True, False)


def test_a_fault_ends_loops(evaluate: Any) -> None:
    @udf
    def endless(a, b):
        while True:
            if b >= 0:
                a = a * 2
                continue
            return a

    @udf
    def hanging(a, b):
        total = 0
        while total < 10:
            total = total + a // b
        return total

    @udf
    def counted(a, b):
        seen = 0
        for i in range(a):
            for j in range(0, a, b):
                seen += i * j + a * HIGH
        return seen

    assert evaluate(endless, 1, 1) == Reason.OVERFLOW
    assert evaluate(hanging, 1, 0) == Reason.DIVISION_BY_ZERO
    assert evaluate(counted, 10**12, 1) == Reason.OVERFLOW
    assert evaluate(counted, 10**12, 0) == Reason.BAD_INDEX


def test_ranges(evaluate: Any) -> None:
    @udf
    def total(start, stop, step):
        result = 0
        for i in range(start, stop, step):
            if i == 13:
                break
            result += i
        return result

    assert evaluate(total, 0, 10, 3) == 18
    assert evaluate(total, 10, 0, -4) == 18
    assert evaluate(total, 5, 5, 1) == 0
    assert evaluate(total, LOW, HIGH, 2**62) == Reason.OVERFLOW
