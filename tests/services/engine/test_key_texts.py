"""Keys as JSON by kernels are what `json.dumps` gives."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.state.key_encoding import encode_python_keys
from services.engine.key_texts import key_texts

INTEGERS = st.integers(-(2**63), 2**63 - 1)


def texts(key_types: tuple[str, ...], keys: list[Any]) -> list[str]:
    return key_texts(key_types, encode_python_keys(key_types, keys)).to_list()


@given(st.lists(INTEGERS))
def test_integers(keys: list[int]) -> None:
    assert texts(("int",), keys) == [json.dumps(key) for key in keys]


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_strings(keys: list[str]) -> None:
    assert texts(("string",), keys) == [json.dumps(key) for key in keys]


@given(st.lists(st.tuples(INTEGERS, st.text('ab"\\é', max_size=3)), max_size=5))
def test_tuples(keys: list[tuple[int, str]]) -> None:
    assert texts(("int", "string"), keys) == [json.dumps(key) for key in keys]


@pytest.mark.parametrize("key", [0, 9, 10, -1, -10, 2**63 - 1, -(2**63)])
def test_ends_of_the_range(key: int) -> None:
    assert texts(("int",), [key]) == [str(key)]
