# mypy: ignore-errors
"""Kernel that turns strings into numbers, for groups declared by a string."""

from numba import njit

from engine.state.byte_kernels import hash_bytes


@njit(nogil=True, cache=True)
def hash_strings(data, offsets, hashes):
    """A hash for each string of a column."""
    data_at = data.ctypes.data
    for item in range(hashes.size):
        hashes[item] = hash_bytes(data_at + offsets[item], offsets[item + 1] - offsets[item])
