"""The events of one record type in one stage, as columns and as rows that user functions can read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import KeyExpression, Template
from engine.state.columns import ListColumn, StringColumn
from engine.state.key_encoding import EncodedKeys

Column = NDArray[Any] | StringColumn | ListColumn


@dataclass
class Batch:
    """The events of one record type in one stage, in any order."""

    template: Template
    ts: NDArray[np.int64]
    source: NDArray[np.int64]
    seq: NDArray[np.int64]
    columns: dict[str, Column]
    random: NDArray[np.int64]
    path: NDArray[np.int64]  # the emitting statements that led here, one column a stage; no column for input
    in_order: bool | None = None  # whether its rows are in the total order; None: not known yet
    # Made in the stream phase of an open epoch, or when the stage is planned: what depends on the events alone.
    prepared: tuple[NDArray[np.int8], NDArray[np.int8]] | None = None  # outcome and reason of derive and filter
    encoded: dict[tuple[int, KeyExpression], EncodedKeys] = field(default_factory=dict)  # by table
    lists_checked: set[tuple[str, str]] = field(default_factory=set)  # list fields, alone ("") or against another

    @cached_property
    def rows(self) -> NDArray[Any]:
        """The events as packed records, for user functions that are called through their address."""
        rows = np.zeros(self.ts.size, self.template.event_dtype)
        for name in self.template.event_fields:
            if name == "ts":
                rows[name] = self.ts
            elif name == "random":
                rows[name] = self.random
            elif name in self.columns:
                rows[name] = self.columns[name]
        return rows

    def column(self, name: str) -> Column:
        """A field's column, derived ones included."""
        if name in self.columns:
            return self.columns[name]
        if name == "ts":
            return self.ts
        return np.ascontiguousarray(self.rows[name])
