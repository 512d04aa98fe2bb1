"""The machine by hand: one short history for each decision. The simulation covers how they meet."""

from services.engine.facts import (
    Arrived,
    Chunk,
    Commit,
    CommitLost,
    Committed,
    Execute,
    Executed,
    Fenced,
    Forget,
    Halt,
    LetterReason,
    Memory,
    Pause,
    Place,
    Punctuation,
    Recover,
    Recovered,
    Refused,
    Snapshot,
    SnapshotEnded,
    StopAsked,
    Tally,
    Ticked,
    Undecodable,
    Warn,
)
from services.engine.machine import Machine
from services.engine.rules import EXIT_CLEAN, EXIT_FENCED, EXIT_HALTED, OnIncomplete, Rules


def started(memory: Memory | None = None, attempts: int = 0, **rules) -> Machine:
    machine = Machine(Rules(**rules), now_s=1000.0)
    assert machine.start() == [Recover("start")]
    machine.handle(Recovered(memory or Memory(), attempts))
    return machine


def chunk(epoch=0, number=0, events=2, checksum=7, source=0, size_bytes=10) -> Chunk:
    return Chunk(source, epoch, number, events, checksum, size_bytes)


def punctuation(epoch=0, chunks=1, events=2, checksum=7, ts=None, source=0) -> Punctuation:
    return Punctuation(source, epoch, 100 * (epoch + 1) if ts is None else ts, chunks, events, checksum)


def arrive(machine: Machine, *items, partition=0, first_offset=0):
    done = []
    for offset, item in enumerate(items, first_offset):
        done += machine.handle(Arrived(Place(partition, offset), item))
    return done


def run_epoch(machine: Machine, epoch: int, first_offset: int):
    """An epoch of one chunk, from its messages to its commit; gives the commit."""
    arrive(machine, chunk(epoch), punctuation(epoch), first_offset=first_offset)
    (commit, *_) = [i for i in machine.handle(Executed(epoch, Tally(2))) if isinstance(i, Commit)]
    machine.handle(Committed())
    return commit


def test_an_epoch_from_its_messages_to_its_commit():
    machine = started()
    assert arrive(machine, chunk()) == []
    assert arrive(machine, punctuation(), first_offset=1) == [Execute(0, 100, (Place(0, 0),))]
    (commit,) = machine.handle(Executed(0, Tally(committed=1, failed=1)))
    assert commit.epoch == 0 and commit.letters == ()
    assert commit.memory.epoch == 0 and commit.memory.punctuation_ts == 100
    assert commit.memory.cursors[0].low == 2 and commit.memory.cursors[0].handled == frozenset()
    assert commit.memory.tally == Tally(committed=1, failed=1)
    assert machine.handle(Committed()) == [Forget((Place(0, 0), Place(0, 1)))]


def test_the_punctuation_may_come_before_its_chunks():
    machine = started()
    assert arrive(machine, punctuation()) == []
    assert arrive(machine, chunk(), first_offset=1) == [Execute(0, 100, (Place(0, 1),))]


def test_every_source_and_partition_must_have_punctuated():
    machine = started(partitions=2, sources=frozenset({0, 1}))
    empty = punctuation(chunks=0, events=0, checksum=0)
    assert arrive(machine, empty, punctuation(chunks=0, events=0, checksum=0, source=1)) == []
    assert arrive(machine, empty, partition=1) == []
    last = punctuation(chunks=0, events=0, checksum=0, source=1)
    assert arrive(machine, last, partition=1, first_offset=1) == [Execute(0, 100, ())]


def test_the_next_epoch_runs_while_the_one_before_is_committed():
    machine = started()
    arrive(machine, chunk(), punctuation(), chunk(1), punctuation(1))
    commit, execute = machine.handle(Executed(0, Tally(2)))
    assert (commit.epoch, execute) == (0, Execute(1, 200, (Place(0, 2),)))
    assert commit.memory.cursors[0].low == 2, "the messages of the epoch that runs are still to be handled"
    assert machine.handle(Executed(1, Tally(2))) == [], "one commit at a time"
    _, second = machine.handle(Committed())
    assert second.epoch == 1 and second.memory.cursors[0].low == 4


def test_messages_of_a_later_epoch_are_remembered_as_open():
    machine = started()
    arrive(machine, chunk(1), chunk(), punctuation())
    (commit,) = machine.handle(Executed(0, Tally(2)))
    assert commit.memory.cursors[0].low == 0 and commit.memory.cursors[0].handled == {1, 2}
    again = started(commit.memory)
    assert arrive(again, chunk(1), chunk(), punctuation()) == [Forget((Place(0, 1),)), Forget((Place(0, 2),))]
    assert again.next_epoch == 1 and arrive(again, punctuation(1), first_offset=3) == [Execute(1, 200, (Place(0, 0),))]


def test_row_07_a_duplicate_chunk_has_no_second_effect_and_is_counted():
    machine = started()
    assert arrive(machine, chunk(), chunk()) == [Forget((Place(0, 1),))]
    assert arrive(machine, punctuation(), first_offset=2) == [Execute(0, 100, (Place(0, 0),))]
    (commit,) = machine.handle(Executed(0, Tally(2)))
    assert commit.memory.tally == Tally(2, duplicates=2, repeated=1)
    machine.handle(Committed())
    assert arrive(machine, chunk(), punctuation(), first_offset=3) == [Forget((Place(0, 3),))], "after the epoch closed"
    (later,) = machine.handle(Ticked(2000.0))
    assert later.epoch is None and later.letters == ()
    assert later.memory.tally == Tally(2, duplicates=4, repeated=3)


def test_row_08_of_two_differing_copies_both_are_compared_by_place():
    machine = started()
    arrive(machine, chunk(checksum=9), chunk(checksum=7))
    assert arrive(machine, punctuation(), first_offset=2) == [Execute(0, 100, (Place(0, 0), Place(0, 1)))]


def test_row_08_a_differing_copy_after_the_close_is_a_conflict():
    machine = started()
    run_epoch(machine, 0, 0)
    arrive(machine, chunk(checksum=8), first_offset=2)
    (commit,) = machine.handle(Ticked(2000.0))
    assert [letter.reason for letter in commit.letters] == [LetterReason.CONFLICT]
    assert commit.memory.tally == Tally(2, conflicts=2)


def test_row_09_a_missing_punctuation_is_waited_for_and_warned_of():
    machine = started()
    arrive(machine, chunk(), chunk(1), punctuation(1))
    (warning,) = machine.handle(Ticked(1031.0))
    assert isinstance(warning, Warn) and "no punctuation of source 0 in partition 0 for epoch 0" in warning.text
    assert machine.handle(Ticked(1040.0)) == [], "not at every tick"
    assert [type(i) for i in machine.handle(Ticked(9000.0))] == [Warn], "never skipped"
    assert arrive(machine, punctuation(), first_offset=3)[0] == Execute(0, 100, (Place(0, 0),))


def test_row_09_punctuations_that_differ_in_time_halt_and_name_both():
    machine = started(partitions=2)
    arrive(machine, punctuation(ts=100))
    (halt,) = arrive(machine, punctuation(ts=101), partition=1)
    assert isinstance(halt, Halt) and halt.code == EXIT_HALTED
    assert "at 100 by source 0 (partition 0, offset 0)" in halt.why and "at 101" in halt.why


def test_row_09_punctuations_that_go_back_halt():
    machine = started()
    run_epoch(machine, 0, 0)
    (halt,) = arrive(machine, chunk(1), punctuation(1, ts=99), first_offset=2)
    assert isinstance(halt, Halt) and "punctuated at 99, epoch 0 at 100" in halt.why


def test_row_10_a_chunk_later_than_its_closed_epoch_is_a_dead_letter():
    machine = started()
    run_epoch(machine, 0, 0)
    arrive(machine, chunk(number=5, events=3), chunk(number=5, events=3), first_offset=2)
    (commit,) = machine.handle(Ticked(2000.0))
    assert [(letter.place, letter.reason) for letter in commit.letters] == [(Place(0, 2), LetterReason.LATE)]
    assert commit.memory.tally == Tally(2, dead_lettered=3, duplicates=3, repeated=1), "and its copy is a duplicate"


def test_row_11_chunks_that_do_not_match_halt_after_the_limit():
    machine = started(incomplete_timeout_s=60, warn_every_s=1e9)
    arrive(machine, chunk(events=3), punctuation())
    assert [type(i) for i in machine.handle(Ticked(1059.0))] == []
    (halt,) = machine.handle(Ticked(1060.0))
    assert halt.code == EXIT_HALTED and "do not have the 2 events" in halt.why


def test_row_11_or_the_epoch_goes_to_the_dead_letters_whole():
    machine = started(incomplete_timeout_s=60, warn_every_s=1e9, on_incomplete=OnIncomplete.DEAD_LETTER)
    arrive(machine, chunk(), punctuation(chunks=2))
    machine.handle(Ticked(1001.0, behind=frozenset({0})))
    assert machine.handle(Ticked(1060.5)) == [], "it may still come while the partition is not read to its end"
    warning, execute = machine.handle(Ticked(1062.0))
    assert isinstance(warning, Warn) and execute == Execute(0, 100, ()), "its time passes, without its events"
    (commit,) = machine.handle(Executed(0, Tally()))
    assert [(letter.place, letter.reason) for letter in commit.letters] == [(Place(0, 0), LetterReason.INCOMPLETE)]
    assert commit.memory.tally == Tally(dead_lettered=2)


def test_an_epoch_that_the_engine_refuses_halts_or_is_given_up():
    for rule, expected in ((OnIncomplete.HALT, [Halt]), (OnIncomplete.DEAD_LETTER, [Warn, Execute])):
        machine = started(on_incomplete=rule)
        arrive(machine, chunk(), punctuation())
        assert [type(i) for i in machine.handle(Refused(0, "source 0 misses event 1"))] == expected


def test_row_13_what_cannot_be_read_is_a_dead_letter_and_the_rest_goes_on():
    machine = started()
    arrive(machine, chunk(), Undecodable("truncated at byte 3", 9), punctuation())
    (commit,) = machine.handle(Executed(0, Tally(2)))
    assert [(letter.place, letter.detail) for letter in commit.letters] == [(Place(0, 1), "truncated at byte 3")]
    assert commit.memory.tally == Tally(2, undecodable=1)


def test_row_16_an_epoch_over_the_memory_cap_is_refused():
    machine = started(memory_bytes=100)
    (halt,) = arrive(machine, chunk(size_bytes=101))
    assert halt.code == EXIT_HALTED and "holds 101 bytes" in halt.why


def test_row_17_a_failed_snapshot_is_a_warning():
    machine = started(snapshot_every_epochs=1)
    arrive(machine, chunk(), punctuation(), chunk(1), punctuation(1))
    (commit,) = machine.handle(Executed(0, Tally(2)))
    instructions = machine.handle(Committed())
    assert instructions[1:] == [Snapshot(commit.memory), Execute(1, 200, (Place(0, 2),))], "not before the snapshot"
    (warning,) = machine.handle(SnapshotEnded(0, "no space left"))
    assert isinstance(warning, Warn) and "the one before is kept" in warning.text


def test_row_19_a_clock_that_goes_back_changes_nothing():
    machine = started()
    arrive(machine, chunk(events=3), punctuation())
    assert machine.handle(Ticked(-5.0)) == [] and machine.now_s == 1000.0


def test_row_21_an_epoch_that_never_ends_is_quarantined_after_its_attempts():
    machine = started(attempts=3)
    machine.rules = Rules(attempts=3)
    machine.handle(Recovered(Memory(), attempts=3))
    _, execute = arrive(machine, chunk(), punctuation())
    assert execute == Execute(0, 100, ())
    (commit,) = machine.handle(Executed(0, Tally()))
    assert [letter.reason for letter in commit.letters] == [LetterReason.QUARANTINED]


def test_row_24_partitions_that_are_ahead_wait_while_memory_is_full():
    machine = started(partitions=2, memory_bytes=100)
    arrive(machine, chunk(size_bytes=10), punctuation())
    assert arrive(machine, chunk(1, size_bytes=95), first_offset=2) == [Pause(frozenset({0}))]
    empty = punctuation(chunks=0, events=0, checksum=0)
    resumed = [Execute(0, 100, (Place(0, 0),)), Pause(frozenset())]
    assert arrive(machine, empty, partition=1) == resumed, "epoch 1 needs partition 0"


def test_a_lost_commit_is_recovered_from_and_what_arrives_meanwhile_is_ignored():
    machine = started()
    arrive(machine, chunk(), punctuation())
    machine.handle(Executed(0, Tally(2)))
    warning, recover = machine.handle(CommitLost("time-out"))
    assert isinstance(warning, Warn) and recover == Recover("time-out")
    assert arrive(machine, chunk(1), first_offset=2) == [] and machine.handle(Executed(0, Tally(2))) == []
    machine.handle(Recovered(Memory()))
    assert arrive(machine, chunk(), punctuation()) == [Execute(0, 100, (Place(0, 0),))], "executed again"


def test_row_06_a_fenced_engine_ends():
    machine = started()
    (halt,) = machine.handle(Fenced("newer producer"))
    assert halt.code == EXIT_FENCED and arrive(machine, chunk(), punctuation()) == []


def test_stopping_finishes_what_is_under_way_and_begins_nothing():
    machine = started()
    arrive(machine, chunk(), punctuation(), chunk(1), punctuation(1))
    assert machine.handle(StopAsked()) == []
    (commit,) = machine.handle(Executed(0, Tally(2)))
    assert isinstance(commit, Commit)
    *_, halt = machine.handle(Committed())
    assert halt == Halt("stopped as asked", EXIT_CLEAN)


def test_stopping_sends_the_dead_letters_first():
    machine = started()
    arrive(machine, Undecodable("broken", 1))
    (commit,) = machine.handle(StopAsked())
    assert commit.epoch is None and len(commit.letters) == 1
    assert isinstance(machine.handle(Committed())[-1], Halt)


def test_an_unknown_source_is_named():
    machine = started()
    arrive(machine, chunk(source=4))
    (commit,) = machine.handle(Ticked(1001.5))
    assert (
        commit.letters[0].reason is LetterReason.UNKNOWN_SOURCE and "source 4, expected 0" in commit.letters[0].detail
    )


def test_chunks_are_remembered_for_so_many_epochs():
    machine = started(remembered_epochs=2)
    for epoch in range(4):
        commit = run_epoch(machine, epoch, 2 * epoch)
    assert sorted(commit.memory.closed) == [2, 3]
