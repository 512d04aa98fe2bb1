# mypy: ignore-errors
"""Lexicographic sort of distinct byte strings by row number.

Most-significant-first: rows are sorted by a word of the next seven bytes, runs with an equal word are sorted again
seven bytes further on. A run first skips the bytes all its keys share, so long common prefixes cost one pass.
"""

import numpy as np
from numba import njit

# Runs this short compare whole keys. Any limit from 4 to 32 took the same time (300 K keys of three shapes).
INSERTION_LIMIT = 12


@njit(nogil=True, cache=True)
def less_bytes(arena, a, a_length, b, b_length):
    for i in range(min(a_length, b_length)):
        if arena[a + i] != arena[b + i]:
            return arena[a + i] < arena[b + i]
    return a_length < b_length


@njit(nogil=True, cache=True)
def word_at(arena, start, length, depth):
    """Seven bytes from `depth`, zero-padded, then how many bytes remain (8 = more than seven).

    The count orders a key before the keys that continue it with zero bytes; equal words with a count of 8 go on.
    """
    remaining = max(length - depth, 0)
    word = np.uint64(0)
    for j in range(min(remaining, 7)):
        word |= np.uint64(arena[start + depth + j]) << np.uint64(56 - 8 * j)
    return word | np.uint64(min(remaining, 8))


@njit(nogil=True, cache=True)
def shared_depth(arena, row_start, row_length, rows, low, high, depth):
    """The number of leading bytes that rows[low:high] share; they are known to share `depth`."""
    first = row_start[rows[low]]
    shared = row_length[rows[low]]
    for i in range(low + 1, high):
        start = row_start[rows[i]]
        limit = min(shared, row_length[rows[i]])
        j = depth
        while j < limit and arena[start + j] == arena[first + j]:
            j += 1
        shared = j
        if shared == depth:
            break
    return shared


@njit(nogil=True, cache=True)
def sort_rows_by_bytes(arena, row_start, row_length, rows):
    """Sort `rows` in place by the bytes of their keys."""
    stack = [(np.int64(0), np.int64(rows.size), np.int64(0))]
    while len(stack) > 0:
        low, high, depth = stack.pop()
        if high - low <= INSERTION_LIMIT:
            for i in range(low + 1, high):
                row = rows[i]
                j = i - 1
                while j >= low and less_bytes(
                    arena,
                    row_start[row] + depth,
                    row_length[row] - depth,
                    row_start[rows[j]] + depth,
                    row_length[rows[j]] - depth,
                ):
                    rows[j + 1] = rows[j]
                    j -= 1
                rows[j + 1] = row
            continue
        depth = shared_depth(arena, row_start, row_length, rows, low, high, depth)
        words = np.empty(high - low, dtype=np.uint64)
        for i in range(low, high):
            words[i - low] = word_at(arena, row_start[rows[i]], row_length[rows[i]], depth)
        order = np.argsort(words, kind="mergesort")
        rows[low:high] = rows[low:high][order]
        begin = 0
        for i in range(1, high - low + 1):
            if i == high - low or words[order[i]] != words[order[begin]]:
                if i - begin > 1:
                    stack.append((low + begin, low + i, depth + 7))
                begin = i
