"""The workloads' tables as they begin, at the papers' sizes: `millrace run --tables services.apps.first_tables:grep_sum`."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.apps import workloads

Tables = dict[str, tuple[Any, dict[str, Any]]]


def streaming_ledger() -> Tables:
    """Accounts and assets, each with the same balance."""
    states = workloads.STREAMING_LEDGER.states
    balances = {"balance": np.full(states, workloads.STARTING_BALANCE)}
    return {name: (np.arange(states), balances) for name in ("accounts", "assets")}


def grep_sum() -> Tables:
    """Records that hold their own keys."""
    keys = np.arange(workloads.GREP_SUM.states)
    return {"records": (keys, {"value": keys})}


def online_bidding() -> Tables:
    """Items with far more than is ever sold."""
    states = workloads.ONLINE_BIDDING.states
    return {"items": (np.arange(states), {"price": np.full(states, 50), "quantity": np.full(states, 1_000_000_000)})}
