"""Serial or ordered: stages too cheap for any graph, whose true costs are known, told to a cost model epoch by epoch."""

from dataclasses import dataclass

import numpy as np
import pytest

from engine.scheduling import cost_model
from engine.scheduling.choice import Observation
from engine.scheduling.cost_memory import LOOK_EVERY_MAX
from engine.scheduling.cost_model import CostModel
from engine.scheduling.look import Look
from engine.scheduling.policy import ORDERED, SERIAL, Granularity
from engine.scheduling.prediction import Work
from engine.scheduling.properties import Shape
from tests.engine.scheduling.simulated import PROPERTIES

OPERATIONS, REST = 20_000, 5.0


@dataclass
class Truth:
    """What an operation takes: all of it, and in the threads' kernels. The first serial epochs touch new memory."""

    serial: float
    ordered: float
    ordered_kernels: float
    cold: tuple[float, ...] = ()  # times slower, the first serial epochs


class Stage:
    number = first_operation = first_transaction = 0
    inlines, threads = True, 2
    operations, transactions = OPERATIONS, OPERATIONS // 2

    def group_values(self):
        return np.zeros(self.transactions, np.int64)

    def time_operations(self) -> None:
        """Nobody measures here."""


def look_at_one_chain(*_):
    """No graph is worth its making."""
    chain = Shape(OPERATIONS, OPERATIONS - 1, OPERATIONS, float(OPERATIONS), float(OPERATIONS))
    return Look({"all": PROPERTIES}, Work(OPERATIONS, Stage.transactions, 0.0, 2, dict.fromkeys(Granularity, chain)))


def observed(truth, policy, cold):
    run = truth.serial * cold if policy == SERIAL else truth.ordered
    useful = run - REST if policy == SERIAL else truth.ordered_kernels
    return Observation(
        choice=[(policy, Stage.transactions)], operations=OPERATIONS, transactions=Stage.transactions,
        aborted=np.zeros(Stage.transactions, np.int8), graph_ns=None, units_ns={}, run_ns=run * OPERATIONS,
        useful_ns=useful * OPERATIONS, explore_ns=0.0, abort_ns=0.0, sync_ns=0.0, timed=True, counters={}, threads=2,
        ran_ns=run * OPERATIONS, inlined=True,
    )  # fmt: skip


def play(model, truth, epochs):
    chosen, cold = [], list(truth.cold)
    for _ in range(epochs):
        [(policy, _)] = model.choose(Stage())
        model.learn(observed(truth, policy, cold.pop(0) if cold and policy == SERIAL else 1.0))
        chosen.append(policy)
    return chosen


def model():
    return CostModel(look_at_one_chain, cores=2)


@pytest.mark.parametrize("cold", [(), (30.0, 4.0, 2.0, 1.5), (4.0, 2.8, 2.2, 1.7, 1.4)], ids=str)
def test_ordered_is_left_where_its_threads_only_wait_for_cache_lines(cold):
    """Its kernels together take six times as long as the serial one: half of it would still look like a gain."""
    chosen = play(model(), Truth(20.0, 45.0, 90.0, cold), 400)
    assert chosen.count(ORDERED) <= 12
    assert set(chosen[-100:]) <= {SERIAL}


def test_ordered_is_kept_where_it_shares_the_work():
    chosen = play(model(), Truth(2_000.0, 1_100.0, 2_000.0), 400)
    assert chosen.count(SERIAL) <= 12
    assert set(chosen[-20:]) == {ORDERED}


def test_what_ordered_epochs_say_of_serial_is_looked_at_now_and_then():
    """Learned while serial was slow; then it is not, which ordered epochs cannot see: their own kernels stay as they were."""
    chooser = model()
    assert play(chooser, Truth(60.0, 40.0, 55.0), 100)[-50:].count(ORDERED) >= 47
    assert set(play(chooser, Truth(25.0, 40.0, 55.0), 4 * LOOK_EVERY_MAX)[-100:]) == {SERIAL}


def test_trials_of_serial_become_rare():
    chosen = play(model(), Truth(2_000.0, 1_100.0, 2_000.0), 3_000)
    assert sum(policy == SERIAL for policy in chosen[1_000:]) <= 3


class Decisions:
    """How many were made, not taken over from the epoch before."""

    def __init__(self, monkeypatch):
        self.made, choose_plain = 0, cost_model.choose_plain

        def counted(*arguments):
            self.made += 1
            return choose_plain(*arguments)

        monkeypatch.setattr(cost_model, "choose_plain", counted)


def test_a_cheap_decision_is_good_for_some_epochs(monkeypatch):
    decisions, chooser, truth = Decisions(monkeypatch), model(), Truth(20.0, 45.0, 90.0)
    play(chooser, truth, 400)
    before = decisions.made
    assert set(play(chooser, truth, 80)) == {SERIAL}
    assert 8 <= decisions.made - before <= 24
    assert "no graph was built" in chooser.explain().text()


def test_a_settled_decision_ends_when_epochs_take_longer(monkeypatch):
    chooser = model()
    play(chooser, Truth(20.0, 45.0, 90.0), 400)
    decisions = Decisions(monkeypatch)
    assert ORDERED in play(chooser, Truth(2_000.0, 1_100.0, 2_000.0), 6)
    assert decisions.made >= 4


def test_dear_epochs_are_decided_each(monkeypatch):
    decisions = Decisions(monkeypatch)
    play(model(), Truth(2_000.0, 1_100.0, 2_000.0), 50)
    assert decisions.made >= 45


def test_slow_epochs_far_apart_stand_alone():
    """A table that grows makes an epoch slow now and then; the epochs between, which nobody learns from, say so."""
    spikes = (1.0,) * 20 + ((8.0,) + (1.0,) * 6) * 40
    chosen = play(model(), Truth(20.0, 45.0, 90.0, spikes), 290)
    assert chosen.count(ORDERED) <= 2
