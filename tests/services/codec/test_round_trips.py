"""Bytes identical to fastavro's, both ways, over random schemas of the compiled types."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.codec.chunks import ChunkCodec
from services.codec.codec import compile_codec
from services.codec.objects import same
from services.codec.rows import RowCodec
from services.codec.slow_rows import SlowRowCodec
from services.codec.tree import expand
from services.verify.codec import as_value, records_of
from tests.services.codec.generated import random_chunk, random_record, read, values, written

FEW, MANY = range(2), range(2, 14)  # each schema is compiled first: seconds


@cache
def row_codec(seed: int) -> tuple[dict[str, Any], RowCodec]:
    schema = random_record(seed)
    codec = compile_codec(schema)
    assert isinstance(codec, RowCodec)
    return schema, codec


@cache
def chunk_codec(seed: int) -> tuple[dict[str, Any], ChunkCodec]:
    schema = random_chunk(seed)
    codec = compile_codec(schema)
    assert isinstance(codec, ChunkCodec)
    return schema, codec


def hold_rows(seed: int, data: st.DataObject) -> None:
    schema, codec = row_codec(seed)
    rows = data.draw(st.lists(values(schema), max_size=6))
    bodies = [written(schema, row) for row in rows]
    columns = codec.decode(bodies)
    expected = [read(schema, body) for body in bodies]
    assert same(records_of(expand(schema), columns, len(rows)), expected)
    assert codec.encode(columns, len(rows)).tolist() == bodies


def hold_chunk(seed: int, data: st.DataObject) -> None:
    schema, codec = chunk_codec(seed)
    body = written(schema, data.draw(values(schema)))
    found = codec.decode(body)
    assert same(as_value(found, expand(schema)), read(schema, body))
    assert codec.encode(found.header, found.columns, found.kinds) == body


@pytest.mark.parametrize("seed", FEW)
@settings(max_examples=60)
@given(data=st.data())
def test_rows(seed: int, data: st.DataObject) -> None:
    hold_rows(seed, data)


@pytest.mark.parametrize("seed", FEW)
@settings(max_examples=60)
@given(data=st.data())
def test_chunks(seed: int, data: st.DataObject) -> None:
    hold_chunk(seed, data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
@settings(max_examples=100)
@given(data=st.data())
def test_more_rows(seed: int, data: st.DataObject) -> None:
    hold_rows(seed, data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
@settings(max_examples=100)
@given(data=st.data())
def test_more_chunks(seed: int, data: st.DataObject) -> None:
    hold_chunk(seed, data)


@settings(max_examples=60)
@given(data=st.data())
def test_the_slow_path_gives_the_same_columns(data: st.DataObject) -> None:
    schema, codec = row_codec(0)
    bodies = [written(schema, row) for row in data.draw(st.lists(values(schema), max_size=4))]
    slow = SlowRowCodec(schema)
    fast_columns, slow_columns = codec.decode(bodies), slow.decode(bodies)
    tree = expand(schema)
    assert same(records_of(tree, fast_columns, len(bodies)), records_of(tree, slow_columns, len(bodies)))
    assert [type(c) for c in fast_columns.values()] == [type(c) for c in slow_columns.values()]
    assert slow.encode(fast_columns, len(bodies)).tolist() == bodies


@pytest.mark.parametrize(
    "number", [2**k + d for k in range(0, 63, 7) for d in (-1, 0)] + [2**63 - 1, -(2**63), -1, -64, -65]
)
def test_numbers_at_the_edges_of_varints(number: int) -> None:
    schema, codec = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}, long_codec()
    body = written(schema, {"n": number})
    # Alone (byte by byte, near the end of the buffer) and followed by enough bytes to be read as a word.
    assert codec.decode([body])["n"].tolist() == [number]  # type: ignore[union-attr]
    assert codec.decode([body] * 12)["n"].tolist() == [number] * 12  # type: ignore[union-attr]
    assert codec.encode({"n": np.array([number] * 2)}).tolist() == [body] * 2


@cache
def long_codec() -> RowCodec:
    codec = compile_codec({"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})
    assert isinstance(codec, RowCodec)
    return codec
