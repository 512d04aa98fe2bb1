"""Where a careful run is: for whoever watches an epoch that does not end and wants to name what it hangs in.

A careful run takes one operation after another and writes down each that is done before it begins the next, so the first that is
not done is the one that runs. Other policies have no such order, and an inlined run has no operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.api.model import Statement, Template
from engine.execution.layout import ABT, EXE
from engine.planning.arrays import EpochArrays
from engine.planning.stage import StageEvents


@dataclass
class Running:
    """What of the epoch that runs can be seen from another thread."""

    arrays: EpochArrays | None = None  # of a careful run, while operations run
    events: StageEvents | None = None
    first_operation: int = 0

    def place(self) -> str | None:
        """The user functions of the operation that runs, and its event; None where that cannot be told."""
        arrays, events = self.arrays, self.events
        if arrays is None or events is None:
            return None
        state = arrays.marks.state[self.first_operation : arrays.operation_count]
        open_operations = np.flatnonzero((state != EXE) & (state != ABT))
        if open_operations.size == 0:
            return None
        operation = self.first_operation + int(open_operations[0])
        template, statement = arrays.program.statements[int(arrays.planned.statement[operation])]
        position = int(np.flatnonzero(events.transaction == arrays.planned.transaction[operation])[0])
        batch, row = events.batches[int(events.batch[position])], int(events.row[position])
        event = f"{template.record_type} of source {int(batch.source[row])}, seq {int(batch.seq[row])}, ts {int(batch.ts[row])}"
        return f"{_functions(template, statement)}, on {event}"


def _functions(template: Template, statement: Statement) -> str:
    access = statement.access
    used = [
        statement.when,
        access.computed.function if access is not None and access.computed is not None else None,
        access.aggregation.function if access is not None and access.aggregation is not None else None,
        statement.function,
        access.table.constraint if access is not None else None,
    ]
    named = [f"{each.name} ({each.file}:{each.line})" for each in used if each is not None]
    return f"{' or '.join(named) or 'no user function'} in the transaction {template.function_name}"
