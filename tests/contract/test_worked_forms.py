"""One worked example for each form of access that goes beyond a plain read or write: stages, windows, fires, computed keys,
deletes, conditions, lists. Every number below was computed by hand from design.md's contract."""

from engine import Application, Reason, int64, list_of, udf
from tests.contract.registers import verdicts


@udf
def add_amount(record, event):
    record.value += event.amount
    return event.amount >= 0


@udf
def set_amount(record, event):
    record.value = event.amount
    return event.amount >= 0


@udf
def fill_derived(derived, event, record):
    derived.amount = record.value * 10


@udf
def above_one(event, record):
    return record.value > 1


@udf
def set_number(record, event, number):
    record.value = number


@udf
def note_number(output, event, number):
    output.number = number


@udf
def note_record(output, event, record):
    output.number = record.value


@udf
def add_each(record, event, amount):
    record.value += amount
    return record.value >= 0


@udf
def pointer(event, register):
    return register.value


def declare(name):
    app = Application(name)
    return app, app.table("numbers", key=int, value={"value": int64})


def numbers(driver):
    return {key: record["value"] for key, record in driver.state("numbers").items()}


def outputs(result):
    return [outcome.output and outcome.output["number"] for outcome in result.outcomes()]


stages, _numbers = declare("contract-stages")
stages.event("Order", {"key": int64, "amount": int64})
stages.event("Bill", {"to": int64, "amount": int64})
stages.event("Receipt", {"to": int64, "amount": int64})


@stages.transaction("Order")
def order(txn, event):
    after = txn.write(_numbers[event.key], add_amount)
    txn.emit("Bill", fill_derived, reads=[after], copy={"to": event.key})


@stages.transaction("Bill")
def bill(txn, event):
    standing = txn.read(_numbers[event.to])
    txn.write(_numbers[event.to], add_amount)
    txn.emit("Receipt", fill_derived, reads=[standing], when=above_one, when_reads=[standing], copy={"to": event.to})


@stages.transaction("Receipt", output={"number": int64})
def receipt(txn, event):
    txn.output(note_record, reads=[_numbers[event.to]])


def test_derived_records_run_in_later_stages_once_the_stage_before_is_final(drive):
    driver = drive(stages)
    driver.send("Order", ts=1, key=1, amount=1)
    driver.send("Order", ts=2, key=1, amount=-5)  # fails: emits nothing
    driver.send("Order", ts=3, key=1, amount=1)
    driver.send("Order", ts=4, key=2, amount=1)
    result = driver.punctuate()
    told = [(o.stage, o.record_type, o.ts, o.emission, o.verdict, o.output) for o in result.outcomes()]
    # Stage 0: key 1 goes 1, 2; key 2 goes 1. Stage 1 sees 2, then 2 + 10, and adds 10 and 20; key 2 sees 1: no receipt.
    assert told == [
        (0, "Order", 1, (), "committed", None),
        (0, "Order", 2, (), "failed", None),
        (0, "Order", 3, (), "committed", None),
        (0, "Order", 4, (), "committed", None),
        (1, "Bill", 1, (1,), "committed", None),
        (1, "Bill", 3, (1,), "committed", None),
        (1, "Bill", 4, (1,), "committed", None),
        (2, "Receipt", 1, (1, 2), "committed", {"number": 32}),
        (2, "Receipt", 3, (1, 2), "committed", {"number": 32}),
    ]
    assert numbers(driver) == {1: 32, 2: 11}


windows, _values = declare("contract-windows")
_sums = windows.table("sums", key=int, value={"value": int64})
windows.event("Put", {"key": int64, "amount": int64})
windows.event("Sum", {"key": int64})


@windows.transaction("Put")
def put(txn, event):
    txn.write(_values[event.key], set_amount)


@windows.transaction("Sum", output={"number": int64})
def sum_up(txn, event):
    txn.output(note_number, reads=[_values[event.key].window(10, "sum", "value")])


@windows.every("Tick", 10, output={"number": int64})
def tick(txn, event):
    total = txn.read(_values[1].window(10, "sum", "value"))
    txn.write(_sums[0], set_number, reads=[total])
    txn.output(note_number, reads=[total])


def test_a_window_reaches_back_over_epochs_and_over_failures(drive):
    driver = drive(windows)
    driver.load("numbers", {1: {"value": 1000}})  # loaded values are no versions
    driver.send("Put", ts=1, key=1, amount=1)
    driver.send("Put", ts=3, key=1, amount=2)
    driver.send("Put", ts=4, key=1, amount=-1)  # fails: no version
    driver.send("Sum", ts=5, key=1)
    assert outputs(driver.punctuate(5)) == [None, None, None, 3]
    driver.send("Put", ts=6, key=1, amount=4)
    driver.send("Sum", ts=9, key=1)
    assert outputs(driver.punctuate(9)) == [None, 7]
    driver.send("Sum", ts=12, key=1)  # from 2 on: 2 + 4
    driver.send("Sum", ts=13, key=1)  # from 3 on: 2 + 4
    driver.send("Sum", ts=14, key=1)  # from 4 on: 4
    driver.send("Sum", ts=17, key=1)  # from 7 on: nothing
    # The tick at 10 comes before them: from 0 on, 1 + 2 + 4.
    assert outputs(driver.punctuate(18)) == [7, 6, 6, 4, 0]
    assert driver.get("sums", 0) == {"value": 7}


def test_fires_come_at_their_times_also_in_empty_epochs(drive):
    driver = drive(windows)
    assert driver.punctuate(5).outcomes() == []  # no event yet: nothing to count from
    driver.send("Put", ts=12, key=1, amount=3)
    driver.send("Put", ts=20, key=1, amount=5)
    first = driver.punctuate(25)
    # The first fire is the first multiple after 12; an event with the fire's own time comes after it.
    told = [(o.record_type, o.ts, o.source, o.output) for o in first.outcomes()]
    assert told == [("Put", 12, 0, None), ("Tick", 20, -1, {"number": 3}), ("Put", 20, 0, None)]
    assert (first.committed, first.failed) == (2, 0)  # the fire is counted apart
    later = driver.punctuate(47).outcomes()
    assert [(o.ts, o.output) for o in later] == [(30, {"number": 5}), (40, {"number": 0})]
    assert driver.punctuate(49).outcomes() == []


computed, _cells = declare("contract-computed")
computed.event("Put", {"key": int64, "amount": int64, "other": int64, "other_amount": int64})
computed.event("Follow", {"at": int64, "amount": int64})
computed.event("Choose", {"at": int64, "amount": int64, "options": list_of(int64)})


@udf
def set_other(record, event):
    record.value = event.other_amount
    return event.other_amount >= 0


@computed.transaction("Put")
def put_two(txn, event):
    txn.write(_cells[event.key], set_amount)
    txn.write(_cells[event.other], set_other)


@computed.transaction("Follow")
def follow(txn, event):
    txn.write(_cells.computed(pointer, reads=[_cells[event.at]]), add_amount)


@computed.transaction("Choose")
def choose(txn, event):
    txn.write(_cells.computed(pointer, reads=[_cells[event.at]], candidates=_cells[event.options]), add_amount)


def test_a_computed_key_is_computed_again_when_what_it_read_is_withdrawn(drive):
    driver = drive(computed)
    driver.load("numbers", {0: {"value": 7}})
    driver.send("Put", ts=1, key=0, amount=8, other=1, other_amount=-1)  # points 0 to 8, then fails
    driver.send("Follow", ts=2, at=0, amount=5)  # so it goes to 7, not to 8
    driver.send("Follow", ts=3, at=0, amount=1)
    result = driver.punctuate()
    assert verdicts(result) == ["failed", "committed", "committed"]
    assert numbers(driver) == {0: 7, 7: 6}
    if drive.is_lazy:
        assert result.counters["computed_again"] >= 2


def test_a_computed_key_outside_the_candidates_fails(drive):
    driver = drive(computed)
    driver.load("numbers", {0: {"value": 7}})
    driver.send("Choose", ts=1, at=0, amount=5, options=[6, 7])
    driver.send("Choose", ts=2, at=0, amount=5, options=[6, 8])
    driver.send("Choose", ts=3, at=0, amount=5, options=[])
    outcomes = driver.punctuate().outcomes()
    assert [(o.verdict, o.reason, o.key) for o in outcomes] == [
        ("committed", Reason.NONE, None),
        ("failed", Reason.NOT_A_CANDIDATE, 7),
        ("failed", Reason.NOT_A_CANDIDATE, 7),
    ]
    assert numbers(driver) == {0: 7, 7: 5}


known = Application("contract-known")
_known = known.table("numbers", key=int, value={"value": int64}, create=False)
_free = known.table("free", key=int, value={"value": int64}, default={"value": 40})
known.event("Remove", {"key": int64, "amount": int64})
known.event("Change", {"key": int64, "amount": int64})
known.event("Many", {"keys": list_of(int64), "amounts": list_of(int64)})
known.event("Rarely", {"key": int64, "other": int64, "amount": int64})


@known.transaction("Remove")
def remove(txn, event):
    txn.delete(_known[event.key])
    txn.delete(_free[event.key])
    txn.write(_free[100], add_amount)


@known.transaction("Change", output={"number": int64})
def change(txn, event):
    txn.output(note_record, reads=[txn.write(_known[event.key], add_amount)])


@known.transaction("Many")
def many(txn, event):
    txn.write(_free[event.keys], add_each, each=[event.amounts])


@known.transaction("Rarely")
def rarely(txn, event):
    txn.write(_free[event.key], add_amount, when=above_one, when_reads=[_known[event.other]])
    txn.write(_free[event.other], add_amount)


def free(driver):
    return {key: record["value"] for key, record in driver.state("free").items()}


def test_a_deleted_key_is_unknown_until_its_delete_fails(drive):
    driver = drive(known)
    driver.load("numbers", {1: {"value": 5}, 2: {"value": 6}})
    driver.load("free", {1: {"value": 1}})
    driver.send("Remove", ts=1, key=1, amount=-1)  # fails after its deletes
    driver.send("Change", ts=2, key=1, amount=1)
    driver.send("Remove", ts=3, key=1, amount=2)
    driver.send("Change", ts=4, key=1, amount=1)
    driver.send("Remove", ts=5, key=1, amount=2)
    driver.send("Many", ts=6, keys=[1], amounts=[3])
    outcomes = driver.punctuate().outcomes()
    assert [(o.verdict, o.reason, o.statement, o.key) for o in outcomes] == [
        ("failed", Reason.REFUSED, 2, 100),
        ("committed", Reason.NONE, -1, None),
        ("committed", Reason.NONE, -1, None),
        ("failed", Reason.UNKNOWN_KEY, 0, 1),
        ("failed", Reason.UNKNOWN_KEY, 0, 1),
        ("committed", Reason.NONE, -1, None),
    ]
    assert numbers(driver) == {2: 6}
    assert free(driver) == {1: 43, 100: 42}  # both from the default: 1 was deleted, 100 was never there


def test_a_condition_leaves_out_one_write_and_only_that(drive):
    driver = drive(known)
    driver.load("numbers", {1: {"value": 1}, 2: {"value": 2}})
    driver.send("Rarely", ts=1, key=10, other=1, amount=3)
    driver.send("Change", ts=2, key=1, amount=1)
    driver.send("Rarely", ts=3, key=11, other=1, amount=3)
    driver.send("Rarely", ts=4, key=12, other=9, amount=3)
    outcomes = driver.punctuate().outcomes()
    assert [(o.verdict, o.reason, o.key) for o in outcomes] == [
        ("committed", Reason.NONE, None),
        ("committed", Reason.NONE, None),
        ("committed", Reason.NONE, None),
        ("failed", Reason.UNKNOWN_KEY, 9),
    ]
    assert free(driver) == {1: 46, 11: 43}


def test_one_transaction_may_touch_a_key_many_times(drive):
    driver = drive(known)
    driver.send("Many", ts=1, keys=[1] * 200, amounts=[1] * 200)
    driver.send("Many", ts=2, keys=[1, 2, 1, 3, 1], amounts=[1, 1, -300, 1, 60])  # passes below 0 on the way: fails
    driver.send("Many", ts=3, keys=[1, 2, 1, 2], amounts=[-240, 1, 0, 1])
    driver.send("Many", ts=4, keys=[], amounts=[])
    outcomes = driver.punctuate().outcomes()
    assert [o.verdict for o in outcomes] == ["committed", "failed", "committed", "committed"]
    assert (outcomes[1].reason, outcomes[1].key) == (Reason.REFUSED, 1)
    assert free(driver) == {1: 0, 2: 42}
