"""Declared groups: the value of each transaction's group key, as numbers."""

from __future__ import annotations

import numpy as np

from engine.execution.layout import Ints
from engine.planning.stage import GOES_ON, StageEvents
from engine.scheduling.group_kernel import hash_strings
from engine.state.columns import StringColumn

NO_GROUP = 0  # transactions of a record type without a group key are a group of their own


def group_values(events: StageEvents, first_transaction: int, transactions: int) -> Ints | None:
    """A number for each transaction, equal where the group keys are; None where no record type of the stage declares one.

    Numbers of strings are hashes: two values may share one, which only puts their groups together.
    """
    if not any(batch.template.group_key for batch in events.batches):
        return None
    values = np.full(transactions, NO_GROUP, np.int64)
    for number, batch in enumerate(events.batches):
        if batch.template.group_key is None:
            continue
        positions = np.flatnonzero((events.batch == number) & (events.outcome == GOES_ON))
        column = batch.column(batch.template.group_key)
        rows = events.row[positions]
        if isinstance(column, StringColumn):
            mine = column.take(rows)
            found = np.empty(len(mine), np.int64)
            hash_strings(mine.data, mine.offsets, found)
        else:
            found = np.asarray(column)[rows].astype(np.int64)
        values[events.transaction[positions] - first_transaction] = (found % (2**40)) * 2 + 1
    return values
