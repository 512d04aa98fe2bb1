"""The record machine by hand: where epochs end, what is late, what a commit remembers. The simulation covers how they meet."""

import numpy as np

from services.engine.facts import (
    Commit,
    Committed,
    Execute,
    Executed,
    ForgetRecords,
    Halt,
    LetterReason,
    Memory,
    Pause,
    RecordsArrived,
    Recovered,
    SchemaKnown,
    SchemaUnknown,
    Tally,
    Ticked,
    Warn,
)
from services.engine.machine import Machine
from services.engine.record_machine import RecordMachine
from services.engine.rules import EXIT_HALTED, Cutting, Rules


def started(memory: Memory | None = None, partitions=1, memory_bytes=10**9, **cutting) -> RecordMachine:
    rules = Rules(partitions=partitions, memory_bytes=memory_bytes, cutting=Cutting(**cutting))
    machine = RecordMachine(rules, now_s=1000.0)
    machine.start()
    machine.handle(Recovered(memory or Memory()))
    return machine


def arrive(machine: RecordMachine, *ts: int, partition=0, offset=0, undecodable=()):
    times = np.array(ts, np.int64)
    fact = RecordsArrived(partition, np.arange(times.size) + offset, times, np.full(times.size, 10), undecodable)
    return machine.handle(fact)


def cut(instructions) -> tuple[int, int, dict[int, list[int]]]:
    (found,) = [each for each in instructions if isinstance(each, Execute)]
    return found.epoch, found.punctuation_ts, {p: offsets.tolist() for p, offsets in found.records.items()}


def commit_of(instructions) -> Commit:
    (found,) = [each for each in instructions if isinstance(each, Commit)]
    return found


def test_by_time_an_epoch_ends_on_the_grid_once_the_watermark_has_passed():
    machine = started(interval=10, disorder=3)
    assert arrive(machine, 4, 12, 7, 13) == [], "an event at 10 may still come"
    assert cut(arrive(machine, 14, offset=4)) == (0, 10, {0: [0, 2]})


def test_by_time_intervals_without_events_are_left_out():
    machine = started(interval=10)
    assert cut(arrive(machine, 4, 99, 101)) == (0, 10, {0: [0]})
    assert cut(machine.handle(Executed(0, Tally(1)))) == (1, 100, {0: [1]})


def test_by_count_equal_times_stay_together():
    machine = started(count=2)
    assert cut(arrive(machine, 1, 5, 5, 5, 6)) == (0, 5, {0: [0, 1, 2, 3]})


def test_the_slowest_partition_decides():
    machine = started(partitions=2, interval=10)
    assert arrive(machine, 5, 25) == []
    assert cut(arrive(machine, 8, 11, partition=1)) == (0, 10, {0: [0], 1: [0]})


def test_an_idle_partition_holds_nothing_up_and_where_all_are_everything_is_cut():
    machine = started(partitions=2, interval=10, idle_timeout_s=5.0)
    machine.handle(Ticked(1001.0, frozenset({0})))
    arrive(machine, 5, 25)
    assert cut(machine.handle(Ticked(1005.5, frozenset({0})))) == (0, 10, {0: [0]}), (
        "nothing ever came from partition 1"
    )
    machine.handle(Executed(0, Tally(1)))
    machine.handle(Committed())
    assert machine.handle(Ticked(1006.0, frozenset({0}))) == [], "partition 0 is not read to its end"
    assert cut(machine.handle(Ticked(1020.0))) == (1, 25, {0: [1]})


def test_row_10_a_late_record_is_a_dead_letter_of_the_commit_that_passes_its_time():
    machine = started(interval=10)
    arrive(machine, 4, 35, 7, 27)
    first = commit_of(machine.handle(Executed(0, Tally(1))))
    assert [(letter.place.offset, letter.reason) for letter in first.letters] == [(2, LetterReason.LATE)]
    assert first.memory.tally == Tally(committed=1, dead_lettered=1)
    cursor = first.memory.cursors[0]
    assert (cursor.low, cursor.read, cursor.handled) == (1, 4, frozenset())
    forgotten, *_ = machine.handle(Committed())
    assert isinstance(forgotten, ForgetRecords) and forgotten.records[0].tolist() == [0, 2]


def test_row_10_a_record_after_its_epoch_was_closed_for_idleness_is_late():
    machine = started(interval=10, idle_timeout_s=1.0)
    arrive(machine, 8)
    assert cut(machine.handle(Ticked(1010.0))) == (0, 8, {0: [0]})
    machine.handle(Executed(0, Tally(1)))
    machine.handle(Committed())
    arrive(machine, 8, 9, offset=1)
    (letter,) = commit_of(machine.handle(Ticked(1011.5))).letters
    assert letter.place.offset == 1 and "closed" in letter.detail


def test_row_12_the_order_in_which_partitions_are_read_does_not_matter():
    chunks = [(0, 0, (4, 25, 9)), (0, 3, (31,)), (1, 0, (2, 15)), (1, 2, (40,))]
    found = []
    for order in ([0, 1, 2, 3], [2, 3, 0, 1], [2, 0, 3, 1], [0, 2, 1, 3]):
        machine, epochs = started(partitions=2, interval=10), []
        for at in order:
            partition, offset, ts = chunks[at]
            done = arrive(machine, *ts, partition=partition, offset=offset)
            while machine.executing is not None:
                epochs.append(cut(done))
                done = machine.handle(Executed(epochs[-1][0], Tally()))
                if machine.executing is None:
                    done = machine.handle(Committed())
        found.append(epochs)
    assert found == [found[0]] * 4 and [ts for _, ts, _ in found[0]] == [10, 20, 30]


def test_row_13_what_cannot_be_read_is_a_dead_letter_and_the_rest_goes_on():
    machine = started(interval=10)
    assert cut(arrive(machine, 4, 25, undecodable=((2, "not Avro"),))) == (0, 10, {0: [0]})
    commit = commit_of(machine.handle(Executed(0, Tally(1))))
    assert [letter.reason for letter in commit.letters] == [LetterReason.UNDECODABLE]
    assert commit.memory.tally == Tally(1, undecodable=1)


def test_after_a_recovery_what_was_dealt_with_is_passed_over_and_the_same_epoch_is_cut():
    machine = started(interval=10)
    arrive(machine, 4, 15, 8, 25, 3)
    done = machine.handle(Executed(0, Tally(2)))
    memory = commit_of(done).memory
    assert cut(done) == (1, 20, {0: [1]})
    again = started(memory, interval=10)
    done = arrive(again, 15, 8, offset=1)
    assert isinstance(done[0], ForgetRecords) and done[0].records[0].tolist() == [2]
    assert again.executing is None, "offsets 3 and 4 were read before and are not read again yet"
    assert cut(arrive(again, 25, 3, offset=3)) == (1, 20, {0: [1]})


def test_row_16_what_one_epoch_needs_is_kept_below_the_memory_cap_or_the_service_halts():
    machine = started(partitions=2, memory_bytes=100, interval=10)
    done = arrive(machine, *range(100, 120))
    assert Pause(frozenset({0})) in done, "partition 0 is ahead of partition 1"
    (halt,) = arrive(machine, *([5] * 11), partition=1)
    assert isinstance(halt, Halt) and halt.code == EXIT_HALTED and "memory cap" in halt.why


def test_row_14_an_unknown_schema_is_asked_about_and_then_halts_by_name():
    machine = Machine(Rules(schema_timeout_s=60.0), now_s=1000.0)
    machine.start()
    machine.handle(Recovered(Memory()))
    warning, pause = machine.handle(SchemaUnknown("schema id 7 is not in the file"))
    assert isinstance(warning, Warn) and pause == Pause(frozenset({0}))
    assert machine.handle(SchemaUnknown("schema id 7 is not in the file")) == [], "told again at every try"
    assert machine.handle(Ticked(1030.0)) == []
    assert machine.handle(SchemaKnown()) == [Pause(frozenset())]
    machine.handle(SchemaUnknown("schema id 8 is not in the file"))
    assert machine.handle(Ticked(1085.0)) == [], "the time began anew"
    (halt,) = machine.handle(Ticked(1090.0))
    assert isinstance(halt, Halt) and halt.code == EXIT_HALTED and "schema id 8" in halt.why
