"""Runs the ledger without a busy loop through the engine, or through the hand-written loop, with answers to compare.

Both run the same epochs from the same starting balances, and both answers are verdicts in the total order and final
balances in the order of keys: the same bytes or a wrong answer.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import hand_kernel
from bench.running import Answer, Plan, run_workload
from bench.workload import Workload
from engine import Engine, Epoch, EpochResult
from services.apps.workloads import STARTING_BALANCE

HAND = "hand"
TABLES = ("accounts", "assets")


class LedgerAnswer(Answer):
    """An answer that the hand-written loop can give too: no snapshot, no reasons."""

    def __init__(self, states: int) -> None:
        self._states = states
        self._hash = hashlib.blake2b(digest_size=8)
        self._counts = [0, 0]

    def add(self, result: EpochResult) -> None:
        self.add_verdicts(result.stages[0].verdict)

    def add_verdicts(self, verdict: NDArray[np.int8]) -> None:
        self._hash.update(verdict.tobytes())
        failed = int(np.count_nonzero(verdict))
        self._counts[0] += verdict.size - failed
        self._counts[1] += failed

    def finish(self, engine: Engine) -> str:
        return self.finish_balances(*(_balances(engine, name, self._states) for name in TABLES))

    def finish_balances(self, *columns: NDArray[np.int64]) -> str:
        for column in columns:
            self._hash.update(np.ascontiguousarray(column).tobytes())
        return f"{self._hash.hexdigest()} {self._counts[0]} committed {self._counts[1]} failed"


def _balances(engine: Engine, name: str, states: int) -> NDArray[np.int64]:
    table = engine.store.table(name)
    rows = table.index.lookup(table.encode(np.arange(states, dtype=np.int64)))
    balances: NDArray[np.int64] = table.record_view()["balance"][rows]
    return balances


def run_ledger(
    workload: Workload, policy: str, threads: int, seed: int, plan: Plan
) -> tuple[list[dict[str, Any]], str]:
    """One line of values and the answer; the policy may be `hand`."""
    states = workload.parameters.states
    if policy != HAND:
        run = run_workload(workload, policy, threads, seed, plan, LedgerAnswer(states))
        return [_line(run.transactions, run.seconds)], run.answer
    accounts, assets = (np.full(states, STARTING_BALANCE, np.int64) for _ in TABLES)
    epochs = workload.epochs(plan.answered_epochs, seed)
    answer, seconds, transactions = LedgerAnswer(states), 0.0, 0
    for number, epoch in enumerate(epochs):
        begin = time.perf_counter()
        verdict = run_by_hand(accounts, assets, epoch)
        elapsed = time.perf_counter() - begin
        answer.add_verdicts(verdict)
        if number >= plan.warm_epochs:
            seconds += elapsed
            transactions += verdict.size
    return [_line(transactions, seconds)], answer.finish_balances(accounts, assets)


def run_by_hand(accounts: NDArray[np.int64], assets: NDArray[np.int64], epoch: Epoch) -> NDArray[np.int8]:
    """The epoch's verdicts, in the total order."""
    deposit, transfer = epoch.events["Deposit"], epoch.events["Transfer"]
    verdict = np.empty(deposit["ts"].size + transfer["ts"].size, np.int8)
    hand_kernel.run_ledger(
        accounts, assets,
        deposit["ts"], deposit["account"], deposit["asset"], deposit["amount"],
        transfer["ts"], transfer["sender_account"], transfer["sender_asset"],
        transfer["receiver_account"], transfer["receiver_asset"], transfer["amount"],
        verdict,
    )  # fmt: skip
    return verdict


def _line(transactions: int, seconds: float) -> dict[str, Any]:
    return {"throughput_per_s": transactions / seconds, "ns_per_transaction": seconds / transactions * 1e9}
