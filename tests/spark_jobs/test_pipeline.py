"""On a real broker: what Spark publishes, the engine runs and Spark adds up again; also when the publishing job is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from services.apps import workloads
from services.demo.service import Service
from services.engine.facts import Chunk, Punctuation
from services.kafka.topics import TopicNames
from spark_jobs import accounting
from spark_jobs.kafka import read
from spark_jobs.publish_workload import WorkloadEvents, publish

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets that it collects results through to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMES = TopicNames("streaming-ledger")
ROOT = Path(__file__).parents[2]
WORKLOAD_EPOCHS = 3
FILES = 12
ROWS = 300


FIRST_FILE_S = int(time.time()) - 1_000  # when the first file was written, as far as Spark can see


def write_file(folder: Path, number: int) -> None:
    """One file of deposits, later than those of the files before; whole when it gets its name.

    Spark takes files in the order of their times, in milliseconds, and those of the same one in any order.
    """
    first_ts = 1_000_000 + 1_000 * number
    draw = random.Random(number)
    lines = [
        json.dumps(
            {"ts": first_ts + draw.randint(0, 999), "account": draw.randint(0, 99_999), "asset": row, "amount": 3}
        )
        for row in range(ROWS)
    ]
    unfinished = folder / f".{number}"
    unfinished.write_text("\n".join(lines) + "\n")
    os.utime(unfinished, (FIRST_FILE_S + number, FIRST_FILE_S + number))
    unfinished.rename(folder / f"part{number:03}.json")


def start_job(kafka, folder: Path, *options: str) -> subprocess.Popen:
    command = [
        sys.executable, "-m", "millrace", "publish", "files", "--app", "services.apps.streaming_ledger:build",
        "--format", "json", "--input", str(folder / "in"), "--type", "Deposit", "--checkpoint", str(folder / "state"),
        "--first-epoch", str(WORKLOAD_EPOCHS), "--epoch-events", "100", "--files-a-batch", "1",
        "--kafka-bootstrap", kafka.bootstrap, *options,
    ]  # fmt: skip
    with (folder / "job.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def wait_until(condition, what: str, going_on=lambda: True) -> None:
    deadline_s = time.monotonic() + 300
    while not condition():
        assert going_on(), f"{what} cannot happen any more"
        assert time.monotonic() < deadline_s, f"{what} did not happen"
        time.sleep(0.1)


def test_published_executed_and_accounted_for_also_when_the_job_is_killed(spark, kafka, target, tmp_path):
    made = WorkloadEvents(
        "streaming-ledger", replace(workloads.STREAMING_LEDGER, transactions=500, abort_share=0.1), seed=2
    )
    written = publish(spark, made, target, kafka, NAMES.events, range(WORKLOAD_EPOCHS))
    assert written.events == 500 * WORKLOAD_EPOCHS

    (tmp_path / "in").mkdir()
    for number in range(FILES // 2):
        write_file(tmp_path / "in", number)
    notes = tmp_path / "state" / "millrace"
    job = start_job(kafka, tmp_path, "--follow")
    try:
        wait_until(lambda: len(list(notes.glob("*.json"))) >= 2, "a second batch", lambda: job.poll() is None)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    for number in range(FILES // 2, FILES):
        write_file(tmp_path / "in", number)
    job = start_job(kafka, tmp_path)
    assert job.wait(300) == 0, (tmp_path / "job.log").read_text()

    # What is in the topic: every event, epochs without a gap, and whatever came twice is the same bytes.
    items = [
        target.wire.read(bytes(row["value"]))[0]
        for row in read(spark, kafka, NAMES.events, 2).select("value").collect()
    ]
    punctuations = {(each.epoch, each) for each in items if isinstance(each, Punctuation)}
    last = max(epoch for epoch, _ in punctuations)
    each_epoch = Counter(epoch for epoch, _ in punctuations)
    assert set(each_epoch) == set(range(last + 1))
    chunks = {item for item in items if isinstance(item, Chunk)}
    assert len({(chunk.epoch, chunk.number) for chunk in chunks}) == len(chunks)
    assert sum(chunk.events for chunk in chunks) == 500 * WORKLOAD_EPOCHS + FILES * ROWS

    # And what becomes of it.
    service = Service(kafka.bootstrap, tmp_path)
    service.start()
    try:
        wait_until(lambda: (service.status() or {"epochs": 0})["epochs"] > last, "the last epoch")
    finally:
        service.stop()
    report = accounting.check(spark, target, kafka, complete=True)
    assert report.adds_up, report.differences
    assert report.events == report.committed + report.failed == 500 * WORKLOAD_EPOCHS + FILES * ROWS
    assert (report.epochs, report.missing, report.duplicated, report.dead_lettered) == (last + 1, 0, 0, 0)
    assert report.failed > 50


def test_a_job_runs_by_spark_submit(kafka, tmp_path):
    jars = subprocess.run(
        [sys.executable, "-m", "spark_jobs.session"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    submit = Path(sys.executable).parent / "spark-submit"
    command = [
        str(submit), "--master", "local[1]", "--jars", jars, "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.ui.enabled=false", str(ROOT / "spark_jobs" / "accounting.py"),
        "--app", "services.apps.streaming_ledger:build", "--kafka-bootstrap", kafka.bootstrap, "--json",
    ]  # fmt: skip
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=400
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert json.loads(answer.stdout.strip().splitlines()[-1])["adds_up"] is True
