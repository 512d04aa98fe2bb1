"""What the chains of a table's versions keep ready for window folds, and where in a node it lies (see `chain_kernels`).

A measure is a fold of one field over many versions whose parts can be put together: a total, a least or a greatest value.
Counts come from the chain itself. User folds have no measure, and the folds walk the versions in range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.api.model import Aggregation, Fold, TableSpec
from engine.api.types import FLOAT64
from engine.state.chain_kernels import (
    FLOAT_GREATEST,
    FLOAT_LEAST,
    FLOAT_TOTAL,
    HEADER_WORDS,
    INT_GREATEST,
    INT_LEAST,
    INT_TOTAL,
)

_KINDS = {
    Fold.SUM: (INT_TOTAL, FLOAT_TOTAL),
    Fold.MEAN: (INT_TOTAL, FLOAT_TOTAL),
    Fold.MIN: (INT_LEAST, FLOAT_LEAST),
    Fold.MAX: (INT_GREATEST, FLOAT_GREATEST),
}
NO_MEASURE = -1


@dataclass(frozen=True)
class Measures:
    """A table's measures: what each folds, the byte of the record where its field is, the word of the node where it is."""

    kind: NDArray[np.int64]
    offset: NDArray[np.int64]
    word: NDArray[np.int64]
    node_words: int

    def word_of(self, table: TableSpec, aggregation: Aggregation) -> int:
        """Where a node holds what this fold needs; NO_MEASURE where it needs none or none helps."""
        wanted = _measure(table, aggregation)
        for kind, offset, word in zip(self.kind.tolist(), self.offset.tolist(), self.word.tolist(), strict=True):
            if (kind, offset) == wanted:
                return int(word)
        return NO_MEASURE


def _measure(table: TableSpec, aggregation: Aggregation) -> tuple[int, int] | None:
    if aggregation.fold not in _KINDS or aggregation.field is None:
        return None
    is_float = table.fields[aggregation.field] == FLOAT64
    assert table.dtype.fields is not None
    return _KINDS[aggregation.fold][int(is_float)], table.dtype.fields[aggregation.field][1]


def lay_out(measures: list[tuple[int, int]]) -> Measures:
    """The measures one after another behind the node's header; a total takes two words."""
    words, at = [], HEADER_WORDS
    for kind, _ in measures:
        words.append(at)
        at += 2 if kind in (INT_TOTAL, FLOAT_TOTAL) else 1
    kinds, offsets = ([measure[part] for measure in measures] for part in (0, 1))
    return Measures(np.array(kinds, np.int64), np.array(offsets, np.int64), np.array(words, np.int64), at)


def measures_of(application: Application, table: TableSpec) -> Measures:
    """The measures that the windows of the application take of a table."""
    found: dict[tuple[int, int], None] = {}
    for template in application.templates.values():
        for statement in template.statements:
            access = statement.access
            if access is None or access.table is not table or access.window_size < 0 or access.aggregation is None:
                continue
            measure = _measure(table, access.aggregation)
            if measure is not None:
                found[measure] = None
    return lay_out(list(found))
