"""`millrace publish workload|files` and `millrace account`: declared here, without Spark; run by the job that is chosen.

spark-submit runs a job's own file, which hands its arguments to `main`: the same options, the same checks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services import settings
from services.arguments import add_command, count, number, share, share_or_more

if TYPE_CHECKING:
    from spark_jobs.messages import Published, Target
    from spark_jobs.publish_workload import WorkloadEvents

EXIT_DIFFERENT = 1
WORKLOADS = ("streaming-ledger", "grep-sum", "toll-processing", "online-bidding")
FORMATS = ("csv", "json", "parquet", "records")


def add_publish(commands: Any) -> None:
    """Adds `millrace publish workload|files`."""
    parser = add_command(
        commands,
        "publish",
        summary="Spark jobs that write events to Kafka: a workload, files, or another topic",
        description="Cuts events into epochs, encodes them as chunks inside Spark and writes chunks and punctuations through "
        "Spark's Kafka sink. What is written twice is the same bytes, and harmless. Needs Java and, the first time, Maven.",
        example="millrace publish workload --events 1000000",
    )
    targets = parser.add_subparsers(title="what to publish", metavar="WHAT", required=True)
    _add_workload(targets)
    _add_files(targets)


def _add_workload(targets: Any) -> None:
    parser = add_command(
        targets,
        "workload",
        summary="seeded events of a benchmark workload",
        description="Makes the events of a benchmark workload inside Spark's executors; the same seed gives the same bytes. What "
        "is not given is as in the papers. Events are rounded up to whole epochs.",
        example="millrace publish workload --workload streaming-ledger --events 1000000 --theta 0.6 --seed 7",
    )
    own = parser.add_argument_group("workload")
    own.add_argument("--workload", choices=WORKLOADS, default=WORKLOADS[0], help="which (%(default)s)")
    own.add_argument("--events", type=count, default=1_000_000, metavar="N", help="in all (%(default)s)")
    own.add_argument("--epoch-events", type=count, metavar="T", help="events an epoch")
    own.add_argument(
        "--first-epoch", type=number, default=0, metavar="K", help="the first epoch's number (%(default)s)"
    )
    own.add_argument("--seed", type=number, default=1, metavar="S", help="same seed, same events (%(default)s)")
    own.add_argument("--theta", type=share_or_more, metavar="X", help="skew of the keys: 0 is none")
    own.add_argument("--abort-ratio", type=share, metavar="X", help="share of transactions made to abort")
    own.add_argument("--transfer-share", type=share, metavar="X", help="streaming-ledger: share of transfers")
    own.add_argument("--query-share", type=share, metavar="X", help="grep-sum: share of queries")
    own.add_argument("--keys", type=count, metavar="N", help="states a table")
    own.add_argument("--disorder", type=share, metavar="X", help="share of events out of the order of their times")
    own.add_argument("--sources", type=count, metavar="N", help="sources that number and punctuate (1)")
    own.add_argument("--rate", type=count, metavar="N", help="events a second at most (as fast as it goes)")
    _add_common(parser)
    parser.set_defaults(command=_publish_workload)


def _add_files(targets: Any) -> None:
    parser = add_command(
        targets,
        "files",
        summary="rows of files, or single Avro records of a topic, as epochs",
        description="Reads CSV, JSON lines or Parquet files, or a topic of single Avro records, and publishes each row as an "
        "event: columns are named as the event's fields. With --checkpoint, only what is new since the last run with the same "
        "checkpoint is published, and a run that died is continued; with --follow it goes on until it is stopped.",
        example="millrace publish files --app ledger:ledger --format csv --input transfers/ --type Transfer --checkpoint state/",
    )
    own = parser.add_argument_group("input")
    own.add_argument("--app", required=True, metavar="MODULE:NAME", help="the application that is to get the events")
    own.add_argument(
        "--format", choices=FORMATS, required=True, help="of the input; records: a topic's single Avro records"
    )
    own.add_argument(
        "--input", required=True, metavar="PATH", help="a directory or pattern of files; a topic, for records"
    )
    own.add_argument("--type", metavar="NAME", help="the record type of every row")
    own.add_argument("--type-column", metavar="NAME", help="the column that says each row's record type")
    own.add_argument("--ts-column", default="ts", metavar="NAME", help="the column of the event time (%(default)s)")
    cut = parser.add_argument_group("epochs")
    cut.add_argument("--epoch-events", type=count, metavar="N", help="cut after about so many events (10240)")
    cut.add_argument(
        "--epoch-span", type=count, metavar="D", help="or cut where the event time passes multiples of this"
    )
    cut.add_argument("--source", type=number, default=0, metavar="K", help="the source's number (%(default)s)")
    cut.add_argument(
        "--first-epoch", type=number, default=0, metavar="K", help="the first epoch's number (%(default)s)"
    )
    cut.add_argument("--late", choices=("stop", "drop"), default="stop", help="events of closed epochs (%(default)s)")
    stream = parser.add_argument_group("stream")
    stream.add_argument("--checkpoint", type=Path, metavar="DIR", help="remember here what is published")
    stream.add_argument("--follow", action="store_true", help="go on with what arrives, until Ctrl-C or SIGTERM")
    stream.add_argument(
        "--every", type=count, default=1, metavar="S", help="with --follow: seconds between looks (%(default)s)"
    )
    stream.add_argument("--files-a-batch", type=count, metavar="N", help="read at most so many files at once")
    _add_common(parser)
    parser.set_defaults(command=_publish_files)


def add_account(commands: Any) -> None:
    """Adds `millrace account`."""
    parser = add_command(
        commands,
        "account",
        summary="a Spark job that checks that every event is accounted for",
        description="Reads an application's topics with Spark and checks for every closed epoch that distinct input events = "
        "committed + failed + filtered + dead-lettered, each once. Differences are listed; exit code 1 if there is one.",
        example="millrace account --app services.apps.streaming_ledger:build --json",
    )
    parser.add_argument("--app", required=True, metavar="MODULE:NAME", help="the application")
    parser.add_argument(
        "--complete", action="store_true", help="events of epochs that are not closed are differences too"
    )
    _add_common(parser)
    parser.set_defaults(command=_account)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, for programs")
    ids = ("schema_ids", "registry", "registry_user", "registry_password")
    settings.add_flags(parser, "kafka", "spark", own="engine", only=ids)


def _publish_workload(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from spark_jobs.publish_workload import KINDS, publish
    from spark_jobs.session import spark_session

    given = settings.read(arguments)
    events = _workload_events(arguments)
    target, topic = _target(given, KINDS[events.name].application)
    epochs = -(-arguments.events // events.parameters.transactions)
    console = Console(stderr=True)
    with spark_session(given.spark, console) as spark, console.status("publishing …") as status:
        published = publish(
            spark, events, target, given.kafka, topic,
            range(arguments.first_epoch, arguments.first_epoch + epochs), arguments.rate,
            lambda done: status.update(f"publishing: {done.events:,} events …"),
        )  # fmt: skip
    _show_published(published, topic, epochs, arguments.json)
    return 0


def _workload_events(arguments: argparse.Namespace) -> WorkloadEvents:
    from dataclasses import replace

    from spark_jobs.publish_workload import KINDS, WorkloadEvents

    names = {
        "transactions": "epoch_events", "theta": "theta", "abort_share": "abort_ratio", "states": "keys",
        "disorder": "disorder", "sources": "sources",
    }  # fmt: skip
    given = {name: getattr(arguments, option) for name, option in names.items()}
    parameters = replace(
        KINDS[arguments.workload].parameters, **{name: value for name, value in given.items() if value is not None}
    )
    shares = {name: getattr(arguments, name) for name in ("transfer_share", "query_share")}
    return WorkloadEvents(
        arguments.workload, parameters, arguments.seed,
        {name: value for name, value in shares.items() if value is not None},
    )  # fmt: skip


def _publish_files(arguments: argparse.Namespace) -> int:
    from spark_jobs.publish_files import Cut, Input, run
    from spark_jobs.session import spark_session

    given = settings.read(arguments)
    source = Input.of(arguments)
    cut = Cut.of(arguments)
    target, topic = _target(given, arguments.app)
    with spark_session(given.spark) as spark:
        published, epochs = run(spark, source, cut, target, given.kafka, topic, arguments)
    _show_published(published, topic, epochs, arguments.json)
    return 0


def _account(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from rich.console import Console

    from spark_jobs.accounting import check
    from spark_jobs.session import spark_session

    given = settings.read(arguments)
    target, _ = _target(given, arguments.app)
    console = Console(stderr=True)
    with spark_session(given.spark, console) as spark, console.status("reading the topics …"):
        report = check(spark, target, given.kafka, complete=arguments.complete)
    if arguments.json:
        print(json.dumps(asdict(report) | {"adds_up": report.adds_up}))
    else:
        Console().print(sentence(report), highlight=False)
        for difference in report.differences:
            print(difference)
    return 0 if report.adds_up else EXIT_DIFFERENT


def sentence(report: Any) -> str:
    """The whole report in two lines."""
    verdict = "[green]everything adds up[/green]" if report.adds_up else "[red]IT DOES NOT ADD UP[/red]"
    return (
        f"{report.epochs:,} epochs: {report.events:,} events = {report.committed:,} committed + {report.failed:,} failed + "
        f"{report.filtered:,} filtered + {report.dead_lettered:,} dead-lettered\n"
        f"missing {report.missing:,}, duplicated {report.duplicated:,}; {report.open_events:,} wait for their epoch's end: "
        + verdict
    )


def _target(given: settings.Settings, application: str) -> tuple[Target, str]:
    """What to write, and the input topic; TopicError if it is not there."""
    from services.engine.command import load_application
    from services.kafka.topics import TopicNames
    from spark_jobs.kafka import partitions_of
    from spark_jobs.messages import Target, known_ids

    loaded = load_application(application)
    names = TopicNames(loaded.name)
    (partitions,) = partitions_of(given.kafka, names.events)
    return Target(application, known_ids(given, loaded), partitions), names.events


def _show_published(published: Published, topic: str, epochs: int, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print(json.dumps({"topic": topic, "epochs": epochs, **asdict(published)}))
    else:
        print(
            f"published {published.events:,} events in {epochs:,} epochs to {topic}: "
            f"{published.messages:,} messages, {published.bytes / 1e6:,.1f} MB"
        )


def main(*argv: str) -> int:
    """What spark-submit runs: a command as on the `millrace` command line."""
    from services.cli import main as run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
