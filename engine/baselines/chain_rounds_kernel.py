# mypy: ignore-errors
"""Kernels of TStream: operation chains evaluated in rounds (its section IV-C.2), the batch redone after an abort.

A chain holds the operations on one state in the total order; one thread at a time walks it. In a round the threads take all
open chains from a common pool. A walk stops before an operation that reads a state whose own chain has not come far enough;
the chain goes on in the next round. When all chains are through, outputs and derived records are computed (the paper's
post-processing), and the batch is judged: `redo_kernel` says whether it is done again.

Where this differs from the paper. It tells dependent chains apart as wholes and then works chain by chain, which never ends
for two chains that read each other; here a chain stops at the operation, so cycles need no special care. It keeps several
versions of a state only where other chains depend on it; here every version lives in its operation's slot anyway.

No deadlock: inside a round nobody waits. Between rounds all threads meet, and each round gets through at least one operation:
the lowest open one is the next of its chain, and all it can depend on has a lower number. So rounds end.

Counters: barriers is the meetings of all threads, one a round; waits is how often a chain had to stop; units is chains
walked to their end; rounds is how often the batch was redone, rollbacks the operations that ran again because of it.
"""

from numba import njit

from engine.baselines.layout import (
    ARRIVED,
    COMPLETE,
    CURSOR,
    DELAY_SEED,
    FINISHED,
    GENERATION,
    LATER,
    OPEN,
    PHASE,
    REDOS,
    TIMED,
)
from engine.baselines.redo_kernel import is_excluded, judge_batch
from engine.baselines.waiting_kernel import await_count, shake
from engine.execution.atomics import atomic_add, cycle_counter, load_acquire, store_release
from engine.execution.layout import (
    ABORT_CYCLES,
    BARRIERS,
    OPERATIONS,
    SYNC_CYCLES,
    TOTAL_CYCLES,
    UNITS_RUN,
    USEFUL_CYCLES,
    WAITS,
)
from engine.execution.operation_kernel import run_operation

WALKING, POST_PROCESSING = 0, 1
POST_CHUNK = 16  # operations taken from the pool at once: short enough to share evenly


@njit(nogil=True, cache=True)
def run_chains(program, tables, operations, marks, scratch, states, chains, control, begin, end, threads):
    """One thread's whole work on the chains of transactions begin … end - 1."""
    started = cycle_counter()
    while load_acquire(control, FINISHED) == 0:
        redone = control[REDOS] > 0
        share_started, waited = cycle_counter(), scratch.counters[SYNC_CYCLES]
        if control[PHASE] == WALKING:
            _walk_chains(program, tables, operations, marks, scratch, states, chains, control, begin)
        else:
            _post_process(program, tables, operations, marks, scratch, chains, control)
        _meet(program, tables, operations, marks, scratch, chains, control, begin, end, threads)
        if redone:  # all of a redo is the abort's cost, but for waiting
            waited = scratch.counters[SYNC_CYCLES] - waited
            scratch.counters[ABORT_CYCLES] += cycle_counter() - share_started - waited
    scratch.counters[TOTAL_CYCLES] += cycle_counter() - started


@njit(nogil=True, cache=True)
def _walk_chains(program, tables, operations, marks, scratch, states, chains, control, begin):
    """Takes open chains from the pool and walks each as far as it goes."""
    first = operations.first[begin]
    while True:
        at = atomic_add(control, CURSOR, 1)
        if at >= control[OPEN]:
            return
        chain = chains.open[at]
        position, last = chains.position[chain], chains.begin[chain + 1]
        while position < last:
            operation = chains.member[position]
            if not is_excluded(operations, marks, control, operation):
                if not _is_ready(operations, states, chains, operation, first):
                    break
                _run(program, tables, operations, marks, scratch, control, operation)
            position += 1
            store_release(chains.progress, chain, chains.member[position] if position < last else COMPLETE)
        chains.position[chain] = position
        if position < last:
            scratch.counters[WAITS] += 1
            chains.later[atomic_add(control, LATER, 1)] = chain
        else:
            scratch.counters[UNITS_RUN] += 1


@njit(nogil=True, cache=True)
def _is_ready(operations, states, chains, operation, first):
    """Whether the chains of all states that the operation reads have come past what it may see of them."""
    base = operations.entry_begin[first]
    own = states.own[operation - first]
    for entry in range(operations.entry_begin[operation] - base, operations.entry_begin[operation + 1] - base):
        state = states.entry_state[entry]
        if state >= 0 and state != own and load_acquire(chains.progress, state) < states.entry_below[entry]:
            return False
    return True


@njit(nogil=True, cache=True)
def _post_process(program, tables, operations, marks, scratch, chains, control):
    """Computes outputs and derived records; every chain is through, so nothing is missing."""
    begin, end = chains.begin[chains.progress.size], chains.begin[chains.progress.size + 1]
    while True:
        at = begin + atomic_add(control, CURSOR, POST_CHUNK)
        if at >= end:
            return
        for position in range(at, min(at + POST_CHUNK, end)):
            operation = chains.member[position]
            if not is_excluded(operations, marks, control, operation):
                _run(program, tables, operations, marks, scratch, control, operation)


@njit(nogil=True, cache=True)
def _run(program, tables, operations, marks, scratch, control, operation):
    shake(control[DELAY_SEED], operation)
    scratch.counters[OPERATIONS] += 1
    if control[TIMED] != 0 and control[REDOS] == 0:
        started = cycle_counter()
        run_operation(program, tables, operations, marks, scratch, operation)
        scratch.counters[USEFUL_CYCLES] += cycle_counter() - started
    else:
        run_operation(program, tables, operations, marks, scratch, operation)


@njit(nogil=True, cache=True)
def _meet(program, tables, operations, marks, scratch, chains, control, begin, end, threads):
    """Waits for all threads; the last one to come says how to go on."""
    generation = control[GENERATION]
    scratch.counters[BARRIERS] += 1
    if atomic_add(control, ARRIVED, 1) + 1 < threads:
        waits = scratch.counters[WAITS]
        await_count(control, GENERATION, generation + 1, scratch)
        scratch.counters[WAITS] = waits  # counts chains that stop, not meetings
        return
    control[ARRIVED] = 0
    control[CURSOR] = 0
    if control[PHASE] == POST_PROCESSING:
        if judge_batch(program, tables, operations, marks, scratch, chains, control, begin, end):
            control[PHASE] = WALKING
        else:
            control[FINISHED] = 1
    elif control[LATER] > 0:
        chains.open[: control[LATER]] = chains.later[: control[LATER]]
        control[OPEN] = control[LATER]
        control[LATER] = 0
    else:
        control[PHASE] = POST_PROCESSING
    store_release(control, GENERATION, generation + 1)
