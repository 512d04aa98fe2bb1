# mypy: ignore-errors
"""Writing and reading the components of tuple keys, one component of all keys at a time.

`cursors[i]` is where the next component of key i lies; each kernel moves it past the component.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def add_string_lengths(data, offsets, lengths):
    """Add each string's encoded length: its bytes, one more for every 0x00, two for the end."""
    for i in range(lengths.size):
        length = offsets[i + 1] - offsets[i] + 2
        for j in range(offsets[i], offsets[i + 1]):
            if data[j] == 0:
                length += 1
        lengths[i] += length


@njit(nogil=True, cache=True)
def write_strings(data, offsets, target, cursors):
    for i in range(cursors.size):
        cursor = cursors[i]
        for j in range(offsets[i], offsets[i + 1]):
            target[cursor] = data[j]
            cursor += 1
            if data[j] == 0:
                target[cursor] = 0xFF
                cursor += 1
        target[cursor] = 0
        target[cursor + 1] = 0
        cursors[i] = cursor + 2


@njit(nogil=True, cache=True)
def write_ints(integers, target, cursors):
    for i in range(cursors.size):
        word = np.uint64(integers[i]) ^ np.uint64(0x8000000000000000)
        for j in range(8):
            target[cursors[i] + j] = np.uint8((word >> np.uint64(56 - 8 * j)) & np.uint64(0xFF))
        cursors[i] += 8


@njit(nogil=True, cache=True)
def read_ints(data, cursors, integers):
    for i in range(cursors.size):
        word = np.uint64(0)
        for j in range(8):
            word = (word << np.uint64(8)) | np.uint64(data[cursors[i] + j])
        integers[i] = np.int64(word ^ np.uint64(0x8000000000000000))
        cursors[i] += 8


@njit(nogil=True, cache=True)
def string_lengths(data, cursors, lengths):
    """The decoded length of each string at its cursor; the cursors stay."""
    for i in range(cursors.size):
        cursor = cursors[i]
        length = 0
        while data[cursor] != 0 or data[cursor + 1] != 0:
            cursor += 2 if data[cursor] == 0 else 1
            length += 1
        lengths[i] = length


@njit(nogil=True, cache=True)
def read_strings(data, cursors, offsets, target):
    for i in range(cursors.size):
        cursor = cursors[i]
        position = offsets[i]
        while data[cursor] != 0 or data[cursor + 1] != 0:
            target[position] = data[cursor]
            cursor += 2 if data[cursor] == 0 else 1
            position += 1
        cursors[i] = cursor + 2
