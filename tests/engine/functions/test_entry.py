"""Entries with every kind of parameter and result, called through their C address."""

import ctypes
import math
from typing import Any

import numpy as np
import pytest

from engine.errors import InvariantError, Reason
from engine.functions.entry import Parameter, compile_entry
from engine.functions.udf import udf

ACCOUNT = np.dtype(
    [("open", "?"), ("balance", "<i8"), ("rate", "<f8"), ("days", "<i8", (3,)), ("sums", "<f8", (2,))], align=True
)
TRANSFER = np.dtype([("amount", "<i8"), ("share", "<f8"), ("final", "?")], align=True)
INTEGER, FLOAT, BOOLEAN = np.dtype("<i8"), np.dtype("<f8"), np.dtype("?")
OWN, EVENT = Parameter("own", ACCOUNT, writable=True), Parameter("event", TRANSFER)
FEE, LIMIT = 2, 2.5


def accounts(*balances: int) -> np.ndarray:
    rows = np.zeros(len(balances), ACCOUNT)
    rows["balance"] = balances
    return rows


def transfer(amount: int = 0, share: float = 0.0, final: bool = False) -> np.ndarray:
    return np.array([(amount, share, final)], TRANSFER)


@udf
def with_fee(amount):
    return amount + FEE


@udf
def charge(account, amount):
    account.balance -= with_fee(amount)


@udf
def debit(account, transfer):
    """Takes money away."""
    charge(account, transfer.amount)
    account.open = not transfer.final
    return account.balance >= 0


def test_verdicts(call: Any) -> None:
    entry = compile_entry(debit, (OWN, EVENT), "verdict")
    assert entry.result is None
    row = accounts(100)
    assert call(entry, row, transfer(40)) == 1
    assert row[0]["balance"] == 58 and row[0]["open"]
    assert call(entry, row, transfer(60, final=True)) == 0
    assert row[0]["balance"] == -4 and not row[0]["open"]
    assert call(entry, accounts(-(2**63)), transfer(1)) == -Reason.OVERFLOW


def test_a_function_that_returns_nothing_succeeds(call: Any) -> None:
    @udf
    def nothing(account, transfer):
        account.balance = transfer.amount

    @udf
    def sometimes(account, transfer):
        if transfer.final:
            return transfer.amount > 0
        account.balance = 7

    row = accounts(0)
    assert call(compile_entry(nothing, (OWN, EVENT), "verdict"), row, transfer(5)) == 1
    assert row[0]["balance"] == 5
    entry = compile_entry(sometimes, (OWN, EVENT), "verdict")
    events = transfer(0, final=False), transfer(0, final=True), transfer(1, final=True)
    assert [call(entry, row, event) for event in events] == [1, 0, 1]


def test_every_kind_of_parameter(call: Any) -> None:
    @udf
    def all_kinds(account, transfer, number, share, flag, other, others, count, limit, strict):
        account.balance = transfer.amount + number + other.balance + count
        for row in others:
            account.balance += row.balance
        account.rate = limit * share + others[-1].rate + len(others)
        account.open = flag and strict and others[0].open
        return account.rate > LIMIT

    element = np.dtype([("number", "<i8"), ("flag", "?"), ("share", "<f8")], align=True)
    parameters = (
        OWN,
        EVENT,
        Parameter("each", INTEGER, offset=element.fields["number"][1]),
        Parameter("each", FLOAT, offset=element.fields["share"][1]),
        Parameter("each", BOOLEAN, offset=element.fields["flag"][1]),
        Parameter("record", ACCOUNT, argument=1),
        Parameter("records", ACCOUNT, argument=0),
        Parameter("scalar", INTEGER, argument=2),
        Parameter("scalar", FLOAT, argument=3),
        Parameter("scalar", BOOLEAN, argument=4),
    )
    entry = compile_entry(all_kinds, parameters, "verdict")
    row, others, each = accounts(0), accounts(100, 200, 300), np.array([(7, True, 0.25)], element)
    others["open"], others["rate"] = [True, False, False], [0, 0, 1.5]
    arguments = (others, accounts(1000), np.array([50]), np.array([2.0]), np.array([1]))
    assert call(entry, row, transfer(3), each, arguments) == 1
    assert row[0]["balance"] == 3 + 7 + 1000 + 50 + 600
    assert row[0]["rate"] == 0.5 + 1.5 + 3
    assert row[0]["open"]
    assert call(entry, row, transfer(3), each, (others[:0], *arguments[1:])) == -Reason.BAD_INDEX


def test_an_own_record_without_a_type_is_not_passed(call: Any) -> None:
    @udf
    def positive(transfer):
        return transfer.amount > 0

    entry = compile_entry(positive, (Parameter("own", None), EVENT), "verdict")
    assert [call(entry, event=transfer(amount)) for amount in (1, 0)] == [1, 0]


def test_vectors(call: Any) -> None:
    @udf
    def shift(account, transfer):
        total = 0
        for day in account.days:
            total += day
        for i in range(len(account.days) - 1, 0, -1):
            account.days[i] = account.days[i - 1]
        account.days[0] = transfer.amount
        account.days[-1] += total
        account.sums[transfer.amount % 2] *= 2 + account.sums[0]
        account.sums[1] = transfer.amount
        days = account.days
        return days[0] == transfer.amount

    row = accounts(0)
    row["days"], row["sums"] = [1, 2, 3], [0.5, 4.0]
    assert call(compile_entry(shift, (OWN, EVENT), "verdict"), row, transfer(10)) == 1
    assert row[0]["days"].tolist() == [10, 1, 8]
    assert row[0]["sums"].tolist() == [1.25, 10.0]


@pytest.mark.parametrize("index", [-4, 3, 2**63 - 1, -(2**63)])
def test_bad_indexes_touch_nothing(call: Any, index: int) -> None:
    @udf
    def read(account, transfer):
        return account.days[transfer.amount] == 0

    @udf
    def write(account, transfer):
        account.days[transfer.amount] = 9

    @udf
    def update(account, transfer):
        account.days[transfer.amount] += 9

    @udf
    def row_at(account, transfer, others):
        return others[transfer.amount].open

    row = accounts(1, 2)
    before = row.tobytes()
    for function in (read, write, update):
        entry = compile_entry(function, (OWN, EVENT), "verdict")
        assert call(entry, row, transfer(index)) == -Reason.BAD_INDEX
    entry = compile_entry(row_at, (OWN, EVENT, Parameter("records", ACCOUNT, argument=0)), "verdict")
    assert call(entry, row, transfer(index), arguments=(accounts(1, 2, 3),)) == -Reason.BAD_INDEX
    assert row.tobytes() == before


def test_no_record_is_read_where_there_is_none(call: Any) -> None:
    @udf
    def first(rows):
        return rows[0].balance == rows[-1].days[2]

    entry = compile_entry(first, (Parameter("records", ACCOUNT, argument=0),), "verdict")
    nowhere = np.array([(0, 0)], np.int64)  # a null address with no rows
    address = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(entry.address)
    assert address(0, 0, 0, nowhere.ctypes.data) == -Reason.BAD_INDEX


def test_a_fault_leaves_a_loop_before_what_follows_it(call: Any) -> None:
    """What follows may use names that the loop would have assigned; a record among them must never be null."""

    @udf
    def find(rows, start):
        while True:
            row = rows[start]
            if row.balance > 0:
                return row
            start += 1

    @udf
    def search(rows, transfer):
        share = 1 // transfer.amount
        while True:
            row = find(rows, transfer.amount)
            if row.balance > share:
                break
        return row.balance > 10

    parameters = Parameter("records", ACCOUNT, argument=0), EVENT
    entry = compile_entry(search, parameters, "verdict")
    rows = accounts(0, 5, 0, 20, 0)
    expected = {0: -Reason.DIVISION_BY_ZERO, 1: 0, 2: 1, 3: 1, 4: -Reason.BAD_INDEX, 99: -Reason.BAD_INDEX}
    assert {start: call(entry, event=transfer(start), arguments=(rows,)) for start in expected} == expected


@pytest.mark.parametrize(("value", "reason"), [(math.nan, Reason.NOT_A_NUMBER), (math.inf, Reason.OVERFLOW)])
def test_only_finite_floats_are_stored(call: Any, value: float, reason: Reason) -> None:
    @udf
    def store(account, transfer):
        account.rate = transfer.share

    @udf
    def store_item(account, transfer):
        account.sums[1] = transfer.share

    for function in (store, store_item):
        entry = compile_entry(function, (OWN, EVENT), "verdict")
        assert call(entry, accounts(0), transfer(share=value)) == -reason
        assert call(entry, accounts(0), transfer(share=1.0)) == 1


def test_numbers_take_the_type_of_their_field(call: Any) -> None:
    @udf
    def convert(account, transfer):
        account.rate = transfer.amount
        account.balance = transfer.final
        account.rate, account.balance = account.balance, account.balance + 4
        a = b = account.balance
        account.days[0] = account.days[1] = a + b

    row = accounts(0)
    assert call(compile_entry(convert, (OWN, EVENT), "verdict"), row, transfer(3, final=True)) == 1
    assert (row[0]["rate"], row[0]["balance"], row[0]["days"].tolist()) == (1.0, 5, [10, 10, 0])


def test_values(evaluate: Any) -> None:
    @udf
    def whole(a):
        return a + 1

    @udf
    def real(a):
        return a / 2

    @udf
    def truth(a):
        return a > 2

    @udf
    def several(a):
        low, high = a // 3, a % 3
        return low, high, 7

    @udf
    def one(a):
        return (a,)

    results = [evaluate(function, 5) for function in (whole, real, truth, several, one)]
    assert results == [6, 2.5, True, (1, 2, 7), (5,)]
    assert [type(each) for each in results] == [int, float, bool, tuple, tuple]


def test_an_infinite_value_is_a_fault(evaluate: Any) -> None:
    @udf
    def best(a):
        lowest = math.inf
        if a < lowest and a > 0:
            lowest = float(a)
        return lowest

    assert evaluate(best, 3) == 3.0
    assert evaluate(best, -3) == Reason.OVERFLOW


def test_constants_come_from_the_closure_and_the_module(evaluate: Any) -> None:
    small, lowest, ratio, on = 3, -(2**63), np.float64(0.5), True
    from math import floor as down

    @udf
    def constants(a):
        if on and a == lowest:
            return -9223372036854775808
        return down(a * ratio * math.pi) + small + FEE + int(np.e)

    assert evaluate(constants, 10) == constants(10)
    assert evaluate(constants, lowest) == lowest


def test_the_plain_function_can_be_called() -> None:
    assert (with_fee(5), with_fee.name, with_fee.parameters) == (7, "with_fee", ("amount",))
    assert with_fee.file == __file__ and with_fee.python.__name__ == "with_fee"
    assert udf(with_fee) is with_fee


def test_the_same_request_gives_the_same_entry() -> None:
    assert compile_entry(debit, (OWN, EVENT), "verdict") is compile_entry(debit, (OWN, EVENT), "verdict")


@pytest.mark.parametrize(
    "parameters",
    [
        (OWN, Parameter("event", TRANSFER, writable=True)),
        (OWN, Parameter("record", TRANSFER)),
        (OWN, Parameter("event", INTEGER)),
        (OWN, Parameter("each", np.dtype("<i4"))),
    ],
    ids=["second writable", "no argument", "no struct", "narrow"],
)
def test_parameters_that_make_no_sense(parameters: tuple[Parameter, ...]) -> None:
    with pytest.raises(InvariantError):
        compile_entry(debit, parameters, "verdict")
