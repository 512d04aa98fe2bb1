"""The ordered mode: threads ("lanes") that share a stage's transactions, each with a call of the application's inlined kernel.

What only one thread may fill is a lane's own: outputs, failures, and a part of every undo log. Afterwards the parts are put
together, so that nothing else knows of lanes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api.model import Kind
from engine.execution.layout import OPERATIONS, SYNC_CYCLES, TOTAL_CYCLES, USEFUL_CYCLES, WAITS, Ints, Scratch
from engine.execution.threads import ThreadPool
from engine.inlined import lane_kernel as lanes
from engine.inlined.kernel import InlinedKernel
from engine.inlined.layout import (
    BASE,
    CURSOR,
    FAILED_POSITION,
    LANE,
    LIVE_UNTIL,
    ORDER_BATCH,
    ORDER_ROW,
    TABLE_WORDS,
)
from engine.inlined.run import Call, Given, InlinedResult, Inlining
from engine.planning.conflicts import Conflicts
from engine.planning.keys import KeyRows
from engine.planning.stage import StageEvents
from engine.state.store import Store


def run_ordered(
    inlining: Inlining,
    keys: KeyRows,
    events: StageEvents,
    conflicts: Conflicts,
    pool: ThreadPool,
    scratches: list[Scratch],
    delay_seed: int = 0,
) -> InlinedResult:
    """As `run_inlined`, on as many threads as there are scratches; with a seed, threads pause at random (tests)."""
    kernel, store = inlining.kernel, inlining.store
    given = [Given(kernel, store, keys, events) for _ in scratches]
    kernel.require(given[0].operations, inlining.limits.operations)
    verdict = np.zeros(events.count, np.int8)
    shared = _shared_words(conflicts, events)
    rooms = [room + 1 for room in given[0].rooms()]  # kernels write an entry more than they keep
    firsts = [table.undo.count for table in store.tables]
    calls, words = [], []
    with store.lock:
        for table, room in zip(store.tables, rooms, strict=True):
            table.undo.make_room(room * len(scratches))
        for number, mine in enumerate(given):
            tables = mine.tables([first + number * room for first, room in zip(firsts, rooms, strict=True)])
            for index in _deleted_tables(kernel):  # another lane may delete what this one believes to be live
                tables[TABLE_WORDS * index + LIVE_UNTIL] = 0
            calls.append(Call(inlining, mine, events, verdict, tables, str(number)))
            # The second half has the lane's words, so that whatever lies before them shares no cache line with them.
            words.append(np.zeros(2 * lanes.LANE_WORDS, np.int64)[lanes.LANE_WORDS :])
    for mine, call, own in zip(given, calls, words, strict=True):
        own[lanes.SHARED_AT], own[lanes.DELAY_SEED] = shared.ctypes.data, delay_seed
        own[lanes.WRITES_FROM], own[lanes.STRIDE] = store.write_sequence, mine.longest_writes
        call.words[LANE] = own.ctypes.data
        call.words[ORDER_BATCH], call.words[ORDER_ROW] = mine.address_of(events.batch), mine.address_of(events.row)
    begin = time.perf_counter()
    pool.run([call.run for call in calls])
    seconds = time.perf_counter() - begin
    for call, own, scratch in zip(calls, words, scratches, strict=True):
        scratch.counters[OPERATIONS] += own[lanes.TAKEN]
        scratch.counters[WAITS] += own[lanes.WAITED]
        scratch.counters[SYNC_CYCLES] += own[lanes.WAITED_CYCLES]
        scratch.counters[USEFUL_CYCLES] += call.cycles - own[lanes.WAITED_CYCLES]
        scratch.counters[TOTAL_CYCLES] += call.cycles
    _join_logs(store, calls, firsts, rooms, _deleted_tables(kernel))
    store.write_sequence += events.count * given[0].longest_writes
    failed = np.concatenate([call.failures for call in calls])
    return InlinedResult(
        verdict,
        np.ascontiguousarray(failed[np.argsort(failed[:, FAILED_POSITION], kind="stable")]),
        _joined_sinks([mine.filled_sinks() for mine in given]),
        given[0].operations,
        seconds,
        max(call.cycles for call in calls),
        inlining.buffers.nbytes + events.nbytes + verdict.nbytes + conflicts.nbytes
        + sum(table.undo.nbytes for table in store.tables),
    )  # fmt: skip


def _deleted_tables(kernel: InlinedKernel) -> set[int]:
    return {
        s.access.table.index
        for layout in kernel.layouts
        for s in layout.template.statements
        if s.kind is Kind.DELETE and s.access is not None
    }


def _shared_words(conflicts: Conflicts, events: StageEvents) -> Ints:
    shared: Ints = np.zeros(lanes.SHARED_WORDS, np.int64)
    shared[lanes.COUNT] = events.count
    shared[lanes.WAIT_BEGIN_AT], shared[lanes.WAITS_AT] = conflicts.wait_begin.ctypes.data, conflicts.waits.ctypes.data
    shared[lanes.DONE_AT], shared[lanes.BATCH_AT] = conflicts.done.ctypes.data, events.batch.ctypes.data
    shared[lanes.WEIGHTS_AT] = conflicts.weights.ctypes.data
    return shared


def _join_logs(store: Store, calls: list[Call], firsts: list[int], rooms: list[int], deleted: set[int]) -> None:
    """Moves the lanes' undo entries together."""
    with store.lock:
        for index, table in enumerate(store.tables):
            undo, count = table.undo, firsts[index]
            for number, call in enumerate(calls):
                block = call.tables[TABLE_WORDS * index : TABLE_WORDS * (index + 1)]
                begin = firsts[index] + number * rooms[index]
                filled = (int(block[CURSOR]) - int(block[BASE])) // undo.entry_bytes - begin
                table.move_saved(begin, filled, count)
                count += filled
            undo.used = count * undo.entry_bytes
            if index in deleted:
                touched = undo.touched
                dead = touched[table.live[touched] == 0]
                table.live_until = min(table.live_until, int(dead.min(initial=table.live_until)))


def _joined_sinks(
    of_lanes: list[dict[tuple[int, int], tuple[Ints, NDArray[Any]]]],
) -> dict[tuple[int, int], tuple[Ints, NDArray[Any]]]:
    """Places and records of what each statement made, in order."""
    joined = {}
    for key in of_lanes[0]:
        positions = np.concatenate([sinks[key][0] for sinks in of_lanes])
        order = np.argsort(positions, kind="stable")  # merges: each lane's are in order
        joined[key] = positions[order], np.concatenate([sinks[key][1] for sinks in of_lanes])[order]
    return joined
