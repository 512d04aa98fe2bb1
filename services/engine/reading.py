"""Reads input on a thread of its own, so that whoever decides hears of everything at once and never waits for Kafka.

What was polled is handed over in order, at most `POLLS_WAITING_MAX` polls ahead of what is taken. A reading begins where recovery
says and ends before the next recovery: what it had read by then is nobody's any more. Only this thread touches the consumer:
while one thread polls, another one's call may never return (confluent-kafka 2.16).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from services.engine.facts import Place
from services.engine.kafka_log import KafkaLog

POLLS_WAITING_MAX = 2
POLL_S = 0.05  # how soon an end or a pause that is asked for is noticed; messages come at once


@dataclass(frozen=True)
class Polled:
    """Messages in their partitions' orders; or the error that ended the reading."""

    reading: Reading
    messages: list[tuple[Place, bytes | None]] = field(default_factory=list)
    error: Exception | None = None


class Reading:
    """One reading of the input, from where the log stands now."""

    def __init__(self, log: KafkaLog, deliver: Callable[[Polled], None]) -> None:
        self._log, self._deliver = log, deliver
        self._room = threading.Semaphore(POLLS_WAITING_MAX)
        self._ended, self._changed = threading.Event(), threading.Event()
        self._delivered = self._taken = 0
        self._paused: frozenset[int] = frozenset()
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)
        self._thread.start()

    def taken(self) -> None:
        """One poll's messages are dealt with: there is room for another's."""
        self._taken += 1
        self._room.release()

    def behind(self) -> frozenset[int]:
        """Partitions that may have more messages than were taken."""
        return self._log.behind() if self._delivered == self._taken else frozenset(range(self._log.partitions))

    def pause(self, partitions: frozenset[int]) -> None:
        """These are not read from now on, all others are."""
        self._paused = partitions
        self._changed.set()

    def end(self) -> None:
        """No message is read any more; those that were delivered and not taken are to be dropped."""
        self._ended.set()
        self._changed.set()
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        paused: frozenset[int] = frozenset()
        try:
            while True:
                self._room.acquire()
                messages: list[tuple[Place, bytes | None]] = []
                while not messages:
                    if self._ended.is_set():
                        return
                    wanted = self._paused
                    if len(wanted) == self._log.partitions:
                        # What the client has fetched stays with it; told to pause, it would drop and fetch it again.
                        self._changed.wait(POLL_S)
                        self._changed.clear()
                        continue
                    if wanted != paused:
                        paused = wanted
                        self._log.pause(paused)
                    messages = self._log.poll(POLL_S)
                self._delivered += 1
                self._deliver(Polled(self, messages))
        except Exception as error:  # whoever takes it raises it, such as a connection lost for good
            self._deliver(Polled(self, error=error))
