# mypy: ignore-errors
"""Kernels of TStream's aborts: the whole batch is done again without the transactions that failed (MorphStream, 2.2 and 8.3).

Taken literally, doing it again without the failed ones until nobody fails anew is not exact: one may have failed only
because it read a version of another that failed too, and would then stay out for good. So a verdict here is a guess until
it is confirmed. Let V be the verdicts that a pass assumes (versions of aborted transactions are hidden) and F those that it
finds. F of a transaction depends only on V of earlier ones, so where the two first differ, everything before is final, and
F of that one is too. The next pass assumes F. A transaction that is final and aborted is left out; one that is aborted and
not final runs again, hidden, and may come back. When F equals V, by induction over the total order both are the verdicts of
serial execution. Every pass settles at least one transaction, so there are at most as many as transactions and one more.

This runs while all other threads wait, so it needs no locks.
"""

from numba import njit

from engine.baselines.layout import BROKEN, COMPLETE, LATER, OPEN, REDOS, SETTLED
from engine.execution.layout import CANCELLED, COMPUTED, DONE, FAILED, NONE, ROLLBACKS, ROUNDS
from engine.execution.operation_kernel import DELETE, WRITE, leave_row


@njit(nogil=True, cache=True)
def is_excluded(operations, marks, control, operation):
    """Whether the operation's transaction is aborted for good."""
    transaction = operations.transaction[operation]
    return transaction < control[SETTLED] and marks.aborted[transaction] != 0


@njit(nogil=True, cache=True)
def judge_batch(program, tables, operations, marks, scratch, chains, control, begin, end):
    """Compares found with assumed verdicts; True: they differ, and all is made ready for the next pass.

    Were a final verdict to change, passes might go on for ever: that is noted, and the passes end.
    """
    settled = control[SETTLED]
    first_changed = end
    for transaction in range(begin, end):
        if transaction < settled and marks.aborted[transaction] != 0:
            continue
        failed = _first_failure(operations, marks, transaction)
        marks.first_failed[transaction] = failed
        aborted = 1 if failed >= 0 else 0
        if aborted != marks.aborted[transaction]:
            marks.aborted[transaction] = aborted
            first_changed = min(first_changed, transaction)
    if first_changed < settled:
        control[BROKEN] = 1
        return False
    if first_changed == end:
        return False
    _take_back(program, tables, operations, marks, scratch, control, begin, end, first_changed + 1)
    control[SETTLED] = first_changed + 1
    control[REDOS] += 1
    scratch.counters[ROUNDS] += 1
    reopen_chains(chains, control)
    return True


@njit(nogil=True, cache=True)
def _first_failure(operations, marks, transaction):
    for operation in range(operations.first[transaction], operations.first[transaction + 1]):
        if marks.result[operation] == FAILED:
            return operation
    return -1


@njit(nogil=True, cache=True)
def _take_back(program, tables, operations, marks, scratch, control, begin, end, settled):
    """Forgets what the pass did, but for the failures of transactions that are now aborted for good."""
    for transaction in range(end - 1, begin - 1, -1):
        stays = transaction < settled and marks.aborted[transaction] != 0
        # Backwards, so that a computed write is found at the head of its row's list.
        for operation in range(operations.first[transaction + 1] - 1, operations.first[transaction] - 1, -1):
            statement = operations.statement[operation]
            writes = program.kind[statement] == WRITE or program.kind[statement] == DELETE
            if writes and program.target[statement] == COMPUTED and marks.result[operation] == DONE:
                leave_row(tables, marks, program.table[statement], operations.row[operation], operation)
            if not stays:
                marks.result[operation] = NONE
                scratch.counters[ROLLBACKS] += 1
            elif marks.result[operation] != FAILED:
                marks.result[operation] = CANCELLED


@njit(nogil=True, cache=True)
def reopen_chains(chains, control):
    """All chains from their beginning; one without operations (its state is only read by others) is complete."""
    control[OPEN] = 0
    control[LATER] = 0
    for chain in range(chains.progress.size):
        chains.position[chain] = chains.begin[chain]
        chains.progress[chain] = COMPLETE
        if chains.begin[chain] < chains.begin[chain + 1]:
            chains.progress[chain] = chains.member[chains.begin[chain]]
            chains.open[control[OPEN]] = chain
            control[OPEN] += 1
