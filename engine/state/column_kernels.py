# mypy: ignore-errors
"""Kernels over variable-length columns (values laid end to end, with n + 1 offsets)."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def take_offsets(offsets, indices, result):
    """Fill `result` (len(indices) + 1) with the offsets of the chosen items laid end to end."""
    result[0] = 0
    for i in range(indices.size):
        index = indices[i]
        result[i + 1] = result[i] + offsets[index + 1] - offsets[index]


@njit(nogil=True, cache=True)
def take_values(values, offsets, indices, result_offsets, result):
    """Copy the chosen items of `values` into `result`."""
    for i in range(indices.size):
        start = offsets[indices[i]]
        target = result_offsets[i]
        for j in range(result_offsets[i + 1] - target):
            result[target + j] = values[start + j]


@njit(nogil=True, cache=True)
def flat_indices(offsets, indices, result_offsets, result):
    """The positions in the flat values of every value of the chosen items."""
    for i in range(indices.size):
        start = offsets[indices[i]]
        target = result_offsets[i]
        for j in range(result_offsets[i + 1] - target):
            result[target + j] = start + j


@njit(nogil=True, cache=True)
def starts_inside_character(data, offsets):
    """The first item that begins or ends inside a UTF-8 character, or -1. `data` as a whole is valid UTF-8."""
    for i in range(offsets.size):
        if offsets[i] < data.size and (data[offsets[i]] & np.uint8(0xC0)) == np.uint8(0x80):
            return i
    return -1
