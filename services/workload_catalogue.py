"""The papers' workloads by name, ready to run: an application, its epochs, and what to load into its tables first.

Tables have as many states as an epoch has events (up to 10,000), so that keys meet in a small epoch too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from engine import Application, DeclarationError, Epoch
from services.apps import bank, grep_sum, online_bidding, streaming_ledger, toll_processing, workloads

Tables = dict[str, tuple[list[int], dict[str, Any]]]
Workload = tuple[Application, Iterable[Epoch], Tables]


def workload(name: str, events: int, epochs: int, seed: int, busy: int) -> Workload:
    """One of the workloads, or what module:function(events, epochs, seed) gives: application, epochs, tables to load."""
    if ":" in name:
        module, _, function = name.partition(":")
        try:
            make = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise DeclarationError(f"--app {name}: {error}; give module:function") from error
        made: Workload = make(events, epochs, seed)
        return made
    if name not in WORKLOADS:
        raise DeclarationError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}, or give module:function")
    return WORKLOADS[name](events, epochs, seed, busy)


def _states(events: int) -> int:
    return min(10_000, max(20, events))


def _ledger(events: int, epochs: int, seed: int, busy: int, dynamic: bool = False) -> Workload:
    states = _states(events)
    parameters = replace(workloads.STREAMING_LEDGER, transactions=events, states=states)
    made = (
        workloads.dynamic_streaming_ledger(parameters, max(1, -(-epochs // 4)), seed)
        if dynamic
        else workloads.streaming_ledger(parameters, epochs, seed)
    )
    balances = {"balance": np.full(states, workloads.STARTING_BALANCE)}
    keys = list(range(states))
    return streaming_ledger.build(busy), made, {"accounts": (keys, balances), "assets": (keys, balances)}


def _sums(events: int, epochs: int, seed: int, busy: int) -> Workload:
    states = _states(events)
    parameters = replace(workloads.GREP_SUM, transactions=events, states=states)
    values = {"value": np.arange(states)}
    return (
        grep_sum.build(busy),
        workloads.grep_sum(parameters, epochs, seed),
        {"records": (list(range(states)), values)},
    )


def _tolls(events: int, epochs: int, seed: int, busy: int, nested: bool = False) -> Workload:
    parameters = replace(workloads.TOLL_PROCESSING, transactions=events)
    skewed = None
    if nested:
        parameters = replace(parameters, theta=0.0)
        skewed = replace(parameters, theta=1.0, abort_share=0.8)
    made = workloads.toll_processing(parameters, epochs, seed, nested=skewed)
    return toll_processing.build(busy, grouped=nested), made, {}


def _bids(events: int, epochs: int, seed: int, busy: int) -> Workload:
    states = workloads.ONLINE_BIDDING.states
    items = {"price": np.full(states, 50), "quantity": np.full(states, 1_000_000)}
    made = workloads.online_bidding(replace(workloads.ONLINE_BIDDING, transactions=events), epochs, seed)
    return online_bidding.build(busy), made, {"items": (list(range(states)), items)}


def _bank(events: int, epochs: int, seed: int, busy: int) -> Workload:
    return bank.build(), workloads.bank(replace(workloads.BANK, transactions=events), epochs, seed), {}


WORKLOADS: dict[str, Callable[[int, int, int, int], Workload]] = {
    "streaming-ledger": _ledger,
    "dynamic-ledger": partial(_ledger, dynamic=True),
    "grep-sum": _sums,
    "toll-processing": _tolls,
    "nested-tolls": partial(_tolls, nested=True),
    "online-bidding": _bids,
    "bank": _bank,
}
