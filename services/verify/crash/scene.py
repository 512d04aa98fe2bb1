"""One run's stage: topics, the input, the readers, and engine processes that come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from engine import Engine
from services.engine.command import schema_ids
from services.engine.kafka_log import KafkaLog
from services.engine.recovery import Recovery
from services.engine.snapshots import Snapshots
from services.engine.wire import Wire, schemas_of
from services.kafka.clients import connection
from services.kafka.topics import TopicNames, create_topics
from services.settings import KafkaSettings
from services.verify.crash.deaths import FILES, Death
from services.verify.crash.judgement import Judgement, judge, judge_state
from services.verify.crash.nursery import Nursery
from services.verify.crash.subject import PARTITIONS, Expected, Given, Subject
from services.verify.crash.topics import Feeder, Watcher, read_all, result_topics

TRANSACTION_TIMEOUT_S, REQUEST_TIMEOUT_S = 4.0, 3.0  # short, so that what takes too long is soon seen to
PATIENCE_S = 120.0  # until something must have happened, on a busy machine
COMPILING_S = 400.0  # until a first engine has compiled everything, for those after it too
REHEARSED = 4  # epochs


class Stuck(Exception):  # noqa: N818 - what was seen, not whose error it is
    """Something did not happen in time, or ended otherwise than it should."""


class EngineProcess:
    """One life of the engine service."""

    def __init__(self, scene: Scene, bootstrap: str, death: Death | None) -> None:
        self.death, self._report = death, scene.directory / "death"
        self._report.unlink(missing_ok=True)
        self._nursery = scene.nursery
        told = {
            "bootstrap": bootstrap, "report": str(self._report), "snapshots": f"{FILES}://{scene.directory / 'snapshots'}",
            "sources": ",".join(map(str, scene.subject.sources)), "death": death.as_json() if death else None,
            "kafka": {"transaction_timeout_s": TRANSACTION_TIMEOUT_S, "request_timeout_s": REQUEST_TIMEOUT_S},
        }  # fmt: skip
        self._pid = self._nursery.begin(told, COMPILING_S)

    @property
    def exit_code(self) -> int | None:
        return self._nursery.exit_code(self._pid)

    @property
    def died_in(self) -> str | None:
        """The phase in which it says that it died."""
        return self._report.read_text() if self._report.exists() else None

    def signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def reap(self, timeout_s: float) -> int:
        return self._nursery.wait(self._pid, timeout_s)


class Scene:
    """Everything but the broker. `bootstrap` is where the run's own clients find it, `engines_bootstrap` where engines do."""

    def __init__(
        self, subject: Subject, directory: Path, bootstrap: str, replication: int, engines_bootstrap: str | None = None
    ) -> None:
        self.subject, self.directory = subject, directory
        self.directory.mkdir(parents=True)
        self.log = directory / "engine.log"
        self.log.touch()
        self._engines_bootstrap = engines_bootstrap or bootstrap
        app = subject.application
        self.kafka = replace(KafkaSettings(), bootstrap=bootstrap)
        self.names = TopicNames(app.name)
        create_topics(AdminClient(connection(self.kafka)), app.name, PARTITIONS, replication)
        self.wire = Wire(app, schema_ids(None, schemas_of(app)))
        self.given = Given(subject.number, subject.stream.tables, subject.stream.epochs[:REHEARSED])
        self.given.write(directory / "given")
        self.nursery = Nursery(directory / "given", self.log)
        self.feeder = Feeder(self.kafka, self.names.events, subject.messages(self.wire))
        self.watcher = Watcher(self.kafka, self.names, self.wire)
        self.watcher.start()
        self.engine: EngineProcess | None = None
        self.engines: list[EngineProcess] = []

    # --- engines --------------------------------------------------------------------------------------------------

    def start_engine(self, death: Death | None = None) -> EngineProcess:
        self.engine = EngineProcess(self, self._engines_bootstrap, death)
        self.engines.append(self.engine)
        return self.engine

    def end_engine(self) -> None:
        """Kills the newest one, wherever it is."""
        assert self.engine is not None, "an engine was started"
        self.engine.signal(signal.SIGKILL)
        self.engine.reap(PATIENCE_S)

    def wait(self, what: str, happened: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Feeds the input until it happens. The engine must not end of itself."""
        deadline_s = time.monotonic() + timeout_s
        while not happened():
            self.feeder.feed(self.watcher.epoch)
            if self.watcher.failure is not None or self.feeder.errors:
                raise Stuck(self.watcher.failure or self.feeder.errors[0])
            if time.monotonic() > deadline_s:
                epochs = f"epoch {self.watcher.epoch} of {self.feeder.last}"
                unsent = f"{self.feeder.unacknowledged} input messages that no broker took"
                raise Stuck(f"{what}: not within {timeout_s:g} s; {epochs}, {unsent}; {self.last_words()}")
            time.sleep(0.005)

    def warm_up(self) -> None:
        """A first engine, which compiles the application, and is left running."""
        self.start_engine()
        self.wait_progress(2, COMPILING_S)

    def wait_progress(self, epochs: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Until so many more epochs are committed, by an engine that runs."""
        engine, wanted = self.engine, self.watcher.epoch + epochs
        assert engine is not None, "an engine was started"

        def advanced() -> bool:
            if engine.exit_code is not None:
                raise Stuck(f"the engine ended with {engine.exit_code} by itself: {self.last_words()}")
            if self.feeder.ended and self.watcher.epoch >= self.feeder.last:
                raise Stuck("the input is at its end too early")
            return self.watcher.epoch >= wanted

        self.wait(f"{epochs} more epochs", advanced, timeout_s)

    def last_words(self, lines: int = 3) -> str:
        return " / ".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> Judgement:
        """Lets everything come to its end, and judges it."""
        if self.engine is None or self.engine.exit_code is not None:
            self.start_engine()
        engine = self.engine
        assert engine is not None
        self.feeder.ended = True
        last = self.feeder.last

        def done() -> bool:
            if engine.exit_code is not None:
                raise Stuck(f"the engine ended with {engine.exit_code} by itself: {self.last_words()}")
            return self.watcher.epoch >= last and self.feeder.is_handled(self.watcher.handled)

        self.feeder.close()
        self.wait("the end of the input", done)
        engine.signal(signal.SIGTERM)
        code = engine.reap(PATIENCE_S)
        if code != 0:
            raise Stuck(f"the engine was told to stop and ended with {code}: {self.last_words()}")
        expected = self.subject.expected(last + 1)
        final = read_all(self.kafka, result_topics(self.names))
        self.wait("the reader all along", lambda: len(self.watcher.records) >= len(final), 20.0)
        judgement = judge(expected, self.wire, self.names, self.watcher.records, final, self.feeder.places)
        if self.feeder.errors:
            raise Stuck(self.feeder.errors[0])
        for source, snapshots in (("the changelog", None), ("snapshot and changelog", self._snapshots())):
            judgement.add(self._judge_state(expected, snapshots, source))
        return judgement

    def _snapshots(self) -> Snapshots:
        return Snapshots(str(self.directory / "snapshots"))

    def _judge_state(self, expected: Expected, snapshots: Snapshots | None, source: str) -> Judgement:
        app = self.subject.application
        log = KafkaLog(self.kafka, app.name)
        try:
            found = Recovery(app, self.wire, log, snapshots).run(self._make_engine, remembered_epochs=10_000)
            with found.engine as engine:
                return judge_state(app, expected, {table: engine.state(table) for table in app.tables}, source)
        finally:
            log.close()

    def _make_engine(self, state: bytes | None) -> Engine:
        return self.given.make_engine(state, threads=1)

    def close(self) -> None:
        """Ends whatever still runs."""
        for engine in self.engines:
            engine.signal(signal.SIGKILL)
            engine.reap(PATIENCE_S)
        self.nursery.close()
        self.watcher.stop()

    def facts(self) -> dict[str, Any]:
        """How large it was."""
        text = self.log.read_text("utf-8", "replace")
        committed = max(self.watcher.epoch + 1, 0)
        return {
            "epochs": committed,
            "events": sum(len(epoch.events) for epoch in self.subject.stream.epochs[:committed]),
            "repeated": sum(message.repeated for message in self.feeder.sent),
            "lives": len(self.engines),
            "recoveries": text.count("recovered to epoch"),
            "unknown_commits": text.count("the outcome of a commit is unknown"),
        }
