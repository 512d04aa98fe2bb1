# mypy: ignore-errors
"""Kernel of PAT: S-Store's partitions, each with its own ordered counter (TStream, section II-C.3; MorphStream, 2.2).

States are hashed into partitions. Every transaction has a turn in each partition that it touches, numbered when the stage is
planned; it waits for all its turns, runs, and passes them on with its verdict. So transactions that share a partition run one
after another, whether they read or write, and one that touches several partitions blocks them all; transactions without a
common partition know nothing of each other. TStream's own reimplementation passes a turn on as soon as locks on single
states are in; here a partition does one transaction at a time, as S-Store's do. A computed key or a fold over a whole table
touches all partitions.

No deadlock: turns are numbered in the total order, so a transaction waits for earlier ones only, and a thread comes to its
transactions in order; the earliest unfinished transaction waits for nobody, and its thread is at it.
"""

from numba import njit

from engine.baselines.layout import DELAY_SEED
from engine.baselines.waiting_kernel import await_count, shake
from engine.execution.atomics import cycle_counter, store_release
from engine.execution.layout import TOTAL_CYCLES
from engine.execution.serial_kernel import run_serially


@njit(nogil=True, cache=True)
def run_partitioned(
    program, tables, operations, marks, scratch, accesses, queues, control, begin, end, thread, threads
):
    """One thread's share of transactions begin … end - 1."""
    started = cycle_counter()
    total = scratch.counters[TOTAL_CYCLES]
    for number in range(thread, end - begin, threads):
        first, last = accesses.begin[number], accesses.begin[number + 1]
        for access in range(first, last):
            await_count(queues.finished, accesses.place[access], accesses.ticket[access], scratch)
        shake(control[DELAY_SEED], 2 * number)
        run_serially(program, tables, operations, marks, scratch, begin + number, begin + number + 1)
        shake(control[DELAY_SEED], 2 * number + 1)
        for access in range(first, last):
            store_release(queues.finished, accesses.place[access], accesses.ticket[access] + 1)
    scratch.counters[TOTAL_CYCLES] = total + cycle_counter() - started
