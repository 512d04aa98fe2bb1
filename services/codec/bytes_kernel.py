# mypy: ignore-errors
"""Kernels for single Avro values: strict readers, readers of bytes already checked, and writers.

A strict reader returns the position after the value, or minus a `Malformed` code; the others trust what was checked before.
Generated codecs (`source.py`) call these. This file imports no other kernel: the digest of generated modules covers it whole.
"""

import numpy as np
from numba import njit

TRUNCATED, OVERLONG, OUT_OF_RANGE, NEGATIVE, BAD_UTF8 = -1, -2, -3, -4, -8
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@njit(nogil=True, inline="never")
def skip_wide(buffer, p, end):
    """The strict reading of a varint of two bytes and more."""
    for number in range(10):
        if p + number >= end:
            return TRUNCATED
        byte = buffer[p + number]
        if byte < 128:
            if byte == 0 and number > 0:
                return OVERLONG
            if number == 9 and byte > 1:
                return OUT_OF_RANGE
            return p + number + 1
    return OVERLONG


@njit(nogil=True)
def skip_long(buffer, p, end):
    if p + 10 > end:
        return skip_wide(buffer, p, end)
    if buffer[p] < 128:
        return p + 1
    q = p + 1
    while buffer[q] >= 128:
        q += 1
        if q == p + 10:
            return OVERLONG
    if buffer[q] == 0:
        return OVERLONG
    if q == p + 9 and buffer[q] > 1:
        return OUT_OF_RANGE
    return q + 1


@njit(nogil=True)
def known_long(buffer, p):
    """The number at p, and the position after it."""
    byte = np.uint64(buffer[p])
    p += 1
    zigzag = byte & np.uint64(127)
    shift = np.uint64(7)
    while byte >= np.uint64(128):
        byte = np.uint64(buffer[p])
        p += 1
        zigzag |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
    return np.int64(zigzag >> np.uint64(1)) ^ -np.int64(zigzag & np.uint64(1)), p


@njit(nogil=True)
def read_long(buffer, p, end):
    after = skip_long(buffer, p, end)
    if after < 0:
        return np.int64(0), after
    return known_long(buffer, p)


@njit(nogil=True)
def skip_int(buffer, p, end):
    value, after = read_long(buffer, p, end)
    if after >= 0 and (value < INT_MIN or value > INT_MAX):
        return np.int64(OUT_OF_RANGE)
    return after


@njit(nogil=True)
def skip_bytes(buffer, p, end):
    """The length of the bytes at p, and the position after them."""
    size, p = read_long(buffer, p, end)
    if p < 0:
        return size, p
    if size < 0:
        return size, np.int64(NEGATIVE)
    if size > end - p:
        return size, np.int64(TRUNCATED)
    return size, p + size


@njit(nogil=True)
def skip_string(buffer, p, end):
    size, after = skip_bytes(buffer, p, end)
    if after < 0:
        return size, after
    high = np.uint8(0)
    for i in range(after - size, after):
        high |= buffer[i]
    if high >= 128 and not is_utf8(buffer, after - size, after):
        return size, np.int64(BAD_UTF8)
    return size, after


@njit(nogil=True, inline="never")
def is_utf8(buffer, p, end):
    """Whether Python would decode these bytes: shortest forms only, no surrogates, nothing above U+10FFFF."""
    while p < end:
        first = buffer[p]
        if first < 0x80:
            p += 1
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if p + more >= end:
            return False
        for i in range(1, more + 1):
            byte = buffer[p + i]
            if byte < low or byte > high:
                return False
            low, high = 0x80, 0xBF
        p += more + 1
    return True


@njit(nogil=True)
def known_bits(buffer, p, size):
    """`size` (4 or 8) little-endian bytes as a number."""
    bits = np.uint64(0)
    for i in range(size):
        bits |= np.uint64(buffer[p + i]) << np.uint64(8 * i)
    return bits


@njit(nogil=True)
def copy_bytes(source, begin, target, at, size):
    for i in range(size):
        target[at + i] = source[begin + i]


@njit(nogil=True)
def write_long(out, p, value):
    zigzag = np.uint64((value << 1) ^ (value >> 63))
    while zigzag >= np.uint64(128):
        out[p] = np.uint8((zigzag & np.uint64(127)) | np.uint64(128))
        p += 1
        zigzag >>= np.uint64(7)
    out[p] = np.uint8(zigzag)
    return p + 1


@njit(nogil=True)
def write_bits(out, p, bits, size):
    for i in range(size):
        out[p + i] = np.uint8((bits >> np.uint64(8 * i)) & np.uint64(255))
    return p + size
