"""Keys as JSON, column by column: numbers and plain strings by kernels; tuples and strings that need escapes one by one."""

from __future__ import annotations

import json

import numpy as np

from engine.state.columns import StringColumn
from engine.state.key_encoding import EncodedKeys, KeyTypes, decode_keys
from services.engine.results_kernel import decimal_lengths, is_plain_text, write_decimals, write_quoted


def key_texts(key_types: KeyTypes, keys: EncodedKeys) -> StringColumn:
    """What `json.dumps` would give for each key."""
    if keys.integers is not None:
        values = np.ascontiguousarray(keys.integers)
        offsets = np.zeros(values.size + 1, np.int64)
        decimal_lengths(values, offsets[1:])
        np.cumsum(offsets, out=offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        write_decimals(values, offsets, data)
        return StringColumn.trusted(data, offsets)
    if len(key_types) == 1 and is_plain_text(keys.data):
        data = np.empty(keys.data.size + 2 * len(keys), np.uint8)
        write_quoted(keys.data, keys.offsets, data)
        return StringColumn.trusted(data, keys.offsets + 2 * np.arange(len(keys) + 1))
    return StringColumn.from_strings([json.dumps(key) for key in decode_keys(key_types, keys)])
