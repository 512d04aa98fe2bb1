"""The arrays that the baselines' kernels share beside the engine's own (`engine/execution/layout.py`).

A *state* is what a scheme orders accesses by: a row of a table, or the whole table in a stage that computes keys of it or
folds it, forms that the papers' schemes do not have. A *place* is where transactions queue: a state (LOCK, MVLK) or a
partition of states (PAT). States are numbered in the order in which operations first touch them.
"""

from typing import NamedTuple

from engine.execution.layout import LINE, Bytes, Ints

ALL_ROWS = (1 << 40) - 1  # in a state's key, in the place of a row
TABLE_SHIFT = 40
COMPLETE = 0x7FFFFFFFFFFFFFFF  # the progress of a chain that is through
EVERY_PLACE = -1  # the place of a state that is spread over all of them: a whole table under PAT


class States(NamedTuple):
    """Which states a stage's operations touch. Operations and entries are numbered from the stage's first."""

    whole: Bytes  # per table: it is one state
    cells: Ints  # a hash table from keys …
    numbers: Ints  # … to numbers
    key: Ints  # of each state: table and row
    own: Ints  # the state an operation goes to, -1: none (an output, a derived record)
    entry_state: Ints  # the state an entry reads from; for a handle, that of the operation it stands for; -1: none
    entry_below: Ints  # the entry may be read once all operations on its state below this number are processed


class Accesses(NamedTuple):
    """The places each transaction touches, each place once. Transactions are numbered from the stage's first."""

    begin: Ints
    place: Ints
    writes: Bytes
    ticket: Ints  # how many must have finished at the place before


class Queues(NamedTuple):
    """Counters per place; the first two are touched by one thread at a time, in order."""

    requests: Ints  # put in so far
    writes: Ints  # of them, those that write
    finished: Ints
    finished_writes: Ints


class Chains(NamedTuple):
    """TStream's operation chains: the operations on each state, in order; after the last chain those without a state."""

    begin: Ints
    member: Ints
    position: Ints  # of the chain's next operation in `member`
    progress: Ints  # the chain's next operation: all below it are processed
    open: Ints  # chains to go through in this round
    later: Ints  # chains that had to stop and go on in the next


# Control words, one a cache line.
(
    ADMITTED,
    LATCH,
    ARRIVED,
    GENERATION,
    PHASE,
    CURSOR,
    OPEN,
    LATER,
    SETTLED,
    REDOS,
    FINISHED,
    BROKEN,
    DELAY_SEED,
    TIMED,
) = (LINE * line for line in range(14))
CONTROL_SIZE = 14 * LINE
