"""How these tests call a compiled user function: through its C address, as a kernel would."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.errors import Reason
from engine.functions.entry import Entry, Parameter, compile_entry
from engine.functions.udf import UserFunction, udf

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
DTYPES = {int: np.dtype("<i8"), float: np.dtype("<f8"), bool: np.dtype("?")}


def call_entry(
    entry: Entry,
    own: np.ndarray | None = None,
    event: np.ndarray | None = None,
    each: np.ndarray | None = None,
    arguments: tuple[np.ndarray, ...] = (),
) -> int:
    pairs = np.array([(array.ctypes.data, array.size) for array in arguments] or [(0, 0)], np.int64)
    addresses = [0 if array is None else array.ctypes.data for array in (own, event, each)]
    return int(ENTRY(entry.address)(*addresses, pairs.ctypes.data))


def scalar(value: Any) -> np.ndarray:
    return np.array([int(value) if isinstance(value, bool) else value], float if isinstance(value, float) else np.int64)


def evaluate_numbers(function: UserFunction | Callable[..., Any], *numbers: Any) -> Any:
    """What `function` gives for these numbers, or the Reason of its fault."""
    parameters = tuple(
        Parameter("scalar", DTYPES[type(number)], argument=place) for place, number in enumerate(numbers)
    )
    entry = compile_entry(udf(function), parameters, "value")
    count = entry.result if isinstance(entry.result, int) else 1
    words = np.full(count, -77, np.int64)
    code = call_entry(entry, own=words, arguments=tuple(scalar(number) for number in numbers))
    if code < 0:
        assert (words == -77).all(), "a fault must write nothing"
        return Reason(-code)
    assert code == 1
    if isinstance(entry.result, int):
        return tuple(words.tolist())
    if entry.result == np.dtype(float):
        return float(words.view(np.float64)[0])
    return bool(words[0]) if entry.result == np.dtype(bool) else int(words[0])


@pytest.fixture
def evaluate() -> Callable[..., Any]:
    return evaluate_numbers


@pytest.fixture
def call() -> Callable[..., int]:
    return call_entry
