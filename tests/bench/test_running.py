"""Running a workload: the same events for equal workloads, answers that tell runs apart, latencies by the formula."""

from dataclasses import replace

import numpy as np
import pytest

from bench.ledger_speed import HAND, TABLES, run_by_hand, run_ledger
from bench.policies import available_policies, is_available, missing_policies
from bench.running import Answer, Plan, latency_ms, run_workload
from bench.workload import ledger
from engine import Engine, Epoch
from services.apps import workloads

PARAMETERS = replace(workloads.STREAMING_LEDGER, busy_us=0.0, transactions=300, states=40, theta=0.8, abort_share=0.2)


def test_equal_workloads_share_their_events() -> None:
    assert ledger(PARAMETERS, 5.0).epochs(2, 1) is ledger(PARAMETERS, 5.0).epochs(2, 1)
    assert ledger(PARAMETERS, 5.0).application is ledger(PARAMETERS, 9.0).application  # C = 0: the same constants


def test_answers_agree_across_policies_and_differ_across_seeds() -> None:
    plan = Plan(warm_epochs=1, epochs=2)
    workload = ledger(PARAMETERS, 0.0)
    serial = run_workload(workload, "serial", 1, 1, plan)
    assert len(serial.epochs) == 2 and serial.transactions == 600
    assert run_workload(workload, "breadth-first/coarse/lazy", 2, 1, plan).answer == serial.answer
    assert run_workload(workload, "serial", 1, 2, plan).answer != serial.answer


def test_learning_epochs_are_neither_measured_nor_in_the_answer() -> None:
    workload, plan = ledger(PARAMETERS, 0.0), Plan(warm_epochs=1, epochs=2)
    serial = run_workload(workload, "serial", 1, 1, plan)
    learned = run_workload(workload, "cost", 2, 1, replace(plan, learning_epochs=3, epochs=4, answer_epochs=3))
    assert [facts.epoch for facts in serial.epochs] == [1, 2]
    assert [facts.epoch for facts in learned.epochs] == [4, 5, 6, 7]
    assert learned.answer == serial.answer


def test_a_long_run_notes_only_some_epochs() -> None:
    run = run_workload(ledger(PARAMETERS, 0.0), "serial", 1, 1, Plan(warm_epochs=1, epochs=7, fact_every=3))
    assert [facts.epoch for facts in run.epochs] == [3, 6]


def test_an_answer_covers_the_state() -> None:
    answers = []
    for balance in (5, 6):
        with Engine(ledger(PARAMETERS, 0.0).application, policy="serial", threads=1) as engine:
            engine.load("accounts", [1], {"balance": [balance]})
            answers.append(Answer().finish(engine))
    assert answers[0] != answers[1]


def ledger_by_dictionaries(
    epochs: tuple[Epoch, ...], start: np.ndarray
) -> tuple[list[int], dict[tuple[str, int], int]]:
    """The ledger once more, on dicts: verdicts and balances."""
    balance = {(table, key): int(start[key]) for table in TABLES for key in range(start.size)}
    verdicts: list[int] = []
    for epoch in epochs:
        events = [
            (int(columns["ts"][row]), {name: int(column[row]) for name, column in columns.items()})
            for columns in epoch.events.values()
            for row in range(columns["ts"].size)
        ]
        for _, event in sorted(events, key=lambda pair: pair[0]):
            amount, changes = event["amount"], {}
            for table in TABLES:
                name = table.removesuffix("s")
                if name in event:
                    changes[(table, event[name])] = amount
                else:
                    changes[(table, event[f"sender_{name}"])] = -amount
                    changes[(table, event[f"receiver_{name}"])] = amount
            fits = all(balance[place] + change >= 0 for place, change in changes.items())
            verdicts.append(0 if fits else 1)
            for place, change in changes.items():
                balance[place] += change if fits else 0
    return verdicts, balance


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loop_by_hand_is_right_and_agrees_with_the_engine(seed: int) -> None:
    """Low balances, so that an account suffices where an asset does not, and the other way round."""
    workload, states = ledger(PARAMETERS, 0.0), PARAMETERS.states
    epochs = workload.epochs(3, seed)
    start = np.random.default_rng(seed).integers(0, 100, states)
    expected, balance = ledger_by_dictionaries(epochs, start)
    accounts, assets = start.copy(), start.copy()
    by_hand = np.concatenate([run_by_hand(accounts, assets, epoch) for epoch in epochs])
    assert by_hand.tolist() == expected, f"seed {seed}"
    assert accounts.tolist() == [balance[("accounts", key)] for key in range(states)]
    assert assets.tolist() == [balance[("assets", key)] for key in range(states)]
    with Engine(workload.application, policy="serial", threads=1) as engine:
        for table in TABLES:
            engine.load(table, np.arange(states).tolist(), {"balance": start})
        verdicts = [engine.run_epoch(epoch).stages[0].verdict for epoch in epochs]
        assert np.concatenate(verdicts).tolist() == expected, f"seed {seed}"


def test_hand_and_engine_give_one_answer() -> None:
    plan, workload = Plan(warm_epochs=1, epochs=2), ledger(PARAMETERS, 0.0)
    assert run_ledger(workload, HAND, 1, 1, plan)[1] == run_ledger(workload, "unstructured/fine/eager", 2, 1, plan)[1]


def test_latency_is_waiting_for_the_epoch_before_and_the_own() -> None:
    assert latency_ms([0.1, 0.1, 0.1], 0.5) == pytest.approx(150, rel=0.01)
    assert latency_ms([0.1], 0.99) == pytest.approx(199, rel=0.01)
    assert latency_ms([0.1], 0.0) == pytest.approx(100, rel=0.01)
    assert latency_ms([0.1, 0.3], 1.0) == pytest.approx(400, rel=0.01)


def test_available_policies_asks_the_engine() -> None:
    assert available_policies(["serial", "clairvoyant", "unstructured/fine/lazy"]) == [
        "serial",
        "unstructured/fine/lazy",
    ]
    assert missing_policies(["serial", "clairvoyant"]) == ["clairvoyant"]
    assert not is_available("")
