"""`millrace run`: the engine service from the command line."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services import settings
from services.arguments import add_command
from services.setting_fields import split_address

if TYPE_CHECKING:
    from engine import Application, Engine
    from services.codec import SchemaIds
    from services.engine.runner import Runner
    from services.engine.serving.server import HttpPort
    from services.secret import Secret


def add_run(commands: Any) -> None:
    """Adds `millrace run`."""
    parser = add_command(
        commands,
        "run",
        summary="the engine service: epochs from Kafka, results to Kafka, exactly once",
        description="Reads event chunks and punctuations of the application's topics, runs each epoch and commits results, dead "
        "letters, state changes and offsets in one Kafka transaction. Goes on where it was when it is started again. "
        "SIGTERM or Ctrl-C finishes the epoch under way. Exit codes: 0 stopped as asked, 1 halted, 2 refused to start or failed, "
        "3 another engine with the same name has begun, 4 an epoch did not end.",
        example="millrace run --app services.apps.streaming_ledger:build --kafka-bootstrap 127.0.0.1:9092",
    )
    settings.add_flags(parser, "kafka", own="engine")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from services.engine.broker_watch import BrokerWatch
    from services.engine.logs import log_event, set_up

    given = settings.read(arguments)
    set_up(given.engine.log_format)
    runner = make_runner(given)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.ask_to_stop())
    with contextlib.ExitStack() as stack:
        stack.enter_context(BrokerWatch(given.kafka, runner.log.input_topic, runner.log.partitions, runner.progress))
        if given.engine.http is not None:
            port = stack.enter_context(open_port(given.engine.http, given.engine.http_token, runner))
            log_event(logging.INFO, "listening", f"http://{port.address}/status", address=port.address)
        return runner.run()


def open_port(address: str, token: Secret | None, runner: Runner) -> HttpPort:
    """The service's HTTP port; SettingsError if it cannot be had."""
    from services.engine.serving.metrics import Metrics
    from services.engine.serving.pages import ServicePages
    from services.engine.serving.server import HttpPort
    from services.errors import SettingsError

    pages = ServicePages(runner.application, runner.progress, Metrics(runner.progress), runner.read)
    try:
        return HttpPort(*split_address(address), pages, token)
    except OSError as error:
        raise SettingsError(
            f"engine.http: {address} cannot be listened on: {error.strerror}; give another one"
        ) from None


def make_runner(given: settings.Settings) -> Runner:
    """The service that these settings describe."""
    from engine import Engine
    from services.engine.attempts import KeptAttempts
    from services.engine.kafka_log import KafkaLog
    from services.engine.outcomes import ResultForm
    from services.engine.rules import Cutting, OnIncomplete, Rules
    from services.engine.runner import Runner
    from services.engine.snapshots import Snapshots
    from services.engine.wire import Wire

    own = given.engine
    application = load_application(own.app)
    first_tables = _named(own.tables)() if own.tables else {}

    def make_engine(state: bytes | None) -> Engine:
        options: dict[str, Any] = {"threads": own.threads, "policy": own.policy, "collect_changes": True}
        if state is not None:
            return Engine.restore(application, state, **options)
        engine = Engine(application, **options)
        for table, (keys, columns) in first_tables.items():
            engine.load(table, keys, columns)
        return engine

    rules = Rules(
        sources=frozenset(int(number) for number in own.sources.split(",")),
        memory_bytes=own.memory_mb << 20,
        incomplete_timeout_s=own.incomplete_timeout_s,
        on_incomplete=OnIncomplete(own.on_incomplete),
        snapshot_every_epochs=own.snapshot_every,
        schema_timeout_s=own.schema_timeout_s,
        cutting=Cutting(own.epoch_events, own.epoch_interval, own.disorder, own.idle_timeout_s),
        attempts=own.attempts,
        epoch_timeout_s=own.epoch_timeout_s,
    )
    wire = Wire(application, ids_of(own, application))
    wire.check()
    _check_results_key(own, application)
    snapshots = Snapshots(own.snapshots) if own.snapshots else None
    log = KafkaLog(given.kafka, application.name, records=own.input == "records")
    form = ResultForm(own.results == "records", own.results_key)
    attempts = KeptAttempts(given.kafka, log.transactional_id, log.input_topic)
    return Runner(application, wire, log, snapshots, make_engine, rules, attempts, form)


def _check_results_key(own: settings.EngineSettings, application: Application) -> None:
    from services.errors import SettingsError

    fields = sorted({field for event in application.events.values() for field in event.fields})
    if own.results_key is not None and own.results_key not in fields:
        raise SettingsError(
            f"engine.results_key is {own.results_key!r}, a field of {application.name}'s events was expected: {', '.join(fields)}"
        )


def ids_of(own: settings.EngineSettings, application: Application) -> SchemaIds:
    """Where an application's schema ids come from, for the service and for publishers alike."""
    from services.codec.registry import RegistryIds
    from services.engine.wire import schemas_of

    if own.registry is None:
        found: SchemaIds = schema_ids(own.schema_ids, schemas_of(application))
        return found
    password = own.registry_password.reveal() if own.registry_password is not None else ""
    return RegistryIds(own.registry, own.registry_user or "", password)


def schema_ids(path: Path | None, schemas: dict[str, dict[str, Any]]) -> Any:
    """Ids from the file, with these schemas added; without a file the ids that a new one would have."""
    from services.codec import FileIds

    if path is not None:
        return FileIds.add(path, schemas)
    with tempfile.TemporaryDirectory(prefix="millrace-ids-") as folder:
        return FileIds.add(Path(folder) / "ids.json", schemas)


def load_application(name: str) -> Application:
    """The application that `module:name` names, or its function gives."""
    from engine import Application
    from services.errors import SettingsError

    if not name:
        raise SettingsError("engine.app is missing: module:name of an application was expected (--app)")
    found = _named(name)
    application = found if isinstance(found, Application) else found()
    if not isinstance(application, Application):
        raise SettingsError(f"engine.app: {name} gives {type(application).__name__}, an Application was expected")
    return application


def _named(name: str) -> Any:
    from services.errors import SettingsError

    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise SettingsError(f"{name!r}: module:name was expected, such as services.apps.streaming_ledger:build")
    sys.path.insert(0, "")  # applications are usually in the directory where the service is started
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise SettingsError(f"{name}: there is no module {error.name}; run in its directory, or install it") from error
    except AttributeError as error:
        raise SettingsError(f"{name}: the module {module} has no {attribute}") from error
    finally:
        sys.path.pop(0)
