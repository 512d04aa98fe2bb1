"""Columns keep what they are given, and refuse what is not of their type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api.types import BOOLEAN, FLOAT64, INT64, STRING, ListType, VectorType
from engine.errors import InputError
from engine.state.columns import ListColumn, StringColumn, as_column

texts = st.text(max_size=12)


@settings(deadline=None)  # the first example compiles kernels
@given(st.lists(texts, max_size=20), st.data())
def test_strings_come_back_and_can_be_taken(strings, data):
    column = StringColumn.from_strings(strings)
    assert len(column) == len(strings)
    assert column.to_list() == strings
    assert StringColumn(column.data, column.offsets).to_list() == strings
    if strings:
        chosen = data.draw(st.lists(st.integers(0, len(strings) - 1)))
        assert column.take(np.array(chosen, dtype=np.int64)).to_list() == [strings[i] for i in chosen]


@settings(deadline=None)  # the first example compiles kernels
@given(st.lists(st.lists(texts, max_size=4), min_size=1, max_size=10), st.data())
def test_lists_come_back_and_can_be_taken(lists, data):
    column = as_column("tags", ListType(STRING), lists)
    assert isinstance(column, ListColumn)
    assert column.to_list() == lists
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1)))
    assert column.take(np.array(chosen, dtype=np.int64)).to_list() == [lists[i] for i in chosen]


def test_lists_of_numbers_and_a_matrix_as_lists():
    assert as_column("f", ListType(INT64), [[1, 2], [], [3]]).to_list() == [[1, 2], [], [3]]
    assert as_column("f", ListType(FLOAT64), np.ones((2, 3))).to_list() == [[1.0] * 3] * 2
    assert as_column("f", ListType(BOOLEAN), [[True], [False, True]]).to_list() == [[True], [False, True]]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 2, 1, 3], "negative length"), ([1, 3], "from 0"), ([0, 2], "from 0 to 3"), ([], "n \\+ 1")],
)
def test_bad_offsets_are_refused(offsets, message):
    with pytest.raises(InputError, match=message):
        StringColumn(np.zeros(3, dtype=np.uint8), np.array(offsets, dtype=np.int64))
    with pytest.raises(InputError, match=message):
        ListColumn(np.zeros(3), np.array(offsets, dtype=np.int64))


def test_broken_utf8_is_refused():
    euro = np.frombuffer("€".encode(), dtype=np.uint8)
    with pytest.raises(InputError, match="inside a UTF-8 character"):
        StringColumn(euro, np.array([0, 1, 3]))
    with pytest.raises(InputError, match=r"string 1 .* not valid UTF-8"):
        StringColumn(np.array([65, 0xFF], dtype=np.uint8), np.array([0, 1, 2]))
    with pytest.raises(InputError, match=r"field 'name'.*surrogates"):
        as_column("name", STRING, ["\ud800"])


@pytest.mark.parametrize(
    ("field_type", "raw", "expected"),
    [
        (INT64, [1, -2], np.array([1, -2], dtype=np.int64)),
        (INT64, np.array([1, 2], dtype=np.uint8), np.array([1, 2], dtype=np.int64)),
        (INT64, np.array([7], dtype=">i4"), np.array([7], dtype=np.int64)),
        (INT64, np.array([5], dtype=object), np.array([5], dtype=np.int64)),
        (INT64, [], np.array([], dtype=np.int64)),
        (FLOAT64, [1, 2.5], np.array([1.0, 2.5])),
        (FLOAT64, np.array([1, 2]), np.array([1.0, 2.0])),
        (FLOAT64, np.array([1.5], dtype=np.float32), np.array([1.5])),
        (BOOLEAN, [True, False], np.array([True, False])),
        (VectorType(INT64, 2), [[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        (VectorType(FLOAT64, 2), np.array([[1, 2]]), np.array([[1.0, 2.0]])),
    ],
)
def test_accepted(field_type, raw, expected):
    column = as_column("f", field_type, raw)
    assert column.dtype == expected.dtype
    assert column.flags.c_contiguous
    np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize("raw", [["a", ""], ("a", ""), np.array(["a", ""]), np.array(["a", ""], dtype=object)])
def test_accepted_strings(raw):
    assert as_column("f", STRING, raw).to_list() == ["a", ""]


@pytest.mark.parametrize(
    ("field_type", "raw"),
    [
        (INT64, [1.0]),
        (INT64, [True]),
        (INT64, [1, True]),
        (INT64, np.array([True])),
        (INT64, [2**63]),
        (INT64, [-(2**63) - 1]),
        (INT64, np.array([2**63], dtype=np.uint64)),
        (INT64, [np.uint64(2**63)]),
        (INT64, np.array([1.0])),
        (INT64, np.array([1, float("nan")], dtype=object)),
        (INT64, [None]),
        (INT64, np.array([[1]])),
        (INT64, np.array(["2020-01-01"], dtype="datetime64[s]")),
        (INT64, "12"),
        (INT64, 12),
        (FLOAT64, np.array([1.0, float("nan")], dtype=object)),
        (FLOAT64, np.array([1j])),
        (FLOAT64, [10**400]),
        (FLOAT64, np.array([1], dtype=np.longdouble)),
        (BOOLEAN, [0, 1]),
        (BOOLEAN, np.array([0, 1])),
        (STRING, [b"a"]),
        (STRING, ["a", None]),
        (STRING, np.array(["a", float("nan")], dtype=object)),
        (STRING, np.array([1])),
        (STRING, "abc"),
        (INT64, StringColumn.from_strings(["1"])),
        (VectorType(INT64, 2), [[1, 2, 3]]),
        (VectorType(INT64, 2), np.array([1, 2])),
        (VectorType(INT64, 2), [1, 2]),
        (VectorType(INT64, 2), [[1.0, 2.0]]),
        (VectorType(INT64, 2), 5),
        (ListType(INT64), [1]),
        (ListType(INT64), ["ab"]),
        (ListType(INT64), [["a"]]),
        (ListType(INT64), 5),
        (ListType(INT64), ListColumn(np.array([1.0]), np.array([0, 1]))),
    ],
)
def test_refused_with_the_field_named(field_type, raw):
    with pytest.raises(InputError, match=r"field 'amount': expected .*found"):
        as_column("amount", field_type, raw)
