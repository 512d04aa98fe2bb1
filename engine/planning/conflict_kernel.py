# mypy: ignore-errors
"""Kernel of the ordered mode's planning: which earlier transactions each transaction has to wait for. One pass in order.

A touch is a row that a transaction reads or writes. A row's touches form a list from its cell (the number of its newest
touch, above `stamp` if it is of this stage, so that cells need no clearing). A reader waits for the newest write before it; a
writer for all readers since that write, or where there are none for that write itself. Each reader is walked over once, by the
next writer, so the cost is linear in the touches.
"""

import numpy as np
from numba import njit, types

from engine.functions.memory import pointer_at

WORD = types.int64

# A row of `batches`, and one of `touched`: writes come first, and a key that is written is not listed as read.
FIRST_TOUCHED, TOUCHED = range(2)
BATCH_WORDS = 2
ROWS_AT, OFFSETS_AT, CELLS_AT, WRITES = range(4)
TOUCHED_WORDS = 4
NOBODY, PENDING = -1, 0  # of a transaction: nobody waits for it; somebody does, and it is not done


@njit(nogil=True, cache=True)
def find_conflicts(
    batches,
    touched,
    order_batch,
    order_row,
    outcome,
    weights,
    stamp,
    owner,
    earlier,
    written,
    wait_begin,
    waits,
    done,
    path,
):
    """Fills `waits` (by transaction, from its `wait_begin` on), and `done` with who is waited for.

    Transactions are places in the total order. `owner`, `earlier` and `written` have room for all touches: whose it is, the
    read before it (-1: none since the last write), the last write. `path` is the weight of the heaviest chain of transactions
    that ends with each. Gives the number of touches, of waits, and the heaviest path.
    """
    touch = found = np.int64(0)
    heaviest = np.int64(0)
    for place in range(order_row.size):
        wait_begin[place] = found
        done[place] = NOBODY
        if outcome[place] != 0:
            continue
        batch = order_batch[place]
        row = order_row[place]
        longest = np.int64(0)
        first = batches[batch, FIRST_TOUCHED]
        for t in range(first, first + batches[batch, TOUCHED]):
            rows = pointer_at(touched[t, ROWS_AT], WORD)
            cells = pointer_at(touched[t, CELLS_AT], WORD)
            writes = touched[t, WRITES] != 0
            begin, end = row, row + 1
            if touched[t, OFFSETS_AT] != 0:
                begin = pointer_at(touched[t, OFFSETS_AT], WORD)[row]
                end = pointer_at(touched[t, OFFSETS_AT], WORD)[row + 1]
            for element in range(begin, end):
                at = rows[element]
                newest = cells[at] - stamp
                last_write = np.int64(-1)
                last_read = np.int64(-1)
                if newest >= 0:
                    if owner[newest] == place:  # its own write (writes come first), or this read once more
                        continue
                    last_write = written[newest]
                    if last_write != newest:
                        last_read = newest
                if writes and last_read >= 0:
                    reader = last_read
                    while reader >= 0:
                        other = owner[reader]
                        reader = earlier[reader]
                        waits[found] = other
                        found += 1
                        done[other] = PENDING
                        longest = max(longest, path[other])
                elif last_write >= 0:
                    other = owner[last_write]
                    waits[found] = other
                    found += 1
                    done[other] = PENDING
                    longest = max(longest, path[other])
                owner[touch] = place
                earlier[touch] = -1 if writes else last_read
                written[touch] = touch if writes else last_write
                cells[at] = stamp + touch
                touch += 1
        path[place] = longest + weights[batch]
        heaviest = max(heaviest, path[place])
    wait_begin[order_row.size] = found
    return touch, found, heaviest
