# mypy: ignore-errors
"""Kernel of MVLK: multiversion locking with a low-water mark per state (TStream, section II-C.2).

As under LOCK, one counter admits transactions in the total order to register; registering at a state means to learn how many
transactions that write it come before. The state's low-water mark is how many of them have finished. A transaction runs
when the marks of all its states have come that far: its writes then come in order, and its reads find every version they
may need with a final verdict. It raises the marks of what it writes with its verdict. Readers raise nothing: a later write
never waits for them, because versions live in operations' slots and a reader skips those of later operations.

No deadlock: a transaction waits for the admission of earlier ones and for earlier writers only, and a thread comes to its
transactions in order; so the earliest unfinished transaction waits for nobody, and its thread is at it.
"""

from numba import njit

from engine.baselines.layout import ADMITTED, DELAY_SEED
from engine.baselines.waiting_kernel import await_count, shake
from engine.execution.atomics import cycle_counter, store_release
from engine.execution.layout import TOTAL_CYCLES
from engine.execution.serial_kernel import run_serially


@njit(nogil=True, cache=True)
def run_multiversion(
    program, tables, operations, marks, scratch, accesses, queues, control, begin, end, thread, threads
):
    """One thread's share of transactions begin … end - 1."""
    started = cycle_counter()
    total = scratch.counters[TOTAL_CYCLES]
    for number in range(thread, end - begin, threads):
        first, last = accesses.begin[number], accesses.begin[number + 1]
        await_count(control, ADMITTED, number, scratch)
        for access in range(first, last):
            place = accesses.place[access]
            accesses.ticket[access] = queues.writes[place]
            if accesses.writes[access] != 0:
                queues.writes[place] += 1
        store_release(control, ADMITTED, number + 1)
        for access in range(first, last):
            await_count(queues.finished_writes, accesses.place[access], accesses.ticket[access], scratch)
        shake(control[DELAY_SEED], 2 * number)
        run_serially(program, tables, operations, marks, scratch, begin + number, begin + number + 1)
        shake(control[DELAY_SEED], 2 * number + 1)
        for access in range(first, last):
            if accesses.writes[access] != 0:  # its turn: nobody else raises this mark now
                store_release(queues.finished_writes, accesses.place[access], accesses.ticket[access] + 1)
    scratch.counters[TOTAL_CYCLES] = total + cycle_counter() - started
