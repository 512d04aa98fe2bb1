# mypy: ignore-errors
"""Kernels that explore the graph: breadth-first, depth-first and unstructured (section 5.1), one worker a thread.

Threads of a group meet in `meet`: at the end of each stratum (breadth-first), when an abort is to be handled at once
(eager), and when everything is explored. While all wait there, one of them settles aborts and says how to go on.
Between two meetings no verdict changes, so running operations needs no locks.
"""

import numpy as np
from numba import njit

from engine.execution.atomics import (
    atomic_add,
    atomic_swap,
    cycle_counter,
    load_acquire,
    store_release,
    yield_processor,
)
from engine.execution.layout import (
    ABORT_CYCLES,
    ABT,
    ARRIVED,
    AT_END,
    BARRIERS,
    BLK,
    CANCELLATIONS,
    CANCELLED,
    COORDINATOR,
    CURSOR,
    DELAY_SEED,
    EXE,
    FAILED,
    FINISHED,
    GENERATION,
    NOBODY,
    NONE,
    NOTIFICATIONS,
    OPERATIONS,
    PAUSE,
    REMAINING,
    RESTART,
    RESTARTS,
    ROOT_CURSOR,
    SETTLING,
    SIGNALS,
    STACK_LOCK,
    STACK_SIZE,
    STRATUM,
    SUSPECTS,
    SYNC_CYCLES,
    T1,
    T2,
    T3,
    T4,
    TIMED,
    TOTAL_CYCLES,
    UNITS_RUN,
    USEFUL_CYCLES,
    WAITING,
    WAITS,
)
from engine.execution.operation_kernel import run_operation
from engine.execution.settle_kernel import note, push, settle, suspect

BREADTH_FIRST, DEPTH_FIRST, UNSTRUCTURED = range(3)
NO_STRATUM = np.int64(0x7FFFFFFFFFFFFFFF)
SPINS_BEFORE_YIELD = 200  # about a microsecond: longer than a cheap operation, shorter than a time slice
CHUNKS_A_THREAD = 4  # breadth-first hands out strata in this many pieces a thread, to even out unequal operations


@njit(nogil=True, cache=True)
def _delay(control, operation):
    """Tests only: a pause of random length, from the seed and the operation, to shake the threads' order."""
    x = np.uint64(control[DELAY_SEED]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(operation)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    if x & np.uint64(3) == np.uint64(0):
        until = cycle_counter() + np.int64(x >> np.uint64(50))
        while cycle_counter() < until:
            yield_processor()


@njit(nogil=True, cache=True)
def read_cycles():
    return cycle_counter()


@njit(nogil=True, cache=True)
def keep_time(scratch, what, begin, end):
    """Writes down what the thread did from `begin` to `end`, as far as there is room; the number counts on."""
    at = scratch.timeline[0]
    scratch.timeline[0] = at + 1
    if 3 * at + 3 < scratch.timeline.size:
        scratch.timeline[3 * at + 1] = what
        scratch.timeline[3 * at + 2] = begin
        scratch.timeline[3 * at + 3] = end


@njit(nogil=True, cache=True)
def run_unit(program, tables, operations, marks, units, group, scratch, thread, unit, waited, cancels, interruptible):
    """Runs the unit's open operations in order; gives False if a pause was asked for before it was through."""
    control = group.control
    for position in range(units.member_begin[unit], units.member_begin[unit + 1]):
        operation = units.member[position]
        if marks.result[operation] != NONE:
            continue
        if interruptible and load_acquire(control, PAUSE) != 0:
            return False
        transaction = operations.transaction[operation]
        marks.owner[operation] = thread
        if control[DELAY_SEED] != 0:
            _delay(control, operation)
        speculative = waited and marks.state[operation] == BLK
        if marks.state[operation] == BLK and not speculative:
            note(marks, scratch, operation, T1)
        first_failed = marks.first_failed[transaction]
        if cancels and marks.aborted[transaction] != 0 and first_failed >= 0 and operation > first_failed:
            marks.result[operation] = CANCELLED
            scratch.counters[CANCELLATIONS] += 1
            if marks.state[operation] != ABT:
                note(marks, scratch, operation, T4)
                marks.state[operation] = ABT
            continue
        scratch.counters[OPERATIONS] += 1
        if control[TIMED] != 0:
            begin = cycle_counter()
            result = run_operation(program, tables, operations, marks, scratch, operation)
            end = cycle_counter()
            scratch.counters[USEFUL_CYCLES] += end - begin
            if scratch.timeline.size > 1:
                keep_time(scratch, operation, begin, end)
        else:
            result = run_operation(program, tables, operations, marks, scratch, operation)
        if result == FAILED:
            note(marks, scratch, operation, T4)
            marks.state[operation] = ABT
            suspect(marks, group, transaction)
            if interruptible:
                store_release(control, PAUSE, 1)
        else:
            note(marks, scratch, operation, T3 if speculative else T2)
            marks.state[operation] = EXE
            if marks.aborted[transaction] != 0:
                suspect(marks, group, transaction)
                if interruptible:
                    store_release(control, PAUSE, 1)
    scratch.counters[UNITS_RUN] += 1
    return True


@njit(nogil=True, cache=True)
def meet(program, tables, operations, marks, edges, units, group, scratch, thread, threads, exploration, eager):
    """Waits for all threads; the coordinator settles what is to be settled. Gives the number of this meeting."""
    control = group.control
    begin = cycle_counter()
    arrived = begin
    generation = control[GENERATION]
    scratch.counters[BARRIERS] += 1
    if atomic_add(control, ARRIVED, 1) + 1 == threads:
        store_release(control, COORDINATOR, _choose_coordinator(operations, marks, group, scratch, thread, threads))
    spins = 0
    while load_acquire(control, GENERATION) == generation:
        if load_acquire(control, COORDINATOR) == thread:
            started = cycle_counter()
            _conclude(program, tables, operations, marks, edges, units, group, scratch, threads, exploration, eager)
            scratch.counters[ABORT_CYCLES] += cycle_counter() - started
            begin += cycle_counter() - started
            if scratch.timeline.size > 1:
                keep_time(scratch, SETTLING, started, cycle_counter())
            break
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            yield_processor()
    scratch.counters[SYNC_CYCLES] += cycle_counter() - begin
    if scratch.timeline.size > 1 and begin == arrived:
        keep_time(scratch, WAITING, arrived, cycle_counter())


@njit(nogil=True, cache=True)
def _choose_coordinator(operations, marks, group, scratch, thread, threads):
    """The thread that ran the first operation of the earliest suspect; the last to arrive where there is none."""
    count = group.control[SUSPECTS]
    if count == 0:
        return thread
    earliest = group.suspects[:count].min()
    owner = np.int64(marks.owner[operations.first[earliest]])
    if owner < 0 or owner >= threads:
        return thread
    if owner != thread:
        scratch.counters[NOTIFICATIONS] += 1
    return owner


@njit(nogil=True, cache=True)
def _conclude(program, tables, operations, marks, edges, units, group, scratch, threads, exploration, eager):
    """What one thread does while all others wait."""
    control = group.control
    strata = group.stratum_begin.size - 1
    control[RESTART] = NO_STRATUM
    following = control[STRATUM] + 1
    explored = exploration != BREADTH_FIRST or following >= strata
    if control[SUSPECTS] > 0 and (eager or explored):
        if settle(program, tables, operations, marks, edges, units, group, scratch) > 0:
            scratch.counters[RESTARTS] += 1
    if exploration == BREADTH_FIRST:
        following = min(following, control[RESTART])
        control[STRATUM] = following
        control[CURSOR] = 0
        control[FINISHED] = 1 if following >= strata else 0
    elif exploration == DEPTH_FIRST:
        control[FINISHED] = 1 if control[AT_END] == threads and control[RESTART] == NO_STRATUM else 0
    else:
        control[FINISHED] = 1 if control[REMAINING] == 0 else 0
    control[AT_END] = 0
    control[PAUSE] = 0
    control[COORDINATOR] = NOBODY
    control[ARRIVED] = 0
    store_release(control, GENERATION, control[GENERATION] + 1)


@njit(nogil=True, cache=True)
def explore(program, tables, operations, marks, edges, units, group, scratch, thread, threads, exploration, eager):
    """One thread's whole work on a group."""
    begin = cycle_counter()
    if exploration == BREADTH_FIRST:
        _breadth_first(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager)
    elif exploration == DEPTH_FIRST:
        _depth_first(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager)
    else:
        _unstructured(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager)
    scratch.counters[TOTAL_CYCLES] += cycle_counter() - begin


@njit(nogil=True, cache=True)
def _breadth_first(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager):
    """All threads share a stratum, then meet."""
    control = group.control
    while load_acquire(control, FINISHED) == 0:
        stratum = control[STRATUM]
        begin, end = group.stratum_begin[stratum], group.stratum_begin[stratum + 1]
        chunk = max(np.int64(1), (end - begin) // (threads * CHUNKS_A_THREAD))
        while True:
            at = begin + atomic_add(control, CURSOR, chunk)
            if at >= end:
                break
            for position in range(at, min(at + chunk, end)):
                unit = group.stratum_units[position]
                if units.done[unit] == 0:
                    run_unit(
                        program, tables, operations, marks, units, group, scratch, thread, unit, False, eager, False
                    )
                    units.done[unit] = 1
        meet(program, tables, operations, marks, edges, units, group, scratch, thread, threads, BREADTH_FIRST, eager)


@njit(nogil=True, cache=True)
def _depth_first(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager):
    """Each thread has an equal share of every stratum and waits only for what its own units need."""
    control = group.control
    strata = group.stratum_begin.size - 1
    stratum = np.int64(0)
    while True:
        met = False
        if stratum < strata:
            begin = group.stratum_begin[stratum]
            size = group.stratum_begin[stratum + 1] - begin
            for position in range(begin + size * thread // threads, begin + size * (thread + 1) // threads):
                unit = group.stratum_units[position]
                if load_acquire(units.done, unit) != 0:
                    continue
                ready, waited = _await_predecessors(units, control, scratch, unit)
                if not ready:
                    met = True
                    break
                run_unit(program, tables, operations, marks, units, group, scratch, thread, unit, waited, eager, False)
                store_release(units.done, unit, 1)
            if eager and not met:
                if load_acquire(control, SUSPECTS) > 0:
                    store_release(control, PAUSE, 1)
                met = load_acquire(control, PAUSE) != 0
            stratum += 1
        else:
            atomic_add(control, AT_END, 1)
            met = True
        if met:
            meet(program, tables, operations, marks, edges, units, group, scratch, thread, threads, DEPTH_FIRST, eager)
            if load_acquire(control, FINISHED) != 0:
                return
            # A share left in the middle is taken up again; what was rolled back lies at or above the restart.
            stratum = max(np.int64(0), min(stratum - 1, control[RESTART]))


@njit(nogil=True, cache=True)
def _await_predecessors(units, control, scratch, unit):
    """Waits until all units that this one depends on are done: (whether they are, whether it had to wait)."""
    waited = False
    for position in range(units.predecessor_begin[unit], units.predecessor_begin[unit + 1]):
        before = units.predecessor[position]
        spins = 0
        while load_acquire(units.done, before) == 0:
            if load_acquire(control, PAUSE) != 0:
                return False, waited
            if not waited:
                waited = True
                scratch.counters[WAITS] += 1
            spins += 1
            if spins > SPINS_BEFORE_YIELD:
                yield_processor()
    return True, waited


@njit(nogil=True, cache=True)
def _pop(units, group):
    """A unit that is ready: one of the initial ones, or one that was offered; -1 where there is none now."""
    control = group.control
    roots = group.stratum_begin[1] if group.stratum_begin.size > 1 else 0
    if load_acquire(control, STACK_SIZE) > 0 and atomic_swap(control, STACK_LOCK, 1) == 0:
        unit = np.int64(-1)
        if control[STACK_SIZE] > 0:
            control[STACK_SIZE] -= 1
            unit = group.stack[control[STACK_SIZE]]
            store_release(units.queued, unit, 0)
        store_release(control, STACK_LOCK, 0)
        if unit >= 0:
            return unit
    if load_acquire(control, ROOT_CURSOR) < roots:
        at = atomic_add(control, ROOT_CURSOR, 1)
        if at < roots:
            return group.stratum_units[at]
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _unstructured(program, tables, operations, marks, edges, units, group, scratch, thread, threads, eager):
    """Any thread takes what is ready; a finished unit counts down the units that wait for it."""
    control = group.control
    following = np.int64(-1)
    completed = np.int64(0)
    spins = 0
    while True:
        unit = following
        following = np.int64(-1)
        if unit < 0:
            unit = _pop(units, group)
        if unit < 0 and completed > 0:
            atomic_add(control, REMAINING, -completed)
            completed = 0
        paused = eager and load_acquire(control, PAUSE) != 0
        if paused or (unit < 0 and load_acquire(control, REMAINING) == 0):
            if completed > 0:
                atomic_add(control, REMAINING, -completed)
                completed = 0
            meet(program, tables, operations, marks, edges, units, group, scratch, thread, threads, UNSTRUCTURED, eager)
            if load_acquire(control, FINISHED) != 0:
                return
        if unit < 0:
            spins += 1
            if spins > SPINS_BEFORE_YIELD:
                yield_processor()
            continue
        spins = 0
        if atomic_swap(units.claimed, unit, 1) != 0:
            continue
        through = False
        while load_acquire(units.pending, unit) == 0 and units.done[unit] == 0:
            through = run_unit(
                program, tables, operations, marks, units, group, scratch, thread, unit, False, eager, eager
            )
            if through:
                break
            if completed > 0:
                atomic_add(control, REMAINING, -completed)
                completed = 0
            meet(program, tables, operations, marks, edges, units, group, scratch, thread, threads, UNSTRUCTURED, eager)
            if load_acquire(control, FINISHED) != 0:
                return
        if not through:
            store_release(units.claimed, unit, 0)
            if load_acquire(units.pending, unit) == 0 and units.done[unit] == 0:
                push(units, group, unit)
            continue
        store_release(units.done, unit, 1)
        store_release(units.claimed, unit, 0)
        completed += 1
        for position in range(units.successor_begin[unit], units.successor_begin[unit + 1]):
            successor = units.successor[position]
            scratch.counters[SIGNALS] += 1
            if atomic_add(units.pending, successor, -1) == 1 and load_acquire(units.done, successor) == 0:
                if following < 0:
                    following = successor
                else:
                    push(units, group, successor)
