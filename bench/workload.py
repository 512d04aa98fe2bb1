"""What a benchmark runs: an application with its constants, its starting state and a way to make its epochs.

A `Workload` is a value: equal ones share one compiled application and one set of generated epochs, so that cells which
differ in their policy only are given the very same events. Nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from engine import Application, Engine, Epoch
from services.apps import grep_sum, online_bidding, streaming_ledger, toll_processing, workloads
from services.apps.busy import iterations_of
from services.apps.workloads import Parameters

Options = tuple[tuple[str, Any], ...]
Transform = Callable[..., Epoch]

TINY_TRANSACTIONS = 64
ENOUGH_QUANTITY = 10**9
WINDOW_KEYS = 100  # that a query of windowed Grep and Sum reads


@dataclass(frozen=True)
class Workload:
    """Application, parameters and events; `transform` changes generated epochs one by one."""

    build: Callable[..., Application]
    constants: Options
    load: Callable[[Engine, int], None]
    generate: Callable[..., Iterator[Epoch]]
    parameters: Parameters
    options: Options = ()
    transform: Transform | None = None
    transform_options: Options = ()
    # For estimates of how long a run takes: user functions called and accesses of windows a transaction, and tables.
    calls: float = 1.0
    window_accesses: float = 0.0
    tables: int = 1

    @property
    def application(self) -> Application:
        return _application(self.build, self.constants)

    def epochs(self, count: int, seed: int) -> tuple[Epoch, ...]:
        return _epochs(self, count, seed)

    def tiny(self) -> Workload:
        """The same application with next to nothing to do: to compile and to warm up."""
        return replace(self, parameters=replace(self.parameters, transactions=TINY_TRANSACTIONS))

    def changed(self, transform: Transform, **options: Any) -> Workload:
        return replace(self, transform=transform, transform_options=tuple(options.items()))


@lru_cache(maxsize=64)
def _application(build: Callable[..., Application], constants: Options) -> Application:
    return build(**dict(constants))


@lru_cache(maxsize=2)  # neighbouring cells of a grid share their events; more would only hold memory
def _epochs(workload: Workload, count: int, seed: int) -> tuple[Epoch, ...]:
    made = workload.generate(workload.parameters, count, seed=seed, **dict(workload.options))
    if workload.transform is None:
        return tuple(made)
    return tuple(workload.transform(epoch, **dict(workload.transform_options)) for epoch in made)


def _load_ledger(engine: Engine, states: int) -> None:
    for table in ("accounts", "assets"):
        engine.load(table, _keys(states), {"balance": np.full(states, workloads.STARTING_BALANCE)})


def _load_records(engine: Engine, states: int) -> None:
    engine.load("records", _keys(states), {"value": np.arange(states) % 1_000})


def _load_items(engine: Engine, states: int) -> None:
    # Prices below 100, as `Alter` sets them: a bid that is not made to abort goes through.
    values = {"price": np.arange(states) % 99 + 1, "quantity": np.full(states, ENOUGH_QUANTITY)}
    engine.load("items", _keys(states), values)


def _load_nothing(engine: Engine, states: int) -> None:
    """Toll processing creates its segments."""


def _keys(states: int) -> Any:
    return np.arange(states, dtype=np.int64)


def _busy(parameters: Parameters, iterations_per_us: float) -> Options:
    return (("busy_iterations", iterations_of(parameters.busy_us, iterations_per_us)),)


def ledger(parameters: Parameters, iterations_per_us: float, transfer_share: float = 0.5) -> Workload:
    """SL."""
    constants = _busy(parameters, iterations_per_us)
    options: Options = (("transfer_share", transfer_share),)
    return Workload(
        streaming_ledger.build, constants, _load_ledger, workloads.streaming_ledger, parameters, options,
        calls=2 + 2 * transfer_share, tables=2,
    )  # fmt: skip


def dynamic_ledger(parameters: Parameters, iterations_per_us: float) -> Workload:
    """SL through the four phases of MorphStream's Fig. 12; `epochs` is rounded down to four equal phases."""
    constants = _busy(parameters, iterations_per_us)
    return Workload(
        streaming_ledger.build, constants, _load_ledger, _dynamic_epochs, parameters, calls=3.0, tables=2
    )  # fmt: skip


def _dynamic_epochs(parameters: Parameters, epochs: int, seed: int) -> Iterator[Epoch]:
    return workloads.dynamic_streaming_ledger(parameters, max(1, epochs // 4), seed)


def sums(parameters: Parameters, iterations_per_us: float, query_share: float = 0.0) -> Workload:
    """GS."""
    constants = _busy(parameters, iterations_per_us)
    options: Options = (("query_share", query_share),)
    return Workload(
        grep_sum.build, constants, _load_records, workloads.grep_sum, parameters, options, calls=parameters.length
    )  # fmt: skip


def windowed_sums(parameters: Parameters, iterations_per_us: float, window: int, period: int) -> Workload:
    """GS with window queries."""
    constants = (*_busy(parameters, iterations_per_us), ("window", window))
    options: Options = (("period", period),)
    return Workload(
        grep_sum.build_windowed, constants, _load_records, workloads.windowed_grep_sum, parameters, options,
        window_accesses=WINDOW_KEYS / period,
    )  # fmt: skip


def computed_sums(parameters: Parameters, iterations_per_us: float, computed_share: float) -> Workload:
    """GS with keys computed from state."""
    constants = (*_busy(parameters, iterations_per_us), ("states", parameters.states))
    options: Options = (("computed_share", computed_share),)
    return Workload(
        grep_sum.build_computed, constants, _load_records, workloads.computed_grep_sum, parameters, options
    )  # fmt: skip


def tolls(
    parameters: Parameters, iterations_per_us: float, nested: Parameters | None = None, grouped: bool = False
) -> Workload:
    """TP; with `nested` its upper half of segments follows other parameters."""
    constants = (*_busy(parameters, iterations_per_us), ("grouped", grouped))
    options: Options = (("nested", nested),)
    return Workload(
        toll_processing.build, constants, _load_nothing, workloads.toll_processing, parameters, options, calls=1.2
    )  # fmt: skip


def bids(parameters: Parameters, iterations_per_us: float) -> Workload:
    """OB."""
    constants = _busy(parameters, iterations_per_us)
    return Workload(online_bidding.build, constants, _load_items, workloads.online_bidding, parameters, calls=6.0)
