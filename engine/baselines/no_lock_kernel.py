# mypy: ignore-errors
"""Kernel of No-Lock: transactions run as they are dealt, without any order between threads (TStream, section VI-B).

Wrong on purpose: an upper bound of what a scheme could reach. An operation reads whatever version is there: not yet written
ones are passed over, those of transactions that abort later are seen. One latch is left: a transaction that computes keys
holds it, because such an operation may put a new key into the table's index, and two at once would break the index itself.

No deadlock: there is one latch, and whoever holds it waits for nothing.
"""

from numba import njit

from engine.baselines.layout import DELAY_SEED, LATCH
from engine.baselines.waiting_kernel import shake
from engine.execution.atomics import atomic_swap, cycle_counter, store_release, yield_processor
from engine.execution.layout import COMPUTED, TOTAL_CYCLES
from engine.execution.serial_kernel import run_serially


@njit(nogil=True, cache=True)
def run_without_locks(program, tables, operations, marks, scratch, control, begin, end, thread, threads):
    """One thread's share of transactions begin … end - 1."""
    started = cycle_counter()
    total = scratch.counters[TOTAL_CYCLES]
    for transaction in range(begin + thread, end, threads):
        shake(control[DELAY_SEED], transaction - begin)
        latched = _computes_keys(program, operations, transaction)
        if latched:
            while atomic_swap(control, LATCH, 1) != 0:
                yield_processor()
        run_serially(program, tables, operations, marks, scratch, transaction, transaction + 1)
        if latched:
            store_release(control, LATCH, 0)
    scratch.counters[TOTAL_CYCLES] = total + cycle_counter() - started


@njit(nogil=True, cache=True)
def _computes_keys(program, operations, transaction):
    for operation in range(operations.first[transaction], operations.first[transaction + 1]):
        if program.target[operations.statement[operation]] == COMPUTED:
            return True
    return False
