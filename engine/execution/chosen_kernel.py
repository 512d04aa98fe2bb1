# mypy: ignore-errors
"""Kernel of a serial group: chosen transactions one after another, while other groups of the stage run beside them."""

from numba import njit

from engine.execution.serial_kernel import run_serially


@njit(nogil=True, cache=True)
def run_chosen(program, tables, operations, marks, scratch, transactions):
    """Runs the transactions, which are in order, in one call: neighbours are rare once groups part them."""
    for transaction in transactions:
        run_serially(program, tables, operations, marks, scratch, transaction, transaction + 1)
