"""What a user function may not do: each is refused with the function's name, the user's line and the reason.

The offending line of every function below ends in the comment `# here`.
"""

# ruff: noqa: B007, E731, F401, F821, F841, RUF059, SIM105  (the functions below are wrong on purpose)

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.errors import DeclarationError
from engine.functions.entry import Parameter, compile_entry
from engine.functions.udf import UserFunction, udf

RECORD = np.dtype([("balance", "<i8"), ("rate", "<f8"), ("open", "?"), ("items", "<f8", (3,))], align=True)
WRITABLE = (Parameter("own", RECORD, writable=True), Parameter("event", RECORD))
READ_ONLY = (Parameter("own", RECORD), Parameter("event", RECORD))
HUGE, NAME, TABLE = 2**63, "name", {1: 2}


def plain_python(x):
    return x


@udf
def broken_helper(record):
    return record.nothing  # here


@udf
def storing_helper(record, value):
    record.balance = value


@udf
def partial_helper(value):
    if value > 0:
        return value


def uses_try(a, b):
    try:  # here
        a.balance = 1
    except ValueError:
        pass


def uses_with(a, b):
    with b:  # here
        pass


def uses_lambda(a, b):
    f = lambda x: x  # here
    return True


def uses_yield(a, b):
    yield 1  # here


def uses_global(a, b):
    global HUGE  # here
    return True


def uses_comprehension(a, b):
    x = [i for i in b.items]  # here
    return True


def uses_generator(a, b):
    return max(x for x in b.items) > 0  # here


def uses_f_string(a, b):
    x = f"{b.balance}"  # here
    return True


def uses_text(a, b):
    """A docstring is no problem."""
    x = "text"  # here
    return True


def uses_nested_def(a, b):
    def inner():  # here
        return 1

    return True


def uses_import(a, b):
    import math  # here

    return True


def uses_slice(a, b):
    return b.items[0:2][0] > 0  # here


def stores_slice(a, b):
    a.items[0:2] = 1.0  # here


def uses_list(a, b):
    x = [1, 2]  # here
    return True


def uses_assert(a, b):
    assert b.open  # here


def uses_raise(a, b):
    raise ValueError  # here


def uses_walrus(a, b):
    return (x := b.balance) > 1  # here


def uses_matrix_product(a, b):
    return b.items @ b.items > 0  # here


def uses_is(a, b):
    return b.balance is True  # here


def uses_none(a, b):
    x = None  # here
    return True


def uses_delete(a, b):
    x = 1
    del x  # here


def uses_complex(a, b):
    x = 1j  # here
    return True


def does_nothing(a, b):
    b.balance  # here


def large_literal(a, b):
    return b.balance > 9223372036854775808  # here


def large_constant(a, b):
    return b.balance > HUGE  # here


def text_constant(a, b):
    return b.balance == NAME  # here


def other_global(a, b):
    return TABLE[1] > 0  # here


def unknown_name(a, b):
    return b.balance > missing  # here


def calls_python(a, b):
    return plain_python(b.balance) > 0  # here


def calls_builtin(a, b):
    print(b.balance)  # here


def calls_method(a, b):
    return b.items.sum() > 0  # here


def calls_unsupported_math(a, b):
    return math.factorial(b.balance) > 0  # here


def calls_unknown_math(a, b):
    return math.nothing(b.balance) > 0  # here


def calls_with_keyword(a, b):
    return round(number=b.rate) > 0  # here


def rounds_to_digits(a, b):
    return round(b.rate, 2) > 0  # here


def takes_function_as_value(a, b):
    f = math.sqrt  # here
    return True


def helper_arity(a, b):
    return partial_helper(b.balance, 1) > 0  # here


def helper_may_return_nothing(a, b):
    return partial_helper(b.balance) > 0  # here


def stores_into_second(a, b):
    b.balance = 1  # here


def stores_into_alias(a, b):
    c = b
    c.balance = 1  # here


def stores_into_items_of_alias(a, b):
    items = a.items
    items[0] = 1.0  # here


def stores_into_second_items(a, b):
    b.items[0] += 1.0  # here


def stores_through_helper(a, b):
    storing_helper(b, 1)  # here


def rebinds_own(a, b):
    a.balance = 1
    a = b  # here
    return True


def float_into_integer(a, b):
    a.balance = b.rate  # here


def quotient_into_integer(a, b):
    a.balance /= 2  # here


def integer_into_boolean(a, b):
    a.open = 1  # here


def whole_vector(a, b):
    a.items = b.items  # here


def unknown_field(a, b):
    x = b.balance
    return x + b.balence > 0  # here


def unknown_stored_field(a, b):
    a.balance = 1
    a.balence = 1  # here


def float_index(a, b):
    return b.items[b.rate] > 0  # here


def indexes_number(a, b):
    return b.balance[0] > 0  # here


def adds_record(a, b):
    x = b + 1  # here
    return True


def adds_vector(a, b):
    x = b.items + 1.0  # here
    return True


def compares_vectors(a, b):
    x = a.items == b.items  # here
    return True


def truth_of_vector(a, b):
    if b.items:  # here
        return False


def root_of_vector(a, b):
    x = np.sqrt(b.items)  # here
    return True


def shifts_float(a, b):
    return b.rate << 1 > 0  # here


def loops_over_number(a, b):
    for x in b.balance:  # here
        pass


def range_of_float(a, b):
    for x in range(b.rate):  # here
        pass


def unpacks_vector(a, b):
    x, y, z = b.items  # here
    return True


def unpacks_too_much(a, b):
    x, y = 1, 2, 3  # here
    return True


def returns_number(a, b):
    x = b.balance
    return x  # here


def returns_mixture(a, b):
    if b.open:
        return b  # here
    return True


def unassigned(a, b):
    if b.open:
        x = 1
    return x > 0  # here


def unassigned_after_loop(a, b):
    for i in range(3):
        x = i
    return x > 0  # here


def unassigned_update(a, b):
    x += 1  # here
    return True


def reserved_name(a, _fault):  # here
    return True


def default_value(a, b=1):  # here
    return True


def starred(a, b, *rest):  # here
    return True


REFUSED = [
    (uses_try, "try"),
    (uses_with, "with"),
    (uses_lambda, "lambda"),
    (uses_yield, "yield"),
    (uses_global, "global"),
    (uses_comprehension, "comprehension"),
    (uses_generator, "comprehension"),
    (uses_f_string, "f-string"),
    (uses_text, "text"),
    (uses_nested_def, "nested function"),
    (uses_import, "import"),
    (uses_slice, "slice"),
    (stores_slice, "slice"),
    (uses_list, "list"),
    (uses_assert, "assert"),
    (uses_raise, "raise"),
    (uses_walrus, "inside an expression"),
    (uses_matrix_product, "@"),
    (uses_is, "'is'"),
    (uses_none, "None"),
    (uses_delete, "del"),
    (uses_complex, "complex"),
    (does_nothing, "does nothing"),
    (large_literal, "does not fit into int64"),
    (large_constant, "HUGE does not fit into int64"),
    (text_constant, "NAME"),
    (other_global, "TABLE"),
    (unknown_name, "'missing' is not defined"),
    (calls_python, "plain_python"),
    (calls_builtin, "print"),
    (calls_method, "b.items.sum"),
    (calls_unsupported_math, "math.factorial"),
    (calls_unknown_math, "no 'nothing'"),
    (calls_with_keyword, "keyword"),
    (rounds_to_digits, "2 arguments"),
    (takes_function_as_value, "math.sqrt"),
    (helper_arity, "takes 1 arguments, got 2"),
    (helper_may_return_nothing, "or None"),
    (stores_into_second, "'b'"),
    (stores_into_alias, "'c'"),
    (stores_into_items_of_alias, "first parameter"),
    (stores_into_second_items, "'b'"),
    (stores_through_helper, "'b'"),
    (rebinds_own, "'a'"),
    (float_into_integer, "int64 place takes integers, got float64"),
    (quotient_into_integer, "int64 place takes integers, got float64"),
    (integer_into_boolean, "boolean place takes booleans"),
    (whole_vector, "as a whole"),
    (unknown_field, "no field 'balence'; the fields are balance, rate, open, items"),
    (unknown_stored_field, "no field 'balence'"),
    (float_index, "index must be an integer"),
    (indexes_number, "cannot be indexed"),
    (adds_record, "takes numbers, got a record"),
    (adds_vector, "takes numbers, got a vector"),
    (compares_vectors, "computes a vector"),
    (truth_of_vector, "neither true nor false"),
    (root_of_vector, "a vector"),
    (shifts_float, "takes integers"),
    (loops_over_number, "cannot run over int64"),
    (range_of_float, "range() takes integers"),
    (unpacks_vector, "only a tuple"),
    (unpacks_too_much, "3 values into 2 names"),
    (returns_number, "must return True, False or nothing"),
    (returns_mixture, "different types: a record, bool"),
    (unassigned, "'x' may be used before"),
    (unassigned_after_loop, "'x' may be used before"),
    (unassigned_update, "'x' may be used before"),
    (reserved_name, "reserved"),
    (default_value, "plain names"),
    (starred, "plain names"),
]


def line_of_mark(function: Callable[..., Any]) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(place for place, line in enumerate(lines) if line.rstrip().endswith("# here"))


def refusal(function: UserFunction, parameters: tuple[Parameter, ...], result: str = "verdict") -> str:
    with pytest.raises(DeclarationError) as caught:
        compile_entry(function, parameters, result)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message and "entry_" not in message and "Traceback" not in message
    return message


@pytest.mark.parametrize(("function", "what"), REFUSED, ids=[function.__name__ for function, _ in REFUSED])
def test_refused(function: Callable[..., Any], what: str) -> None:
    message = refusal(udf(function), WRITABLE)
    assert message.startswith(f"{function.__name__} ({__file__}:{line_of_mark(function)}): ")
    assert what in message


def test_a_mistake_in_a_helper_names_the_helper() -> None:
    @udf
    def caller(a, b):
        return broken_helper(b) > 0

    message = refusal(caller, WRITABLE)
    assert message.startswith(f"broken_helper ({__file__}:{line_of_mark(broken_helper.python)}): ")
    assert "no field 'nothing'" in message


def test_storing_needs_a_writable_parameter() -> None:
    def stores(a, b):
        a.balance += 1  # here

    def stores_by_helper(a, b):
        storing_helper(a, 1)  # here

    for function in (stores, stores_by_helper):
        message = refusal(udf(function), READ_ONLY)
        assert message.startswith(f"{function.__name__} ({__file__}:{line_of_mark(function)}): ")
        assert "read-only" in message
        compile_entry(udf(function), WRITABLE, "verdict")


def test_arity() -> None:
    @udf
    def three(a, b, c):
        return True

    assert "takes 3 parameters, here it is given 2 (own, event)" in refusal(three, WRITABLE)


def test_recursion() -> None:
    @udf
    def first(a, b):
        return second(a, b)

    @udf
    def second(a, b):
        return first(a, b)

    assert "recursively" in refusal(first, WRITABLE)


def test_values_that_are_no_numbers() -> None:
    @udf
    def record(a, b):
        return b

    @udf
    def floats(a, b):
        return b.rate, b.rate

    @udf
    def partial(a, b):
        if b.open:
            return 1

    @udf
    def nothing(a, b):
        pass

    for function in (record, floats, partial, nothing):
        assert "must return a number, a boolean or a tuple of integers" in refusal(function, WRITABLE, "value")


def test_a_refused_function_stays_refused() -> None:
    """What numba compiled and kept, but the engine refused, is not taken from the disk the second time."""
    for _ in range(2):
        assert "computes a vector" in refusal(udf(compares_vectors), WRITABLE)


def test_what_is_no_function() -> None:
    with pytest.raises(DeclarationError, match="written with def"):
        udf(3)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="lambda"):
        udf(lambda a: a)


def test_a_function_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def made(a, b):\n    return True", space)
    assert "source cannot be read" in refusal(udf(space["made"]), WRITABLE)


def test_lines_are_right_in_an_indented_function_with_a_ragged_docstring() -> None:
    # fmt: off
    def ragged(a, b):
        """First line,
and one at the margin.
        """
        return b.nothing > 0  # here
    # fmt: on

    assert f"{__file__}:{line_of_mark(ragged)}" in refusal(udf(ragged), WRITABLE)
