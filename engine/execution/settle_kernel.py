# mypy: ignore-errors
"""Kernel that handles aborts: decides verdicts anew and rolls back whatever read something that no longer holds.

It runs while all threads of the group wait, so it needs no locks. When it is called is the abort policy (eager: soon;
lazy: when all is explored); what it does is the same. Every verdict is provisional until a call changes nothing:

1. A suspected transaction with a failed operation becomes aborted; one without, all of whose operations have run again,
   is taken back.
2. Where a verdict changed, whoever ran after one of its writes along the graph is rolled back, transitively: also failed
   operations (T7), whose transaction is then judged again once they have run again.

Each call settles at least the earliest suspect, so calls come to an end.
"""

import numpy as np
from numba import njit

from engine.execution.atomics import atomic_add, atomic_swap, store_release, yield_processor
from engine.execution.layout import (
    ABT,
    BLK,
    CANCELLED,
    CASCADE_DEPTH,
    COMPUTED,
    DONE,
    EXE,
    FAILED,
    NONE,
    RDY,
    REMAINING,
    RESTART,
    ROLLBACKS,
    ROUNDS,
    STACK_LOCK,
    STACK_SIZE,
    SUSPECTS,
    T4,
    T5,
    T6,
    T7,
    WHOLE_TABLE,
)
from engine.execution.operation_kernel import DELETE, WRITE, leave_row


@njit(nogil=True, cache=True)
def note(marks, scratch, operation, counter):
    """Counts a transition (counters T1 to T7 are numbered 1 to 7) and, where asked for, writes it down."""
    scratch.counters[counter] += 1
    if marks.trace.size > 1:
        at = atomic_add(marks.trace, 0, 1) + 1
        if at < marks.trace.size:
            marks.trace[at] = operation * 8 + counter


@njit(nogil=True, cache=True)
def suspect(marks, group, transaction):
    """Puts a transaction on the list that `settle` judges."""
    if atomic_swap(marks.suspected, transaction, 1) == 0:
        group.suspects[atomic_add(group.control, SUSPECTS, 1)] = transaction


@njit(nogil=True, cache=True)
def push(units, group, unit):
    """Offers a ready unit to all threads, once."""
    if atomic_swap(units.queued, unit, 1) != 0:
        return
    while atomic_swap(group.control, STACK_LOCK, 1) != 0:
        yield_processor()
    group.stack[group.control[STACK_SIZE]] = unit
    group.control[STACK_SIZE] += 1
    store_release(group.control, STACK_LOCK, 0)


@njit(nogil=True, cache=True)
def settle(program, tables, operations, marks, edges, units, group, scratch):
    """Judges the suspects and rolls back; gives the number of operations to run again."""
    control = group.control
    count = control[SUSPECTS]
    control[SUSPECTS] = 0
    suspects = group.suspects[:count]
    _sort(suspects)
    rolled_back = 0
    waiting = 0  # in the worklist
    for transaction in suspects:
        marks.suspected[transaction] = 0
        first, last = operations.first[transaction], operations.first[transaction + 1]
        failed = np.int64(-1)
        unresolved = False
        for operation in range(first, last):
            if marks.result[operation] == FAILED and failed < 0:
                failed = operation
            unresolved = unresolved or marks.result[operation] == NONE or marks.result[operation] == CANCELLED
        marks.first_failed[transaction] = failed
        aborted = marks.aborted[transaction] != 0
        if failed >= 0 and not aborted:
            marks.aborted[transaction] = 1
        elif failed < 0 and aborted and not unresolved:
            marks.aborted[transaction] = 0
        else:
            if failed < 0 and aborted:
                rolled_back, waiting = _wake_cancelled(
                    operations, marks, edges, units, group, transaction, -1, rolled_back, waiting, 0
                )
            continue
        for operation in range(first, last):
            if marks.aborted[transaction] != 0:
                if marks.state[operation] != ABT:
                    note(marks, scratch, operation, T4)
                    marks.state[operation] = ABT
            elif marks.state[operation] == ABT and marks.result[operation] != NONE:
                marks.state[operation] = EXE
            if _leads_on(program, operations, marks, operation, first):
                group.worklist[waiting] = -operation - 1  # its version came or went, the operation itself stands
                group.depths[waiting] = 0
                waiting += 1
    rolled_back = _roll_back(program, tables, operations, marks, edges, units, group, scratch, rolled_back, waiting)
    _set_states(operations, marks, edges, units, group, scratch, rolled_back)
    if rolled_back > 0:
        scratch.counters[ROUNDS] += 1
        scratch.counters[ROLLBACKS] += rolled_back
    return rolled_back


@njit(nogil=True, cache=True)
def _sort(values):
    """Shell sort: np.sort would take longer to compile than the rest of this file together."""
    gap = values.size // 2
    while gap > 0:
        for start in range(gap, values.size):
            value = values[start]
            at = start
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 2


@njit(nogil=True, cache=True)
def _writes(program, operations, operation):
    kind = program.kind[operations.statement[operation]]
    return kind == WRITE or kind == DELETE


@njit(nogil=True, cache=True)
def _leads_on(program, operations, marks, operation, first):
    """Whether operations of other transactions may depend on this one's transaction through it.

    Through a version it made; through a write that made none but hides an earlier one of the same transaction; through a
    fence, which stands between the writes before it and the next fence.
    """
    if marks.result[operation] == NONE:
        return False
    target = program.target[operations.statement[operation]]
    if target == COMPUTED or target == WHOLE_TABLE:
        return True
    if not _writes(program, operations, operation):
        return False
    return marks.result[operation] == DONE or operations.link[operation] >= first


@njit(nogil=True, cache=True)
def _wake_cancelled(operations, marks, edges, units, group, transaction, limit, rolled_back, waiting, depth):
    """Operations cancelled because of a failure that is gone have to run after all: those before `limit` (-1: all)."""
    for operation in range(operations.first[transaction], operations.first[transaction + 1]):
        if marks.result[operation] == CANCELLED and (limit < 0 or operation < limit):
            rolled_back, waiting = _release(marks, edges, units, group, operation, rolled_back, waiting, depth)
    return rolled_back, waiting


@njit(nogil=True, cache=True)
def _roll_back(program, tables, operations, marks, edges, units, group, scratch, rolled_back, waiting):
    """Rolls back what follows the worklist's operations along the graph."""
    at = 0
    while at < waiting:
        operation = group.worklist[at]
        depth = group.depths[at]
        at += 1
        stands = operation < 0
        if stands:
            operation = -operation - 1
        local = operation - edges.base
        for position in range(edges.successor_begin[local], edges.successor_begin[local + 1]):
            follower = edges.successor[position] + edges.base
            same = operations.transaction[follower] == operations.transaction[operation]
            # A transaction sees its own writes whatever its verdict.
            if marks.result[follower] == NONE or (stands and same):
                continue
            deeper = depth if same else depth + 1
            scratch.counters[CASCADE_DEPTH] = max(scratch.counters[CASCADE_DEPTH], deeper)
            rolled_back, waiting = _undo(
                program, tables, operations, marks, edges, units, group, scratch, follower, rolled_back, waiting, deeper
            )
    return rolled_back


@njit(nogil=True, cache=True)
def _undo(program, tables, operations, marks, edges, units, group, scratch, operation, rolled_back, waiting, depth):
    """Takes back one operation; with a failure go the cancellations it caused."""
    statement = operations.statement[operation]
    result = marks.result[operation]
    if result == DONE and program.target[statement] == COMPUTED and _writes(program, operations, operation):
        leave_row(tables, marks, program.table[statement], operations.row[operation], operation)
    rolled_back, waiting = _release(marks, edges, units, group, operation, rolled_back, waiting, depth)
    if result == FAILED:
        note(marks, scratch, operation, T7)
        transaction = operations.transaction[operation]
        _forget_failure(operations, marks, transaction)
        rolled_back, waiting = _wake_cancelled(
            operations,
            marks,
            edges,
            units,
            group,
            transaction,
            marks.first_failed[transaction],
            rolled_back,
            waiting,
            depth,
        )
    return rolled_back, waiting


@njit(nogil=True, cache=True)
def _release(marks, edges, units, group, operation, rolled_back, waiting, depth):
    """The operation has to run again, and its unit is not complete any more."""
    marks.result[operation] = NONE
    group.touched[rolled_back] = operation
    group.worklist[waiting] = operation
    group.depths[waiting] = depth
    unit = units.of_operation[operation - edges.base]
    if units.done[unit] != 0:
        units.done[unit] = 0
        group.control[REMAINING] += 1
        for position in range(units.successor_begin[unit], units.successor_begin[unit + 1]):
            units.pending[units.successor[position]] += 1
    group.control[RESTART] = min(group.control[RESTART], units.stratum[unit])
    return rolled_back + 1, waiting + 1


@njit(nogil=True, cache=True)
def _forget_failure(operations, marks, transaction):
    marks.first_failed[transaction] = -1
    for operation in range(operations.first[transaction], operations.first[transaction + 1]):
        if marks.result[operation] == FAILED:
            marks.first_failed[transaction] = operation
            return


@njit(nogil=True, cache=True)
def _set_states(operations, marks, edges, units, group, scratch, rolled_back):
    """Rolled back operations are ready (T5) or blocked (T6); ready units are offered again."""
    for position in range(rolled_back):
        operation = group.touched[position]
        local = operation - edges.base
        ready = True
        for edge in range(edges.predecessor_begin[local], edges.predecessor_begin[local + 1]):
            ready = ready and marks.result[edges.predecessor[edge] + edges.base] != NONE
        if marks.state[operation] != ABT:
            note(marks, scratch, operation, T5 if ready else T6)
        marks.state[operation] = RDY if ready else BLK
        unit = units.of_operation[local]
        if units.pending[unit] == 0 and units.claimed[unit] == 0 and units.done[unit] == 0:
            push(units, group, unit)
