"""From what kernels left behind to results: verdicts, failure reasons with their keys, outputs, derived records, counters."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.api.model import Kind
from engine.api.types import record_dtype
from engine.execution.explore_kernel import read_cycles
from engine.execution.layout import (
    ABORT_CYCLES,
    BARRIERS,
    CANCELLATIONS,
    CASCADE_DEPTH,
    COMPUTED_AGAIN,
    DONE,
    HANDLE,
    NOTIFICATIONS,
    OPERATIONS,
    RESTARTS,
    ROLLBACKS,
    ROUNDS,
    SIGNALS,
    SYNC_CYCLES,
    T1,
    TOTAL_CYCLES,
    UNITS_RUN,
    USEFUL_CYCLES,
    WAITS,
    Ints,
    Scratch,
)
from engine.planning.arrays import EpochArrays
from engine.planning.epoch import Batch, Column, random_of_derived
from engine.planning.stage import FILTERED as PREPARATION_FILTERED
from engine.planning.stage import PREPARATION_FAILED, StageEvents
from engine.result import COMMITTED, FAILED, FILTERED, StageResult, Times
from engine.state.key_encoding import EncodedKeys, decode_keys


def collect_stage(arrays: EpochArrays, events: StageEvents) -> StageResult:
    """A stage's verdicts, by the events' places in the total order."""
    marks, operations = arrays.marks, arrays.operations
    count = events.row.size
    verdict, reason = np.zeros(count, np.int8), np.zeros(count, np.int8)
    statement = np.full(count, -1, np.int64)
    verdict[events.outcome == PREPARATION_FAILED] = FAILED
    verdict[events.outcome == PREPARATION_FILTERED] = FILTERED
    reason[:] = events.reason
    ran = np.flatnonzero(events.transaction >= 0)
    aborted = ran[marks.aborted[events.transaction[ran]] != 0]
    failing = marks.first_failed[events.transaction[aborted]]
    verdict[aborted] = FAILED
    reason[aborted] = marks.reason[failing]
    failing_statements = operations.statement[failing]
    firsts = np.array(
        [arrays.program.first_statement[batch.template.record_type] for batch in events.batches], np.int64
    )
    if count:
        statement[aborted] = failing_statements - firsts[events.batch[aborted]]
    keys = _failed_keys(arrays, aborted, failing, failing_statements)
    return StageResult(events, verdict, reason, statement, {}, keys, _outputs(arrays, events, verdict))


def _failed_keys(
    arrays: EpochArrays, positions: Ints, failing: Ints, statements: Ints
) -> list[tuple[Ints, Callable[[], list[Any]]]]:
    """The keys at which transactions failed, as columns to be decoded on request."""
    program, marks, operations = arrays.program.arrays, arrays.marks, arrays.operations
    if failing.size == 0:
        return []
    entry = marks.failed_entry[failing]
    table = program.table[statements].copy()
    row = operations.row[failing].copy()
    for at in np.flatnonzero(entry >= 0):  # failed at a key that a function reads: few, they are unknown keys
        table[at], row[at] = _entry_table(arrays, int(failing[at]), int(entry[at])), operations.entry_row[entry[at]]
    computed = (program.key_function[statements] != 0) & (entry < 0)
    found: list[tuple[Ints, Callable[[], list[Any]]]] = []
    for index, store in enumerate(arrays.store.tables):
        mine = np.flatnonzero((table == index) & (row >= 0) & ~computed)
        if mine.size:
            encoded = store.index.encoded_keys_of(row[mine])
            found.append((positions[mine], partial(decode_keys, store.key_types, encoded)))
    known = np.flatnonzero(computed & (marks.key_known[failing] != 0))
    if known.size:
        encoded = EncodedKeys.of_integers(marks.key[failing[known]])
        found.append((positions[known], partial(decode_keys, ("int",), encoded)))
    return found


def _entry_table(arrays: EpochArrays, operation: int, entry: int) -> int:
    """The table that an operation's entry reads from."""
    program, operations = arrays.program.arrays, arrays.operations
    s = operations.statement[operation]
    at = int(operations.entry_begin[operation])
    first = int(program.argument_begin[s])
    before = int(program.when_arguments[s] + program.key_arguments[s])
    for argument in range(before + int(program.function_arguments[s])):
        if argument == before and program.has_candidates[s]:
            at += 1 + int(operations.entry_row[at])
        size = 1
        if program.argument_many[first + argument]:
            size = int(operations.entry_row[at])
            at += 1
        if at <= entry < at + size:
            return int(program.argument_table[first + argument])
        at += size
    return HANDLE


def _slot_records(arrays: EpochArrays, operations: Ints, dtype: np.dtype) -> NDArray[Any]:
    """The records in the slots of operations."""
    if operations.size == 0:
        return np.empty(0, dtype)
    offsets = arrays.operations.slot[operations]
    raw = arrays.marks.slots.view(np.uint8)[offsets[:, None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(raw).view(dtype).reshape(-1)


def _operations_of(arrays: EpochArrays, events: StageEvents, positions: Ints, number: int, statement: int) -> Ints:
    """The operation of a (single) statement for each of a batch's transactions."""
    transactions = events.transaction[positions]
    firsts, ends = arrays.operations.first[transactions], arrays.operations.first[transactions + 1]
    wanted = arrays.program.first_statement[events.batches[number].template.record_type] + statement
    fixed = sum(1 for s in events.batches[number].template.statements[:statement])
    if not any(s.many for s in events.batches[number].template.statements[:statement]):
        return firsts + fixed
    # After a list statement the place varies: count from the end, or search where lists lie on both sides.
    after = events.batches[number].template.statements[statement:]
    if not any(s.many for s in after):
        return ends - len(after)
    found = np.empty(positions.size, np.int64)
    for at, (first, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        found[at] = first + int(np.searchsorted(arrays.operations.statement[first:end], wanted))
    return found


def _outputs(
    arrays: EpochArrays, events: StageEvents, verdict: NDArray[np.int8]
) -> dict[int, tuple[Ints, NDArray[Any]]]:
    outputs = {}
    for number, batch in enumerate(events.batches):
        for s in batch.template.statements:
            if s.kind is Kind.OUTPUT:
                positions = np.flatnonzero((events.batch == number) & (verdict == COMMITTED))
                operations = _operations_of(arrays, events, positions, number, s.index)
                outputs[number] = (positions, _slot_records(arrays, operations, record_dtype(s.result)))
    return outputs


def emitted_batches(application: Application, arrays: EpochArrays, result: StageResult) -> list[Batch]:
    """The derived records of a stage's committed transactions, one batch for each emitting statement."""
    events = result.events
    batches = []
    for number, batch in enumerate(events.batches):
        for s in batch.template.statements:
            if s.kind is not Kind.EMIT:
                continue
            assert s.emits is not None
            positions = np.flatnonzero((events.batch == number) & (result.verdict == COMMITTED))
            operations = _operations_of(arrays, events, positions, number, s.index)
            emitted = arrays.marks.result[operations] == DONE
            positions, operations = positions[emitted], operations[emitted]
            if positions.size == 0:
                continue
            rows = events.row[positions]
            records = _slot_records(arrays, operations, record_dtype(s.result))
            columns: dict[str, Column] = {name: np.ascontiguousarray(records[name]) for name in s.result}
            for name, origin in s.copies:
                column = batch.ts if origin == "ts" else batch.column(origin)
                columns[name] = column.take(rows, axis=0) if isinstance(column, np.ndarray) else column.take(rows)
            emission = np.full(rows.size, s.index, np.int64)
            batches.append(
                Batch(
                    application.templates[s.emits],
                    batch.ts[rows],
                    batch.source[rows],
                    batch.seq[rows],
                    columns,
                    random_of_derived(batch.random[rows], emission),
                    np.column_stack([batch.path[rows], emission]),
                )
            )
    return batches


_SUMMED = {
    "operations": OPERATIONS,
    **{f"T{number}": T1 + number - 1 for number in range(1, 8)},
    "signals": SIGNALS,
    "barriers": BARRIERS,
    "waits": WAITS,
    "rollbacks": ROLLBACKS,
    "rounds": ROUNDS,
    "restarts": RESTARTS,
    "cancellations": CANCELLATIONS,
    "computed_again": COMPUTED_AGAIN,
    "notifications": NOTIFICATIONS,
    "units": UNITS_RUN,
}


def collect_counters(scratches: list[Scratch], merged_cycles: int, lazy_rounds_max: int) -> dict[str, int]:
    """What the epoch's threads did, added up."""
    counters = {name: sum(int(s.counters[at]) for s in scratches) for name, at in _SUMMED.items()}
    counters["cascade_depth_max"] = max(int(s.counters[CASCADE_DEPTH]) for s in scratches)
    counters["lazy_rounds_max"] = lazy_rounds_max
    counters["merged_cycles"] = merged_cycles
    return counters


def collect_trace(trace: Ints) -> list[tuple[int, str]]:
    """(operation, transition) in the order they happened, as far as they were kept."""
    kept = trace[1 : 1 + min(int(trace[0]), trace.size - 1)]
    return [(int(value) // 8, f"T{int(value) % 8}") for value in kept]


@lru_cache
def cycles_per_second() -> float:
    """How fast the processor's time stamp counter runs."""
    read_cycles()
    begin, first = time.perf_counter(), read_cycles()
    time.sleep(0.02)
    return float((read_cycles() - first) / (time.perf_counter() - begin))


def collect_times(scratches: list[Scratch], total: float, plan: float) -> Times:
    """Seconds as section 8.3 divides them. Exploring is what is left of the threads' time."""
    sums = {
        at: sum(int(s.counters[at]) for s in scratches)
        for at in (USEFUL_CYCLES, ABORT_CYCLES, SYNC_CYCLES, TOTAL_CYCLES)
    }
    rate = cycles_per_second()
    useful, abort, sync, threads = (sums[at] / rate for at in (USEFUL_CYCLES, ABORT_CYCLES, SYNC_CYCLES, TOTAL_CYCLES))
    explore = max(0.0, threads - useful - abort - sync)
    return Times(total, plan, useful, explore, abort, sync, max(0.0, total - plan - threads / max(1, len(scratches))))
