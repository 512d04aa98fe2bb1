"""The watchdog's decisions with real threads; that it ends a real process is shown in tests/integration."""

import threading
import time

import numpy as np
import pytest

from engine import Application, Engine, Epoch, int64, udf
from services.engine.rules import EXIT_ENDLESS
from services.engine.watchdog import Watchdog

WAIT_S = 30


class Kept:
    """Attempts in memory."""

    def __init__(self) -> None:
        self.attempts: dict[int, int] = {}
        self.said: list[tuple[str, int]] = []
        self.noted = threading.Event()

    def note(self, epoch: int) -> int:
        self.attempts[epoch] = self.attempts.get(epoch, 0) + 1
        self.said.append(("note", epoch))
        self.noted.set()
        return self.attempts[epoch]

    def strike(self, epoch: int) -> int:
        self.attempts[epoch] = 0
        self.said.append(("strike", epoch))
        return 0


@pytest.fixture
def kept():
    return Kept()


def make(kept: Kept, limit_s: float):
    ended: list[int] = []
    died = threading.Event()

    def end(code: int) -> None:
        ended.append(code)
        died.set()

    return Watchdog(limit_s, kept, lambda: "somewhere", end), ended, died


def test_row_21_an_epoch_that_ends_in_time_is_no_attempt(kept):
    dog, ended, _ = make(kept, limit_s=3600)
    for epoch in range(100):
        with dog.watching(epoch):
            pass
    dog.close()
    assert kept.said == [] and ended == []


def test_row_21_a_slow_epoch_is_an_attempt_until_it_ends(kept):
    dog, ended, _ = make(kept, limit_s=10)
    with dog.watching(7):
        assert kept.noted.wait(WAIT_S)
    dog.close()
    assert kept.said == [("note", 7), ("strike", 7)] and ended == []


def test_row_21_an_endless_epoch_ends_the_process_and_stays_an_attempt(kept, caplog):
    dog, ended, died = make(kept, limit_s=0.4)
    with dog.watching(7):
        assert died.wait(WAIT_S)
        assert kept.attempts == {7: 1} and ended == [EXIT_ENDLESS]
    assert "epoch 7 does not end: somewhere" in caplog.text


def test_row_21_a_careful_run_names_the_function_and_the_event():
    app = Application("gates")
    cells = app.table("cells", key=int, value={"total": int64})
    app.event("Add", {"cell": int64, "amount": int64})

    @udf
    def wait_long(cell, event):
        done = 0
        while done < event.amount:
            done += 1
            cell.total = (cell.total * 1_103_515_245 + 12_345) % 2_147_483_648  # nothing that a compiler foresees
        return True

    @app.transaction("Add")
    def adding(txn, event):
        txn.write(cells[event.cell], wait_long)

    rounds = 200_000_000  # a second or two
    amounts = np.array([1, 2, rounds, 3])
    columns = {"seq": np.arange(4), "ts": np.arange(4), "cell": np.arange(4), "amount": amounts}
    with Engine(app, threads=1) as engine:
        epoch = Epoch(0, 99, {"Add": columns})
        run = threading.Thread(target=lambda: engine.run_epoch(epoch, careful=True))
        run.start()
        found = None
        while run.is_alive() and (found is None or "seq 2" not in found):
            found = engine.running_place()
            time.sleep(0.001)
        run.join()
        assert found is not None and found.startswith("wait_long (") and found.endswith("Add of source 0, seq 2, ts 2")
        assert "in the transaction adding" in found and engine.running_place() is None
