"""Ends the process when an epoch does not end: a compiled user function in an endless loop heeds neither signals nor exceptions.

An epoch that has run for half of its time is written down as an attempt (`attempts.py`), and struck off when it ends after all.
So a process that dies with an epoch of ordinary length, by whatever hand, leaves no attempt behind.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from services.engine.logs import log_event
from services.engine.rules import EXIT_ENDLESS
from services.errors import KafkaClientError

EVERY_S = 0.5
LOOKS = 20  # at an epoch within its time


class Attempts(Protocol):
    """Where attempts at an epoch are kept beyond the process's death."""

    def note(self, epoch: int) -> int:
        """One more attempt at the epoch, as the last one that is known; gives how many."""
        ...

    def strike(self, epoch: int) -> int:
        """The epoch ended: none counts any more."""
        ...


@dataclass
class _Watched:
    """An epoch that runs."""

    epoch: int
    begun_s: float
    tries: int | None = None  # with this one, once it is written down


class Watchdog:
    """Watches one epoch at a time. `where` names what the epoch is at, as far as that is known."""

    def __init__(
        self,
        limit_s: float,
        attempts: Attempts,
        where: Callable[[], str],
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._limit_s, self._attempts, self._where, self._end = limit_s, attempts, where, end
        self._lock = threading.Lock()
        self._watched: _Watched | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @contextmanager
    def watching(self, epoch: int) -> Iterator[None]:
        """The body runs the epoch."""
        watched = self._watched = _Watched(epoch, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                self._watched = None
                if watched.tries is not None:
                    self._keep(watched, lambda: self._attempts.strike(epoch))

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(min(self._limit_s / LOOKS, EVERY_S)):
            watched = self._watched
            if watched is None:
                continue
            age_s = time.monotonic() - watched.begun_s
            if age_s >= self._limit_s / 2 and watched.tries is None:
                self._note(watched)
            if age_s >= self._limit_s and self._watched is watched:
                self._end_process(watched)

    def _note(self, watched: _Watched) -> None:
        with self._lock:
            if self._watched is not watched:
                return
            watched.tries = 0
            self._keep(watched, lambda: self._attempts.note(watched.epoch))
        text = f"epoch {watched.epoch} has run for half of its time"
        log_event(logging.WARNING, "slow_epoch", text, epoch=watched.epoch, attempts=watched.tries)

    def _keep(self, watched: _Watched, what: Callable[[], int]) -> None:
        try:
            watched.tries = what()
        except KafkaClientError as error:
            log_event(logging.WARNING, "attempt_not_kept", f"an attempt cannot be written down: {error}")

    def _end_process(self, watched: _Watched) -> None:
        text = f"epoch {watched.epoch} does not end: {self._where()}"
        numbers = {"epoch": watched.epoch, "attempts": watched.tries, "seconds": self._limit_s}
        log_event(logging.CRITICAL, "endless_epoch", text, **numbers, exit_code=EXIT_ENDLESS)
        for handler in logging.getLogger().handlers:
            handler.flush()
        self._end(EXIT_ENDLESS)
        self._closed.set()
