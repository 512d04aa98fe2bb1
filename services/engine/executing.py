"""Runs epochs on the engine, under the watchdog's eyes; an epoch that is suspected of not ending, operation by operation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine import Application, Engine, EpochResult
from engine.errors import InputError
from services.codec import DecodedChunk
from services.codec.rows import RowCodec
from services.engine.attempts import Attempted, KeptAttempts
from services.engine.epoch_events import Conflict, Gathered, gather, gather_first_copies
from services.engine.facts import Execute, Memory, Place, Tally
from services.engine.logs import log_event
from services.engine.progress import Progress
from services.engine.watchdog import Watchdog
from services.errors import KafkaClientError


@dataclass(frozen=True)
class Ran:
    """An epoch that was executed and waits for its commit."""

    result: EpochResult
    duplicates: int = 0
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def tally(self) -> Tally:
        result = self.result
        conflicts = sum(len(conflict.seqs) for conflict in self.conflicts)
        return Tally(result.committed, result.failed, result.filtered, duplicates=self.duplicates, conflicts=conflicts)


class Execution:
    """What runs epochs, one at a time."""

    def __init__(
        self, application: Application, progress: Progress, attempts: KeptAttempts, epoch_timeout_s: float
    ) -> None:
        self._application, self._progress, self._attempts = application, progress, attempts
        self._engine: Engine | None = None  # while it runs one
        self._watchdog = Watchdog(epoch_timeout_s, attempts, self._where)
        self.suspect = Attempted()  # the epoch to come that was begun before and did not end

    def recovered(self, memory: Memory) -> Attempted:
        """After a recovery: looks up what is suspected, if anything."""
        try:
            found = self._attempts.last()
        except KafkaClientError as error:  # it may be noted again; the state is what must be known
            log_event(logging.WARNING, "attempts_unknown", f"going on without: {error}")
            found = Attempted()
        if found.epoch <= memory.epoch or found.attempts == 0:
            found = Attempted(memory.epoch + 1, 0)
        else:
            text = f"epoch {found.epoch} was begun and did not end; it is run operation by operation"
            log_event(logging.WARNING, "suspect_epoch", text, epoch=found.epoch, attempts=found.attempts)
        self.suspect = found
        return found

    def run_chunks(
        self,
        engine: Engine,
        codecs: Mapping[str, RowCodec],
        wanted: Execute,
        chunks: Sequence[tuple[Place, DecodedChunk]],
    ) -> Ran:
        """An epoch of chunks. InputError if the engine refuses it."""
        number, ts = wanted.epoch, wanted.punctuation_ts
        try:
            return self.run(engine, number, lambda: gather(engine, number, ts, chunks))
        except InputError:  # perhaps an event came twice, in chunks that differ
            first_copies = gather_first_copies(engine, codecs, number, ts, chunks)
            if not first_copies.duplicates and not first_copies.conflicts:
                raise
            return self.run(engine, number, lambda: first_copies)

    def run(self, engine: Engine, number: int, gather_events: Callable[[], Gathered]) -> Ran:
        """An epoch of whatever is gathered."""
        self._engine = engine
        careful = self.suspect.attempts > 0 and self.suspect.epoch == number
        try:
            with self._watchdog.watching(number):
                with self._progress.phase("plan"):
                    gathered = gather_events()
                result = engine.run_epoch(gathered.epoch, careful=careful)
        finally:
            self._engine = None
        self._progress.executed(result)
        return Ran(result, gathered.duplicates, gathered.conflicts)

    def _where(self) -> str:
        """What the epoch that runs is at, asked from the watchdog's thread."""
        engine = self._engine
        place = engine.running_place() if engine is not None else None
        if place is not None:
            return place
        types = ", ".join(self._application.input_types)
        return (
            f"in a user function of one of {types}; which one is known once it runs operation by operation, next time"
        )

    def close(self) -> None:
        self._watchdog.close()
