# mypy: ignore-errors
"""Kernels for single Avro values: strict readers, readers of bytes already checked, and writers.

A strict reader returns the position after the value, or minus a `Malformed` code; the others trust what was checked before.
Generated codecs (`source.py`) call these. This file imports no other kernel: the digest of generated modules covers it whole.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

TRUNCATED, OVERLONG, OUT_OF_RANGE, NEGATIVE, BAD_UTF8 = -1, -2, -3, -4, -8
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
STOP_BITS = np.uint64(0x8080808080808080)  # set in the complement where a varint ends


@intrinsic
def pointer_to(typing_context, array):
    """Where an array's items are. Inner kernels take pointers: arrays would be counted by reference at every call."""

    def generate(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def load_word(typing_context, buffer, position):
    """Eight bytes from `position`, little-endian; the caller has seen that they are there."""

    def generate(context, builder, signature, arguments):
        place = builder.gep(arguments[0], [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.CPointer(types.uint8), types.intp), generate


@intrinsic
def trailing_zeros(typing_context, word):
    """The number of the lowest set bit; `word` is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


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
    """A varint is found by the first byte below 128 among eight that are loaded at once, without a branch a byte."""
    if p + 8 > end:
        return skip_wide(buffer, p, end)
    word = load_word(buffer, p)
    stops = ~word & STOP_BITS
    if stops == np.uint64(0):
        return skip_wide(buffer, p, end)
    shift = trailing_zeros(stops)  # of the last byte's highest bit
    last = (word >> (shift & np.uint64(56))) & np.uint64(255)
    if (last == np.uint64(0)) & (shift != np.uint64(7)):  # one branch that is never taken, not two that vary
        return OVERLONG
    return p + np.int64((shift + np.uint64(1)) >> np.uint64(3))


@njit(nogil=True)
def known_long(buffer, p, end):
    """The number at p, and the position after it."""
    if p + 8 <= end:
        word = load_word(buffer, p)
        stops = ~word & STOP_BITS
        if stops != np.uint64(0):
            z = word & (stops ^ (stops - np.uint64(1))) & np.uint64(0x7F7F7F7F7F7F7F7F)
            # Groups of 7 bits move together: pairs, fours, eights.
            z = (z & np.uint64(0x007F007F007F007F)) | ((z & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
            z = (z & np.uint64(0x00003FFF00003FFF)) | ((z & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
            z = (z & np.uint64(0x000000000FFFFFFF)) | ((z & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
            after = p + np.int64((trailing_zeros(stops) + np.uint64(1)) >> np.uint64(3))
            return np.int64(z >> np.uint64(1)) ^ -np.int64(z & np.uint64(1)), after
    return known_wide(buffer, p)


@njit(nogil=True, inline="never")
def known_wide(buffer, p):
    """The same byte by byte: near the end of the buffer, or of nine bytes and more."""
    zigzag, shift = np.uint64(0), np.uint64(0)
    while True:
        byte = np.uint64(buffer[p])
        p += 1
        zigzag |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return np.int64(zigzag >> np.uint64(1)) ^ -np.int64(zigzag & np.uint64(1)), p
        shift += np.uint64(7)


@njit(nogil=True)
def read_long(buffer, p, end):
    after = skip_long(buffer, p, end)
    if after < 0:
        return np.int64(0), after
    return known_long(buffer, p, end)


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
