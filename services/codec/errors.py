"""What can be wrong with a payload or a schema: every refusal of the codec, typed.

A payload that breaks a rule is a `DecodeError` with the rule and the offset in the body (framing not counted) of the value
that broke it; nothing else comes out of decoding. The rules are stricter than fastavro's, so that one value has one encoding:
no overlong varint, no trailing bytes, an `int` within 32 bits, UTF-8 as Python reads it (no surrogates, no overlong form).
"""

from __future__ import annotations

from enum import IntEnum

from engine.errors import MillraceError


class Malformed(IntEnum):
    """Why bytes are no valid payload; the kernels return these numbers."""

    TRUNCATED = 1  # the bytes end inside a value
    OVERLONG_VARINT = 2  # a number in more bytes than it needs, or in more than ten
    NUMBER_OUT_OF_RANGE = 3  # a varint above 64 bits, or an `int` above 32
    NEGATIVE_LENGTH = 4
    BAD_BOOLEAN = 5  # neither 0 nor 1
    BAD_BRANCH = 6  # a union index, or an enum's, that the schema does not have
    ABSURD_COUNT = 7  # more items than the remaining bytes can hold
    BAD_UTF8 = 8
    TRAILING_BYTES = 9
    BAD_BLOCK_SIZE = 10  # an array block whose byte size is not that of its items
    WRONG_VECTOR_LENGTH = 11
    BAD_FRAME = 12  # shorter than its framing, or another first byte than 0
    NOT_READ = 13  # the reference library refused what our own rules accept


_SENTENCES = {
    Malformed.TRUNCATED: "the bytes end inside a value",
    Malformed.OVERLONG_VARINT: "a number is written in more bytes than it needs",
    Malformed.NUMBER_OUT_OF_RANGE: "a number does not fit its type",
    Malformed.NEGATIVE_LENGTH: "a length is negative",
    Malformed.BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    Malformed.BAD_BRANCH: "a union or enum index that the schema does not have",
    Malformed.ABSURD_COUNT: "an array claims more items than its bytes can hold",
    Malformed.BAD_UTF8: "a string is not valid UTF-8",
    Malformed.TRAILING_BYTES: "bytes are left over after the last value",
    Malformed.BAD_BLOCK_SIZE: "an array block's size is not that of its items",
    Malformed.WRONG_VECTOR_LENGTH: "a vector has another length than declared",
    Malformed.BAD_FRAME: "no Confluent framing: expected a 0 byte and a four-byte schema id",
    Malformed.NOT_READ: "fastavro cannot read the value",
}


class CodecError(MillraceError):
    """The root of what the codec refuses."""


class DecodeError(CodecError):
    """A payload breaks a rule. `offset` is where in the body the value begins that broke it; `message` which of many bodies."""

    message = 0

    def __init__(self, reason: Malformed, offset: int, detail: str = "") -> None:
        self.reason, self.offset, self.detail = Malformed(reason), int(offset), detail
        super().__init__(f"{_SENTENCES[self.reason]} (at byte {offset}{': ' + detail if detail else ''})")


class EncodeError(CodecError):
    """Columns do not fit the schema they are to be written with."""


class SchemaError(CodecError):
    """A schema is not one that Millrace can read or write, or two schemas do not go together."""


class UnknownSchemaError(CodecError):
    """A schema id that nobody knows (yet): the service pauses, asks again, then halts with the id."""
