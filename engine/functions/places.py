# mypy: ignore-errors
"""Checked places, the kernels that a user function's subscripts, stores, ranges and results become.

Invariants as in `checked.py`. An index out of bounds reads zeros and writes nothing, so no byte outside the array is
touched. A stored number has the type of its place: no float enters an int64 place, nothing that is not finite enters
a float64 place.
"""

import numpy as np
from numba import types
from numba.extending import overload

from engine.functions.checked import (
    BAD_INDEX,
    OPTIONS,
    OVERFLOW,
    fail,
    is_float,
    is_integer,
    refuse,
    settle,
    type_name,
)
from engine.functions.memory import pointer_at, subtract_with_overflow, zero_record


def _require_index(index):
    if not is_integer(index):
        refuse(f"an index must be an integer, got {type_name(index)}")


def item(fault, values, index):
    """`values[index]`; compiled by type through the overload below."""


@overload(item, jit_options=OPTIONS)
def _choose_item(fault, values, index):
    _require_index(index)
    if isinstance(values, types.Array) and values.ndim == 1:
        kind = values.dtype
    elif isinstance(values, types.UniTuple):
        kind = types.unliteral(values.dtype)
    elif isinstance(values, types.BaseTuple):
        refuse("a tuple of mixed types cannot be indexed; unpack it")
    else:
        refuse(f"{type_name(values)} cannot be indexed")
    if isinstance(kind, types.Record):

        def of_records(fault, values, index):
            position = np.int64(index)
            if position < 0:
                position += len(values)
            if position < 0 or position >= len(values):
                fail(fault, BAD_INDEX)
                return zero_record(kind)
            return values[position]

        return of_records
    if not (is_integer(kind) or is_float(kind)):
        refuse(f"{type_name(values)} cannot be indexed")
    zero = 0.0 if is_float(kind) else False if isinstance(kind, types.Boolean) else 0

    def of_numbers(fault, values, index):
        position = np.int64(index)
        if position < 0:
            position += len(values)
        if position < 0 or position >= len(values):
            fail(fault, BAD_INDEX)
            return zero
        return values[position]

    return of_numbers


def fit(fault, current, value):
    """`value` as a place that now holds `current` takes it; compiled by type through the overload below."""


@overload(fit, jit_options=OPTIONS)
def _choose_fit(fault, current, value):
    current, value = types.unliteral(current), types.unliteral(value)
    if isinstance(current, types.Boolean):
        if isinstance(value, types.Boolean):
            return lambda fault, current, value: value
        refuse(f"a boolean place takes booleans, got {type_name(value)}; write bool(...)")
    if isinstance(current, types.Integer):
        if is_integer(value):
            return lambda fault, current, value: np.int64(value)
        refuse(f"an int64 place takes integers, got {type_name(value)}; write int(...)")
    if isinstance(current, types.Float):
        if is_float(value):
            return lambda fault, current, value: settle(fault, value)
        if is_integer(value):
            return lambda fault, current, value: np.float64(value)
        refuse(f"a float64 place takes numbers, got {type_name(value)}")
    refuse(f"{type_name(current)} cannot be assigned as a whole; assign its items")


def store_item(fault, value, values, index):
    """`values[index] = value`, evaluated in Python's order; compiled by type through the overload below."""


@overload(store_item, jit_options=OPTIONS)
def _choose_store_item(fault, value, values, index):
    _require_index(index)
    if not (isinstance(values, types.Array) and values.ndim == 1 and isinstance(values.dtype, types.Number)):
        refuse(f"items of {type_name(values)} cannot be assigned; only those of a vector field can")

    def store(fault, value, values, index):
        position = np.int64(index)
        if position < 0:
            position += len(values)
        if position < 0 or position >= len(values):
            fail(fault, BAD_INDEX)
        else:
            values[position] = fit(fault, values[position], value)

    return store


def unpacked(value):
    """A tuple to be unpacked; compiled by type through the overload below."""


@overload(unpacked, jit_options=OPTIONS)
def _choose_unpacked(value):
    if not isinstance(value, types.BaseTuple):
        refuse(f"only a tuple can be unpacked, got {type_name(value)}")
    return lambda value: value


def span(fault, start, stop, step):
    """`range(start, stop, step)`; compiled by type through the overload below."""


@overload(span, jit_options=OPTIONS)
def _choose_span(fault, start, stop, step):
    for bound in (start, stop, step):
        if not is_integer(bound):
            refuse(f"range() takes integers, got {type_name(bound)}")

    def bounded(fault, start, stop, step):
        first, end, stride = np.int64(start), np.int64(stop), np.int64(step)
        if stride == 0:
            fail(fault, BAD_INDEX)
            return range(0, 0, 1)
        if subtract_with_overflow(end, first)[1]:  # the number of steps would not fit
            fail(fault, OVERFLOW)
            return range(0, 0, 1)
        return range(first, end, stride)

    return bounded


def verdict(fault, value):
    """1 for None or True, 0 for False, minus the fault; compiled by type through the overload below."""


@overload(verdict, jit_options=OPTIONS)
def _choose_verdict(fault, value):
    value = types.unliteral(value)
    if isinstance(value, types.NoneType):
        return lambda fault, value: 1 if fault[0] == 0 else -fault[0]
    if isinstance(value, types.Boolean):
        return lambda fault, value: np.int64(value) if fault[0] == 0 else -fault[0]
    if isinstance(value, types.Optional) and isinstance(value.type, types.Boolean):

        def of_optional(fault, value):
            if fault[0] != 0:
                return -fault[0]
            if value is None:
                return 1
            return 1 if value else 0

        return of_optional
    refuse(f"must return True, False or nothing, returns {type_name(value)}")


def put(fault, address, value):
    """Write the result at `address` as 8-byte words; compiled by type through the overload below."""


@overload(put, jit_options=OPTIONS)
def _choose_put(fault, address, value):
    value = types.unliteral(value)
    if isinstance(value, types.Float):

        def put_float(fault, address, value):
            number = settle(fault, value)
            if fault[0] != 0:
                return -fault[0]
            pointer_at(address, types.float64)[0] = number
            return 1

        return put_float
    if is_integer(value):

        def put_integer(fault, address, value):
            if fault[0] != 0:
                return -fault[0]
            pointer_at(address, types.int64)[0] = np.int64(value)
            return 1

        return put_integer
    if isinstance(value, types.UniTuple) and value.count > 0 and is_integer(value.dtype):

        def put_integers(fault, address, value):
            if fault[0] != 0:
                return -fault[0]
            words = pointer_at(address, types.int64)
            for position in range(len(value)):
                words[position] = np.int64(value[position])
            return 1

        return put_integers
    refuse(f"must return a number, a boolean or a tuple of integers, returns {type_name(value)}")
