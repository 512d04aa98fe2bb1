"""`millrace broker` and `millrace topics`: a Kafka broker on this machine, and an application's topics on any.

Only the declaration of the command line is loaded with this module; each command imports what it does when it is chosen.
"""

from __future__ import annotations

import argparse
import json
import signal
from typing import TYPE_CHECKING, Any

from services import settings
from services.arguments import add_command, add_json, count

if TYPE_CHECKING:
    from services.kafka.broker import Broker

EXIT_NOT_RUNNING = 1


def add_broker(commands: Any) -> None:
    """Adds `millrace broker start|stop|status`."""
    parser = add_command(
        commands,
        "broker",
        summary="run a Kafka broker on this machine",
        description="Runs one real Kafka broker (KRaft) on this machine, on loopback only. Its Java libraries are fetched with "
        "Maven the first time. For development and tests: it has one copy of everything and no password.",
        example="millrace broker start --data /tmp/broker --port 9092",
    )
    targets = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)

    start = add_command(
        targets,
        "start",
        summary="start it and wait until it serves clients",
        description="Starts the broker and returns when it serves clients; it goes on running. Its data stays in the directory "
        "and is there at the next start.",
        example="millrace broker start --data /tmp/broker --port 9092",
    )
    start.add_argument("--foreground", action="store_true", help="stay until it ends; Ctrl-C or SIGTERM stops it")
    settings.add_flags(start, own="broker")
    start.set_defaults(command=_start)

    stop = add_command(
        targets,
        "stop",
        summary="stop the one that runs in a directory",
        description="Stops the broker in order, by force if it does not end in time. If none runs, nothing is done.",
        example="millrace broker stop --data /tmp/broker",
    )
    settings.add_flags(stop, own="broker", only=("data",))
    stop.set_defaults(command=_stop)

    status = add_command(
        targets,
        "status",
        summary="say whether one runs in a directory, and where it listens",
        description="Says whether the broker runs and serves clients. Exit code 1 if it does not run.",
        example="millrace broker status --data /tmp/broker --json",
    )
    settings.add_flags(status, own="broker", only=("data",))
    status.set_defaults(command=_status)
    for each in (start, stop, status):
        add_json(each)


def add_topics(commands: Any) -> None:
    """Adds `millrace topics create`."""
    parser = add_command(
        commands,
        "topics",
        summary="make an application's topics",
        description="Makes the topics of an application on a Kafka cluster.",
        example="millrace topics create --app ledger --partitions 4",
    )
    targets = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    create = add_command(
        targets,
        "create",
        summary="make those that are not there, report all",
        description="Makes the topics for events, records, results, the changelog and the epochs' markers. Topics that exist are "
        "left as they are, and reported; one in a form that would lose records is an error.",
        example="millrace topics create --app ledger --partitions 4 --bootstrap 127.0.0.1:9092",
    )
    create.add_argument("--app", required=True, metavar="NAME", help="the application: topics begin with its name")
    create.add_argument(
        "--partitions", type=count, default=1, metavar="N", help="of the topics of events and results (%(default)s)"
    )
    create.add_argument("--replication", type=count, default=1, metavar="N", help="copies of each (%(default)s)")
    add_json(create)
    settings.add_flags(create, own="kafka")
    create.set_defaults(command=_create_topics)


def _broker(arguments: argparse.Namespace) -> Broker:
    from services.kafka.broker import Broker

    chosen = settings.read(arguments).broker
    return Broker(chosen.data, port=chosen.port, heap_mb=chosen.heap_mb)


def _start(arguments: argparse.Namespace) -> int:
    broker = _broker(arguments)
    if not arguments.foreground:
        broker.start()
        _show(broker, arguments.json)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the broker is stopped in order
    from services.errors import BrokerError

    with broker:
        try:
            _show(broker, arguments.json)
            while not broker.process.wait_gone(timeout_s=3600):
                pass
        except KeyboardInterrupt:
            return 0
    raise BrokerError(f"the broker ended by itself; see {broker.files.log}")


def _stop(arguments: argparse.Namespace) -> int:
    broker = _broker(arguments)
    stopped = broker.stop()
    if arguments.json:
        print(json.dumps({"stopped": stopped, "data": str(broker.files.directory)}))
    else:
        print(
            f"stopped the broker in {broker.files.directory}"
            if stopped
            else f"no broker runs in {broker.files.directory}"
        )
    return 0


def _status(arguments: argparse.Namespace) -> int:
    broker = _broker(arguments)
    _show(broker, arguments.json)
    return 0 if broker.running else EXIT_NOT_RUNNING


def _show(broker: Broker, as_json: bool) -> None:
    from dataclasses import asdict

    status = broker.status()
    if as_json:
        print(json.dumps(asdict(status)), flush=True)
    elif status.running:
        serves = "serves clients" if status.answers else "does not answer (yet)"
        print(f"Kafka at {status.bootstrap} {serves}: process {status.pid}, data in {status.data}", flush=True)
        print(f"for the other commands: export MILLRACE_KAFKA_BOOTSTRAP={status.bootstrap}", flush=True)
    else:
        killed = " (it was killed; its data is there for the next start)" if status.stale else ""
        print(f"no broker runs in {status.data}{killed}")


def _create_topics(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from confluent_kafka.admin import AdminClient

    from services.kafka.clients import ClientErrors, connection
    from services.kafka.topics import create_topics

    kafka = settings.read(arguments).kafka
    errors = ClientErrors()
    admin = AdminClient(connection(kafka, errors))
    reports = create_topics(
        admin,
        arguments.app,
        arguments.partitions,
        arguments.replication,
        timeout_s=kafka.request_timeout_s,
        errors=errors,
    )
    if arguments.json:
        print(json.dumps({"topics": [asdict(report) for report in reports]}))
        return 0
    for report in reports:
        became = "created" if report.created else "existed"
        print(f"{became}  {report.name}  partitions {report.partitions}  replication {report.replication}")
    return 0
