# mypy: ignore-errors
"""Kernel of LOCK: strict two-phase locking whose locks are requested in the total order (TStream, section II-C.1).

Transactions are dealt to threads in turn. One counter admits them to put in their requests, all of a transaction's at once,
in the total order; it moves on as soon as they are in. Each state has a queue of requests, shared for reads and exclusive
for writes: as requests come in order, a queue is two pairs of counters (put in, finished; all, writes). A shared request is
granted when every write before it has finished, an exclusive one when every request before it has. A transaction runs when
all its requests are granted and releases them with its verdict, so nobody sees a version whose verdict is open.

No deadlock: requests are put in in the total order, so a transaction waits for earlier ones only, both at the counter and in
the queues, and a thread comes to its transactions in order. The earliest unfinished transaction therefore waits for nobody,
and its thread is at it.

Time: waiting (for admission, for grants) is counted as sync; what is left beside it and useful time is putting in requests
and releasing them, the paper's lock time.
"""

from numba import njit

from engine.baselines.layout import ADMITTED, DELAY_SEED
from engine.baselines.waiting_kernel import await_count, shake
from engine.execution.atomics import atomic_add, cycle_counter, store_release
from engine.execution.layout import TOTAL_CYCLES
from engine.execution.serial_kernel import run_serially


@njit(nogil=True, cache=True)
def run_locked(program, tables, operations, marks, scratch, accesses, queues, control, begin, end, thread, threads):
    """One thread's share of transactions begin … end - 1."""
    started = cycle_counter()
    total = scratch.counters[TOTAL_CYCLES]
    for number in range(thread, end - begin, threads):
        first, last = accesses.begin[number], accesses.begin[number + 1]
        await_count(control, ADMITTED, number, scratch)
        for access in range(first, last):
            place = accesses.place[access]
            if accesses.writes[access] != 0:
                accesses.ticket[access] = queues.requests[place]
                queues.writes[place] += 1
            else:
                accesses.ticket[access] = queues.writes[place]
            queues.requests[place] += 1
        store_release(control, ADMITTED, number + 1)
        for access in range(first, last):
            if accesses.writes[access] != 0:
                await_count(queues.finished, accesses.place[access], accesses.ticket[access], scratch)
            else:
                await_count(queues.finished_writes, accesses.place[access], accesses.ticket[access], scratch)
        shake(control[DELAY_SEED], 2 * number)
        run_serially(program, tables, operations, marks, scratch, begin + number, begin + number + 1)
        shake(control[DELAY_SEED], 2 * number + 1)
        for access in range(first, last):
            place = accesses.place[access]
            if accesses.writes[access] != 0:
                atomic_add(queues.finished_writes, place, 1)
            atomic_add(queues.finished, place, 1)
    scratch.counters[TOTAL_CYCLES] = total + cycle_counter() - started
