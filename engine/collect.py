"""From what kernels left behind to results: verdicts, failure reasons with their keys, outputs, derived records, counters."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.application import Application
from engine.api.model import Kind, Statement
from engine.api.types import record_dtype
from engine.execution.collect_kernel import find_statement, read_verdicts
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
    VERSIONS_FOLDED,
    WAITS,
    Ints,
    Scratch,
)
from engine.inlined.layout import FAILED_POSITION, FAILED_REASON, FAILED_ROW, FAILED_STATEMENT, FAILED_TABLE
from engine.inlined.run import InlinedResult
from engine.planning.arrays import EpochArrays
from engine.planning.batch import Batch, Column
from engine.planning.epoch import random_of_derived
from engine.planning.stage import FILTERED as PREPARATION_FILTERED
from engine.planning.stage import PREPARATION_FAILED, StageEvents
from engine.result import COMMITTED, FAILED, FILTERED, Failures, KeyColumn, StageResult, Times
from engine.state.columns import take_rows
from engine.state.key_encoding import EncodedKeys
from engine.state.store import Store


def collect_planned(arrays: EpochArrays, events: StageEvents) -> StageResult:
    """The result of a stage that ran as operations, by the events' places in the total order."""
    count = events.count
    verdict, reason, statement = _prepared_verdict(events), events.reason.copy(), np.full(count, -1, np.int64)
    failed, failing = np.empty(count, np.int64), np.empty(count, np.int64)
    marks, operations = arrays.shared_marks(), arrays.shared()[2]
    failures = read_verdicts(operations, marks, events.transaction, verdict, reason, statement, failed, failing)
    failed, failing = failed[:failures], failing[:failures]
    result = StageResult(events, verdict, Failures.nowhere())
    if failures:
        firsts = [arrays.program.first_statement[batch.template.record_type] for batch in events.batches]
        statements = statement[failed]
        own = statements - np.array(firsts, np.int64)[events.batch[failed]]
        result.failures = Failures(failed, reason[failed], own)
        result.failed_key_columns = _planned_failed_keys(arrays, failed, failing, statements)
    for number, batch in enumerate(events.batches):
        for s in batch.template.statements:
            if s.kind in (Kind.OUTPUT, Kind.EMIT):
                result.sinks[number, s.index] = _planned_sink(arrays, result, number, s)
    return result


def collect_inlined(store: Store, events: StageEvents, ran: InlinedResult) -> StageResult:
    """The result of a stage that ran inlined."""
    verdict, position = ran.verdict, ran.failed[:, FAILED_POSITION]
    if events.transactions < events.count:
        verdict = _prepared_verdict(events)
        verdict[position] = FAILED
    result = StageResult(events, verdict, Failures.nowhere(), sinks=ran.sinks)
    if position.size:
        reason, statement, table, row = (
            np.ascontiguousarray(ran.failed[:, word])
            for word in (FAILED_REASON, FAILED_STATEMENT, FAILED_TABLE, FAILED_ROW)
        )
        position = np.ascontiguousarray(position)
        result.failures = Failures(position, reason, statement)
        result.failed_key_columns = _keys_of(store, position, table, row)
    return result


def _prepared_verdict(events: StageEvents) -> NDArray[np.int8]:
    """Before any transaction: events that failed or were left out while they were prepared."""
    verdict = np.zeros(events.count, np.int8)
    if events.transactions < events.count:
        verdict[events.outcome == PREPARATION_FAILED] = FAILED
        verdict[events.outcome == PREPARATION_FILTERED] = FILTERED
    return verdict


def _planned_failed_keys(arrays: EpochArrays, positions: Ints, failing: Ints, statements: Ints) -> list[KeyColumn]:
    """The keys at which transactions failed, as columns to be decoded on request."""
    program, marks, operations = arrays.program.arrays, arrays.marks, arrays.planned
    entry = marks.failed_entry[failing]
    table = program.table[statements]
    row = operations.row[failing].astype(np.int64)
    for at in np.flatnonzero(entry >= 0):  # failed at a key that a function reads: few, they are unknown keys
        table[at], row[at] = _entry_table(arrays, int(failing[at]), int(entry[at])), operations.entry_row[entry[at]]
    computed = (program.key_function[statements] != 0) & (entry < 0)
    fixed = np.flatnonzero(~computed)
    found = _keys_of(arrays.store, positions[fixed], table[fixed], row[fixed])
    known = np.flatnonzero(computed & (marks.key_known[failing] != 0))
    if known.size:
        encoded = EncodedKeys.of_integers(marks.key[failing[known]])
        found.append(KeyColumn(positions[known], ("int",), encoded))
    return found


def _keys_of(store: Store, positions: Ints, tables: Ints, rows: Ints) -> list[KeyColumn]:
    """Keys by table and row, table by table; a row of -1 has none."""
    found: list[KeyColumn] = []
    for index, table in enumerate(store.tables):
        mine = np.flatnonzero((tables == index) & (rows >= 0))
        if mine.size:
            encoded = table.keys_of(rows[mine])
            found.append(KeyColumn(positions[mine], table.key_types, encoded))
    return found


def _entry_table(arrays: EpochArrays, operation: int, entry: int) -> int:
    """The table that an operation's entry reads from."""
    program, operations = arrays.program.arrays, arrays.planned
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


def _planned_sink(arrays: EpochArrays, result: StageResult, number: int, s: Statement) -> tuple[Ints, NDArray[Any]]:
    """Positions and records of a statement's outputs or derived records, of committed transactions that made one."""
    events = result.events
    dtype = record_dtype(s.result)
    positions = np.flatnonzero((events.batch == number) & (result.verdict == COMMITTED))
    operations = np.empty(positions.size, np.int64)
    wanted = arrays.program.first_statement[events.batches[number].template.record_type] + s.index
    find_statement(arrays.shared()[2], events.transaction[positions], wanted, operations)
    made = arrays.marks.result[operations] == DONE
    positions, operations = positions[made], operations[made]
    words = arrays.planned.slot[operations][:, None] + np.arange(dtype.itemsize // 8)
    return positions, np.ascontiguousarray(arrays.marks.slots[words]).view(dtype).reshape(-1)


def emitted_batches(application: Application, result: StageResult) -> list[Batch]:
    """The derived records of a stage's committed transactions, one batch for each emitting statement."""
    events = result.events
    batches = []
    for (number, index), (positions, records) in sorted(result.sinks.items(), key=lambda sink: sink[0]):
        batch = events.batches[number]
        s = batch.template.statements[index]
        if s.emits is None or positions.size == 0:
            continue
        rows = events.row[positions]
        columns: dict[str, Column] = {name: np.ascontiguousarray(records[name]) for name in s.result}
        for name, origin in s.copies:
            columns[name] = take_rows(batch.column(origin), rows)
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
    "versions_folded": VERSIONS_FOLDED,
}


def sum_counters(scratches: list[Scratch]) -> list[int]:
    """The threads' counters added up."""
    totals: list[int] = sum([scratch.counters for scratch in scratches[1:]], scratches[0].counters).tolist()
    return totals


def collect_counters(scratches: list[Scratch], merged_cycles: int, lazy_rounds_max: int) -> dict[str, int]:
    """What the epoch's threads did, added up."""
    totals = sum_counters(scratches)
    counters = {name: totals[at] for name, at in _SUMMED.items()}
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
    sums, rate = sum_counters(scratches), cycles_per_second()
    useful, abort, sync, threads = (sums[at] / rate for at in (USEFUL_CYCLES, ABORT_CYCLES, SYNC_CYCLES, TOTAL_CYCLES))
    explore = max(0.0, threads - useful - abort - sync)
    longest = max(int(scratch.counters[TOTAL_CYCLES]) for scratch in scratches) / rate
    return Times(total, plan, useful, explore, abort, sync, max(0.0, total - plan - longest))
