# mypy: ignore-errors
"""Kernels that read a stage's outcome: verdicts by position, and where a statement's operation lies in each transaction."""

from numba import njit


@njit(nogil=True, cache=True)
def read_verdicts(operations, marks, transaction_of, verdict, reason, statement, failed_position, failing):
    """Fills verdict (1: failed), reason and failing statement of each position; lists the failures. Gives their number."""
    failures = 0
    for position in range(transaction_of.size):
        transaction = transaction_of[position]
        if transaction < 0 or marks.aborted[transaction] == 0:
            continue
        operation = marks.first_failed[transaction]
        verdict[position] = 1
        reason[position] = marks.reason[operation]
        statement[position] = operations.statement[operation]
        failed_position[failures] = position
        failing[failures] = operation
        failures += 1
    return failures


@njit(nogil=True, cache=True)
def find_statement(operations, transactions, statement, found):
    """The operation of a statement that occurs once in each of the transactions."""
    for position in range(transactions.size):
        operation = operations.first[transactions[position]]
        while operations.statement[operation] != statement:
            operation += 1
        found[position] = operation
