"""The engine service's decisions: facts in, instructions out; no Kafka, no threads, no clock.

An epoch's way: its messages gather in an `Assembly`; complete, it is closed and executed; executed, it is committed with all dead
letters and counts that came up meanwhile; committed, its payloads are forgotten. The next epoch may execute while the one before
commits. Whenever the outcome of a commit is unknown, everything that is not committed is dropped and recovered from the log.

Invariants: epochs are executed and committed one by one in order; one commit is under way at a time; a message is handled by
exactly one commit, and a commit's memory says so for every message that it handled.
"""

from __future__ import annotations

from enum import Enum

from sortedcontainers import SortedDict

from services.engine.assembly import Assembly, Contradiction, Waiting
from services.engine.closed import Closed
from services.engine.cutting import Cut
from services.engine.facts import (
    Arrived,
    Chunk,
    Commit,
    CommitLost,
    Committed,
    Execute,
    Executed,
    Fact,
    Fenced,
    Forget,
    Halt,
    Identity,
    Instruction,
    Item,
    Letter,
    LetterReason,
    Memory,
    Pause,
    Place,
    Punctuation,
    Recover,
    Recovered,
    Refused,
    SchemaKnown,
    SchemaUnknown,
    Snapshot,
    SnapshotEnded,
    StopAsked,
    Tally,
    Ticked,
    Undecodable,
    Warn,
)
from services.engine.patience import Patience
from services.engine.remembering import remember_chunks, remember_epoch, remember_messages
from services.engine.rules import EXIT_CLEAN, EXIT_FENCED, EXIT_HALTED, RESUME_BELOW, OnIncomplete, Rules


class Phase(Enum):
    """What the machine is about."""

    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"  # what is under way is finished, nothing new begins
    ENDED = "ended"


class Machine:
    """One shard's decisions. `handle` takes a fact and gives what is to be done about it, in order."""

    def __init__(self, rules: Rules, now_s: float) -> None:
        """`now_s` and all later `Ticked` are monotonic seconds; only their differences mean anything."""
        self.rules = rules
        self.phase = Phase.RECOVERING
        self.now_s = now_s
        self.quarantined: int | None = None
        self.behind: frozenset[int] = frozenset()  # partitions that are not read to their end
        self.unknown_schema: tuple[str, float] | None = None  # which, and since when; nothing is read meanwhile
        self._begin_anew(Memory(), 0)

    def start(self) -> list[Instruction]:
        return [Recover("start")]

    def handle(self, fact: Fact) -> list[Instruction]:
        """What follows from the fact."""
        if self.phase is Phase.ENDED:
            return []
        match fact:
            case Recovered():
                self._begin_anew(fact.memory, fact.attempts)
                if fact.attempted is not None and fact.attempts >= self.rules.attempts:
                    self.quarantined = fact.attempted
                self.phase = Phase.RUNNING
                return [Pause(frozenset()), *self._go_on()]
            case Arrived():
                return self._arrive(fact.place, fact.item)
            case Executed():
                return self._executed(fact)
            case Refused():
                return self._refused(fact)
            case Committed():
                return self._committed()
            case CommitLost():
                return self._lost(fact.why)
            case Fenced():
                return self._end(f"another engine with this id has begun: {fact.why}", EXIT_FENCED)
            case SnapshotEnded():
                self.snapshotting = False
                kept = f"the snapshot of epoch {fact.epoch} failed, the one before is kept: {fact.error}"
                return [Warn(kept)] if fact.error is not None else []
            case Ticked():
                self._tick(fact)
                return self._go_on()
            case SchemaUnknown():
                return self._schema_unknown(fact.why)
            case SchemaKnown():
                self.unknown_schema = None
                return self._go_on()
            case StopAsked():
                return self._stop()

    def _tick(self, fact: Ticked) -> None:
        self.now_s = max(self.now_s, fact.now_s)
        self.behind = fact.behind

    def _begin_anew(self, memory: Memory, attempts: int) -> None:
        """As after the last commit: nothing read beyond it, nothing under way."""
        self.memory = memory
        self.quarantined = memory.epoch + 1 if attempts >= self.rules.attempts else None
        self.next_epoch = memory.epoch + 1
        self.last_ts = memory.punctuation_ts
        self.assemblies: SortedDict[int, Assembly] = SortedDict()
        self.executing: Closed | None = None
        self.executed: Closed | None = None
        self.committing: tuple[Commit, frozenset[Place]] | None = None
        self.letters: list[Letter] = []
        self.loose: set[Place] = set()  # messages of no open epoch, to be handled by the next commit
        self.loose_since_s = self.now_s  # since there are any
        self.tally = Tally()  # of those
        self.late: dict[int, frozenset[Identity]] = {}  # chunks among them that came after their epoch was closed
        self.seen: dict[int, int] = {}  # the newest offset of each partition
        self.snapshotting = False
        self.snapshot_due: int | None = None  # the epoch after whose commit one is taken; none begins before
        self.paused: frozenset[int] = frozenset()
        self.unknown_schema = None
        self.patience = Patience(self.now_s)

    # --- messages -------------------------------------------------------------------------------------------------

    def _arrive(self, place: Place, item: Item) -> list[Instruction]:
        if self.phase is not Phase.RUNNING or place.offset <= self.seen.get(place.partition, -1):
            return []
        self.seen[place.partition] = place.offset
        cursor = self.memory.cursors.get(place.partition)
        if cursor is not None and cursor.has(place.offset):
            return [Forget((place,))]  # read again after a recovery, dealt with long ago
        match item:
            case Undecodable():
                self._dead_letter(Letter(place, LetterReason.UNDECODABLE, item.reason), Tally(undecodable=1))
            case Chunk() | Punctuation() if item.source not in self.rules.sources:
                known = ", ".join(map(str, sorted(self.rules.sources)))
                letter = Letter(place, LetterReason.UNKNOWN_SOURCE, f"source {item.source}, expected {known}")
                self._dead_letter(letter, Tally(dead_lettered=item.events if isinstance(item, Chunk) else 0))
            case Chunk():
                return [*self._arrive_chunk(place, item), *self._go_on()]
            case Punctuation():
                if item.epoch >= self.next_epoch:
                    self._assembly(item.epoch).add_punctuation(place, item)
                else:
                    self._pass_over(place, Tally(repeated=1))
        return self._go_on()

    def _arrive_chunk(self, place: Place, chunk: Chunk) -> list[Instruction]:
        if chunk.epoch >= self.next_epoch:
            is_new = self._assembly(chunk.epoch).add_chunk(place, chunk)
            return [] if is_new else [Forget((place,))]
        known = self._identities(chunk.epoch)
        if chunk.identity in known:
            self._pass_over(place, Tally(repeated=1, duplicates=chunk.events))
            return [Forget((place,))]
        detail = f"epoch {chunk.epoch} is closed, {self.next_epoch} is next"
        if any(chunk.source == source and chunk.number == number for source, number, _ in known):
            self._dead_letter(Letter(place, LetterReason.CONFLICT, detail), Tally(conflicts=chunk.events))
        else:
            self._dead_letter(Letter(place, LetterReason.LATE, detail), Tally(dead_lettered=chunk.events))
        self.late[chunk.epoch] = self.late.get(chunk.epoch, frozenset()) | {chunk.identity}
        return []

    def _assembly(self, epoch: int) -> Assembly:
        if epoch not in self.assemblies:
            self.assemblies[epoch] = Assembly(epoch)
        found: Assembly = self.assemblies[epoch]
        return found

    def _identities(self, epoch: int) -> frozenset[Identity]:
        """The chunks that came for a closed epoch, in time or not, committed or on their way there."""
        known = self.late.get(epoch, frozenset())
        for closed in (self.executing, self.executed):
            if closed is not None and closed.assembly.number == epoch:
                known |= closed.assembly.identities
        memory = self.committing[0].memory if self.committing is not None else self.memory
        return known | memory.closed.get(epoch, frozenset())

    def _pass_over(self, place: Place, tally: Tally) -> None:
        """A message that belongs to no open epoch: the next commit handles and counts it."""
        if not self.loose:
            self.loose_since_s = self.now_s
        self.loose.add(place)
        self.tally += tally

    def _dead_letter(self, letter: Letter, tally: Tally) -> None:
        self.letters.append(letter)
        self._pass_over(letter.place, tally)

    # --- epochs ---------------------------------------------------------------------------------------------------

    def _go_on(self) -> list[Instruction]:
        """Begins what can begin: the next epoch, the next commit; pauses or resumes reading."""
        if self.phase not in (Phase.RUNNING, Phase.STOPPING):
            return []
        if self.unknown_schema is not None and self.now_s - self.unknown_schema[1] >= self.rules.schema_timeout_s:
            return self._end(self.unknown_schema[0], EXIT_HALTED)
        begun = self._begin_commit()
        if self.phase is Phase.RUNNING:
            begun += self._begin_epoch()
        if self._is_stopped():
            return [*begun, *self._end("stopped as asked", EXIT_CLEAN)]
        return begun + self._regulate()

    def _begin_epoch(self) -> list[Instruction]:
        if self.executing is not None or self.executed is not None or self.snapshot_due is not None:
            return []
        assembly = self.assemblies.get(self.next_epoch) or Assembly(self.next_epoch)
        status = assembly.status(self.rules.partitions, self.rules.sources)
        if isinstance(status, Contradiction):
            return self._end(status.why, EXIT_HALTED)
        if isinstance(status, Waiting):
            return self._wait(assembly, status)
        ts = status.punctuation_ts
        if self.last_ts is not None and ts < self.last_ts:
            return self._end(
                f"epoch {assembly.number} is punctuated at {ts}, epoch {assembly.number - 1} at {self.last_ts}; "
                "punctuations must not go back",
                EXIT_HALTED,
            )
        if self.quarantined == assembly.number:
            why = f"begun {self.rules.attempts} times and never ended"
            return self._give_up(assembly, ts, LetterReason.QUARANTINED, why)
        return self._close(assembly, Execute(assembly.number, ts, status.chunks))

    def _close(self, assembly: Assembly | Cut, work: Execute, letters: tuple[Letter, ...] = ()) -> list[Instruction]:
        self.assemblies.pop(work.epoch, None)
        self.executing = Closed(assembly, work.punctuation_ts, letters)
        self.next_epoch, self.last_ts = work.epoch + 1, work.punctuation_ts
        self.patience.end()
        return [work]

    def _give_up(self, assembly: Assembly | Cut, ts: int, reason: LetterReason, why: str) -> list[Instruction]:
        """The epoch passes without its events, which all become dead letters; its time passes all the same."""
        letters = tuple(Letter(place, reason, why) for place in assembly.messages)
        what = f"epoch {assembly.number} goes to the dead letters whole ({reason}): {why}"
        return [Warn(what), *self._close(assembly, Execute(assembly.number, ts, ()), letters)]

    def _wait(self, assembly: Assembly, status: Waiting) -> list[Instruction]:
        """Warns now and then; after the limit an epoch whose punctuations are all there is given up, or the service."""
        may_still_come = status.punctuated and status.partition in self.behind
        waited_s = self.patience.waited_s(status, self.now_s, anew=may_still_come)
        if status.punctuated and waited_s >= self.rules.incomplete_timeout_s:
            why = f"{status.why}, after {waited_s:.0f} s"
            if self.rules.on_incomplete is OnIncomplete.HALT:
                return self._end(why, EXIT_HALTED)
            ts = next(iter(assembly.punctuations.values()))[1].ts
            return self._give_up(assembly, ts, LetterReason.INCOMPLETE, why)
        if self._holds_anything() and self.patience.is_warning_due(self.now_s, self.rules.warn_every_s):
            return [Warn(f"waiting for {waited_s:.0f} s: {status.why}")]
        return []

    def _holds_anything(self) -> bool:
        return bool(self.assemblies)

    def _executed(self, fact: Executed) -> list[Instruction]:
        closed = self.executing
        if closed is None or closed.assembly.number != fact.epoch:
            return []  # of before a recovery
        closed.tally = fact.tally + closed.assembly.repeated
        if closed.letters:
            closed.tally += closed.assembly.given_up()
        self.executing, self.executed = None, closed
        if (fact.epoch + 1) % self.rules.snapshot_every_epochs == 0 and not self.snapshotting:
            self.snapshot_due = fact.epoch
        return self._go_on()

    def _refused(self, fact: Refused) -> list[Instruction]:
        closed = self.executing
        if closed is None or closed.assembly.number != fact.epoch:
            return []
        if self.rules.on_incomplete is OnIncomplete.HALT or closed.letters:  # given up already: it is not the events
            return self._end(fact.why, EXIT_HALTED)
        return self._give_up(closed.assembly, closed.punctuation_ts, LetterReason.INCOMPLETE, fact.why)

    # --- commits --------------------------------------------------------------------------------------------------

    def _begin_commit(self) -> list[Instruction]:
        if self.committing is not None:
            return []
        closed, self.executed = self.executed, None
        waited_s = self.now_s - self.loose_since_s
        due = self.loose and (waited_s >= self.rules.loose_timeout_s or self.phase is Phase.STOPPING)
        if closed is None and not due:
            return []
        handled = frozenset(self.loose | (closed.assembly.places if closed is not None else set()))
        letters = (*self.letters, *(closed.letters if closed is not None else ()))
        commit = Commit(
            closed.assembly.number if closed is not None else None, letters, self._remember(closed, handled)
        )
        self.committing = commit, handled
        self.loose, self.letters, self.tally, self.late = set(), [], Tally(), {}
        return [commit]

    def _remember(self, closed: Closed | None, handled: frozenset[Place]) -> Memory:
        """The memory as it will be once this is committed."""
        open_places = {place for assembly in self.assemblies.values() for place in assembly.places}
        if self.executing is not None:
            open_places |= self.executing.assembly.places
        after = remember_messages(self.memory, self.seen, open_places, handled, self.tally)
        if closed is not None:
            number, ts = closed.assembly.number, closed.punctuation_ts
            after = remember_epoch(after, number, ts, closed.assembly.identities, closed.tally)
        return remember_chunks(after, self.late, self.rules.remembered_epochs)

    def _committed(self) -> list[Instruction]:
        if self.committing is None:
            return []
        (commit, handled), self.committing = self.committing, None
        self.memory = commit.memory
        done: list[Instruction] = [Forget(tuple(sorted(handled)))]
        if commit.epoch is not None and commit.epoch == self.snapshot_due:
            self.snapshot_due, self.snapshotting = None, True
            done.append(Snapshot(self.memory))
        return done + self._go_on()

    def _lost(self, why: str) -> list[Instruction]:
        if self.phase is Phase.RECOVERING:
            return []
        self.phase = Phase.RECOVERING
        return [Warn(f"the outcome of a commit is unknown ({why}); reading the last marker"), Recover(why)]

    # --- memory, stopping -----------------------------------------------------------------------------------------

    def _regulate(self) -> list[Instruction]:
        """Pauses partitions that are ahead while too much waits; those that the next epoch needs are always read."""
        limit = self.rules.pause_above_bytes * (RESUME_BELOW if self.paused else 1)
        paused: frozenset[int] = frozenset()
        if self.held_bytes() > limit:
            paused, needed = self._ahead()
            idle = self.executing is None and self.executed is None and self.committing is None
            if needed > self.rules.memory_bytes and idle:
                return self._end(
                    f"epoch {self.next_epoch} holds {needed} bytes and is not complete, the memory cap is "
                    f"{self.rules.memory_bytes}; punctuate more often or raise the cap",
                    EXIT_HALTED,
                )
        if self.unknown_schema is not None:
            paused = frozenset(range(self.rules.partitions))
        if paused == self.paused:
            return []
        self.paused = paused
        return [Pause(paused)]

    def held_bytes(self) -> int:
        """Of payloads that wait."""
        held: int = sum(assembly.size_bytes for assembly in self.assemblies.values())
        return held + (self.executing.assembly.size_bytes if self.executing is not None else 0)

    def _ahead(self) -> tuple[frozenset[int], int]:
        """The partitions that the next epoch does not need, and the bytes that it holds already."""
        following = self.assemblies.get(self.next_epoch) or Assembly(self.next_epoch)
        partitions = range(self.rules.partitions)
        paused = frozenset(p for p in partitions if following.is_complete_in(p, self.rules.sources))
        return paused, following.size_bytes

    def _schema_unknown(self, why: str) -> list[Instruction]:
        """Of a message that nothing can be said about yet: reading stops until it is known, or the time is up."""
        if self.unknown_schema is not None:
            return []
        self.unknown_schema = f"{why}; the message cannot be passed over, for it may be an event", self.now_s
        return [Warn(f"{why}; asking again for {self.rules.schema_timeout_s:.0f} s"), *self._go_on()]

    def _stop(self) -> list[Instruction]:
        if self.phase is Phase.RECOVERING:
            return self._end("stopped while recovering", EXIT_CLEAN)
        self.phase = Phase.STOPPING
        return self._go_on()

    def _is_stopped(self) -> bool:
        return self.phase is Phase.STOPPING and (self.executing, self.executed, self.committing) == (None, None, None)

    def _end(self, why: str, code: int) -> list[Instruction]:
        self.phase = Phase.ENDED
        return [Halt(why, code)]
