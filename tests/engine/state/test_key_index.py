"""The key index against a dict, and its order against Python's."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from engine.errors import DeclarationError, InputError
from engine.state.columns import StringColumn
from engine.state.key_encoding import decode_keys
from engine.state.key_index import (
    KeyIndex,
    encode_key,
    encode_keys,
    encode_python_keys,
    int_index_find,
    int_index_insert,
)
from engine.state.rows import RowAllocator

integers = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
# Few letters, so that keys share prefixes and differ in zero bytes and length only.
strings = st.one_of(st.text(alphabet="\0\x01ab\xff€😀", max_size=20), st.text(max_size=6), st.just("p" * 30))
KEY_STRATEGIES = {
    ("int",): integers,
    ("string",): strings,
    ("int", "int"): st.tuples(integers, integers),
    ("string", "string"): st.tuples(strings, strings),
    ("string", "int", "string"): st.tuples(strings, integers, strings),
}
every_key_type = pytest.mark.parametrize("key_types", list(KEY_STRATEGIES), ids="-".join)


@every_key_type
@settings(deadline=None)  # the first example compiles kernels
@given(data=st.data())
def test_keys_survive_encoding_and_keep_their_order(key_types, data):
    keys = data.draw(st.lists(KEY_STRATEGIES[key_types], max_size=30))
    encoded = encode_python_keys(key_types, keys)
    assert decode_keys(key_types, encoded) == keys
    if encoded.integers is None:
        raw = [encoded.data[a:b].tobytes() for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)]
        assert sorted(range(len(keys)), key=raw.__getitem__) == sorted(range(len(keys)), key=keys.__getitem__)


@every_key_type
@settings(deadline=None)
@given(data=st.data())
def test_against_a_dict(key_types, data):
    pool = data.draw(st.lists(KEY_STRATEGIES[key_types], min_size=1, max_size=60, unique=True))
    index, allocator, model = KeyIndex(key_types), RowAllocator(), {}
    for _ in range(data.draw(st.integers(1, 6))):
        batch = data.draw(st.lists(st.sampled_from(pool), max_size=80))
        free = list(allocator.free_rows[: allocator.free_count])
        fresh = allocator.high_water
        for key in batch:
            if key not in model:
                model[key] = int(free.pop()) if free else fresh
                fresh += model[key] == fresh
        rows = index.lookup_or_insert(encode_python_keys(key_types, batch), allocator)
        assert rows.tolist() == [model[key] for key in batch]
        gone = data.draw(st.lists(st.sampled_from(pool), unique=True, max_size=60))
        gone_rows = np.array([model.pop(key) for key in gone if key in model], dtype=np.int64)
        index.remove(gone_rows)
        index.remove(gone_rows)  # the second time they have no key, and nothing happens
        allocator.free(gone_rows)
        check(index, model, pool)


def check(index, model, pool):
    assert len(index) == len(model)
    found = index.lookup(encode_python_keys(index.key_types, pool))
    assert found.tolist() == [model.get(key, -1) for key in pool]
    assert index.keys_of(index.sorted_rows()) == sorted(model)
    for key, row in list(model.items())[:3]:
        assert index.key_of(row) == key
        assert index.lookup(encode_key(index.key_types, key)).tolist() == [row]


@every_key_type
def test_many_keys_sorted(key_types):
    generator = np.random.default_rng(7)
    numbers = generator.permutation(5000)
    forms = {
        "int": lambda n: int(n) - 2500,
        "string": lambda n: ("long-common-prefix/" if n % 3 else "") + str(n % 700) + "\0" * int(n % 9) + str(n),
    }
    keys = [tuple(forms[kind](n) for kind in key_types) for n in numbers]
    keys = [key[0] for key in keys] if len(key_types) == 1 else keys
    index = KeyIndex(key_types)
    index.lookup_or_insert(encode_python_keys(key_types, keys), RowAllocator())
    assert index.keys_of(index.sorted_rows()) == sorted(keys)
    assert index.sorted_rows() is index.sorted_rows()


def test_keys_that_differ_only_in_trailing_zero_bytes():
    generator = np.random.default_rng(11)
    keys = [prefix + "\0" * zeros + end for prefix in ("", "p", "common-") for zeros in range(40) for end in ("", "x")]
    keys = [keys[i] for i in generator.permutation(len(keys))]
    index = KeyIndex(("string",))
    index.lookup_or_insert(encode_python_keys(("string",), keys), RowAllocator())
    assert index.keys_of(index.sorted_rows()) == sorted(keys)


def test_removed_rows_point_at_nothing():
    """The arena shrinks under them, so a stale length would read beyond it."""
    index = KeyIndex(("string",))
    rows = index.lookup_or_insert(encode_python_keys(("string",), [f"key-{n}" for n in range(5000)]), RowAllocator())
    index.remove(rows)
    assert index.encoded_keys_of(rows).data.size == 0


@every_key_type
def test_memory_returns_after_many_creations_and_removals(key_types):
    index, allocator = KeyIndex(key_types), RowAllocator()
    sizes = []
    for cycle in range(30):
        numbers = np.arange(cycle * 4000, (cycle + 1) * 4000)
        text = StringColumn.from_strings([f"key-{n}" for n in numbers])
        columns = [numbers if kind == "int" else text for kind in key_types]
        rows = index.lookup_or_insert(encode_keys(key_types, columns), allocator)
        sizes.append(index.nbytes)
        index.remove(rows)
        allocator.free(rows)
    assert len(index) == 0
    assert max(sizes[1:]) <= 2 * sizes[0]
    assert allocator.high_water == 4000
    assert index.nbytes < sizes[0] / 2
    index.resize_rows(64)
    assert index.nbytes < 10_000


def test_reserve_keeps_the_arrays_in_place():
    index, allocator = KeyIndex(("int",)), RowAllocator()
    index.resize_rows(10_000)
    index.reserve(10_000)
    slots_row = index.arrays()[1]
    index.lookup_or_insert(encode_keys(("int",), [np.arange(10_000)]), allocator)
    assert index.arrays()[1] is slots_row


@njit(nogil=True)
def insert_range(slots_key, slots_row, mask, row_keys, count):
    for i in range(count):
        int_index_insert(slots_key, slots_row, mask, row_keys, i * 977, i)


@njit(nogil=True)
def wrong_answers(slots_key, slots_row, mask, count, last_key):
    """Look keys up until the last one is there; a key is unknown or has its own row, and once known it stays."""
    wrong = 0
    reached = 0
    while int_index_find(slots_key, slots_row, mask, last_key) < 0:
        for i in range(reached, min(reached + 64, count)):
            row = int_index_find(slots_key, slots_row, mask, i * 977)
            if row >= 0 and row != i:
                wrong += 1
            if row == i and i == reached:
                reached += 1
        if reached > 0 and int_index_find(slots_key, slots_row, mask, (reached - 1) * 977) != reached - 1:
            wrong += 1
    return wrong


def test_a_kernel_inserts_beside_lookups():
    count = 200_000
    index = KeyIndex(("int",))
    index.resize_rows(count)
    index.reserve(count)
    slots_key, slots_row, mask, row_keys = index.arrays()
    insert_range(slots_key, slots_row, mask, row_keys, 0)  # compile before the threads start
    wrong = []
    reader = threading.Thread(
        target=lambda: wrong.append(wrong_answers(slots_key, slots_row, mask, count, (count - 1) * 977))
    )
    reader.start()
    insert_range(slots_key, slots_row, mask, row_keys, count)
    reader.join()
    index.sync_after_kernel(count)
    assert wrong == [0]
    assert len(index) == count
    np.testing.assert_array_equal(index.sorted_rows(), np.arange(count))


@pytest.mark.parametrize(
    ("key_types", "key"),
    [
        (("int",), "a"),
        (("int",), True),
        (("int",), 2**63),
        (("int",), 1.0),
        (("string",), 1),
        (("string",), b"a"),
        (("string",), "\ud800"),
        (("int", "string"), (1,)),
        (("int", "string"), ("a", 1)),
        (("int", "string"), [1, "a"]),
        (("int", "string"), (1, "a", 2)),
        (("int", "string"), 5),
    ],
)
def test_keys_of_a_wrong_type(key_types, key):
    with pytest.raises(InputError):
        encode_key(key_types, key)
    with pytest.raises(InputError):
        encode_python_keys(key_types, [key])


def test_wrong_components_and_declarations():
    with pytest.raises(InputError, match="2 components"):
        encode_keys(("int", "int"), [np.arange(2)])
    with pytest.raises(InputError, match="differ in length"):
        encode_keys(("int", "int"), [np.arange(2), np.arange(3)])
    with pytest.raises(DeclarationError):
        KeyIndex(())
    with pytest.raises(DeclarationError):
        KeyIndex(("float",))
    with pytest.raises(DeclarationError, match="single int keys"):
        KeyIndex(("string",)).arrays()
