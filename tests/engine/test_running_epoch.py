"""A running epoch from outside: readers in other threads see whole epochs only; afterwards it tells where its time went."""

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from engine import Application, Engine, Epoch, ExecutionOptions, int64, udf
from services.apps.busy import busy

# The serial mode compiled for the application, the same kernel on threads, the generic serial mode, and one parallel policy.
WAYS: dict[str, dict[str, Any]] = {
    "inlined": {"policy": "serial", "threads": 1, "wait": True},
    "ordered": {"policy": "ordered", "threads": 3, "wait": True},
    "serial": {"policy": "serial", "threads": 1, "options": ExecutionOptions(inlines=False)},
    "parallel": {"policy": "unstructured/fine/eager", "threads": 2},
}

ACCOUNTS, BALANCE = 40, 1000
ROUNDS = 20_000  # of the busy loop, so that a few hundred transfers take long enough for others to look in

transfers = Application("state-transfers")
accounts = transfers.table("accounts", key=int, value={"balance": int64, "epoch": int64})
transfers.event("Transfer", {"sender": int64, "receiver": int64, "amount": int64, "epoch": int64})


@udf
def debit(account, transfer):
    account.balance -= transfer.amount
    account.epoch = transfer.epoch
    return busy(transfer.amount, ROUNDS)


@udf
def credit(account, transfer):
    account.balance += transfer.amount
    account.epoch = transfer.epoch


@transfers.transaction("Transfer")
def transfer(txn, event):
    txn.write(accounts[event.sender], debit)
    txn.write(accounts[event.receiver], credit)


def transfer_epoch(number, draw):
    """Every account is in some transfer, so afterwards every account says this epoch's number."""
    senders = [key for key in range(ACCOUNTS) for _ in range(4)]
    draw.shuffle(senders)
    columns = {"sender": senders, "receiver": [(key + draw.randrange(1, ACCOUNTS)) % ACCOUNTS for key in senders]}
    return Epoch(
        number,
        number + 1,
        {
            "Transfer": {
                **columns,
                "ts": [number + 1] * len(senders),
                "amount": [draw.randrange(100) for _ in senders],
                "epoch": [number] * len(senders),
            }
        },
    )


class Watcher:
    """Reads all accounts again and again from its own thread, and notes whether an epoch ran meanwhile."""

    def __init__(self, engine):
        self.engine = engine
        self.running: int | None = None  # the epoch that runs now; set by whoever runs it
        self.inside = 0
        self.wrong: list[object] = []
        self.stopped = False
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        latest = -1
        while not self.stopped:
            before = self.running
            number, found = self.engine.read({"accounts": list(range(ACCOUNTS))})
            records = found["accounts"]
            told = -1 if number is None else number
            epochs, total = {each["epoch"] for each in records}, sum(each["balance"] for each in records)
            if epochs != {told} or total != ACCOUNTS * BALANCE or told < latest:
                self.wrong.append((told, latest, epochs, total))
            latest = told
            if before is not None and self.running == before:
                self.inside += 1
                if told not in (before - 1, before):
                    self.wrong.append((told, before))


@pytest.mark.parametrize("way", WAYS)
def test_readers_beside_a_running_epoch_see_whole_epochs_only(way):
    draw = random.Random(1)
    with Engine(transfers, **WAYS[way]) as engine:
        keys = list(range(ACCOUNTS))
        engine.load("accounts", keys, {"balance": [BALANCE] * ACCOUNTS, "epoch": [-1] * ACCOUNTS})
        watcher = Watcher(engine)
        watcher.thread.start()
        try:
            for number in range(200):
                watcher.running = number
                engine.run_epoch(transfer_epoch(number, draw))
                watcher.running = None
                if watcher.inside >= 50 and number >= 3:
                    break
        finally:
            watcher.stopped = True
            watcher.thread.join()
        assert watcher.wrong == []
        assert watcher.inside >= 50, "the reads must fall inside running epochs, else this shows nothing"


CREATED = 3000  # keys an epoch; the index grows several times while readers look


@udf
def set_key(account, event):
    account.balance = event.key


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [int, str])
def test_readers_may_ask_for_keys_that_the_running_epoch_creates(kind, way):
    app = Application("state-creations")
    table = app.table("accounts", key=kind, value={"balance": int64})
    app.event("Open", {"name": kind, "key": int64})

    @app.transaction("Open")
    def open_account(txn, event):
        txn.write(table[event.name], set_key)

    wrong, stopped, reads = [], threading.Event(), 0

    def watch():
        nonlocal reads
        draw = random.Random(2)
        while not stopped.is_set():
            keys = [draw.randrange(8 * CREATED) for _ in range(50)]
            try:
                number, found = engine.read({"accounts": [kind(key) for key in keys]})
            except Exception as error:  # whatever it is, the test must say so
                wrong.append(repr(error))
                break
            known = 0 if number is None else (number + 1) * CREATED
            expected = [{"balance": key} if key < known else None for key in keys]
            wrong.extend(pair for pair in zip(found["accounts"], expected, strict=True) if pair[0] != pair[1])
            reads += 1

    with Engine(app, **WAYS[way]) as engine:
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for number in range(8):
                keys = list(range(number * CREATED, (number + 1) * CREATED))
                columns = {"ts": [number + 1] * CREATED, "name": [kind(key) for key in keys], "key": keys}
                engine.run_epoch(Epoch(number, number + 1, {"Open": columns}))
        finally:
            stopped.set()
            thread.join()
        assert wrong == []
        assert reads > 0


@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_tells_where_its_time_and_memory_went(way):
    draw = random.Random(3)
    options = {**WAYS[way], "options": replace(WAYS[way].get("options", ExecutionOptions()), timed=True)}
    with Engine(transfers, **options) as engine:
        first = engine.run_epoch(transfer_epoch(0, draw))
        nothing = engine.run_epoch(Epoch(1, 2))
        times = first.times
        assert min(times.plan, times.explore, times.abort, times.sync, times.other) >= 0
        assert times.total > times.plan > 0
        # Nearly all of the work is the busy loop inside the user functions.
        assert times.useful > times.explore
        assert times.useful <= engine.threads * times.total
        assert nothing.times.useful == 0
        assert sum(first.operations_per_thread) == first.counters["operations"] == 2 * 4 * ACCOUNTS
        if way not in ("inlined", "ordered"):  # which works in the tables themselves
            assert first.working_bytes > 32 * first.counters["operations"]
            assert nothing.working_bytes < 1000
