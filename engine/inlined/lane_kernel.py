# mypy: ignore-errors
"""Kernels of the ordered mode: how the threads ("lanes") that run one inlined kernel share its transactions.

Transactions are handed out in the total order, a few at a time. A lane waits until those that its transaction conflicts with
are done, so the earliest one that is not done never waits, and the lanes always get on. A transaction is done when all it
changes is in the tables, or when it has failed and changed nothing.
"""

import numpy as np
from numba import njit, types

from engine.execution.atomics import atomic_add, cycle_counter, load_word, store_word, words_at, yield_processor
from engine.functions.memory import pointer_at

OPTIONS = {"nogil": True, "error_model": "numpy"}
WORD, INDEX = types.int64, types.int32

# A lane's own words (its address is what kernels are given; 0: there is only one, and nothing to share).
SHARED_AT, WRITES_FROM, STRIDE, WAITED, WAITED_CYCLES, TAKEN, DELAY_SEED = range(7)
LANE_WORDS = 16  # two cache lines, so that lanes share none
# What all lanes share.
CURSOR, COUNT, WAIT_BEGIN_AT, WAITS_AT, DONE_AT, BATCH_AT, WEIGHTS_AT = 0, 8, 9, 10, 11, 12, 13  # the cursor has a line
SHARED_WORDS = 16
PIECE = 4  # transactions handed out at once: the cursor costs 50 ns where two cores use it
SPINS_BEFORE_YIELD = 2_000  # some 10 µs: whoever is waited for is running, unless its core was taken away
PENDING, DONE = 0, 1


@njit(**OPTIONS)
def next_piece(lane):
    """The next transactions of this lane: from, up to."""
    shared = load_word(lane)
    begin = atomic_add(words_at(shared, 1), 0, PIECE)
    return begin, min(begin + PIECE, pointer_at(shared, WORD)[COUNT])


@njit(**OPTIONS)
def enter(lane, place):
    """Waits for whom the transaction has to wait; gives the number that its writes count from."""
    own = pointer_at(lane, WORD)
    shared = pointer_at(own[SHARED_AT], WORD)
    begins = pointer_at(shared[WAIT_BEGIN_AT], INDEX)
    for at in range(begins[place], begins[place + 1]):
        done = shared[DONE_AT] + 8 * pointer_at(shared[WAITS_AT], INDEX)[at]
        if load_word(done) == PENDING:
            _wait(own, done)
    if own[DELAY_SEED] != 0:
        _delay(own[DELAY_SEED], place)
    return own[WRITES_FROM] + place * own[STRIDE]


@njit(**OPTIONS)
def _wait(own, done):
    begin = cycle_counter()
    spins = 0
    while load_word(done) == PENDING:
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            yield_processor()
    own[WAITED] += 1
    own[WAITED_CYCLES] += cycle_counter() - begin


@njit(**OPTIONS)
def _delay(seed, place):
    """Tests only: one transaction of four is held up for some 20 µs, long enough for other lanes to come by."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(place)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    if x & np.uint64(3) == np.uint64(0):
        until = cycle_counter() + np.int64(x >> np.uint64(47))
        while cycle_counter() < until:
            yield_processor()


@njit(**OPTIONS)
def leave(lane, place):
    """The transaction is done: whoever waits for it may go on."""
    own = pointer_at(lane, WORD)
    shared = pointer_at(own[SHARED_AT], WORD)
    own[TAKEN] += pointer_at(shared[WEIGHTS_AT], WORD)[pointer_at(shared[BATCH_AT], WORD)[place]]
    done = shared[DONE_AT] + 8 * place
    if load_word(done) == PENDING:
        store_word(done, DONE)
