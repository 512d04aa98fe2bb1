"""What the publishing jobs write comes from their input alone: the same bytes, however Spark parts the work."""

import random
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.application import record_schemas
from services.apps.workloads import Parameters
from services.codec import compile_codec
from services.engine.facts import Chunk, Punctuation
from services.errors import JobError
from spark_jobs import epochs
from spark_jobs.epochs import Cut, cut
from spark_jobs.kafka import cause_of
from spark_jobs.kafka import read as read_topic
from spark_jobs.messages import Published, counter
from spark_jobs.publish_files import Note, Notes, Publisher, run
from spark_jobs.publish_workload import KINDS, WorkloadEvents, messages
from spark_jobs.rows import Input, placed, rows

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets that it collects results through to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = Parameters(transactions=300, states=50, sources=2, disorder=0.2, length=4)


def sent(frame) -> list[tuple[int, bytes]]:
    """What a DataFrame of messages has, in any order."""
    return sorted((row["partition"], bytes(row["value"])) for row in frame.collect())


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_workload_is_the_same_bytes_from_one_task_or_many(spark, target, name):
    made = WorkloadEvents(name, SMALL, seed=3)
    mine = target.__class__(KINDS[name].application, ids_for(name), 2)
    written = counter(spark)
    one = sent(messages(spark, made, mine, range(4, 7), written, tasks=1))
    assert one == sent(messages(spark, made, mine, range(4, 7), counter(spark), tasks=3))
    assert one != sent(messages(spark, WorkloadEvents(name, SMALL, seed=4), mine, range(4, 7), written, tasks=1))
    items = [mine.wire.read(value) for _, value in one]
    chunks = [item for item, _ in items if isinstance(item, Chunk)]
    punctuations = [item for item, _ in items if isinstance(item, Punctuation)]
    assert len(punctuations) == 3 * 2 * 2, "one of each epoch, source and partition"
    assert sum(chunk.events for chunk in chunks) == sum(each.events for each in punctuations) == 3 * 300
    assert sum(chunk.checksum for chunk in chunks) % 2**32 == sum(each.checksum for each in punctuations) % 2**32
    assert {each.ts for each in punctuations if each.epoch == 5} == {6 * 300 - 1}


def ids_for(name):
    from services.engine.command import load_application
    from services.settings import Settings
    from spark_jobs.messages import known_ids

    return known_ids(Settings(), load_application(KINDS[name].application))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of deposits, in no order of time, two of them with columns turned round; times often meet."""
    made, draw = tmp_path_factory.mktemp("deposits"), random.Random(5)
    for number in range(3):
        lines = [f"{draw.randint(0, 400)},{row},{number},{draw.randint(1, 9)}" for row in range(200)]
        (made / f"part{number}.csv").write_text("ts,account,asset,amount\n" + "\n".join(lines) + "\n")
    return made


def read(spark, target, folder):
    return placed(rows(spark, Input("csv", str(folder), "Deposit"), target, None, stream=False))


def test_files_become_the_same_epochs_however_they_are_read(spark, target, folder):
    given = read(spark, target, folder).persist()
    found = cut(given, Cut(events=100), 7)
    assert found == cut(given.repartition(5), Cut(events=100), 7) and len(found) >= 5
    written = counter(spark)
    once = sent(epochs.messages(given, found, target, 0, written))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")  # each file in several splits
    try:
        assert once == sent(epochs.messages(read(spark, target, folder), found, target, 0, counter(spark)))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert written.value == Published(len(once), 600, sum(len(value) for _, value in once))
    before, events = -1, []
    for epoch in range(7, 7 + len(found)):
        chunks = [chunk for _, value in once if (chunk := target.wire.read(value)[1]) and chunk.epoch == epoch]
        ends = {item.ts for _, value in once for item in [target.wire.read(value)[0]]
                if isinstance(item, Punctuation) and item.epoch == epoch}  # fmt: skip
        (end,) = ends
        columns = [chunk.columns["Deposit"] for chunk in sorted(chunks, key=lambda each: each.chunk)]
        seq, ts, account, asset = (
            np.concatenate([each[name] for each in columns]) for name in ("seq", "ts", "account", "asset")
        )
        assert seq.tolist() == list(range(len(seq))) and (np.diff(ts) >= 0).all()
        assert before < ts[0] and ts[-1] <= end
        before = end
        events += zip(ts.tolist(), asset.tolist(), account.tolist(), strict=True)
    assert events == sorted(events) and len(set(events)) == 600, "in the order of time, then file, then line"


def same_rows(spark, folder, kafka, wire) -> dict[str, str]:
    """The deposits of `folder` once more, in one file or topic a format; where each of them is."""
    given = spark.read.csv(str(folder), header=True, inferSchema=True).orderBy("ts", "asset", "account").toPandas()
    found = {each: str(folder.parent / f"same-{each}") for each in ("csv", "json", "parquet")} | {"records": "same"}
    for path in list(found.values())[:3]:
        Path(path).mkdir()
    given.to_csv(f"{found['csv']}/all.csv", index=False)
    given.to_json(f"{found['json']}/all.json", orient="records", lines=True)
    given.to_parquet(f"{found['parquet']}/all.parquet")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # must outlive the answers
    wanted = [NewTopic("same", 1, 1), *(NewTopic(name, 2, 1) for name in topics_of(found))]
    for made in admin.create_topics(wanted).values():
        made.result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    columns = {name: given[name].to_numpy() for name in ("ts", "account", "asset", "amount")}
    for body in compile_codec(record_schemas(wire.application)["Deposit"]).encode(columns).tolist():
        producer.produce("same", wire.frame("record.Deposit", body))
    producer.flush()
    return found


def topics_of(formats) -> list[str]:
    return [f"from-{each}-{how}" for each in formats for how in ("once", "stream")]


def test_every_format_once_or_as_a_stream_becomes_the_same_messages(spark, target, folder, kafka, tmp_path):
    paths = same_rows(spark, folder, kafka, target.wire)
    for each, path in paths.items():
        given = Input(each, path, None if each == "records" else "Deposit")
        for how in ("once", "stream"):
            checkpoint = tmp_path / each if how == "stream" else None
            arguments = Namespace(checkpoint=checkpoint, first_epoch=2, follow=False, late="stop", every=1)
            for _ in range(2 if checkpoint else 1):  # a stream that is begun again has nothing left to do
                written, _ = run(spark, given, Cut(events=150), target, kafka, f"from-{each}-{how}", arguments)
            assert written.events == (0 if checkpoint else 600)
    messages_of = {topic: sent(read_topic(spark, kafka, topic, 2)) for topic in topics_of(paths)}
    expected = messages_of["from-csv-once"]
    assert len(expected) > 8
    for topic, found in messages_of.items():
        assert found == expected, topic


def test_epochs_by_time(spark, target, folder):
    found = cut(read(spark, target, folder), Cut(span=50), 0)
    assert [begin // 50 for begin in found.begins] == list(range(9))
    assert found.ends == (*(begin - 1 for begin in found.begins[1:]), 400)


@pytest.mark.parametrize(
    ("line", "said"),
    [("x,1,1,1", "CAST_INVALID_INPUT"), ("5,,1,1", "Deposit.account has no value at"), ("5,1", "MALFORMED")],
)
def test_a_bad_row_stops_the_job_with_its_place(spark, target, folder, line, said):
    bad = folder.parent / "bad"
    bad.mkdir(exist_ok=True)
    (bad / "bad.csv").write_text(f"ts,account,asset,amount\n1,1,1,1\n{line}\n")
    with pytest.raises(Exception) as failed:
        given = read(spark, target, bad)
        sent(epochs.messages(given, epochs.Epochs(0, (1,), (9,)), target, 0, counter(spark)))
    assert said in cause_of(failed.value), cause_of(failed.value)


def test_single_records_of_a_topic_become_rows_in_their_order(spark, target, kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # must outlive the answer
    admin.create_topics([NewTopic("singles", 2, 1)])["singles"].result()
    wire, producer = target.wire, Producer({"bootstrap.servers": kafka.bootstrap})
    schema = record_schemas(wire.application)["Deposit"]
    columns = {"ts": np.array([7, 5, 5, 9]), "account": np.arange(4), "asset": np.arange(4), "amount": np.full(4, 3)}
    for at, body in enumerate(compile_codec(schema).encode(columns).tolist()):
        producer.produce("singles", wire.frame("record.Deposit", body), partition=at % 2)
    producer.flush()
    given = rows(spark, Input("records", "singles"), target, kafka, stream=False)
    found = cut(given, Cut(events=10), 0)
    (chunk,) = (
        chunk for _, value in sent(epochs.messages(given, found, target, 4, counter(spark)))
        if (chunk := wire.read(value)[1])
    )  # fmt: skip
    assert chunk.source == 4 and chunk.columns["Deposit"]["ts"].tolist() == [5, 5, 7, 9]
    assert chunk.columns["Deposit"]["account"].tolist() == [2, 1, 0, 3], "of one time, by partition and offset"


def test_columns_and_types_that_do_not_fit_are_named(spark, target, folder):
    with pytest.raises(JobError, match="has no column sender_account"):
        rows(spark, Input("csv", str(folder), "Transfer"), target, None, stream=False)
    with pytest.raises(JobError, match="no record type 'Nothing'"):
        rows(spark, Input("csv", str(folder), "Nothing"), target, None, stream=False)


def test_a_late_event_stops_the_stream_or_is_dropped(spark, target, folder, kafka):
    given = read(spark, target, folder)
    topic = "streaming-ledger.records.v1"  # any that the other tests leave alone
    for late in (False, True):
        publisher = Publisher(spark, Cut(events=100), target, kafka, topic, Notes(None, 0), drop_late=late)
        publisher.notes.keep(0, Note(0, 3, last_ts=200))
        if not late:
            with pytest.raises(JobError, match=r"events are late: the first has ts 0 .* epoch 2 was punctuated at 200"):
                publisher.publish(given, 1)
            continue
        publisher.publish(given, 1)
        note = publisher.notes.before(2)
        assert note.first_epoch == 3 and note.late + publisher.written.value.events == 600 and note.last_ts == 400


def test_a_batch_that_changed_is_refused(tmp_path):
    notes = Notes(tmp_path, 2)
    assert notes.before(0).next_epoch == 2
    notes.keep(0, Note(2, 5, 99))
    again = Notes(tmp_path, 2)
    assert again.before(1).next_epoch == 7
    again.keep(0, Note(2, 5, 99))
    with pytest.raises(JobError, match="its input was changed"):
        again.keep(0, Note(2, 6, 99))
    with pytest.raises(JobError, match="no note of batch 1"):
        again.before(2)
