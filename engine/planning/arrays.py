"""The arrays of one epoch, growing stage by stage, and the table addresses kernels need.

Operations of all stages share one numbering, so a later stage reads an earlier one's versions where they are; the tables
themselves stay as they were until the whole epoch is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.api.application import Application
from engine.api.model import Kind
from engine.execution.layout import INDEX, Ints, Marks, Operations, Tables
from engine.execution.operation_kernel import leave_rows
from engine.execution.shared import Shared, share
from engine.planning.batch import Batch
from engine.planning.decompose import Size
from engine.planning.program import CompiledProgram
from engine.state.store import Store

SPARE_ROWS_AN_OPERATION = 4  # a computed key may come out differently each time its operation is run again


class EpochArrays:
    """Operations, marks and table addresses of the epoch that runs."""

    def __init__(self, application: Application, program: CompiledProgram, store: Store, trace: int) -> None:
        self.application = application
        self.program = program
        self.store = store
        self.kept: list[Any] = []
        self.provisional: list[tuple[int, Ints]] = []  # rows that were not live when they were found
        self.spare: dict[int, Ints] = {}
        self.tables: Tables | None = None
        self.operations: Operations | None = None
        self.size = Size()
        self._shared: tuple[Shared, Shared, Shared] | None = None
        self._shared_marks: Shared | None = None
        none, no_indices, no_words = np.empty(0, np.int8), np.empty(0, INDEX), np.empty(0, np.int64)
        self.marks = Marks(
            slots=no_words, state=none, result=none, live=none, reason=none, failed_entry=no_indices, key=no_words,
            key_known=none, fence_previous=no_indices, owner=none, runs=np.empty(0, np.int32), aborted=none,
            first_failed=no_indices, suspected=none, trace=np.zeros(trace + 1, np.int64),
        )  # fmt: skip

    @property
    def operation_count(self) -> int:
        return self.size.operations

    @property
    def transaction_count(self) -> int:
        return self.size.transactions

    @property
    def nbytes(self) -> int:
        """Working memory of the epoch."""
        if self.operations is None:
            return self.marks.trace.nbytes
        return sum(array.nbytes for part in (self.operations, self.marks) for array in part)

    @property
    def planned(self) -> Operations:
        """The operations, once a stage was planned."""
        assert self.operations is not None
        return self.operations

    def shared(self) -> tuple[Shared, Shared, Shared]:
        """Program, tables and operations as kernels take them."""
        assert self.tables is not None
        made = self._shared
        if made is None or made[1].arrays is not self.tables or made[2].arrays is not self.planned:
            made = self._shared = self.program.shared, share(self.tables), share(self.planned)
        return made

    def shared_marks(self) -> Shared:
        if self._shared_marks is None or self._shared_marks.arrays is not self.marks:
            self._shared_marks = share(self.marks)
        return self._shared_marks

    def append(self, plan: Operations, size: Size) -> None:
        """Adds a stage's operations, with fresh marks."""
        old = self.operations
        if old is None:
            self.operations = plan
        else:
            joined = {
                name: np.concatenate([getattr(old, name), getattr(plan, name)])
                for name in (
                    "transaction",
                    "statement",
                    "row",
                    "link",
                    "slot",
                    "entry_row",
                    "entry_link",
                    "event",
                    "ts",
                )
            }
            self.operations = Operations(
                **joined,
                each=_joined_each(old.each, plan.each, self.size.operations, size.operations),
                entry_begin=np.concatenate([old.entry_begin[:-1], plan.entry_begin]),
                first=np.concatenate([old.first[:-1], plan.first]),
            )
        self.size = Size(*(before + more for before, more in zip(self.size, size, strict=True)))
        self._add_marks(size)

    def _add_marks(self, size: Size) -> None:
        fresh = {"failed_entry": -1, "fence_previous": -1, "owner": -1, "first_failed": -1}
        computed = ("key", "fence_previous")
        grown = {}
        for name in Marks._fields:
            array = getattr(self.marks, name)
            if name in ("trace", "slots") or (name in computed and not self.program.computes_keys):
                continue
            count = size.transactions if name in ("aborted", "first_failed", "suspected") else size.operations
            more = np.full(count, fresh[name], array.dtype) if name in fresh else np.zeros(count, array.dtype)
            grown[name] = more if array.size == 0 else np.concatenate([array, more])
        slots = np.empty(self.size.slot_words, np.int64)
        slots[: self.marks.slots.size] = self.marks.slots
        self.marks = self.marks._replace(slots=slots, **grown)

    def reset_marks(self, first_operation: int, first_transaction: int) -> None:
        """Forgets what a stage's execution did, to run it anew."""
        m = self.marks
        for array, value in ((m.state, 0), (m.result, 0), (m.live, 0), (m.reason, 0), (m.owner, -1), (m.runs, 0)):
            array[first_operation:] = value
        if m.fence_previous.size:
            m.fence_previous[first_operation:] = -1
        m.aborted[first_transaction:] = 0
        m.suspected[first_transaction:] = 0
        m.first_failed[first_transaction:] = -1
        m.trace[:] = 0

    def forget_computed_writes(self, first_operation: int) -> None:
        """Takes a stage's computed writes out of their rows' lists."""
        if self.program.computes_keys:
            leave_rows(*self.shared(), self.shared_marks(), first_operation, self.operation_count)

    def locate_tables(self, batches: list[Batch], spare_factor: int = 1) -> Tables:
        """Sets rows aside for the computed keys of a stage's batches, then notes where all tables are now."""
        stores = self.store.tables
        count = len(stores)
        columns: dict[str, Ints] = {name: np.zeros(count, np.int64) for name in Tables._fields}
        for batch in batches:
            for s in batch.template.statements:
                if not s.is_fence:
                    continue
                assert s.access is not None
                index = s.access.table.index
                columns["has_fences"][index] = 1
                if s.kind is Kind.WRITE and s.access.computed is not None and s.access.table.creates_keys:
                    columns["spare_count"][index] += SPARE_ROWS_AN_OPERATION * spare_factor * batch.ts.size
        for index in range(count):
            self._set_rows_aside(index, int(columns["spare_count"][index]))
        for index, (spec, table) in enumerate(zip(self.application.tables.values(), stores, strict=True)):
            # Fences of an earlier stage left computed writes in the rows' lists.
            columns["has_fences"][index] |= int(self.tables is not None and self.tables.has_fences[index] != 0)
            self._locate_table(columns, index, spec, table)
        self.tables = Tables(**columns)
        return self.tables

    def _set_rows_aside(self, index: int, count: int) -> None:
        table = self.store.tables[index]
        if count == 0:
            return
        table.reserve_rows(count)
        rows = table.allocator.allocate(count)
        self.spare[index] = rows

    def _locate_table(self, columns: dict[str, Ints], index: int, spec: Any, table: Any) -> None:
        default = np.frombuffer(spec.default.tobytes(), np.uint8).copy()
        self.kept.append(default)
        columns["records"][index] = table.address
        columns["live"][index] = table.live_address
        columns["record_bytes"][index] = spec.dtype.itemsize
        columns["row_bytes"][index] = table.row_bytes
        columns["default"][index] = default.ctypes.data
        columns["creates"][index] = int(spec.creates_keys)
        columns["constraint"][index] = spec.constraint_entry.address if spec.constraint_entry is not None else 0
        columns["last_write"][index] = table.row_column("last_write").ctypes.data
        columns["fence_head"][index] = table.row_column("fence_head").ctypes.data
        columns["row_capacity"][index] = table.row_capacity
        if spec.key_types == ("int",):
            keys, rows, mask, row_keys = table.index.arrays()
            assert rows.ctypes.data == keys.ctypes.data + 8 and keys.strides == rows.strides == (16,)
            columns["index_slots"][index] = keys.ctypes.data
            columns["index_mask"][index] = mask
            columns["row_keys"][index] = row_keys.ctypes.data
            self.kept += [keys, rows, row_keys]
        if index in self.spare:
            columns["spare_rows"][index] = self.spare[index].ctypes.data
        if columns["has_fences"][index] != 0:
            rows = table.index.sorted_rows()
            columns["fold_rows"][index] = rows.ctypes.data
            columns["fold_count"][index] = rows.size
            self.kept.append(rows)
        history = self.store.histories.get(index)
        if history is not None:
            history.ensure_rows(table.row_capacity)
            columns["history_head"][index], columns["history_arena"][index] = history.addresses

    def return_spare_rows(self) -> None:
        """After a stage: rows given to computed keys stay (provisional until installed), the others go back."""
        assert self.tables is not None
        for index, rows in self.spare.items():
            used = int(self.tables.spare_used[index])
            table = self.store.tables[index]
            table.index.sync_after_kernel(used)
            table.allocator.free(rows[used:])
            self.provisional.append((index, rows[:used]))
        self.spare = {}


def _joined_each(old: Ints, new: Ints, old_count: int, new_count: int) -> Ints:
    """The elements' addresses of all stages; empty as long as none has any."""
    if old.size == 0 and new.size == 0:
        return old
    parts = [part if part.size else np.zeros(count, np.int64) for part, count in ((old, old_count), (new, new_count))]
    return np.concatenate(parts)
