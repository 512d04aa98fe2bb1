"""The engine service as its own command makes it, with a death put in from outside."""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine
from engine.api.application import Application
from engine.errors import MillraceError
from services.engine import kafka_log
from services.engine.command import make_runner
from services.settings import EngineSettings, KafkaSettings, Settings
from services.verify.crash.deaths import Death, Hooks, after, around, before, dying_producer, each, register_files
from services.verify.crash.subject import Given

SNAPSHOT_EVERY = 3
THREADS = 2
EXIT_ERROR, EXIT_CRASHED = 2, 99  # as of the `millrace` command; an exception that nobody expected

_given: Given | None = None


def prepare(path: Path) -> None:
    """Before the first life: what all lives share."""
    global _given
    _given = Given.read(path)
    _given.rehearse(THREADS)


def application() -> Application:
    assert _given is not None
    return _given.application


def tables() -> dict[str, Any]:
    assert _given is not None
    return _given.first_tables()


def live(told: dict[str, Any]) -> int:
    """One life: {bootstrap, snapshots, sources, report, death, kafka}; runs until it dies, is told to stop or halts."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    hooks = Hooks(Death(**told["death"]), Path(told["report"])) if told["death"] else None
    register_files(hooks)
    if hooks is not None:
        setattr(kafka_log, "Producer", dying_producer(hooks))  # noqa: B010
    here = "services.verify.crash.engine_process"
    own = EngineSettings(
        app=f"{here}:application", tables=f"{here}:tables", sources=told["sources"], threads=THREADS,
        snapshots=told["snapshots"], snapshot_every=SNAPSHOT_EVERY,
    )  # fmt: skip
    kafka = replace(KafkaSettings(), bootstrap=told["bootstrap"], **told["kafka"])
    try:
        runner = make_runner(Settings(kafka=kafka, engine=own))
        if hooks is not None:
            after(runner.log, "poll", hooks, "fetch")
            before(runner.wire, "read", hooks, "decode")
            around(engine.Engine, "run_epoch", hooks, "execute")
            each(runner.log, "read_single", hooks, "recovery")
            before(engine.Engine, "follow", hooks, "recovery")
            before(runner.log, "seek", hooks, "recovery", last=True)
        signal.signal(signal.SIGTERM, lambda *_: runner.ask_to_stop())
        return runner.run()
    except MillraceError as error:
        logging.error("%s: %s", type(error).__name__, error)
        return EXIT_ERROR
    except BaseException:  # the process ends without an interpreter that would show it
        traceback.print_exc()
        return EXIT_CRASHED
