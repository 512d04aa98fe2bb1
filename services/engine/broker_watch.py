"""Asks the broker now and then, beside the service's own clients: does it answer, how far do the input's partitions reach?

The service's clients notice an absent broker only when they need it, and the ends of partitions only while they read them.
"""

from __future__ import annotations

import logging
import threading

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.engine.logs import log_event
from services.engine.progress import Progress
from services.kafka.clients import ClientErrors, connection
from services.settings import KafkaSettings

EVERY_S = 2.0
TIMEOUT_S = 5.0


class BrokerWatch:
    """A thread that keeps `Progress.broker_away` and `Progress.high_watermarks` true."""

    def __init__(self, settings: KafkaSettings, topic: str, partitions: int, progress: Progress) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._progress = progress
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-watch", daemon=True)

    def __enter__(self) -> BrokerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(EVERY_S)  # it may wait for an answer; nobody needs that one any more

    def _run(self) -> None:
        while not self._closed.is_set():
            self.look()
            self._closed.wait(EVERY_S)

    def look(self) -> None:
        """One question, and what its answer means."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {each: latest for each in self._partitions}
        away = False
        try:
            if self._admin is None:
                self._admin = AdminClient(connection(self._settings, ClientErrors()))
            asked = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
            )
            ends = {each.partition: future.result(TIMEOUT_S + 1).offset for each, future in asked.items()}
            self._progress.high_watermarks = ends
        except (KafkaException, TimeoutError) as error:
            away, self._admin = (
                True,
                None,
            )  # a client that lost its broker may know nothing of partitions' leaders for long
            reason = str(error.args[0].str()) if isinstance(error, KafkaException) else "it does not answer in time"
        if away and not self._progress.broker_away:
            log_event(logging.WARNING, "broker_away", f"no broker answers: {reason}")
        elif not away and self._progress.broker_away:
            log_event(logging.INFO, "broker_back", "the broker answers again")
        self._progress.broker_away = away
