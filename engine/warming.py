"""Compiles the kernels that all applications share, or loads them from the disk, before an epoch has to wait for them.

After an installation that takes a minute or two; a stream would stand still meanwhile, at the first look at a graph.
So a small ledger of its own runs here once a process under policies that together reach every such kernel.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from engine.api.application import Application
from engine.api.types import INT64
from engine.engine import Engine
from engine.execution.executor import ExecutionOptions
from engine.functions.udf import udf
from engine.planning.epoch import Epoch
from engine.scheduling.choice import Choice, Stage
from engine.scheduling.cost_model import CostModel
from engine.scheduling.groups import AbortHistory
from engine.scheduling.look import look_at
from engine.scheduling.policy import Granularity
from engine.scheduling.profile import Profile

POLICIES = (
    "serial",
    "breadth-first/fine/eager",
    "breadth-first/coarse/lazy",
    "depth-first/fine/lazy",
    "depth-first/coarse/eager",
    "unstructured/fine/eager",
    "unstructured/coarse/lazy",
    "paper",  # measures a graph's properties
)
INLINED = ("ordered",)  # these kernels are an application's own, but not all that is around them


class _Looking(CostModel):
    """Looks at every stage's graph as the cost model does when it is time to."""

    def choose(self, stage: Stage) -> Choice:
        look_at(stage, Profile(), AbortHistory(), stage.threads, set(Granularity), True, True)
        return super().choose(stage)


@udf
def _take(account, transfer):  # type: ignore[no-untyped-def]
    account.balance -= transfer.amount
    return account.balance >= 0


@udf
def _give(account, transfer, sender):  # type: ignore[no-untyped-def]
    account.balance += transfer.amount
    return sender.balance >= transfer.amount


@functools.cache
def warm_up() -> float:
    """Seconds that it took; a second call does nothing and gives the same."""
    begin = time.perf_counter()
    ledger = Application("millrace-warm-up")
    ledger.event("Transfer", {"sender": int, "receiver": int, "amount": INT64})
    accounts = ledger.table("accounts", key=int, value={"balance": INT64})

    @ledger.transaction("Transfer")
    def transfer(txn, event):  # type: ignore[no-untyped-def]
        sender = accounts[event.sender]
        txn.write(sender, _take)
        txn.write(accounts[event.receiver], _give, reads=[sender])

    keys = list(range(8))
    columns = {
        "ts": np.arange(32), "sender": np.arange(32) % 8, "receiver": np.arange(1, 33) % 8, "amount": np.arange(32) * 7,
    }  # fmt: skip
    for policy in (*POLICIES, *INLINED, _Looking()):
        options = ExecutionOptions(inlines=policy in INLINED)
        with Engine(ledger, policy=policy, threads=2, options=options, wait=True) as engine:
            engine.load("accounts", keys, {"balance": np.full(8, 100)})
            assert engine.run_epoch(Epoch(0, 31, {"Transfer": columns})).changes.tables  # collected when asked for
            engine.snapshot()
    return time.perf_counter() - begin
