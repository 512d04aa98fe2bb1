"""Performs the machine's instructions on the real engine, Kafka and disk, and tells it what happened.

Five things go on at once, each on a thread of its own: messages are read (`reading.py`), this thread decodes them, an epoch runs,
the one before is encoded, the one before that is committed; snapshots are written aside. All put what happened into one inbox.
Only this thread empties it and talks to the machine, so decisions come one by one, and nothing waits for a clock.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from engine import Engine, EpochResult
from engine.api.application import Application
from engine.errors import InputError
from schemas.application import record_schemas
from services.codec import DecodedChunk, UnknownSchemaError
from services.codec.registry import RegistryError
from services.engine.attempts import KeptAttempts
from services.engine.encoding import NOTHING_ENCODED, Encoded, encode_epoch, encode_letter
from services.engine.epoch_events import Gathered
from services.engine.executing import Execution, Ran
from services.engine.facts import (
    Arrived,
    Commit,
    CommitLost,
    Committed,
    Execute,
    Executed,
    Fact,
    Fenced,
    Forget,
    ForgetRecords,
    Halt,
    Instruction,
    Letter,
    LetterReason,
    Memory,
    Pause,
    Place,
    Recover,
    Recovered,
    Refused,
    SchemaKnown,
    SchemaUnknown,
    Snapshot,
    SnapshotEnded,
    StopAsked,
    Ticked,
    Undecodable,
    Warn,
)
from services.engine.kafka_log import KafkaLog, Outgoing
from services.engine.logs import log_event
from services.engine.machine import Machine
from services.engine.outcomes import CHUNKS, ResultForm
from services.engine.progress import Progress
from services.engine.reading import Polled, Reading
from services.engine.record_machine import RecordMachine
from services.engine.records import marker_of
from services.engine.recovery import RecoveredState, Recovery
from services.engine.rules import EXIT_HALTED, Rules
from services.engine.single_records import SingleRecords
from services.engine.snapshots import SnapshotFile, Snapshots
from services.engine.wire import MARKER, Wire
from services.errors import AccessError, InputGoneError, KafkaClientError, TakenOverError

TICK_S = 0.25
RETRY_S = 1.0  # between tries to reach Kafka


@dataclass
class _Payload:
    """A message that is still needed: its bytes for dead letters, its events."""

    value: bytes
    chunk: DecodedChunk | None


class Runner:
    """One engine service."""

    def __init__(
        self,
        application: Application,
        wire: Wire,
        log: KafkaLog,
        snapshots: Snapshots | None,
        make_engine: Callable[[bytes | None], Engine],
        rules: Rules,
        attempts: KeptAttempts,
        result_form: ResultForm = CHUNKS,
    ) -> None:
        self.application, self.wire, self.log, self.snapshots = application, wire, log, snapshots
        self.rules = replace(rules, partitions=log.partitions)
        self.records = SingleRecords(record_schemas(application), wire.ids) if log.reads_records else None
        make_machine = RecordMachine if log.reads_records else Machine
        self.machine = make_machine(self.rules, time.monotonic())
        self.progress = Progress()
        self.exit_code: int | None = None
        self.execution = Execution(application, self.progress, attempts, rules.epoch_timeout_s)
        self.make_engine = make_engine
        self._result_form = result_form
        self._engine: Engine | None = None
        self._payloads: dict[Place, _Payload] = {}
        self._ran: dict[int, tuple[Ran, Future[Encoded]]] = {}
        self._log_offsets: dict[str, int] = {}
        self._fires: dict[str, int] | None = None
        self._executing, self._encoding, self._committing, self._writing = (ThreadPoolExecutor(1) for _ in range(4))
        self._under_way: list[Future[Fact]] = []
        self._inbox: SimpleQueue[Polled | Future[Fact] | None] = SimpleQueue()  # None: look at what else there is
        self._reading: Reading | None = None
        self._stop_asked = False
        self._ticked_s = 0.0
        self._not_read: list[tuple[Place, bytes | None]] = []  # from a message on whose schema nobody knows
        self._asked_s = 0.0  # when that was last looked for

    def ask_to_stop(self) -> None:
        """From a signal handler or another thread: what is under way is finished, then `run` returns."""
        self._stop_asked = True
        self._inbox.put(None)

    def read(self, reads: dict[str, Sequence[Any]]) -> tuple[int | None, dict[str, list[dict[str, Any] | None]]] | None:
        """Values of keys as of the last finished epoch, from any thread; None while there is no state."""
        engine = self._engine
        return engine.read(reads) if engine is not None else None

    def run(self) -> int:
        """Until it is stopped or must halt; gives the exit code."""
        try:
            self._perform(self.machine.start())
            while self.exit_code is None:
                self._step()
        except InputGoneError as error:
            self._perform([Halt(str(error), EXIT_HALTED)])
        finally:
            self._end_reading()
            for pool in (self._executing, self._encoding, self._committing, self._writing):
                pool.shutdown(wait=True)
            self.execution.close()
            if self._engine is not None:
                self._engine.close()
        assert self.exit_code is not None, "the loop ends with one"
        return self.exit_code

    def _step(self) -> None:
        """Deals with the next thing that happens; and with the time, if it has passed."""
        self.progress.beat()
        if self._stop_asked:
            self._stop_asked = False
            self._tell(StopAsked())
        now_s = time.monotonic()
        if now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            self.progress.waiting_bytes = self.machine.held_bytes()
            if self.progress.input_problem is not None:
                raise InputGoneError(self.progress.input_problem)
            self._tell(Ticked(now_s, self._reading.behind() if self._reading is not None else frozenset()))
            self._read([])
        with contextlib.suppress(Empty):
            happened = self._inbox.get(timeout=TICK_S)
            self._tell_ended()
            if isinstance(happened, Polled) and happened.reading is self._reading:  # else of before a recovery
                if happened.error is not None:
                    raise happened.error
                self._read(happened.messages)
                happened.reading.taken()

    def _tell_ended(self) -> None:
        for done in [future for future in self._under_way if future.done()]:
            if done in self._under_way:  # a recovery on the way drops them all
                self._under_way.remove(done)
                self._tell(done.result())

    def _begin(self, pool: ThreadPoolExecutor, work: Callable[..., Fact], *arguments: Any) -> None:
        """Starts something whose end the machine is told."""
        future = pool.submit(work, *arguments)
        self._under_way.append(future)
        future.add_done_callback(self._inbox.put)

    def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.end()
            self._reading = None

    def _tell(self, fact: Fact) -> None:
        if self.exit_code is None:
            self._perform(self.machine.handle(fact))

    def _read(self, messages: list[tuple[Place, bytes | None]]) -> None:
        """Tells of these messages; where the schema of one is not known, it and all after it wait."""
        waited = bool(self._not_read)
        self._not_read += messages
        if waited and time.monotonic() - self._asked_s < RETRY_S:
            return
        try:
            while self._not_read and self.exit_code is None:
                self._read_some(waited)
                waited = False
                self._tell_ended()
        except (UnknownSchemaError, RegistryError) as error:
            self._asked_s = time.monotonic()
            self._tell(SchemaUnknown(str(error)))

    def _read_some(self, waited: bool) -> None:
        if isinstance(self.machine, RecordMachine) and self.records is not None:
            with self.progress.phase("decode"):
                facts = self.records.arrive(self._not_read)
            self.progress.saw(self.machine.next_epoch, self.log.message_age_s)
            self._not_read = []
            if waited:
                self._tell(SchemaKnown())
            for fact in facts:
                if self.exit_code is None:
                    self._perform(self.machine.handle(fact))
            return
        place, value = self._not_read[0]
        with self.progress.phase("decode"):
            item, chunk = self.wire.read(value)
        del self._not_read[0]
        if waited:
            self._tell(SchemaKnown())
        if not isinstance(item, Undecodable):
            self.progress.saw(item.epoch, self.log.message_age_s)
        if chunk is not None or isinstance(item, Undecodable):
            self._payloads[place] = _Payload(value or b"", chunk)
        self._tell(Arrived(place, item))

    def _perform(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Recover():
                    self._recover(instruction.why)
                case Execute():
                    self._begin(self._executing, self._execute, instruction)
                case Commit():
                    ran = self._ran.pop(instruction.epoch) if instruction.epoch is not None else (None, None)
                    before = self.machine.memory
                    self._begin(self._committing, self._commit, instruction, *ran, before)
                case Forget():
                    for place in instruction.places:
                        self._payloads.pop(place, None)
                    if self.records is not None:
                        self.records.forget_places(instruction.places)
                case ForgetRecords():
                    if self.records is not None:
                        self.records.forget(instruction.records)
                case Pause():
                    self.progress.paused = instruction.partitions
                    if self._reading is not None:
                        self._reading.pause(instruction.partitions)
                case Snapshot():
                    self._snapshot(instruction.memory)
                case Warn():
                    log_event(logging.WARNING, "warning", instruction.text, next_epoch=self.machine.next_epoch)
                case Halt():
                    self.exit_code = instruction.code
                    level = logging.INFO if instruction.code == 0 else logging.ERROR
                    log_event(level, "ended", instruction.why, exit_code=instruction.code)

    # --- recovery -------------------------------------------------------------------------------------------------

    def _recover(self, why: str) -> None:
        """Everything that is not committed is dropped first: what still runs must not be told to the machine."""
        self.progress.recovery_began()
        self._end_reading()
        for future in self._under_way:
            with contextlib.suppress(KafkaClientError, InputError):
                future.result()
        self._under_way.clear()
        self._payloads.clear()
        self._not_read.clear()
        if self.records is not None:
            self.records.clear()
        self._ran.clear()
        try:
            found = self._recovered_state()
        except TakenOverError as error:
            self._tell(Fenced(str(error)))
            return
        if found is None:
            self._tell(StopAsked())
            return
        for note in found.notes:
            log_event(logging.WARNING, "recovery_note", note)
        self._log_offsets, self._fires = found.log_offsets, found.engine.store.next_fires
        self._reading = Reading(self.log, self._inbox.put)
        self.progress.recovered(found.memory, found.seconds)
        log_event(
            logging.INFO, "recovered", f"recovered to epoch {found.memory.epoch} in {found.seconds:.2f} s ({why})",
            epoch=found.memory.epoch, seconds=round(found.seconds, 3), epochs_followed=found.epochs_followed,
        )  # fmt: skip
        suspect = self.execution.suspect
        self._tell(Recovered(found.memory, suspect.attempts, suspect.epoch))

    def _recovered_state(self) -> RecoveredState | None:
        """Tries until Kafka answers; None if it is to stop first."""
        while not self._stop_asked:
            try:
                self.log.new_producer()
                if self._engine is not None:  # until here it answers queries
                    self._engine.close()
                    self._engine = None
                recovery = Recovery(self.application, self.wire, self.log, self.snapshots)
                found = recovery.run(self.make_engine, self.rules.remembered_epochs)
                self._engine = found.engine
                self.log.seek(found.memory)
                self.execution.recovered(found.memory)
                return found
            except AccessError:
                raise
            except KafkaClientError as error:
                log_event(logging.WARNING, "cannot_recover", f"cannot recover yet, trying again: {error}")
                time.sleep(RETRY_S)
        return None

    # --- an epoch -------------------------------------------------------------------------------------------------

    def _execute(self, wanted: Execute) -> Fact:
        """On the executing thread."""
        engine, records = self._engine, self.records
        assert engine is not None
        try:
            if records is not None:
                ran = self.execution.run(engine, wanted.epoch, lambda: Gathered(records.gather(engine, wanted)))
            else:
                waiting = [(place, self._payloads[place].chunk) for place in wanted.chunks]
                chunks = [(place, chunk) for place, chunk in waiting if chunk is not None]
                ran = self.execution.run_chunks(engine, self.wire.events, wanted, chunks)
        except InputError as error:
            return Refused(wanted.epoch, str(error))
        self._ran[wanted.epoch] = ran, self._encoding.submit(self._encode, ran.result)
        return Executed(wanted.epoch, ran.tally)

    # --- a commit -------------------------------------------------------------------------------------------------

    def _commit(self, wanted: Commit, ran: Ran | None, waiting: Future[Encoded] | None, before: Memory) -> Fact:
        """On the committing thread. One transaction: 1. dead letters, 2. results, 3. changes, 4. the marker, 5. offsets."""
        try:
            encoded = waiting.result() if waiting is not None else NOTHING_ENCODED
            fires = ran.result.changes.next_fires if ran is not None else None
            self._fires = fires if fires is not None else self._fires
            input_topic = (self.log.input_topic, self.log.partitions)
            marker = marker_of(self.application, input_topic, wanted, before, self._fires, len(encoded.changes))
            last = Outgoing(self.log.names.epochs, self.wire.encode(MARKER, marker))
            records = [*self._letters(wanted, ran), *encoded.results, *encoded.changes, last]
            with self.progress.phase("commit"):
                self.log.commit(records, wanted.memory)
        except KafkaClientError as error:  # also if fenced: the recovery finds out by whom
            return CommitLost(str(error))
        self.progress.committed(wanted.memory, ran.result if ran is not None else None)
        return Committed()

    def _encode(self, result: EpochResult) -> Encoded:
        """On the encoding thread, while the epoch before is committed."""
        with self.progress.phase("encode"):
            return encode_epoch(self.wire, self.log.names, result, self._result_form)

    def _letters(self, wanted: Commit, ran: Ran | None) -> list[Outgoing]:
        letters = [self._letter(letter) for letter in wanted.letters]
        for conflict in ran.conflicts if ran is not None else ():
            letters.append(self._letter(Letter(conflict.place, LetterReason.CONFLICT, conflict.detail)))
        return letters

    def _letter(self, letter: Letter) -> Outgoing:
        payload = self._payloads.get(letter.place)
        if self.records is not None:
            payload = _Payload(self.records.value(letter.place) or b"", None)
        value, chunk = (payload.value, payload.chunk) if payload is not None else (b"", None)
        return encode_letter(self.wire, self.log.names, self.log.input_topic, letter, value, chunk)

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _snapshot(self, memory: Memory) -> None:
        """No epoch runs now; the bytes are taken at once and written aside."""
        if self.snapshots is None or self._engine is None:
            self._tell(SnapshotEnded(memory.epoch))
            return
        # What a topic's records end with is at or before the marker of this epoch: reading a little twice does no harm.
        offsets = {**self._log_offsets, **{t: at for t, at in self.log.written.items() if t in self._log_offsets}}
        input_topic = (self.log.input_topic, self.log.partitions)
        declaration = {**self.application.state_declaration(), "input": input_topic}
        file = SnapshotFile(memory, offsets, self._engine.snapshot(), declaration)
        self._begin(self._writing, self._write_snapshot, self.snapshots, file)

    def _write_snapshot(self, snapshots: Snapshots, file: SnapshotFile) -> Fact:
        try:
            snapshots.write(file)
            why = None
        except OSError as error:
            why = f"{type(error).__name__}: {error}"
        self.progress.snapshot_ended(file.memory.epoch, why)
        return SnapshotEnded(file.memory.epoch, why)
