# mypy: ignore-errors
"""Kernels by which the baselines' threads wait for each other. Whoever waits spins for a while, then lets others run."""

import numpy as np
from numba import njit

from engine.execution.atomics import cycle_counter, load_acquire, yield_processor
from engine.execution.explore_kernel import SPINS_BEFORE_YIELD
from engine.execution.layout import SYNC_CYCLES, WAITS


@njit(nogil=True, cache=True)
def await_count(counts, index, least, scratch):
    """Waits until counts[index], which only grows, is at least `least`."""
    if load_acquire(counts, index) >= least:
        return
    begin = cycle_counter()
    scratch.counters[WAITS] += 1
    spins = 0
    while load_acquire(counts, index) < least:
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            yield_processor()
    scratch.counters[SYNC_CYCLES] += cycle_counter() - begin


@njit(nogil=True, cache=True)
def shake(seed, number):
    """Tests only: a pause of random length, from the seed and a number, to shake the threads' order."""
    if seed == 0:
        return
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(number)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    if x & np.uint64(3) == np.uint64(0):
        until = cycle_counter() + np.int64(x >> np.uint64(50))
        while cycle_counter() < until:
            yield_processor()
