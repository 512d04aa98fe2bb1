"""The ledger's tables as they begin, for `millrace run --tables`: a function for each size, `keys_<number>`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from services.apps.workloads import STARTING_BALANCE

TABLES = ("accounts", "assets")


def ledger_tables(keys: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Both tables, so many keys each."""
    return {name: (np.arange(keys, dtype=np.int64), {"balance": np.full(keys, STARTING_BALANCE)}) for name in TABLES}


def __getattr__(name: str) -> Callable[[], dict[str, tuple[Any, dict[str, Any]]]]:
    prefix, _, keys = name.partition("_")
    if prefix != "keys" or not keys.isdigit():
        raise AttributeError(name)
    return lambda: ledger_tables(int(keys))


def named(keys: int) -> str:
    """What `--tables` takes."""
    return f"{__name__}:keys_{keys}"
