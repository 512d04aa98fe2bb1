"""Running a workload: the same events for equal workloads, answers that tell runs apart, latencies by the formula."""

from dataclasses import replace

import numpy as np
import pytest

from bench.ledger_speed import HAND, run_ledger
from bench.policies import available_policies, is_available, missing_policies
from bench.running import Plan, latency_ms, run_workload
from bench.workload import ledger
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


def ledger_by_dictionaries(seed: int, epochs: int) -> tuple[list[int], dict[tuple[str, int], int]]:
    """The ledger once more, on dicts: verdicts and balances."""
    balance = {(table, key): 1_000_000 for table in ("account", "asset") for key in range(PARAMETERS.states)}
    verdicts: list[int] = []
    for epoch in ledger(PARAMETERS, 0.0).epochs(epochs, seed):
        events = [
            (int(columns["ts"][row]), {name: int(column[row]) for name, column in columns.items()})
            for columns in epoch.events.values()
            for row in range(columns["ts"].size)
        ]
        for _, event in sorted(events, key=lambda pair: pair[0]):
            amount, changes = event["amount"], {}
            for table in ("account", "asset"):
                if table in event:
                    changes[(table, event[table])] = amount
                else:
                    changes[(table, event[f"sender_{table}"])] = -amount
                    changes[(table, event[f"receiver_{table}"])] = amount
            fits = all(balance[place] + change >= 0 for place, change in changes.items())
            verdicts.append(0 if fits else 1)
            for place, change in changes.items():
                balance[place] += change if fits else 0
    return verdicts, balance


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loop_by_hand_gives_the_engines_answer_and_the_right_one(seed: int) -> None:
    from bench.ledger_speed import LedgerAnswer

    plan, workload = Plan(warm_epochs=1, epochs=2), ledger(PARAMETERS, 0.0)
    hand = run_ledger(workload, HAND, 1, seed, plan)[1]
    assert run_ledger(workload, "serial", 1, seed, plan)[1] == hand
    verdicts, balance = ledger_by_dictionaries(seed, 3)
    answer = LedgerAnswer(PARAMETERS.states)
    per_epoch = np.array(verdicts, np.int8).reshape(3, -1)
    for part in per_epoch:
        answer.add_verdicts(part)
    columns = [np.array([balance[(t, k)] for k in range(PARAMETERS.states)]) for t in ("account", "asset")]
    assert answer.finish_balances(*columns) == hand
    assert 0 < per_epoch.sum() < per_epoch.size, f"seed {seed}: a ledger without failures shows nothing"


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
