"""Every reason for which bytes are refused, each by a hand-made input; and what is legal though rare."""

import tracemalloc
from functools import cache
from typing import Any

import pytest

from services.codec.chunks import MEMORY_FACTOR, ChunkCodec
from services.codec.codec import compile_codec
from services.codec.errors import DecodeError, Malformed
from services.codec.objects import ObjectCodec
from services.codec.plan import EMPTY_ITEMS_MAX
from services.codec.rows import RowCodec
from services.codec.strict import check
from services.codec.tree import expand

FIELDS: dict[str, Any] = {
    "long": "long", "int": "int", "flag": "boolean", "half": "float", "text": "string", "blob": "bytes",
    "maybe": ["null", "long"], "list": {"type": "array", "items": "string"},
    "place": {"type": "array", "items": "long", "millrace.length": 2},
}  # fmt: skip
ROW = {"type": "record", "name": "Row", "fields": [{"name": k, "type": v} for k, v in FIELDS.items()]}
VALID = {
    "long": b"\x02", "int": b"\x02", "flag": b"\x01", "half": bytes(4), "text": b"\x02a", "blob": b"\x02\xff",
    "maybe": b"\x02\x02", "list": b"\x02\x02a\x00", "place": b"\x04\x02\x04\x00",
}  # fmt: skip
LARGEST = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2^63 - 1


@cache
def row_codec() -> RowCodec:
    codec = compile_codec(ROW)
    assert isinstance(codec, RowCodec)
    return codec


def body(**changed: bytes) -> tuple[bytes, int]:
    """A row with one field's bytes changed, and where that field begins."""
    parts = VALID | changed
    (name,) = changed or ("long",)
    return b"".join(parts.values()), sum(len(parts[each]) for each in list(parts)[: list(parts).index(name)])


def refusal(payload: bytes) -> tuple[Malformed, int]:
    """How the compiled decoder refuses a row; the rules in plain Python say the same."""
    found = []
    for decode in (lambda: row_codec().decode([payload]), lambda: check(expand(ROW), payload)):
        with pytest.raises(DecodeError) as caught:
            decode()
        found.append((caught.value.reason, caught.value.offset))
    assert found[0] == found[1]
    return found[0]


def test_the_valid_row_is_read() -> None:
    columns = row_codec().decode([body()[0]] * 3)
    assert columns["long"].tolist() == [1, 1, 1]  # type: ignore[union-attr]
    assert columns["place"].tolist() == [[1, 2]] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "reason", "further"),
    [
        ({"long": b"\x82\x00"}, Malformed.OVERLONG_VARINT, 0),
        ({"long": b"\x80" * 10 + b"\x00"}, Malformed.OVERLONG_VARINT, 0),
        ({"long": b"\x80" * 9 + b"\x02"}, Malformed.NUMBER_OUT_OF_RANGE, 0),
        ({"int": b"\x80\x80\x80\x80\x10"}, Malformed.NUMBER_OUT_OF_RANGE, 0),
        ({"flag": b"\x02"}, Malformed.BAD_BOOLEAN, 0),
        ({"text": b"\x01"}, Malformed.NEGATIVE_LENGTH, 0),
        ({"text": LARGEST}, Malformed.TRUNCATED, 0),
        ({"text": b"\x02\xff"}, Malformed.BAD_UTF8, 0),
        ({"text": b"\x06\xed\xa0\x80"}, Malformed.BAD_UTF8, 0),  # half of a surrogate pair
        ({"text": b"\x04\xc0\x80"}, Malformed.BAD_UTF8, 0),  # an overlong form
        ({"text": b"\x04\xe6\xbc"}, Malformed.BAD_UTF8, 0),  # ends inside a character
        ({"blob": b"\x01"}, Malformed.NEGATIVE_LENGTH, 0),
        ({"maybe": b"\x04\x02"}, Malformed.BAD_BRANCH, 0),
        ({"maybe": b"\x01\x02"}, Malformed.BAD_BRANCH, 0),
        ({"list": LARGEST}, Malformed.ABSURD_COUNT, 0),
        ({"list": b"\xff" * 9 + b"\x01\x00"}, Malformed.ABSURD_COUNT, 0),  # -2^63 items
        ({"list": b"\x01\x06\x02a\x00"}, Malformed.BAD_BLOCK_SIZE, 0),
        ({"list": b"\x01\x01\x02a\x00"}, Malformed.NEGATIVE_LENGTH, 1),
        ({"list": b"\x01\x7e\x02a\x00"}, Malformed.TRUNCATED, 1),
        ({"place": b"\x02\x02\x00"}, Malformed.WRONG_VECTOR_LENGTH, 0),
        ({"place": b"\x06\x02\x04\x06\x00"}, Malformed.WRONG_VECTOR_LENGTH, 0),
        ({"place": b"\x04\x02\x04\x00\x00"}, Malformed.TRAILING_BYTES, 4),
    ],
)
def test_a_rule_that_is_broken(changed: dict[str, bytes], reason: Malformed, further: int) -> None:
    payload, begin = body(**changed)
    assert refusal(payload) == (reason, begin + further)


def test_every_truncation_is_refused() -> None:
    payload, _ = body()
    for size in range(len(payload)):
        reason, _ = refusal(payload[:size])
        assert reason in (Malformed.TRUNCATED, Malformed.ABSURD_COUNT), size


def test_the_message_that_is_malformed_is_named() -> None:
    payload, _ = body()
    with pytest.raises(DecodeError) as caught:
        row_codec().decode([payload, payload, payload + b"\x00"])
    assert (caught.value.message, caught.value.offset) == (2, len(payload))


def test_blocks_with_a_byte_size_are_legal() -> None:
    payload, _ = body(list=b"\x01\x04\x02a" + b"\x04\x02b\x02c" + b"\x00")
    assert row_codec().decode([payload])["list"].to_list() == [["a", "b", "c"]]  # type: ignore[union-attr]


@cache
def chunk_codec() -> ChunkCodec:
    empty = {"type": "record", "name": "Empty", "fields": []}
    items = {"name": "items", "type": {"type": "array", "items": empty}}
    codec = compile_codec({"type": "record", "name": "Chunk", "fields": [items]})
    assert isinstance(codec, ChunkCodec)
    return codec


def test_items_without_bytes_have_a_bound() -> None:
    def payload(*counts: int) -> bytes:
        return b"".join(map(varint, counts)) + b"\x00"

    assert chunk_codec().decode(payload(EMPTY_ITEMS_MAX)).rows == {"Empty": EMPTY_ITEMS_MAX}
    for counts in [(EMPTY_ITEMS_MAX + 1,), (1, EMPTY_ITEMS_MAX), (2**62,)]:
        with pytest.raises(DecodeError) as caught:
            chunk_codec().decode(payload(*counts))
        assert caught.value.reason is Malformed.ABSURD_COUNT


def test_a_few_bytes_of_nulls_allocate_nothing() -> None:
    nulls = ObjectCodec({"type": "array", "items": "null"})
    with pytest.raises(DecodeError) as caught:
        nulls.decode(varint(30_000_000) + b"\x00")
    assert caught.value.reason is Malformed.ABSURD_COUNT
    assert nulls.decode(varint(3) + b"\x00") == [None] * 3


def test_an_enum_out_of_range() -> None:
    codec = ObjectCodec({"type": "enum", "name": "E", "symbols": ["A", "B"]})
    assert codec.decode(b"\x02") == "B"
    with pytest.raises(DecodeError) as caught:
        codec.decode(b"\x04")
    assert caught.value.reason is Malformed.BAD_BRANCH


def varint(number: int) -> bytes:
    bits, made = (number << 1) ^ (number >> 63), bytearray()
    while bits >= 128:
        made.append(bits & 127 | 128)
        bits >>= 7
    return bytes([*made, bits])


@pytest.mark.parametrize(
    "items",
    [
        b"\x00" * 200_000,  # empty strings: one byte, one offset
        b"\x02a" * 100_000,
    ],
)
def test_memory_is_bounded_by_the_payload(items: bytes) -> None:
    count = 200_000 if items[0] == 0 else 100_000
    payload, _ = body(list=varint(count) + items + b"\x00")
    row_codec().decode([payload])  # compiled before anything is counted
    tracemalloc.start()
    row_codec().decode([payload])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MEMORY_FACTOR * len(payload) + 100_000


def test_an_absurd_count_allocates_nothing() -> None:
    payload, _ = body(list=LARGEST + b"\x00" * 1000)
    refusal(payload)
    tracemalloc.start()
    refusal(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
