"""The oracle by hand: windows, table folds, computed keys, and what goes wrong inside user functions."""

import pytest

from engine.api.application import Application
from engine.api.types import INT64
from services.verify.oracle import mixed, random_of
from tests.services.verify.oracle_cases import (
    SLOTS,
    Case,
    add,
    add_longest,
    add_number,
    add_of,
    at_balance,
    at_quotient,
    at_random,
    is_large,
    longest,
    multiply_share,
    put_slot,
    root,
    same_amount,
    seen,
    show,
    show_number,
    small,
    take,
    to_the_top,
    verdicts,
)


def windowed(fold: str, size: int = 10, field: str | None = "balance") -> Case:
    """Step writes its key; Look shows a window of it."""
    app, accounts = small()
    app.event("Look", app.events["Step"].fields)
    app.event("Gone", app.events["Step"].fields)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.key], add, when=is_large)
        txn.write(accounts[event.other], take)

    @app.transaction("Gone")
    def gone(txn, event):
        txn.delete(accounts[event.key])

    @app.transaction("Look", output={"seen": INT64})
    def look(txn, event):
        txn.write(accounts[event.key], add)
        txn.output(show_number, reads=[accounts[event.key].window(size, fold, field)])

    return Case(app, accounts={1: 1000, 9: 10**6})


def step(ts: int, amount: int) -> tuple[str, int, dict[str, int]]:
    return "Step", ts, {"key": 1, "other": 9, "amount": amount}


def test_a_window_sums_the_versions_that_came_before_with_ts_from_t_minus_s() -> None:
    case = windowed("sum")
    outcomes = case.epoch(step(1, 10), step(10, 20), step(20, 30), ("Look", 20, {"key": 1}), step(20, 40))
    # Versions: 1010 at 1 (too old), 1030 at 10 (t - s, inside), 1060 at 20; not the one after, not its own write.
    assert seen(outcomes)[3] == 1030 + 1060


def test_the_value_from_before_the_window_is_not_in_it_and_an_empty_one_gives_the_identity() -> None:
    for fold, identity in (("sum", 0), ("count", 0), ("min", 2**63 - 1), ("max", -(2**63))):
        case = windowed(fold, field=None if fold == "count" else "balance")
        assert seen(case.epoch(step(1, 10), ("Look", 12, {"key": 1})))[1] == identity


def test_failed_and_left_out_writes_are_no_versions_and_a_transaction_leaves_one() -> None:
    case = windowed("count", field=None)
    outcomes = case.epoch(
        step(1, 10),
        ("Step", 2, {"key": 1, "other": 5, "amount": 10}),  # fails: 5 has nothing to take from
        step(3, 9),  # left out
        ("Step", 4, {"key": 1, "other": 1, "amount": 10}),  # writes 1 twice
        ("Look", 5, {"key": 1}),
    )
    assert verdicts(outcomes)[1] == ("failed", "REFUSED", 1, 5)
    assert seen(outcomes)[4] == 2


def test_versions_live_on_across_epochs_and_outlive_a_deletion() -> None:
    case = windowed("sum")
    case.epoch(step(5, 10), ("Gone", 6, {"key": 1}), until=10)
    assert seen(case.epoch(("Look", 15, {"key": 1, "amount": 3}), until=20)) == [1010]
    assert case.balances() == {1: 3, 9: 10**6 - 10}
    assert case.oracle.notes["window_across_epochs"] == 1


def test_a_later_stage_sees_all_versions_of_the_stage_before() -> None:
    app, accounts = small()
    app.event("Child", {"amount": INT64})

    @app.transaction("Step")
    def parent(txn, event):
        txn.write(accounts[1], add)
        txn.emit("Child", same_amount)

    @app.transaction("Child", output={"seen": INT64})
    def child(txn, event):
        txn.output(show_number, reads=[accounts[1].window(0, "count")])

    outcomes = Case(app).epoch(("Step", 5, {"amount": 1}), ("Step", 8, {"amount": 1}))
    assert seen(outcomes) == [None, None, 2, 1]


def test_a_user_fold_goes_from_the_oldest_version_on_and_may_refuse() -> None:
    app, accounts = small()
    app.event("Look", app.events["Step"].fields)

    @app.transaction("Step")
    def write(txn, event):
        txn.write(accounts[event.key], add)

    @app.transaction("Look")
    def look(txn, event):
        window = accounts[event.key].window(100, longest, into={"count": INT64, "most": INT64})
        txn.write(accounts[50], add_longest, reads=[window])

    case = Case(app)
    change = [("Step", ts, {"key": 1, "amount": amount}) for ts, amount in ((1, 7), (2, -4), (3, 2))]
    outcomes = case.epoch(
        *change, ("Look", 4, {"key": 1}), ("Step", 5, {"key": 1, "amount": 995}), ("Look", 6, {"key": 1})
    )
    assert case.balances() == {1: 1000, 50: 307}  # versions 7, 3, 5
    assert verdicts(outcomes)[5] == ("failed", "REFUSED", 0, 1)


def test_a_table_fold_takes_all_live_records_before_its_own_writes() -> None:
    app, accounts = small()
    app.event("Gone", app.events["Step"].fields)

    @app.transaction("Step")
    def total(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(accounts[100], add_number, reads=[accounts.fold("sum", "balance")])

    @app.transaction("Gone")
    def gone(txn, event):
        txn.delete(accounts[event.key])

    case = Case(app, accounts={1: 1, 2: 2, 3: 4})
    case.epoch(("Gone", 1, {"key": 2}), ("Step", 2, {"key": 3, "amount": 8}), ("Step", 3, {"key": 100}))
    assert case.balances() == {1: 1, 3: 12, 100: 5 + (1 + 12 + 5)}


def test_a_sum_that_overflows_fails() -> None:
    app, accounts = small()

    @app.transaction("Step", output={"seen": INT64})
    def total(txn, event):
        txn.output(show_number, reads=[accounts.fold("sum", "balance")])

    case = Case(app, accounts={1: 2**63 - 1, 2: 1, 3: -5})
    assert verdicts(case.epoch(("Step", 1, {}))) == [("failed", "OVERFLOW", 0, None)]


def computing(create: bool) -> Case:
    app, accounts = small(create=create)

    @app.transaction("Step")
    def go(txn, event):
        found = accounts.computed(at_balance, reads=[accounts[event.key]], candidates=accounts[event.keys])
        txn.write(found, add)

    return Case(app, accounts={1: 2, 2: 3})


def test_a_computed_key_comes_from_the_state_at_the_transactions_place() -> None:
    case = computing(create=True)
    outcomes = case.epoch(
        ("Step", 1, {"key": 1, "keys": [2, 5], "amount": 2}),  # 1 holds 2, so 2 becomes 5
        ("Step", 2, {"key": 2, "keys": [2, 5], "amount": 7}),  # 2 holds 5, so 5 becomes 7
        ("Step", 3, {"key": 2, "keys": [2, 6], "amount": 9}),
    )
    assert verdicts(outcomes) == [("committed",), ("committed",), ("failed", "NOT_A_CANDIDATE", 0, 5)]
    assert case.balances() == {1: 2, 2: 5, 5: 7}


def test_a_computed_key_outside_a_table_that_does_not_create_is_unknown() -> None:
    case = computing(create=False)
    outcomes = case.epoch(("Step", 1, {"key": 2, "keys": [3]}), ("Step", 2, {"key": 8, "keys": [3]}))
    assert verdicts(outcomes) == [("failed", "UNKNOWN_KEY", 0, 3), ("failed", "UNKNOWN_KEY", 0, 8)]


def test_what_goes_wrong_while_computing_a_key_names_no_key() -> None:
    app, accounts = small()

    @app.transaction("Step", output={"seen": INT64})
    def go(txn, event):
        txn.output(show, reads=[accounts.computed(at_quotient)])

    case = Case(app, accounts={5: 55})
    outcomes = case.epoch(("Step", 1, {"amount": 2}), ("Step", 2, {"amount": 0}))
    assert seen(outcomes) == [55, None]
    assert verdicts(outcomes)[1] == ("failed", "DIVISION_BY_ZERO", 0, None)


def test_the_random_number_of_an_event_and_of_what_it_emits() -> None:
    app, accounts = small()
    app.event("Child", {"amount": INT64})

    @app.transaction("Step")
    def parent(txn, event):
        txn.write(accounts.computed(at_random), add)
        txn.emit("Child", same_amount)

    @app.transaction("Child")
    def child(txn, event):
        txn.write(accounts.computed(at_random), add)

    case = Case(app)
    case.epoch()
    case.identified(("Step", 5, 3, 8, {"amount": 1}))
    number = random_of(3, 1, 8)
    assert case.balances() == {number % 1000: 1, (mixed(number + 2) >> 1) % 1000: 1}


# Arithmetic


@pytest.mark.parametrize(
    ("function", "amount", "expected"),
    [
        (to_the_top, 0, "OVERFLOW"),
        (root, -1, "NOT_A_NUMBER"),
        (root, 4, None),
        (multiply_share, 10, "OVERFLOW"),
        (put_slot, 3, "BAD_INDEX"),
        (put_slot, -4, "BAD_INDEX"),
        (put_slot, -1, None),
    ],
)
def test_arithmetic_that_goes_wrong_fails_the_transaction(function, amount, expected) -> None:
    app = Application("numbers")
    table = app.table("numbers", key=str, value=SLOTS)
    app.event("Step", {"key": str, "amount": INT64})

    @app.transaction("Step")
    def go(txn, event):
        txn.write(table[event.key], function)

    case = Case(app)
    start = {"balance": 1, "share": 0.0, "slots": (1, 2, 3)}
    case.oracle.load("numbers", {"a": start})
    outcome = verdicts(case.epoch(("Step", 1, {"key": "a", "amount": amount})))
    after = case.oracle.state()["numbers"]["a"]
    if expected is not None:
        assert outcome == [("failed", expected, 0, "a")] and after == start
    else:
        assert outcome == [("committed",)]
        assert after == (start | {"share": 2.0} if function is root else start | {"slots": (1, 2, 7)})


def test_an_unknown_key_of_a_creating_table_reads_as_the_default_and_is_not_created() -> None:
    app, accounts = small(default={"balance": 7})

    @app.transaction("Step")
    def go(txn, event):
        txn.write(accounts[1], add_of, reads=[accounts[2]])

    case = Case(app)
    case.epoch(("Step", 1, {}))
    assert case.balances() == {1: 14}
