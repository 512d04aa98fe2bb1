"""Properties of the API, by hypothesis: what an outcome may depend on (the events) and what not (all the rest).

The models here are written from design.md's contract in plain dicts, apart from `services/verify`'s oracle on purpose.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine import Application, Engine, Epoch, InputError, Policy, TestDriver, all_policies, int64, udf
from engine.scheduling.policy import SERIAL

# A bank of named accounts

NAMES = ["ada", "bob", "cy", "dé", ""]
names = st.sampled_from(NAMES)
amounts = st.integers(-3, 30)


@udf
def put_in(account, event):
    account.balance += event.amount
    return event.amount >= 0


@udf
def take_out(account, event):
    account.balance -= event.amount
    return account.balance >= 0 and event.amount >= 0


@udf
def is_empty(event, account):
    return account.balance == 0


@udf
def note_balance(output, event, account):
    output.balance = account.balance


def declare_bank(opening_balance: int, creates: bool) -> Application:
    app = Application("property-bank")
    accounts = app.table(
        "accounts", key=str, value={"balance": int64}, default={"balance": opening_balance}, create=creates
    )
    app.event("Deposit", {"to": str, "amount": int64})
    app.event("Transfer", {"sender": str, "to": str, "amount": int64})
    app.event("Close", {"name": str})
    app.event("Ask", {"name": str})

    @app.transaction("Deposit")
    def deposit(txn, event):
        txn.write(accounts[event.to], put_in)

    @app.transaction("Transfer", output={"balance": int64})
    def transfer(txn, event):
        before = txn.read(accounts[event.sender])
        txn.write(accounts[event.sender], take_out)
        txn.write(accounts[event.to], put_in)
        txn.output(note_balance, reads=[before])

    @app.transaction("Close")
    def close(txn, event):
        account = accounts[event.name]
        txn.delete(account, when=is_empty, when_reads=[account])

    @app.transaction("Ask", output={"balance": int64})
    def ask(txn, event):
        txn.output(note_balance, reads=[accounts[event.name]])

    return app


BANKS = {(opening, creates): declare_bank(opening, creates) for opening in (0, 7) for creates in (True, False)}


class BankModel:
    """The bank on a dict, one event after another."""

    def __init__(self, opening_balance: int, creates: bool, accounts: dict[str, int] | None = None) -> None:
        self.opening_balance, self.creates = opening_balance, creates
        self.accounts = dict(accounts or {})
        self.created = 0  # opening balances given out, for the conservation of money

    def run(self, kind: str, fields: dict[str, Any]) -> tuple[str, dict[str, int] | None]:
        accounts, output = dict(self.accounts), None
        created = 0

        def balance(name: str) -> int:
            if name not in accounts and not self.creates:
                raise KeyError(name)
            return accounts.get(name, self.opening_balance)

        def write(name: str, change: int) -> bool:
            nonlocal created
            created += self.opening_balance if name not in accounts else 0
            accounts[name] = balance(name) + change
            return True

        try:
            if kind == "Deposit":
                good = write(fields["to"], fields["amount"]) and fields["amount"] >= 0
            elif kind == "Transfer":
                output = {"balance": balance(fields["sender"])}
                write(fields["sender"], -fields["amount"])
                good = accounts[fields["sender"]] >= 0 and fields["amount"] >= 0
                good = write(fields["to"], fields["amount"]) and good
            elif kind == "Close":
                good = True
                if balance(fields["name"]) == 0:
                    accounts.pop(fields["name"], None)
            else:
                good, output = True, {"balance": balance(fields["name"])}
        except KeyError:
            good = False
        if not good:
            return "failed", None
        self.accounts, self.created = accounts, self.created + created
        return "committed", output


def bank_fields(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = {
        "Deposit": {"to": names, "amount": amounts},
        "Transfer": {"sender": names, "to": names, "amount": amounts},
        "Close": {"name": names},
        "Ask": {"name": names},
    }[kind]
    return st.fixed_dictionaries(fields)


bank_kinds = st.sampled_from(["Deposit", "Transfer", "Transfer", "Close", "Ask"])
bank_events = st.lists(
    bank_kinds.flatmap(lambda kind: st.tuples(st.just(kind), st.integers(0, 9), st.integers(0, 2), bank_fields(kind))),
    max_size=14,
)  # kind, ts within the epoch, source, fields


def numbered(events: list[Any]) -> list[tuple[str, int, int, int, dict[str, Any]]]:
    """(kind, ts, source, seq, fields): ids are given in the order in which a source made its events."""
    counts: Counter[int] = Counter()
    result = []
    for kind, ts, source, fields in events:
        result.append((kind, ts, source, counts[source], fields))
        counts[source] += 1
    return result


def in_order(events: list[Any]) -> list[Any]:
    return sorted(events, key=lambda event: event[1:4])


def as_epoch(number: int, events: list[Any], punctuation_ts: int, offset: int = 0) -> Epoch:
    """The events as columns, in the order in which they are given."""
    columns: dict[str, dict[str, list[Any]]] = {}
    for kind, ts, source, seq, fields in events:
        for name, value in {"ts": offset + ts, "source": source, "seq": seq, **fields}.items():
            columns.setdefault(kind, {}).setdefault(name, []).append(value)
    return Epoch(number, punctuation_ts, columns)


def run_bank(
    declared: tuple[int, bool], epochs: list[list[Any]], policy: Policy = SERIAL, threads: int = 1
) -> tuple[list[Any], bytes, dict[str, int]]:
    with Engine(BANKS[declared], policy=policy, threads=threads) as engine:
        engine.load("accounts", NAMES[:3], {"balance": [20, 0, 5]})
        outcomes = [
            engine.run_epoch(as_epoch(number, events, 10 * number + 9, 10 * number)).outcomes()
            for number, events in enumerate(epochs)
        ]
        state = {name: record["balance"] for name, record in engine.state("accounts").items()}
        return outcomes, engine.snapshot(), state


declared = st.sampled_from(sorted(BANKS))


@settings(max_examples=60)
@given(declared, st.lists(bank_events, min_size=1, max_size=3))
def test_a_bank_does_what_the_model_does_and_conserves_money(declared, drawn):
    epochs = [numbered(events) for events in drawn]
    outcomes, _, state = run_bank(declared, epochs)
    model = BankModel(*declared, accounts={"ada": 20, "bob": 0, "cy": 5})
    deposited = 0
    for events, told in zip(epochs, outcomes, strict=True):
        expected = []
        for kind, *_, fields in in_order(events):
            verdict, output = model.run(kind, fields)
            expected.append((kind, verdict, output))
            deposited += fields["amount"] if (kind, verdict) == ("Deposit", "committed") else 0
        assert [(each.record_type, each.verdict, each.output) for each in told] == expected
    assert state == model.accounts
    # A closed account was empty, so money comes from loading, deposits and opening balances only.
    assert sum(state.values()) == 25 + deposited + model.created


@settings(max_examples=40)
@given(declared, bank_events, bank_events, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(declared, first, second, draw):
    epochs = [numbered(first), numbered(second)]
    shuffled = [draw.sample(events, len(events)) for events in epochs]
    assert run_bank(declared, shuffled) == run_bank(declared, epochs)


@settings(max_examples=12)
@given(declared, bank_events, bank_events)
def test_policies_and_threads_do_not_matter(declared, first, second):
    epochs = [numbered(first), numbered(second)]
    expected = run_bank(declared, epochs)
    for policy in all_policies():
        for threads in (1, 2):
            assert run_bank(declared, epochs, policy, threads) == expected, f"{policy.name} on {threads} threads"


@settings(max_examples=30)
@given(declared, bank_events, st.integers(0, 3))
def test_a_replay_from_a_snapshot_repeats_itself(declared, drawn, extra):
    """Also under another policy: what runs again gives the same outcomes and the same bytes."""
    first, second = numbered(drawn[: len(drawn) // 2]), numbered(drawn[len(drawn) // 2 :])
    app = BANKS[declared]
    with Engine(app, threads=1) as engine:
        engine.run_epoch(as_epoch(0, first, 9))
        saved = engine.snapshot()
        epoch = as_epoch(1, second, 19 + extra, 10)
        expected = engine.run_epoch(epoch).outcomes(), engine.snapshot()
    for policy in ("serial", "unstructured/coarse/lazy"):
        with Engine.restore(app, saved, policy=policy, threads=2) as again:
            assert (again.run_epoch(epoch).outcomes(), again.snapshot()) == expected
            with pytest.raises(InputError):
                again.run_epoch(as_epoch(2, [("Ask", 19, 0, 0, {"name": "ada"})], 19))


# Counters with windows, declared at random

WINDOWED: dict[tuple[Any, ...], Application] = {}


@udf
def add_amount(counter, event):
    counter.count += event.amount
    return counter.count % 5 != 0


@udf
def add_seen(counter, event, seen):
    counter.count += event.amount + seen
    return counter.count < 1000


@udf
def note_number(output, event, number):
    output.number = number


def declare_windows(size: int, fold: str, fires: int, feeds_back: bool) -> Application:
    """Counters whose window is read, and, with feeds_back, added to what is written."""
    key = (size, fold, fires, feeds_back)
    if key in WINDOWED:
        return WINDOWED[key]
    app = WINDOWED[key] = Application("property-windows")
    counters = app.table("counters", key=int, value={"count": int64})
    app.event("Bump", {"key": int64, "amount": int64})
    app.event("Ask", {"key": int64})
    field = None if fold == "count" else "count"

    @app.transaction("Bump")
    def bump(txn, event):
        if feeds_back:
            txn.write(counters[event.key], add_seen, reads=[counters[event.key].window(size, "count")])
        else:
            txn.write(counters[event.key], add_amount)

    @app.transaction("Ask", output={"number": int64})
    def ask(txn, event):
        txn.output(note_number, reads=[counters[event.key].window(size, fold, field)])

    @app.every("Fire", fires, output={"number": int64})
    def fire(txn, event):
        txn.output(note_number, reads=[counters[0].window(size, fold, field)])

    return app


EMPTY_FOLD = {"sum": 0, "count": 0, "min": 2**63 - 1, "max": -(2**63)}
FOLDS = {"sum": sum, "count": len, "min": min, "max": max}


class WindowModel:
    """Counters and every version ever written, each fold from the beginning."""

    def __init__(self, size: int, fold: str, fires: int, feeds_back: bool) -> None:
        self.size, self.fold, self.fires, self.feeds_back = size, fold, fires, feeds_back
        self.counts: Counter[int] = Counter()
        self.versions: list[tuple[int, int, int]] = []  # key, ts, count
        self.next_fire: int | None = None

    def seen(self, key: int, ts: int, fold: str) -> int:
        found = [count for k, written, count in self.versions if k == key and written >= ts - self.size]
        return FOLDS[fold](found) if found else EMPTY_FOLD[fold]

    def run_epoch(self, events: list[Any], punctuation_ts: int) -> list[Any]:
        if self.next_fire is None and events:
            self.next_fire = (min(event[1] for event in events) // self.fires + 1) * self.fires
        told = []
        for kind, ts, _, _, fields in in_order(events):
            told += self.fire_until(ts)
            told.append((kind, ts, *self.run(kind, ts, fields)))
        return told + self.fire_until(punctuation_ts)

    def fire_until(self, ts: int) -> list[Any]:
        told = []
        while self.next_fire is not None and self.next_fire <= ts:
            told.append(("Fire", self.next_fire, "committed", {"number": self.seen(0, self.next_fire, self.fold)}))
            self.next_fire += self.fires
        return told

    def run(self, kind: str, ts: int, fields: dict[str, int]) -> tuple[str, dict[str, int] | None]:
        key = fields["key"]
        if kind == "Ask":
            return "committed", {"number": self.seen(key, ts, self.fold)}
        count = self.counts[key] + fields["amount"]
        if self.feeds_back:
            count += self.seen(key, ts, "count")
        if not (count < 1000 if self.feeds_back else count % 5 != 0):
            return "failed", None
        self.counts[key] = count
        self.versions.append((key, ts, count))
        return "committed", None


window_declarations = st.tuples(
    st.sampled_from([0, 2, 7]),
    st.sampled_from(["sum", "count", "min", "max"]),
    st.sampled_from([4, 10]),
    st.booleans(),
)
window_events = st.lists(
    st.one_of(
        st.tuples(
            st.just("Bump"),
            st.integers(0, 4),
            st.integers(0, 1),
            st.fixed_dictionaries({"key": st.integers(0, 1), "amount": st.integers(-4, 6)}),
        ),
        st.tuples(
            st.just("Ask"), st.integers(0, 4), st.integers(0, 1), st.fixed_dictionaries({"key": st.integers(0, 1)})
        ),
    ),
    max_size=12,
)


@settings(max_examples=120)
@given(window_declarations, st.lists(window_events, min_size=1, max_size=4), st.sampled_from(all_policies()))
def test_windows_and_fires_do_what_the_model_does(declaration, drawn, policy):
    app, model = declare_windows(*declaration), WindowModel(*declaration)
    with Engine(app, policy=policy, threads=2) as engine:
        for number, events in enumerate(drawn):
            shifted = [(kind, 5 * number + ts, *rest) for kind, ts, *rest in numbered(events)]
            told = engine.run_epoch(as_epoch(number, shifted, 5 * number + 4)).outcomes()
            expected = model.run_epoch(shifted, 5 * number + 4)
            assert [(each.record_type, each.ts, each.verdict, each.output) for each in told] == expected
        committed = {key: {"count": count} for key, count in model.counts.items() if key in _written(model)}
        assert engine.state("counters") == committed


def _written(model: WindowModel) -> set[int]:
    return {key for key, _, _ in model.versions}


@settings(max_examples=40)
@given(window_declarations, window_events, window_events, st.sets(st.integers(0, 9)))
def test_how_events_are_cut_into_epochs_does_not_matter(declaration, first, second, cuts):
    """Without stages an epoch is only a cut: any other cut of the same events has the same outcomes and state."""
    app = declare_windows(*declaration)
    events = [
        (kind, 5 * half + ts, 0, 0, fields)
        for half, drawn in enumerate((first, second))
        for kind, ts, _, fields in drawn
    ]
    events.sort(key=lambda event: event[1])

    def run(bounds: list[int]) -> tuple[list[Any], dict[Any, Any]]:
        told = []
        with Engine(app, threads=1) as engine:
            begin = -1
            for number, end in enumerate(bounds):
                mine = [event for event in events if begin < event[1] <= end]
                numbered_again = [(kind, ts, 0, seq, fields) for seq, (kind, ts, _, _, fields) in enumerate(mine)]
                told += engine.run_epoch(as_epoch(number, numbered_again, end)).outcomes()
                begin = end
            return [(each.record_type, each.ts, each.verdict, each.output) for each in told], engine.state("counters")

    assert run([*sorted(cuts - {9}), 9]) == run([9])


# A long life: epochs, restarts and reads in any order


class BankLife(RuleBasedStateMachine):
    """One driver lives through all of it, beside a dict."""

    kinds = Bundle("kinds")

    @initialize(declared=declared, policy=st.sampled_from(all_policies()), threads=st.integers(1, 2))
    def open(self, declared, policy, threads):
        self.app, self.options = BANKS[declared], {"policy": policy, "threads": threads}
        self.driver = TestDriver(self.app, **self.options)
        self.model = BankModel(*declared)
        self.waiting: list[Any] = []
        self.now = 0

    @precondition(lambda self: self.driver.epoch == 0)
    @rule(name=names, balance=st.integers(0, 50))
    def load(self, name, balance):
        if name in self.model.accounts:
            with pytest.raises(InputError, match="in the table already"):
                self.driver.load("accounts", {name: {"balance": balance}})
        else:
            self.driver.load("accounts", {name: {"balance": balance}})
            self.model.accounts[name] = balance

    @rule(events=bank_events)
    def send(self, events):
        for kind, ts, source, fields in events:
            self.driver.send(kind, ts=self.now + 1 + ts, source=source, **fields)
            self.waiting.append((kind, self.now + 1 + ts, source, fields))

    @rule(later=st.integers(0, 3))
    def punctuate(self, later):
        ts = max([self.now, *(event[1] for event in self.waiting)]) + later
        told = self.driver.punctuate(ts).outcomes()
        expected = [(kind, *self.model.run(kind, fields)) for kind, *_, fields in in_order(numbered(self.waiting))]
        assert [(each.record_type, each.verdict, each.output) for each in told] == expected
        self.waiting, self.now = [], ts

    @rule(policy=st.sampled_from(all_policies()))
    def restart(self, policy):
        """Events that were sent but not punctuated are the sender's to send again."""
        epoch, saved = self.driver.epoch, self.driver.engine.snapshot()
        self.driver.close()
        self.driver = TestDriver(self.app, policy=policy, threads=2)
        self.driver.engine.store.load_snapshot(saved)
        self.driver.epoch = epoch
        assert self.driver.engine.snapshot() == saved
        for kind, ts, source, fields in self.waiting:
            self.driver.send(kind, ts=ts, source=source, **fields)

    @rule(ts=st.integers(-5, 0), fields=bank_fields("Ask"))
    def send_too_late(self, ts, fields):
        """An epoch with a late event is refused, and what waited is lost with it: the state stays."""
        assume(self.driver.epoch > 0)
        self.driver.send("Ask", ts=self.now + ts, **fields)
        with pytest.raises(InputError, match="not after the last punctuation"):
            self.driver.punctuate(max([self.now, *(event[1] for event in self.waiting)]))
        self.waiting = []

    @rule(name=names)
    def read(self, name):
        found = self.driver.get("accounts", name)
        assert found == ({"balance": self.model.accounts[name]} if name in self.model.accounts else None)

    @invariant()
    def state_is_the_model(self):
        state = {name: record["balance"] for name, record in self.driver.state("accounts").items()}
        assert state == self.model.accounts
        assert list(state) == sorted(state, key=lambda name: name.encode())

    def teardown(self):
        self.driver.close()


TestBankLife = BankLife.TestCase
TestBankLife.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
