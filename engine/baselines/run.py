"""Starts a baseline on one planned stage: finds what transactions touch, then hands a share to every thread.

Like every way of running a stage it changes nothing but marks and slots, so a stage can be run again under another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from engine.baselines.access_kernel import list_accesses, number_states, number_turns
from engine.baselines.baseline import Baseline
from engine.baselines.chain_rounds_kernel import run_chains
from engine.baselines.layout import (
    ALL_ROWS,
    BROKEN,
    CONTROL_SIZE,
    DELAY_SEED,
    EVERY_PLACE,
    TABLE_SHIFT,
    TIMED,
    Accesses,
    Chains,
    Queues,
    States,
)
from engine.baselines.lock_kernel import run_locked
from engine.baselines.multiversion_kernel import run_multiversion
from engine.baselines.no_lock_kernel import run_without_locks
from engine.baselines.partition_kernel import run_partitioned
from engine.baselines.redo_kernel import reopen_chains
from engine.errors import InvariantError
from engine.execution.executor import ExecutionOptions, StageArrays
from engine.execution.layout import Ints, Scratch
from engine.execution.shared import share
from engine.execution.threads import ThreadPool
from engine.planning.chain_kernel import list_members

_QUEUEING: dict[str, Callable[..., None]] = {
    "lock": run_locked,
    "mvlk": run_multiversion,
    "pat": run_partitioned,
}


def run_baseline(
    stage: StageArrays,
    baseline: Baseline,
    pool: ThreadPool,
    threads: int,
    scratches: list[Scratch],
    options: ExecutionOptions,
) -> None:
    """Runs the whole stage on so many threads; the counters are in the scratches."""
    control = np.zeros(CONTROL_SIZE, np.int64)
    control[DELAY_SEED] = options.delay_seed
    control[TIMED] = int(options.timed)
    begin, end = stage.first_transaction, stage.last_transaction
    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    if baseline.scheme == "no-lock":
        kernel, arguments = run_without_locks, (control, begin, end)
    elif baseline.scheme == "tstream":
        states, count = _find_states(stage)
        chains = share(_make_chains(states, count, _first_operation(stage)))
        reopen_chains(chains, control)
        kernel, arguments = run_chains, (share(states), chains, control, begin, end)
    else:
        accesses, places = _find_accesses(stage, baseline)
        queues = Queues(*(np.zeros(places, np.int64) for _ in Queues._fields))
        kernel, arguments = _QUEUEING[baseline.scheme], (share(accesses), share(queues), control, begin, end)
    numbers: list[tuple[int, ...]] = [(thread, threads) for thread in range(threads)]
    if baseline.scheme == "tstream":
        numbers = [(threads,)] * threads  # its threads are alike: they share one pool of chains
    shares = [
        partial(kernel, *stage.shared(), share(scratch), *arguments, *own)
        for scratch, own in zip(scratches, numbers, strict=False)
    ]
    pool.run(shares)
    if control[BROKEN] != 0:
        raise InvariantError("a redo of TStream's batch changed a verdict that was final; this is a bug in Millrace")


def _first_operation(stage: StageArrays) -> int:
    return int(stage.operations.first[stage.first_transaction])


def _find_states(stage: StageArrays) -> tuple[States, int]:
    """What the stage's operations touch, and how many states there are."""
    operations = stage.operations
    begin, end = _first_operation(stage), int(operations.first[stage.last_transaction])
    count = end - begin
    entries = int(operations.entry_begin[end] - operations.entry_begin[begin])
    cells = 1 << (2 * (count + entries)).bit_length()
    states = States(
        whole=np.zeros(stage.tables.records.size, np.int8),
        cells=np.full(cells, -1, np.int64),
        numbers=np.empty(cells, np.int64),
        key=np.empty(count + entries, np.int64),
        own=np.empty(count, np.int64),
        entry_state=np.full(entries, -1, np.int64),
        entry_below=np.zeros(entries, np.int64),
    )
    return states, number_states(share(stage.program), share(operations), share(states), begin, end)


def _find_accesses(stage: StageArrays, baseline: Baseline) -> tuple[Accesses, int]:
    """The places where each transaction queues, and how many places there are: states, or partitions of them."""
    states, places = _find_states(stage)
    place = np.arange(places, dtype=np.int64)
    if baseline.scheme == "pat":
        place, places = _partitions(states.key[:places], baseline.partitions), baseline.partitions
    touched = np.concatenate([states.own, states.entry_state])
    everywhere = int(np.count_nonzero(place[touched[touched >= 0]] == EVERY_PLACE))
    most = touched.size + everywhere * places
    transactions = stage.last_transaction - stage.first_transaction
    accesses = Accesses(
        begin=np.empty(transactions + 1, np.int64),
        place=np.empty(most, np.int64),
        writes=np.empty(most, np.int8),
        ticket=np.empty(most, np.int64),
    )
    shared = share(accesses)
    count = list_accesses(
        share(stage.program), share(stage.operations), share(states), shared, place, places,
        stage.first_transaction, stage.last_transaction,
    )  # fmt: skip
    number_turns(shared, count, places)
    return accesses, places


def _partitions(keys: Ints, partitions: int) -> Ints:
    """The partition of each state; equal keys of two tables lie in neighbouring ones, as in TStream's Toll Processing."""
    table, row = keys >> TABLE_SHIFT, keys & ALL_ROWS
    return np.where(row == ALL_ROWS, EVERY_PLACE, (row + table) % partitions)


def _make_chains(states: States, count: int, first_operation: int) -> Chains:
    group = np.where(states.own >= 0, states.own, count)
    begin, member = np.zeros(count + 2, np.int64), np.empty(group.size, np.int64)
    list_members(group, first_operation, begin, member)
    return Chains(begin, member, *(np.empty(count, np.int64) for _ in range(4)))
