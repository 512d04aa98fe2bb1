# mypy: ignore-errors
"""Kernels that lay an epoch's results out as columns: who is where in the total order, record type by record type."""

import numpy as np
from numba import njit, types

from engine.functions.memory import pointer_at

WORD = types.int64
MINUS, QUOTE, BACKSLASH, ZERO = ord("-"), ord('"'), ord("\\"), ord("0")


@njit(nogil=True, cache=True)
def find_positions(verdict, wanted, positions):
    """The places that have this verdict, into `positions`; gives how many."""
    count = 0
    for at in range(verdict.size):
        positions[count] = at
        count += verdict[at] == wanted
    return count


@njit(nogil=True, cache=True)
def sort_by_kind(positions, batch, kind_of_batch, kinds, begins, order):
    """Each position's kind, in order; `order` has the positions kind by kind, a kind's from `begins[kind]` on."""
    counts = np.zeros(begins.size, np.int64)
    for at in range(positions.size):
        kind = kind_of_batch[batch[positions[at]]]
        kinds[at] = kind
        counts[kind + 1] += 1
    for kind in range(1, begins.size):
        counts[kind] += counts[kind - 1]
    begins[:] = counts
    for at in range(positions.size):
        kind = kinds[at]
        order[counts[kind]] = positions[at]
        counts[kind] += 1


@njit(nogil=True, cache=True)
def gather_words(positions, batch, row, addresses, out):
    """The values at these positions of a column that lies in one array of words a batch."""
    for at in range(positions.size):
        position = positions[at]
        out[at] = pointer_at(addresses[batch[position]], WORD)[row[position]]


@njit(nogil=True, cache=True)
def _magnitude(value):
    """Without the sign; the least number has no positive counterpart among signed ones."""
    return np.uint64(value) if value >= 0 else ~np.uint64(value) + np.uint64(1)


@njit(nogil=True, cache=True)
def decimal_lengths(values, lengths):
    """How many characters each number has in decimal."""
    for at in range(values.size):
        count, left = np.int64(1 if values[at] >= 0 else 2), _magnitude(values[at]) // np.uint64(10)
        while left != 0:
            count, left = count + 1, left // np.uint64(10)
        lengths[at] = count


@njit(nogil=True, cache=True)
def write_decimals(values, offsets, data):
    """Numbers as Python writes them, each from its offset on."""
    for at in range(values.size):
        left, place = _magnitude(values[at]), offsets[at + 1] - 1
        while True:
            data[place] = np.uint8(ZERO) + np.uint8(left % np.uint64(10))
            left, place = left // np.uint64(10), place - 1
            if left == 0:
                break
        if values[at] < 0:
            data[place] = MINUS


@njit(nogil=True, cache=True)
def is_plain_text(data):
    """Whether a JSON string has these bytes as they are: printable ASCII without quotes and backslashes."""
    for at in range(data.size):
        if data[at] < 32 or data[at] > 126 or data[at] == QUOTE or data[at] == BACKSLASH:
            return False
    return True


@njit(nogil=True, cache=True)
def write_quoted(data, offsets, out):
    """Strings in quotes; `out` has room for two more characters each."""
    for at in range(offsets.size - 1):
        place = offsets[at] + 2 * at
        out[place] = QUOTE
        for number in range(offsets[at], offsets[at + 1]):
            place += 1
            out[place] = data[number]
        out[place + 1] = QUOTE
