"""The oracle against answers worked out by hand, one for each sentence of the contract on order and transactions."""

import pytest

from engine.api.types import INT64
from services.verify.oracle import mixed, random_of
from tests.services.verify.oracle_cases import (
    Case,
    add,
    add_each,
    add_of,
    add_sum,
    amount_plus_one,
    divide,
    double,
    half,
    is_even,
    is_rich,
    non_negative,
    refuse_if_above_five,
    same_amount,
    seen,
    share_of_hundred,
    show,
    show_ts,
    small,
    take,
    to_the_top,
    verdicts,
)


def adding_and_doubling() -> Case:
    app, accounts = small()
    app.event("Twice", app.events["Step"].fields)

    @app.transaction("Step", output={"seen": INT64})
    def step(txn, event):
        txn.output(show, reads=[txn.write(accounts[event.key], add)])

    @app.transaction("Twice", output={"seen": INT64})
    def twice(txn, event):
        txn.output(show, reads=[txn.write(accounts[event.key], double)])

    return Case(app)


# Events and order


def test_the_total_order_is_by_ts_whatever_the_arrival() -> None:
    case = adding_and_doubling()
    outcomes = case.epoch(("Twice", 9, {}), ("Step", 5, {"amount": 3}), ("Step", 11, {"amount": 1}))
    assert [o.ts for o in outcomes] == [5, 9, 11]
    assert seen(outcomes) == [3, 6, 7]


def test_ties_of_ts_go_by_source_and_then_by_seq() -> None:
    case = adding_and_doubling()
    outcomes = case.identified(
        ("Twice", 5, 1, 0, {}),
        ("Step", 5, 0, 1, {"amount": 4}),
        ("Twice", 5, 0, 0, {}),
        ("Step", 5, 1, 1, {"amount": 1}),
    )
    assert [(o.source, o.seq) for o in outcomes] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert seen(outcomes) == [0, 4, 8, 9]


def test_state_lives_on_into_the_next_epoch() -> None:
    case = adding_and_doubling()
    case.epoch(("Step", 5, {"amount": 3}), until=10)
    assert seen(case.epoch(("Twice", 11, {}), until=20)) == [6]


def with_derived() -> Case:
    app, accounts = small()
    app.event("Child", {"amount": INT64})

    @app.transaction("Step")
    def step(txn, event):
        txn.emit("Child", same_amount)
        txn.write(accounts[0], add)
        txn.emit("Child", amount_plus_one)

    @app.transaction("Child", output={"seen": INT64})
    def child(txn, event):
        txn.write(accounts[1], take)
        txn.output(show, reads=[txn.read(accounts[0])])

    return Case(app, accounts={1: 10})


def test_derived_records_run_in_a_later_stage_once_the_stage_before_is_final() -> None:
    case = with_derived()
    outcomes = case.epoch(("Step", 2, {"amount": 1}), ("Step", 1, {"amount": 2}))
    assert [(o.stage, o.record_type, o.ts, o.source, o.seq, o.emission) for o in outcomes] == [
        (0, "Step", 1, 0, 1, ()),
        (0, "Step", 2, 0, 0, ()),
        (1, "Child", 1, 0, 1, (0,)),
        (1, "Child", 1, 0, 1, (2,)),
        (1, "Child", 2, 0, 0, (0,)),
        (1, "Child", 2, 0, 0, (2,)),
    ]
    assert seen(outcomes)[2:] == [3, 3, 3, 3]  # both steps were in before the first child
    assert case.balances() == {0: 3, 1: 10 - 2 - 3 - 1 - 2}


def test_a_derived_transaction_that_fails_does_not_undo_its_parent() -> None:
    case = with_derived()
    outcomes = case.epoch(("Step", 1, {"amount": 10}))
    assert verdicts(outcomes) == [("committed",), ("committed",), ("failed", "REFUSED", 0, 1)]
    assert case.balances() == {0: 10, 1: 0}


def test_only_a_committed_parent_emits() -> None:
    app, accounts = small(create=False)
    app.event("Child", {"amount": INT64})

    @app.transaction("Step")
    def step(txn, event):
        txn.emit("Child", same_amount)
        txn.write(accounts[event.key], add)

    @app.transaction("Child")
    def child(txn, event):
        txn.write(accounts[0], add)

    case = Case(app, accounts={0: 0})
    assert verdicts(case.epoch(("Step", 1, {"key": 7, "amount": 1}))) == [("failed", "UNKNOWN_KEY", 1, 7)]
    assert case.balances() == {0: 0}


# Transactions


def test_a_transaction_is_all_accesses_of_its_event_over_tables_and_keys() -> None:
    app, accounts = small()
    names = app.table("names", key=(str, int), value={"balance": INT64}, constraint=non_negative)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(names["a", event.other], add)

    case = Case(app)
    outcomes = case.epoch(("Step", 1, {"key": 1, "other": 2, "amount": 5}), ("Step", 2, {"key": 1, "amount": -1}))
    assert verdicts(outcomes) == [("committed",), ("failed", "CONSTRAINT", 1, ("a", 0))]
    assert case.balances() == {1: 5} and case.balances("names") == {("a", 2): 5}


def test_serial_order_settles_the_example_of_t7() -> None:
    """x = 0; transaction 1 sets x = 10 and fails on y; transaction 2 fails if x > 5: so it commits."""
    app, accounts = small()
    app.event("Look", app.events["Step"].fields)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[0], add)
        txn.write(accounts[1], take)

    @app.transaction("Look")
    def look(txn, event):
        txn.write(accounts[2], refuse_if_above_five, reads=[accounts[0]])

    case = Case(app)
    outcomes = case.epoch(("Step", 1, {"amount": 10}), ("Look", 2, {}))
    assert verdicts(outcomes) == [("failed", "REFUSED", 1, 1), ("committed",)]
    assert case.balances() == {2: 0}


def test_reads_see_the_state_before_the_transactions_own_writes() -> None:
    app, accounts = small()

    @app.transaction("Step", output={"seen": INT64})
    def step(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(accounts[event.other], add_of, reads=[accounts[event.key]])
        txn.output(show, reads=[txn.read(accounts[event.key])])

    case = Case(app, accounts={1: 100})
    assert seen(case.epoch(("Step", 1, {"key": 1, "other": 2, "amount": 5}))) == [100]
    assert case.balances() == {1: 105, 2: 100}


def test_a_handle_gives_what_its_statement_made() -> None:
    app, accounts = small()

    @app.transaction("Step", output={"seen": INT64})
    def step(txn, event):
        made = txn.write(accounts[event.key], add)
        txn.write(accounts[event.other], add_of, reads=[made])
        txn.output(show, reads=[made])

    case = Case(app, accounts={1: 100})
    assert seen(case.epoch(("Step", 1, {"key": 1, "other": 2, "amount": 5}))) == [105]
    assert case.balances() == {1: 105, 2: 105}


def test_a_second_write_of_a_key_applies_to_the_first_ones_result() -> None:
    app, accounts = small()

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(accounts[event.other], double)

    case = Case(app, accounts={1: 10})
    case.epoch(("Step", 1, {"key": 1, "other": 1, "amount": 5}))
    assert case.balances() == {1: 30}
    assert case.oracle.notes["same_key_rewrites"] == 1


def test_a_list_of_keys_gives_an_operation_an_element() -> None:
    app, accounts = small()

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.keys], add_each, each=[event.amounts])
        txn.write(accounts[event.other], add_sum, reads=[accounts[event.keys]])

    case = Case(app, accounts={1: 10, 2: 20})
    outcomes = case.epoch(
        ("Step", 1, {"keys": [1, 2, 1], "amounts": [1, 2, 3], "other": 9}),
        ("Step", 2, {"keys": [], "amounts": [], "other": 8}),
    )
    assert verdicts(outcomes) == [("committed",), ("committed",)]
    assert case.balances() == {1: 14, 2: 22, 9: 10 + 20 + 10, 8: 0}


def refusing() -> Case:
    app, accounts = small(create=True, constraint=non_negative)
    closed = app.table("closed", key=str, value={"balance": INT64}, create=False)
    app.event("Named", {"name": str, "key": INT64, "amount": INT64})

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(accounts[event.other], take)

    @app.transaction("Named")
    def named(txn, event):
        txn.write(accounts[event.key], add)
        txn.write(closed[event.name], add)

    return Case(app, closed={"known": 1})


def test_abort_when_a_user_function_returns_false() -> None:
    case = refusing()
    assert verdicts(case.epoch(("Step", 1, {"key": 1, "other": 2, "amount": 3}))) == [("failed", "REFUSED", 1, 2)]
    assert case.balances() == {}  # the whole transaction leaves no trace, no new key either


def test_abort_when_a_constraint_fails_after_a_write() -> None:
    case = refusing()
    assert verdicts(case.epoch(("Step", 1, {"key": 1, "other": 1, "amount": -3}))) == [("failed", "CONSTRAINT", 0, 1)]
    assert case.balances() == {}


def test_the_constraint_is_checked_after_each_write_not_at_the_end() -> None:
    app, accounts = small(constraint=non_negative)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[1], add)
        txn.write(accounts[1], to_the_top)

    case = Case(app)
    assert verdicts(case.epoch(("Step", 1, {"amount": -3}))) == [("failed", "CONSTRAINT", 0, 1)]


def test_abort_when_an_unknown_key_meets_a_table_that_does_not_create() -> None:
    case = refusing()
    outcomes = case.epoch(
        ("Named", 1, {"name": "unknown", "key": 1, "amount": 3}), ("Named", 2, {"name": "known", "key": 1, "amount": 4})
    )
    assert verdicts(outcomes) == [("failed", "UNKNOWN_KEY", 1, "unknown"), ("committed",)]
    assert case.balances() == {1: 4} and case.balances("closed") == {"known": 5}


def test_of_several_failures_the_first_in_statement_order_is_reported() -> None:
    app, accounts = small(create=False)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.keys], divide)
        txn.write(accounts[99], add)

    case = Case(app, accounts={1: 6, 2: 8})
    outcomes = case.epoch(
        ("Step", 1, {"keys": [1, 2], "amount": 0}),
        ("Step", 2, {"keys": [2, 77, 1], "amount": 0}),
        ("Step", 3, {"keys": [2, 77, 1], "amount": 1}),
        ("Step", 4, {"keys": [1, 2], "amount": 1}),
    )
    assert verdicts(outcomes) == [
        ("failed", "DIVISION_BY_ZERO", 0, 1),
        ("failed", "DIVISION_BY_ZERO", 0, 2),
        ("failed", "UNKNOWN_KEY", 0, 77),
        ("failed", "UNKNOWN_KEY", 1, 99),
    ]


def test_a_condition_leaves_one_write_out_and_may_read_other_keys() -> None:
    app, accounts = small()

    @app.transaction("Step", output={"seen": INT64})
    def step(txn, event):
        txn.write(accounts[1], add)
        held = txn.write(accounts[2], add, when=is_rich, when_reads=[accounts[0]])
        txn.output(show, reads=[held])

    case = Case(app, accounts={0: 9, 2: 50})
    assert seen(case.epoch(("Step", 1, {"amount": 1}))) == [50]  # left out: the record as it stood
    assert case.balances() == {0: 9, 1: 1, 2: 50}
    rich = Case(app, accounts={0: 10, 2: 50})
    assert seen(rich.epoch(("Step", 1, {"amount": 1}))) == [51]


def test_a_left_out_write_creates_no_key() -> None:
    app, accounts = small()

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[2], add, when=is_rich, when_reads=[accounts[0]])

    case = Case(app)
    assert verdicts(case.epoch(("Step", 1, {"amount": 1}))) == [("committed",)]
    assert case.balances() == {}


@pytest.mark.parametrize("create", [True, False])
def test_a_deleted_key_is_unknown_afterwards(create: bool) -> None:
    app, accounts = small(create=create, default={"balance": 100})
    app.event("Gone", app.events["Step"].fields)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[event.key], add)

    @app.transaction("Gone")
    def gone(txn, event):
        txn.delete(accounts[event.key])

    case = Case(app, accounts={1: 5})
    outcomes = case.epoch(("Gone", 1, {"key": 1}), ("Gone", 2, {"key": 1}), ("Step", 3, {"key": 1, "amount": 1}))
    if create:
        assert verdicts(outcomes) == [("committed",)] * 3
        assert case.balances() == {1: 101}  # from the default record
    else:
        assert verdicts(outcomes) == [("committed",), ("failed", "UNKNOWN_KEY", 0, 1), ("failed", "UNKNOWN_KEY", 0, 1)]
        assert case.balances() == {}


def test_a_delete_and_a_write_of_one_transaction_follow_each_other() -> None:
    app, accounts = small()

    @app.transaction("Step")
    def step(txn, event):
        txn.delete(accounts[event.key])
        txn.write(accounts[event.other], add)

    case = Case(app, accounts={1: 50, 2: 70})
    case.epoch(("Step", 1, {"key": 1, "other": 1, "amount": 3}), ("Step", 2, {"key": 2, "other": 3, "amount": 4}))
    assert case.balances() == {1: 3, 3: 4}


# Pre-processing, accounting, identity


def test_columns_are_derived_and_events_filtered_before_the_transaction() -> None:
    app, accounts = small()

    @app.transaction("Step", derive={"halved": half, "part": share_of_hundred}, filter=is_even)
    def step(txn, event):
        txn.write(accounts[event.halved], add)

    case = Case(app)
    outcomes = case.epoch(("Step", 1, {"amount": 4}), ("Step", 2, {"amount": 5}), ("Step", 3, {"amount": 0}))
    assert verdicts(outcomes) == [("committed",), ("filtered",), ("failed", "DIVISION_BY_ZERO", -1, None)]
    assert case.balances() == {2: 4}


def test_a_firing_transaction_comes_after_earlier_events_and_before_those_of_its_time() -> None:
    app, accounts = small()

    @app.every("Tick", 10, output={"seen": INT64})
    def tick(txn, event):
        txn.write(accounts[0], double)
        txn.output(show_ts)

    @app.transaction("Step")
    def step(txn, event):
        txn.write(accounts[0], add)

    case = Case(app)
    assert case.epoch(until=15) == []  # no event yet: nothing to count from
    first = case.epoch(("Step", 20, {"amount": 1}), ("Step", 30, {"amount": 1}), until=35)
    assert [(o.record_type, o.ts, o.source, o.seq) for o in first] == [
        ("Step", 20, 0, 0),
        ("Tick", 30, -1, 0),
        ("Step", 30, 0, 1),
    ]
    assert case.balances() == {0: 3}
    assert seen(case.epoch(until=55)) == [40, 50]  # an empty epoch fires too
    assert case.balances() == {0: 12}


def test_random_numbers_come_from_the_identity() -> None:
    assert mixed(0) == 0xE220A8397B1DCDAF  # the published first output of splitmix64 with seed 0
    assert random_of(0, 0, 0) == mixed(mixed(0xE220A8397B1DCDAF)) >> 1
