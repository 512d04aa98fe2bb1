"""The books, without Spark: what is told of an epoch adds up, or the difference is named."""

import numpy as np
import pytest

from engine import Engine, Epoch
from services.apps.streaming_ledger import build
from services.engine.command import ids_of
from services.engine.facts import Tally
from services.engine.kafka_log import OutgoingBatch
from services.engine.outcomes import ResultForm, outcome_records
from services.engine.publishing import SourceEpoch
from services.engine.wire import DEAD_LETTER, Wire
from services.kafka.topics import TopicNames
from services.settings import Settings
from spark_jobs import accounting
from spark_jobs.accounting import COMMITTED as DONE
from spark_jobs.accounting import DEAD, INPUT, account, report
from spark_jobs.accounting import FAILED as REFUSED


def seqs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def marker(epoch: int, closes: bool = True, **counts: int) -> dict:
    tally = dict.fromkeys(Tally.__dataclass_fields__, 0) | counts
    return {"epoch": epoch, "closes": closes, **tally}


GOOD = [(INPUT, 0, seqs(0, 1, 2, 3, 4)), (DONE, 0, seqs(1, 0)), (REFUSED, 0, seqs(3)), (DEAD, 0, seqs(4))]
GOOD_MARKER = marker(0, committed=2, failed=1, filtered=1, dead_lettered=1)


def test_an_epoch_that_adds_up():
    made = report([account(0, GOOD)], [GOOD_MARKER], complete=True)
    assert made.adds_up
    assert (made.events, made.committed, made.failed, made.filtered, made.dead_lettered) == (5, 2, 1, 1, 1)
    assert (made.missing, made.duplicated, made.copies) == (0, 0, 0)


def test_copies_of_chunks_and_late_copies_of_done_events_are_no_events():
    told = [*GOOD, (INPUT, 0, seqs(0, 1, 2)), (DEAD, 0, seqs(0, 1))]
    made = report([account(0, told)], [GOOD_MARKER], complete=True)
    assert made.adds_up and made.events == 5 and made.copies == 3


@pytest.mark.parametrize(
    ("told", "field", "said"),
    [
        ((INPUT, 1, seqs(7)), "missing", "no result: source 1, seq 7"),
        ((DONE, 0, seqs(1)), "duplicated", "two results: source 0, seq 1"),
        ((REFUSED, 0, seqs(0)), "duplicated", "two results: source 0, seq 0"),
        ((DONE, 2, seqs(0)), "unknown", "not in the input: source 2, seq 0"),
    ],
)
def test_a_difference_is_counted_and_named(told, field, said):
    made = report([account(0, [*GOOD, told])], [GOOD_MARKER])
    assert getattr(made, field) == 1
    assert any(said in difference for difference in made.differences), made.differences


def test_results_that_vanished_differ_from_the_marker():
    made = report([account(0, GOOD[:1])], [GOOD_MARKER])
    assert made.missing == 4 and not made.adds_up
    assert "0 committed, its marker says 2" in made.differences[0]


def test_epochs_closed_twice_or_out_of_order_are_a_difference():
    again = [GOOD_MARKER, GOOD_MARKER | {"epoch": 2}]
    assert any("in this order: [0, 2]" in each for each in report([account(0, GOOD)], again).differences)


def test_an_open_epoch_waits_unless_everything_is_to_be_closed():
    counts = [account(0, GOOD), account(1, [(INPUT, 0, seqs(0, 1))])]
    made = report(counts, [GOOD_MARKER])
    assert made.adds_up and (made.events, made.open_events, made.missing) == (5, 2, 0)
    made = report(counts, [GOOD_MARKER], complete=True)
    assert not made.adds_up and (made.events, made.missing) == (7, 2)


@pytest.mark.parametrize("one_by_one", [False, True], ids=["chunks", "records"])
def test_messages_become_identities(one_by_one):
    """Of an epoch that the engine ran: everything that its messages say adds up, in either form."""
    app = build()
    wire = Wire(app, ids_of(Settings().engine, app))
    columns = {
        "seq": np.arange(4), "ts": np.arange(1, 5), "account": np.zeros(4, np.int64), "asset": np.arange(4),
        "amount": np.array([5, -9, 5, 5]),
    }  # fmt: skip
    source = SourceEpoch(wire, 0, 0, 2)
    source.add("Deposit", columns, rows_a_chunk=3)
    messages = [value for _, value in source.close(9)]
    late = SourceEpoch(wire, 0, 0, 1)
    late.add("Deposit", {name: column[:1] + 10 * (name == "seq") for name, column in columns.items()})
    letter = {
        "topic": "t", "partition": 0, "offset": 9, "reason": "late", "detail": "", "epoch": 0, "source": 0,
        "payload": late.messages[0][1],
    }  # fmt: skip
    with Engine(app, threads=1) as engine:
        result = engine.run_epoch(Epoch(0, 9, {"Deposit": columns | {"source": np.zeros(4, np.int64)}}))
    names = TopicNames(app.name)
    left: dict[str, list[bytes]] = {names.committed: [], names.failed: []}
    for each in outcome_records(wire, names, result, ResultForm(one_by_one)):
        single = isinstance(each, OutgoingBatch)
        left[each.topic] += [message["value"] for message in each.messages] if single else [each.value]
    told = [
        *accounting.input_identities(wire, [*messages, late.messages[0][1]]),
        *accounting.result_identities(wire, DONE, left[names.committed]),
        *accounting.result_identities(wire, REFUSED, left[names.failed]),
        *accounting.dead_identities(wire, [wire.encode(DEAD_LETTER, letter)]),
    ]
    assert {epoch for _, epoch, _, _ in told} == {0}
    counts = account(0, [(kind, source, found) for kind, _, source, found in told])
    assert (counts["events"], counts["committed"], counts["failed"], counts["dead_lettered"]) == (5, 3, 1, 1)
    assert (counts["absent"], counts["twice"], counts["unknown"]) == (0, 0, 0)
