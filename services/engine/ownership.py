"""Which engine owns a transactional id: the one that claimed it last.

A producer is fenced by any newer one with its id, also by our own next one, and by the broker itself when a transaction takes too
long. So being fenced does not say that another engine has begun. The claim does: a name, unique to the process, in the metadata
of the group's offset of partition 0, committed in a transaction before anything else. Whoever finds a later claim than its own
ends. An engine that was fenced before it could claim tries again, so of two engines with one id the older ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid

from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition

from services.errors import KafkaClientError, TakenOverError
from services.kafka.clients import ClientErrors, bounded, typed_errors

GLANCE_S = 2.0  # for a look that may fail: while a transaction is open, Kafka does not tell its offsets


class Ownership:
    """One process's claim on a transactional id. `group` is a consumer of the group that has the id's name."""

    def __init__(self, transactional_id: str, group: Consumer, topic: str, errors: ClientErrors) -> None:
        self.claim = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
        self.group = group  # whose place another one of the same group can take
        self._id, self._topic, self._errors = transactional_id, topic, errors
        # Asked for once: while another thread polls the consumer, the call never returns (confluent-kafka 2.16).
        self._metadata = group.consumer_group_metadata()
        self._claimed = False

    def glance(self) -> None:
        """Before a new producer fences anybody: raises TakenOverError if another engine is known to have begun."""
        if self._claimed:
            with contextlib.suppress(KafkaClientError):
                self._refuse(self._claim_found(GLANCE_S))

    def take(self, producer: Producer, timeout_s: float) -> None:
        """With a producer that has just been initialised, so that no transaction of the id is open: claims, or raises
        TakenOverError."""
        found = self._claim_found(timeout_s)
        if self._claimed:
            self._refuse(found)
        with typed_errors(f"claiming {self._id}", self._errors):
            producer.begin_transaction()
            mine = TopicPartition(self._topic, 0, max(found.offset, 0), metadata=self.claim)
            self.send_offsets(producer, [mine], timeout_s)
            producer.commit_transaction(timeout_s)
        self._claimed = True

    def send_offsets(self, producer: Producer, offsets: list[TopicPartition], timeout_s: float) -> None:
        """Into the producer's transaction. `offsets` carry the claim as their metadata."""
        bounded(
            lambda: producer.send_offsets_to_transaction(offsets, self._metadata, timeout_s),
            "sending offsets",
            timeout_s + GLANCE_S,
        )

    def _claim_found(self, timeout_s: float) -> TopicPartition:
        with typed_errors(f"asking who owns {self._id}", self._errors):
            (found,) = self.group.committed([TopicPartition(self._topic, 0, OFFSET_INVALID)], timeout_s)
        return found

    def _refuse(self, found: TopicPartition) -> None:
        if found.metadata and found.metadata != self.claim:
            raise TakenOverError(
                f"{self._id} belongs to {found.metadata} now, this is {self.claim}; run one engine with this name"
            )
