"""Tables against a dict of dicts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api.types import BOOLEAN, FLOAT64, INT64, VectorType, record_dtype
from engine.errors import DeclarationError, InputError, InvariantError
from engine.state.columns import StringColumn
from engine.state.history import History
from engine.state.table import Table

DTYPE = record_dtype({"balance": INT64, "open": BOOLEAN, "rate": FLOAT64, "last": VectorType(INT64, 3)})
DEFAULT = np.zeros((), dtype=DTYPE)
DEFAULT["balance"] = 9
DEFAULT_VALUE = {"balance": 9, "open": False, "rate": 0.0, "last": (0, 0, 0)}


def make_table(key_types=("string",), default=DEFAULT[()]):
    return Table("accounts", key_types, DTYPE, default, create=True)


def test_load_and_get():
    table = make_table()
    table.load(
        ["b", "a"], {"balance": [1, 2], "open": [True, False], "rate": [0.5, 1], "last": np.arange(6).reshape(2, 3)}
    )
    assert table.get(["a", "c", "b"]) == [
        {"balance": 2, "open": False, "rate": 1.0, "last": (3, 4, 5)},
        None,
        {"balance": 1, "open": True, "rate": 0.5, "last": (0, 1, 2)},
    ]
    assert len(table) == 2
    assert table.index.keys_of(table.sorted_live_rows()) == ["a", "b"]
    assert table.get_records(table.sorted_live_rows())["balance"].tolist() == [2, 1]
    table.load(StringColumn.from_strings(["z"]), {})
    assert table.get(["z"]) == [DEFAULT_VALUE]


def test_tuple_keys_as_columns_or_tuples():
    table = make_table(("int", "string"))
    table.load((np.array([2, 1]), StringColumn.from_strings(["x", "y"])), {"balance": [1, 2]})
    table.load([(1, "a")], {"balance": [3]})
    assert table.index.keys_of(table.sorted_live_rows()) == [(1, "a"), (1, "y"), (2, "x")]
    assert [value["balance"] for value in table.get([(2, "x"), (1, "a")])] == [1, 3]


def test_load_refuses_and_leaves_no_trace():
    table = make_table()
    table.load(["a"], {"balance": [1]})
    for keys, values, message in [
        (["c", "b", "c"], {"balance": [1, 2, 3]}, "'c' appears more than once"),
        (["b", "a"], {"balance": [1, 2]}, "'a' is in the table"),
        (["b"], {"balance": [1, 2]}, "1 keys, but 2 values"),
        (["b"], {"balance": [1.5]}, "accounts.balance"),
        (["b"], {"colour": [1]}, "no field 'colour'"),
        ([1], {}, "key component 0"),
    ]:
        with pytest.raises(InputError, match=message):
            table.load(keys, values)
        assert table.get(["a", "b", "c"]) == [DEFAULT_VALUE | {"balance": 1}, None, None]
        assert len(table) == len(table.index) == 1


@settings(deadline=None)
@given(st.data())
def test_against_a_dict(data):
    table, model = make_table(("int",)), {}
    table.add_row_column("last_writer", np.int32, -1)
    for _ in range(data.draw(st.integers(1, 6))):
        new = data.draw(st.lists(st.integers(0, 300), unique=True, max_size=100))
        new = [key for key in new if key not in model]
        rows = table.load(new, {"balance": new})
        assert (table.row_column("last_writer")[rows] == -1).all()
        table.row_column("last_writer")[rows] = 5
        model |= {key: DEFAULT_VALUE | {"balance": key} for key in new}
        gone = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True)) if model else []
        table.drop_rows(table.index.lookup(table.encode(gone)))
        for key in gone:
            del model[key]
        assert len(table) == len(table.index) == len(model)
        assert table.get(list(range(301))) == [model.get(key) for key in range(301)]
        assert table.index.keys_of(table.sorted_live_rows()) == sorted(model)
        idle = table.live == 0
        assert (table.records[idle] == np.frombuffer(DEFAULT.tobytes(), dtype=np.uint8)).all()
        assert (table.row_column("last_writer")[idle] == -1).all()


def test_a_planned_key_is_no_key_yet():
    table = make_table()
    row = table.lookup_or_insert(table.encode(["new"]))
    assert len(table) == 0
    assert table.get(["new"]) == [None]
    assert table.sorted_live_rows().size == 0
    table.live[row] = 1
    assert table.get(["new"]) == [DEFAULT_VALUE]


def test_reserved_rows_need_no_growth():
    table = make_table(("int",))
    table.reserve_rows(5000)
    before = table.address, table.live_address, table.index.arrays()[0]
    table.load(np.arange(5000), {})
    assert (table.address, table.live_address) == before[:2]
    assert table.index.arrays()[0] is before[2]


def test_memory_returns():
    table = make_table(("int",))
    table.add_row_column("last_writer", np.int64, 0)
    empty = table.nbytes
    largest = 0
    for cycle in range(20):
        rows = table.load(np.arange(cycle * 5000, (cycle + 1) * 5000), {})
        largest = max(largest, table.nbytes)
        if cycle == 0:
            first = largest
        table.drop_rows(rows)
    assert largest <= 1.5 * first
    assert table.nbytes <= 2 * empty


def test_a_high_row_in_use_stays_where_it_is():
    table = make_table(("int",))
    rows = table.load(np.arange(5000), {"balance": np.arange(5000)})
    table.drop_rows(rows[:-1])
    assert table.get([4999, 0]) == [DEFAULT_VALUE | {"balance": 4999}, None]
    assert table.load([7], {}).tolist() == [0]


def test_a_deleted_key_with_history_keeps_its_row():
    table, history = make_table(), History(DTYPE.itemsize, 10)
    rows = table.load(["a", "b", "c"], {})
    history.append(rows[:2], np.array([5, 6]), table.records[rows[:2]])
    table.drop_rows(rows, history)
    assert len(table) == 0
    assert table.index.lookup(table.encode(["a", "b", "c"])).tolist() == [rows[0], rows[1], -1]
    assert table.lookup_or_insert(table.encode(["d"])).tolist() == [rows[2]]
    table.load(["b"], {})  # created again, on the row that its history has
    table.release_rows(history.prune(100))
    assert table.index.lookup(table.encode(["a", "b"])).tolist() == [-1, rows[1]]
    assert table.get(["b"]) == [DEFAULT_VALUE]
    table.drop_rows(rows[1:2], history)
    assert len(table.index) == 1


def test_broken_rules_are_noticed():
    table = make_table()
    rows = table.load(["a"], {})
    with pytest.raises(InvariantError, match="never handed out"):
        table.drop_rows(np.array([50]))
    table.drop_rows(rows)
    with pytest.raises(InvariantError, match="twice"):
        table.drop_rows(rows)
    with pytest.raises(DeclarationError, match="multiple of 8"):
        Table("t", ("int",), np.dtype([("a", "?")]), b"\0", create=True)
