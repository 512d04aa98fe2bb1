"""How often an epoch was begun and never ended, kept where the process's death does not reach: with the broker.

It is the metadata of an offset that a consumer group of its own commits: `{"epoch": 7, "attempts": 2}`. There is at most one
such epoch, the one after the last commit or the one after that; an attempt at another epoch takes its place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from services.kafka.clients import ClientErrors, committed_consumer, typed_errors
from services.settings import KafkaSettings

LOOK_S = 10.0


@dataclass(frozen=True)
class Attempted:
    """An epoch, and how often in a row it was begun without an end."""

    epoch: int = -1
    attempts: int = 0


class KeptAttempts:
    """The attempts of one engine; `transactional_id` names it."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, topic: str) -> None:
        self._settings, self._group, self._topic = settings, f"{transactional_id}-attempts", topic

    def last(self) -> Attempted:
        """What is kept."""
        consumer, errors = self._consumer()
        try:
            with typed_errors("reading the attempts at an epoch", errors):
                where = [TopicPartition(self._topic, 0, OFFSET_INVALID)]
                (found,) = consumer.committed(where, min(LOOK_S, self._settings.request_timeout_s))
            return Attempted(**json.loads(found.metadata)) if found.metadata else Attempted()
        finally:
            consumer.close()

    def note(self, epoch: int) -> int:
        """One more attempt at the epoch; gives how many there are now."""
        before = self.last()
        attempts = 1 + (before.attempts if before.epoch == epoch else 0)
        self._keep(Attempted(epoch, attempts))
        return attempts

    def strike(self, epoch: int) -> int:
        """The epoch ended: none of its attempts counts."""
        self._keep(Attempted(epoch, 0))
        return 0

    def _keep(self, attempted: Attempted) -> None:
        consumer, errors = self._consumer()
        try:
            with typed_errors("writing down an attempt at an epoch", errors):
                kept = TopicPartition(self._topic, 0, 0, metadata=json.dumps(asdict(attempted)))
                consumer.commit(offsets=[kept], asynchronous=False)
        finally:
            consumer.close()

    def _consumer(self) -> tuple[Consumer, ClientErrors]:
        errors = ClientErrors()
        return Consumer(committed_consumer(self._settings, self._group, errors)), errors
