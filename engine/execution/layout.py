"""The arrays that kernels share, grouped by who owns them. Plain named tuples, because numba takes those as they are.

`Program` never changes for an application. `Tables` changes when tables grow. `Operations` is one epoch's plan.
`Marks` is what executing changes. Operation numbers run in the total order, so every dependency points to a lower one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]
# Numbers of operations, transactions, entries and rows: half the memory, and 2^31 of each are enough for one epoch.
Indices = NDArray[np.int32]
INDEX = np.int32

# What an operation goes to.
NO_TARGET, KEY, WINDOW, WHOLE_TABLE, COMPUTED = range(5)

# What became of an operation (Marks.result).
NONE, DONE, SKIPPED, FAILED, CANCELLED = range(5)

# The paper's operation states (Marks.state), section 6.1.
BLK, RDY, EXE, ABT = range(4)

# Argument sources.
HANDLE = -1  # Program.argument_table: an earlier operation of the same transaction


class Program(NamedTuple):
    """The application's statements, one position each, and their functions' arguments."""

    kind: Ints
    table: Ints
    target: Ints
    function: Ints
    when_function: Ints
    key_function: Ints
    fold_function: Ints
    fold: Ints
    fold_offset: Ints
    fold_is_float: Ints
    window_size: Ints
    slot_bytes: Ints
    has_candidates: Ints
    argument_begin: Ints  # first argument; the order is when's, the computed key's, the function's
    when_arguments: Ints
    key_arguments: Ints
    function_arguments: Ints
    argument_table: Ints
    argument_many: Ints
    argument_bytes: Ints
    measure: Ints  # of a window fold: where the nodes of its table's versions hold what it needs, -1: nowhere
    node_words: Ints  # from here on by table: words of a version's node, 0 where no window needs its versions
    measure_begin: Ints  # and its measures; one more at the end
    measure_kind: Ints
    measure_offset: Ints
    measure_word: Ints


class Tables(NamedTuple):
    """Where each table's memory is."""

    records: Ints
    live: Ints
    record_bytes: Ints
    row_bytes: Ints  # from one row's record to the next one's
    default: Ints
    creates: Ints
    constraint: Ints
    last_write: Ints
    fence_head: Ints  # per row the newest write by a computed key
    has_fences: Ints  # 1 if this stage computes keys of the table
    index_slots: Ints
    index_mask: Ints
    row_keys: Ints
    row_capacity: Ints
    spare_rows: Ints  # address of row numbers set aside for computed keys
    spare_count: Ints
    spare_used: Ints
    fold_rows: Ints  # address of the rows in key order, for folds over the whole table
    fold_count: Ints
    history_head: Ints
    history_arena: Ints


class Operations(NamedTuple):
    """One epoch's operations and transactions."""

    transaction: Indices
    statement: Indices
    row: Indices
    link: Indices  # the nearest earlier write of the row (a write's: its own transaction's too), -1: the table
    slot: Indices  # where the operation's own version or value is, in words
    each: Ints  # address of the element's values; empty where no statement of the epoch has any
    entry_begin: Indices
    entry_row: Indices  # a row; for a list of keys first their number
    entry_link: Indices
    first: Indices  # a transaction's first operation; one more at the end
    event: Ints  # address of its event's row
    ts: Ints


class Marks(NamedTuple):
    """What execution changes."""

    slots: Ints  # the versions' memory
    state: Bytes
    result: Bytes
    live: Bytes
    reason: Bytes
    failed_entry: Indices
    key: Ints  # the computed key
    key_known: Bytes
    fence_previous: Indices  # as `key`: empty where no key of the epoch is computed
    owner: Bytes
    runs: NDArray[np.int32]
    aborted: Bytes  # per transaction
    first_failed: Indices  # per transaction
    suspected: Bytes  # per transaction: its verdict may have changed
    trace: Ints  # transitions as they happen, operation * 8 + number, after their count; size 1: not kept


class Edges(NamedTuple):
    """The task precedence graph of one stage; operation numbers minus `base`."""

    base: int
    predecessor_begin: Ints
    predecessor: Ints
    successor_begin: Ints
    successor: Ints


class Units(NamedTuple):
    """What is scheduled: operations (fine) or groups of chains (coarse), with the graph among them."""

    of_operation: Ints
    member_begin: Ints
    member: Ints
    predecessor_begin: Ints
    predecessor: Ints
    successor_begin: Ints
    successor: Ints
    stratum: Ints
    pending: Ints
    done: Bytes
    claimed: Bytes
    queued: Bytes


class Group(NamedTuple):
    """A set of connected components run under one policy by its own threads."""

    stratum_begin: Ints
    stratum_units: Ints
    control: Ints
    suspects: Ints
    touched: Ints
    worklist: Ints
    depths: Ints
    stack: Ints


class Scratch(NamedTuple):
    """One thread's own memory, `counters` included."""

    arguments: Ints
    lists: Ints
    counters: Ints
    timeline: Ints  # (what, begin, end in cycles) of all it did, after their number; size 1: not kept


# Scratch.timeline: what a thread did besides running an operation (whose number is 0 or more).
WAITING, SETTLING, RUNNING_SERIALLY = -1, -2, -3


# Scratch.counters
(
    OPERATIONS,
    T1,
    T2,
    T3,
    T4,
    T5,
    T6,
    T7,
    SIGNALS,
    BARRIERS,
    WAITS,
    ROLLBACKS,
    ROUNDS,
    CANCELLATIONS,
    COMPUTED_AGAIN,
    NOTIFICATIONS,
    RESTARTS,
    CASCADE_DEPTH,
    USEFUL_CYCLES,
    ABORT_CYCLES,
    SYNC_CYCLES,
    TOTAL_CYCLES,
    OUT_OF_ROWS,
    UNITS_RUN,
    VERSIONS_FOLDED,
) = range(25)
COUNTERS = 25


# Group.control: one position a cache line, so that threads do not share lines by accident.
LINE = 8
(
    ARRIVED,
    GENERATION,
    COORDINATOR,
    PAUSE,
    SUSPECTS,
    STRATUM,
    CURSOR,
    REMAINING,
    STACK_LOCK,
    STACK_SIZE,
    ROOT_CURSOR,
    RESTART,
    FINISHED,
    AT_END,
    DELAY_SEED,
    TIMED,
) = (LINE * line for line in range(16))
CONTROL_SIZE = 16 * LINE
NOBODY = -1
