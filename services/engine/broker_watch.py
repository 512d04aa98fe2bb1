"""Asks the broker now and then, beside the service's own clients: does it answer, is the input as it was, how far does it reach?

The service's clients notice an absent broker only when they need it, the ends of partitions only while they read them, and a
deleted topic or an added partition not at all (librdkafka 2.16).
"""

from __future__ import annotations

import logging
import threading

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from services.engine.logs import log_event
from services.engine.progress import Progress
from services.kafka.clients import ClientErrors, connection
from services.settings import KafkaSettings

EVERY_S = 2.0
TIMEOUT_S = 5.0
ODDITIES = 2


class BrokerWatch:
    """A thread that keeps `Progress.broker_away` and `Progress.high_watermarks` true."""

    def __init__(self, settings: KafkaSettings, topic: str, partitions: int, progress: Progress) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        self._topic = topic
        self._oddities = 0  # looks in a row that found the input altered
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
            self._look_at_topic(self._admin)
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

    def _look_at_topic(self, admin: AdminClient) -> None:
        """Twice in a row, because a broker that has just begun may not know its topics yet."""
        found = admin.list_topics(self._topic, timeout=TIMEOUT_S).topics[self._topic]
        expected = len(self._partitions)
        gone = found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        altered = gone or (found.error is None and len(found.partitions) != expected)
        self._oddities = self._oddities + 1 if altered else 0
        if self._oddities >= ODDITIES:
            read = ", ".join(f"partition {p} up to offset {at.low}" for p, at in sorted(self._progress.cursors.items()))
            became = "was deleted" if gone else f"has {len(found.partitions)} partitions now, it had {expected}"
            told = f"the input topic {self._topic} {became}; dealt with: {read or 'nothing'}"
            self._progress.input_problem = f"{told}; restore it, or begin under another name"
