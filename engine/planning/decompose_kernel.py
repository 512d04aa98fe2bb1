# mypy: ignore-errors
"""Kernels of the stream phase (section 4.2): each transaction's operations, and their links to earlier writes of their rows.

Operations are numbered in the total order, so a last-writer cell per row replaces the paper's sorted lists: one pass finds every
link, and the cost follows the operations, not the tables. What a batch's statements and arguments need lies side by side in one
row each (`statements`, `arguments`), addresses of columns included (0 where there is none); a list is flat, cut by its offsets.
The arrays come one by one, not shared, and small steps are inlined before compiling: pointers stay in registers.
"""

import numpy as np
from numba import njit, types

from engine.functions.memory import pointer_at

WORD = types.int64

# A row of `batches`.
FIRST_STATEMENT, STATEMENTS, EVENTS_AT, EVENT_BYTES, TS_AT = range(5)
BATCH_WORDS = 5
# A row of `statements`: one of a batch.
(
    NUMBER, SLOT_WORDS, ROWS_AT, OFFSETS_AT, LAST_WRITE_AT, LINKS, WRITES, EACH_AT, EACH_BYTES,
    FIRST_ARGUMENT, ARGUMENTS, CANDIDATES_BEFORE, CANDIDATE_ROWS_AT, CANDIDATE_OFFSETS_AT,
) = range(14)  # fmt: skip
STATEMENT_WORDS = 14
# A row of `arguments`: one of a batch's statement.
HANDLE_OF, SAME_AS, ARGUMENT_ROWS_AT, ARGUMENT_OFFSETS_AT, ARGUMENT_LAST_WRITE_AT = range(5)
ARGUMENT_WORDS = 5
NO_CANDIDATES = -1


@njit(inline="always")
def _begin(offsets_at, row):
    """Where an event's list begins; its own row where there is no list."""
    return pointer_at(offsets_at, WORD)[row] if offsets_at != 0 else row


@njit(inline="always")
def _length(offsets_at, row):
    """Elements of an event's list; 1 where there is no list."""
    if offsets_at == 0:
        return np.int64(1)
    offsets = pointer_at(offsets_at, WORD)
    return offsets[row + 1] - offsets[row]


@njit(nogil=True, cache=True)
def _count_transaction(batches, statements, arguments, batch, row):
    """How many operations and entries an event's transaction has, and how many words its versions take."""
    operations = entries = words = np.int64(0)
    first = batches[batch, FIRST_STATEMENT]
    for s in range(first, first + batches[batch, STATEMENTS]):
        size = _length(statements[s, OFFSETS_AT], row)
        operations += size
        words += size * statements[s, SLOT_WORDS]
        each = np.int64(0)
        argument = statements[s, FIRST_ARGUMENT]
        for a in range(argument, argument + statements[s, ARGUMENTS]):
            offsets = arguments[a, ARGUMENT_OFFSETS_AT]
            each += 1 if offsets == 0 else 1 + _length(offsets, row)
        if statements[s, CANDIDATES_BEFORE] != NO_CANDIDATES:
            each += 1 + _length(statements[s, CANDIDATE_OFFSETS_AT], row)
        entries += size * each
    return operations, entries, words


@njit(nogil=True, cache=True)
def count_stage(batches, statements, arguments, order_batch, order_row, outcome, is_fixed, totals):
    """Adds up a stage: transactions, operations, entries, slot words. A batch without lists is looked at once."""
    known = np.full((is_fixed.size, 3), -1, np.int64)
    for position in range(order_row.size):
        if outcome[position] != 0:
            continue
        batch = order_batch[position]
        if is_fixed[batch] == 0 or known[batch, 0] < 0:
            counted = _count_transaction(batches, statements, arguments, batch, order_row[position])
            known[batch, 0], known[batch, 1], known[batch, 2] = counted
        totals[0] += 1
        totals[1] += known[batch, 0]
        totals[2] += known[batch, 1]
        totals[3] += known[batch, 2]


@njit(nogil=True, cache=True)
def decompose(
    batches, statements, arguments, order_batch, order_row, outcome, transaction_of, starts, cursors,
    transaction_at, statement_at, row_at, link_at, slot_at, each_at, entry_begin, entry_row, entry_link, first_at, event_at,
    ts_at,
):  # fmt: skip
    """Fills a stage's operations in the total order and links them.

    `cursors` are the numbers to begin with: operation, transaction, entry, slot word. The arrays hold this stage alone.
    """
    first_operation, first_transaction, first_entry, slot = cursors[0], cursors[1], cursors[2], cursors[3]
    place = transaction = entry = np.int64(0)
    for position in range(order_row.size):
        if outcome[position] != 0:
            continue
        batch = order_batch[position]
        row = order_row[position]
        transaction_of[position] = first_transaction + transaction
        first_at[transaction] = first_operation + place
        event_at[transaction] = batches[batch, EVENTS_AT] + row * batches[batch, EVENT_BYTES]
        ts_at[transaction] = pointer_at(batches[batch, TS_AT], WORD)[row]
        begin = batches[batch, FIRST_STATEMENT]
        for local in range(batches[batch, STATEMENTS]):
            s = begin + local
            starts[local] = first_operation + place
            flat = _begin(statements[s, OFFSETS_AT], row)
            for element in range(flat, flat + _length(statements[s, OFFSETS_AT], row)):
                transaction_at[place] = first_transaction + transaction
                statement_at[place] = statements[s, NUMBER]
                slot_at[place] = slot
                slot += statements[s, SLOT_WORDS]
                if statements[s, EACH_AT] != 0:
                    each_at[place] = statements[s, EACH_AT] + element * statements[s, EACH_BYTES]
                entry_begin[place] = first_entry + entry
                argument = statements[s, FIRST_ARGUMENT]
                for number in range(statements[s, ARGUMENTS]):
                    if number == statements[s, CANDIDATES_BEFORE]:
                        entry = _add_candidates(statements, s, row, entry, entry_row)
                    same = arguments[argument + number, SAME_AS]
                    if same >= 0:
                        # The key of an earlier statement: its link is what is wanted, the newest write before this
                        # transaction, and reading the cell it just wrote would stall the processor (36 ns here).
                        entry_row[entry] = row_at[starts[same] - first_operation]
                        entry_link[entry] = link_at[starts[same] - first_operation]
                        entry += 1
                        continue
                    entry = _add_argument(arguments, argument + number, row, starts, entry, entry_row, entry_link)
                if statements[s, CANDIDATES_BEFORE] == statements[s, ARGUMENTS]:
                    entry = _add_candidates(statements, s, row, entry, entry_row)
                own = link = np.int64(-1)
                if statements[s, ROWS_AT] != 0:
                    own = pointer_at(statements[s, ROWS_AT], WORD)[element]
                    if statements[s, LINKS] != 0:
                        newest = pointer_at(statements[s, LAST_WRITE_AT], WORD)
                        link = newest[own]
                        if statements[s, WRITES] != 0:
                            newest[own] = first_operation + place
                row_at[place] = own
                link_at[place] = link
                place += 1
        transaction += 1
    first_at[transaction] = first_operation + place
    entry_begin[place] = first_entry + entry


@njit(inline="always")
def _add_candidates(statements, s, row, entry, entry_row):
    """The rows a computed key may have: first how many."""
    flat = _begin(statements[s, CANDIDATE_OFFSETS_AT], row)
    number = _length(statements[s, CANDIDATE_OFFSETS_AT], row)
    entry_row[entry] = number
    for element in range(number):
        entry_row[entry + 1 + element] = pointer_at(statements[s, CANDIDATE_ROWS_AT], WORD)[flat + element]
    return entry + 1 + number


@njit(inline="always")
def _add_argument(arguments, a, row, starts, entry, entry_row, entry_link):
    """What a function reads: a record each, for a list first its length."""
    offsets_at = arguments[a, ARGUMENT_OFFSETS_AT]
    number = _length(offsets_at, row)
    if offsets_at != 0:
        entry_row[entry] = number
        entry += 1
    if arguments[a, HANDLE_OF] >= 0:
        source = starts[arguments[a, HANDLE_OF]]
        for element in range(number):
            entry_row[entry] = 0
            entry_link[entry] = source + element
            entry += 1
        return entry
    flat = _begin(offsets_at, row)
    rows = pointer_at(arguments[a, ARGUMENT_ROWS_AT], WORD)
    newest = pointer_at(arguments[a, ARGUMENT_LAST_WRITE_AT], WORD)
    for element in range(flat, flat + number):
        entry_row[entry] = rows[element]
        entry_link[entry] = newest[rows[element]]
        entry += 1
    return entry
