"""Applications made by hand, so that what is hard certainly occurs; what each is there for is its docstring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.api.application import Application
from services.verify import pool
from services.verify.composer import COPIED

Declaration = Callable[[Application], None]


def _plain_table(app: Application, name: str = "table0", create: bool = True, **options: Any) -> Any:
    return app.table(name, key=int, value=pool.PLAIN, create=create, **options)


def transfers(app: Application) -> None:
    """Transfers A to B and B to A, the receiver reading the sender: chains in a cycle."""
    accounts = _plain_table(app, default={"value": 20})
    app.event("First", pool.WIDE_EVENT)

    @app.transaction("First", output=pool.OUTPUT)
    def transfer(txn: Any, event: Any) -> None:
        sender = accounts[event.key]
        txn.write(sender, pool.debit)
        made = txn.write(accounts[event.other], pool.credit_if, reads=[sender])
        txn.output(pool.show, reads=[made])


def abort_chain(app: Application) -> None:
    """Each transaction copies from the key the one before wrote, and a bad amount fails it afterwards: deep cascades."""
    accounts = _plain_table(app)
    app.event("First", pool.WIDE_EVENT)

    @app.transaction("First")
    def step(txn: Any, event: Any) -> None:
        txn.write(accounts[event.other], pool.copy_from, reads=[accounts[event.key]])
        txn.write(accounts[event.key], pool.guard)


def withdrawn_failure(app: Application) -> None:
    """The example of T7: one sets x high and then fails on y, another fails if x is high; so it commits after all."""
    accounts = _plain_table(app)
    for name in ("First", "Second"):
        app.event(name, pool.WIDE_EVENT)

    @app.transaction("First")
    def raise_and_fail(txn: Any, event: Any) -> None:
        txn.write(accounts[event.key], pool.raise_high)
        txn.write(accounts[event.other], pool.guard)

    @app.transaction("Second")
    def look(txn: Any, event: Any) -> None:
        txn.write(accounts[event.other], pool.refuse_above, reads=[accounts[event.key]])
        txn.write(accounts[event.key], pool.decay)


def alternating_verdicts(app: Application) -> None:
    """Every verdict turns on the one before: committed raises a key high, which fails the next. Many lazy rounds."""
    accounts = _plain_table(app)
    checks = _plain_table(app, "table1")
    app.event("First", pool.WIDE_EVENT)

    @app.transaction("First")
    def step(txn: Any, event: Any) -> None:
        txn.write(accounts[event.other], pool.raise_high)
        txn.write(checks[event.other], pool.refuse_above, reads=[accounts[event.key]])
        txn.write(checks[event.key], pool.guard)


def windows_and_fires(app: Application) -> None:
    """Windows of all folds across epochs, on keys that are deleted and made again, and a transaction that fires."""
    readings = app.table("table0", key=str, value=pool.RICH, constraint=pool.bounded)
    totals = _plain_table(app, "table1")
    for name in ("First", "Second"):
        app.event(name, pool.WIDE_EVENT)

    @app.transaction("First", output=pool.FLOAT_OUTPUT)
    def measure(txn: Any, event: Any) -> None:
        txn.write(readings[event.name], pool.deposit)
        txn.write(readings[event.name], pool.scale)
        txn.write(totals[event.key], pool.add_number, reads=[readings[event.name].window(20, "sum", "value")])
        txn.output(pool.show_level, reads=[readings[event.label].window(100, "mean", "share")])

    @app.transaction("Second", output=pool.OUTPUT)
    def clear(txn: Any, event: Any) -> None:
        most = readings[event.label].window(100, pool.keep_most, into=pool.ACCUMULATOR)
        txn.write(totals[event.other], pool.note_fold, reads=[most])
        txn.delete(readings[event.name], when=pool.is_even)
        txn.write(totals[event.key], pool.guard)
        txn.output(pool.show_all, reads=[readings[event.names].window(5, "max", "value")])

    @app.every("Tick", 10, output=pool.OUTPUT)
    def tick(txn: Any, event: Any) -> None:
        txn.write(totals[0], pool.add_number, reads=[readings["k0"].window(20, "count")])
        txn.output(pool.show_number, reads=[totals.fold("sum", "value")])


def keys_computed_again(app: Application) -> None:
    """Where a write goes depends on values that failing transactions write first: keys computed anew on redo."""
    accounts = _plain_table(app)
    fixed = _plain_table(app, "table1", create=False)
    for name in ("First", "Second"):
        app.event(name, pool.WIDE_EVENT)

    @app.transaction("First", output=pool.OUTPUT)
    def step(txn: Any, event: Any) -> None:
        txn.write(accounts[event.key], pool.assign)
        made = txn.write(accounts.computed(pool.at_value, reads=[accounts[event.other]]), pool.tally)
        txn.write(fixed[event.other], pool.guard)
        txn.output(pool.show, reads=[made])

    @app.transaction("Second", output=pool.OUTPUT)
    def choose(txn: Any, event: Any) -> None:
        chosen = fixed.computed(pool.at_value, reads=[accounts[event.key]], candidates=fixed[event.keys])
        txn.write(chosen, pool.debit)
        txn.output(pool.show, reads=[accounts.computed(pool.at_random)])


def one_key_many_times(app: Application) -> None:
    """Lists with repeated keys, written, read, deleted and written again by one transaction."""
    accounts = _plain_table(app, constraint=pool.bounded)
    app.event("First", pool.WIDE_EVENT)

    @app.transaction("First", output=pool.OUTPUT)
    def step(txn: Any, event: Any) -> None:
        first = txn.write(accounts[event.keys], pool.add_each, each=[event.amounts])
        txn.write(accounts[event.key], pool.sum_of, reads=[first])
        txn.delete(accounts[event.other], when=pool.holds, when_reads=[accounts[event.key]])
        txn.write(accounts[event.keys], pool.copy_from, reads=[accounts[event.other]])
        txn.write(accounts[event.other], pool.guard)
        txn.output(pool.show_all, reads=[accounts[event.keys]])


def three_stages(app: Application) -> None:
    """Derived records over three stages, one type emitted by two others; each stage folds what the one before left."""
    words = app.table("table0", key=(str, int), value=pool.RICH)
    groups = _plain_table(app, "table1", constraint=pool.non_negative)
    for name in ("First", "Child", "Grandchild"):
        app.event(name, pool.WIDE_EVENT)

    def copied(event: Any) -> dict[str, Any]:
        return {name: getattr(event, name) for name in COPIED}

    @app.transaction("First", filter=pool.is_kept)
    def root(txn: Any, event: Any) -> None:
        txn.emit("Grandchild", pool.pass_on, copy=copied(event), when=pool.is_even)
        made = txn.write(words[event.name, event.key], pool.deposit)
        txn.emit("Child", pool.pass_read, reads=[made], copy=copied(event))
        txn.emit("Child", pool.pass_on, copy=copied(event))

    @app.transaction("Child", output=pool.OUTPUT)
    def child(txn: Any, event: Any) -> None:
        txn.write(groups[event.key], pool.debit)
        txn.write(
            groups[event.other], pool.add_number, reads=[words[event.name, event.other].window(5, "sum", "value")]
        )
        txn.emit("Grandchild", pool.pass_on, copy=copied(event))
        txn.output(pool.show_number, reads=[words.fold("count")])

    @app.transaction("Grandchild", derive={"halved": pool.hundredth}, output=pool.OUTPUT)
    def grandchild(txn: Any, event: Any) -> None:
        txn.write(groups[event.halved], pool.guard)
        txn.output(pool.show_number, reads=[groups.fold("max", "value")])


def apart_by_group(app: Application) -> None:
    """All accesses of an event go to its own group key, so that groups may be scheduled apart."""
    accounts = _plain_table(app, create=False, constraint=pool.non_negative)
    names = app.table("table1", key=(int, str), value=pool.PLAIN)
    app.event("First", pool.WIDE_EVENT)

    @app.transaction("First", group_key="key", output=pool.OUTPUT)
    def step(txn: Any, event: Any) -> None:
        txn.write(accounts[event.key], pool.deposit)
        txn.write(names[event.key, "k0"], pool.credit_if, reads=[accounts[event.key]])
        txn.write(names[event.key, "k1"], pool.refuse_above, reads=[names[event.key, "k0"]])
        txn.output(pool.show, reads=[names[event.key, "k0"]])


def faults_of_numbers(app: Application) -> None:
    """Overflow, division by zero, NaN, infinity and bad indices, each beside writes that must leave no trace."""
    numbers = app.table("table0", key=str, value=pool.RICH)
    for name in ("First", "Second"):
        app.event(name, pool.WIDE_EVENT)

    @app.transaction("First", output=pool.FLOAT_OUTPUT)
    def calculate(txn: Any, event: Any) -> None:
        txn.write(numbers[event.name], pool.multiply)
        txn.write(numbers[event.label], pool.divide)
        txn.write(numbers[event.name], pool.index_slot)
        txn.write(numbers[event.names], pool.quotient, when=pool.is_even)
        txn.output(pool.show_level, reads=[numbers.fold("min", "share")])

    @app.transaction("Second")
    def take_roots(txn: Any, event: Any) -> None:
        txn.write(numbers[event.name], pool.raise_high)
        txn.write(numbers[event.label], pool.root)
        txn.write(numbers[event.name], pool.round_off)
        txn.write(numbers[event.label], pool.pick_from, reads=[numbers[event.names]])


HANDMADE: tuple[Declaration, ...] = (
    transfers,
    abort_chain,
    withdrawn_failure,
    alternating_verdicts,
    windows_and_fires,
    keys_computed_again,
    one_key_many_times,
    three_stages,
    apart_by_group,
    faults_of_numbers,
)
