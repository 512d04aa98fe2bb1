"""What is said when state and input no longer belong together."""

import pytest

from engine import Application, float64, int64
from services.engine.belonging import Reach, check_declaration, check_reach, differences
from services.engine.facts import Cursor
from services.errors import InputGoneError, StateError


def test_row_25_a_gap_is_named_exactly():
    cursors = {0: Cursor(10), 1: Cursor(10, frozenset({12, 13, 40}))}
    check_reach("in", cursors, {0: Reach(10, 10), 1: Reach(0, 50)})
    with pytest.raises(
        InputGoneError, match=r"partition 0: offsets 10 to 16 are gone, 7 of them were never dealt with"
    ):
        check_reach("in", cursors, {0: Reach(17, 99), 1: Reach(0, 50)})
    with pytest.raises(InputGoneError, match=r"partition 1: offsets 10 to 13 are gone, 2 of them"):
        check_reach("in", cursors, {0: Reach(10, 99), 1: Reach(14, 50)})


def test_row_25_what_was_dealt_with_may_go():
    check_reach("in", {0: Cursor(10, frozenset({10, 11}))}, {0: Reach(12, 20)})


def test_row_25_a_topic_made_anew_is_noticed():
    with pytest.raises(InputGoneError, match=r"ends at offset 5, but was read up to 10"):
        check_reach("in", {0: Cursor(10)}, {0: Reach(0, 5)})


def declared(value=int64, **more) -> Application:
    app = Application("app")
    app.table("cells", key=int, value={"total": value})
    for name, key in more.items():
        app.table(name, key=key, value={"n": int64})
    return app


def test_row_26_what_changed_in_the_declaration_is_said():
    before = declared(old=int).state_declaration()
    check_declaration(declared(old=int), before)
    with pytest.raises(StateError) as refused:
        check_declaration(declared(float64, new=str), before)
    said = str(refused.value)
    assert (
        "table old is gone" in said
        and "table new is new" in said
        and "table cells: value was total int64, is total float64" in said
    )
    (only,) = differences(before, declared(old=str).state_declaration())
    assert only == "table old: key was int, is string"


def test_row_26_the_order_of_tables_is_part_of_the_declaration():
    one, other = declared(a=int, b=int), declared(b=int, a=int)
    assert one.fingerprint() != other.fingerprint()
    (only,) = differences(one.state_declaration(), other.state_declaration())
    assert only == "tables were declared in the order cells, a, b, now cells, b, a"
