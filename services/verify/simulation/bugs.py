"""Known mistakes in the service's decisions, applied to copies of its modules one at a time; the simulation must find each."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from services.engine import assembly, cutting, machine, record_machine, remembering
from services.verify.simulation.run import MakeMachine


@dataclass(frozen=True)
class Bug:
    """One mistake: what it is, in which module, and the text it changes."""

    name: str
    module: ModuleType
    right: str
    wrong: str

    @property
    def mode(self) -> str:
        """The kind of input that shows it."""
        return "records" if self.module in (cutting, record_machine) else "chunks"


BUGS = (
    Bug("messages that were handled are read again", machine,
        "if cursor is not None and cursor.has(place.offset):", "if False:"),
    Bug("handled messages beyond the first open one are forgotten", remembering,
        "Cursor(low, frozenset(offset for offset in done if offset >= low))", "Cursor(low)"),
    Bug("the cursor moves past open epochs", remembering, "min(waiting, default=newest + 1)", "newest + 1"),
    Bug("the cursor moves past the epoch that runs", machine,
        "open_places |= self.executing.assembly.places", "pass"),
    Bug("a lost acknowledgement counts as a commit", machine,
        "return self._lost(fact.why)", "return self._committed()"),
    Bug("a lost acknowledgement counts as a failure, the commit is repeated", machine,
        "return self._lost(fact.why)", "return [self.committing[0]] if self.committing else []"),
    Bug("chunks of closed epochs are not remembered", remembering,
        "known = memory.closed.get(number, frozenset()) | chunks", "known = memory.closed.get(number, frozenset())"),
    Bug("chunks of the epoch that runs are not remembered", machine,
        "known |= closed.assembly.identities", "pass"),
    Bug("late chunks are not remembered", machine,
        "self.late[chunk.epoch] = self.late.get(chunk.epoch, frozenset()) | {chunk.identity}", "pass"),
    Bug("late copies that differ pass for duplicates", machine,
        "self._dead_letter(Letter(place, LetterReason.CONFLICT, detail), Tally(conflicts=chunk.events))",
        "self._pass_over(place, Tally(conflicts=chunk.events))"),
    Bug("a snapshot has an epoch that is not committed", machine,
        "commit.epoch is not None and commit.epoch == self.snapshot_due", "self.snapshot_due is not None"),
    Bug("the next epoch begins before the snapshot", machine,
        " or self.snapshot_due is not None", ""),
    Bug("counts begin anew with every commit", remembering,
        "cursors=cursors, tally=memory.tally + tally", "cursors=cursors, tally=tally"),
    Bug("dead letters are dropped", machine,
        "letters = (*self.letters, *(closed.letters if closed is not None else ()))", "letters = ()"),
    Bug("dead letters are sent again", machine,
        "self.loose, self.letters, self.tally, self.late = set(), [], Tally(), {}",
        "self.loose, self.tally, self.late = set(), Tally(), {}"),
    Bug("messages without an epoch are never handled", machine,
        "handled = frozenset(self.loose | ", "handled = frozenset(set() | "),
    Bug("payloads are dropped when their epoch begins", machine,
        "        return [work]", "        return [work, Forget(work.chunks)]"),
    Bug("the last committed epoch runs again after a restart", machine,
        "self.next_epoch = memory.epoch + 1", "self.next_epoch = max(memory.epoch, 0)"),
    Bug("a restart forgets what was closed", machine,
        "self.memory = memory\n", "self.memory = Memory(memory.epoch, memory.punctuation_ts, memory.cursors)\n"),
    Bug("partitions that the next epoch needs are paused", machine,
        "following.is_complete_in(p, self.rules.sources)", "True"),
    Bug("an epoch that is given up leaves no letters", machine,
        "letters = tuple(Letter(place, reason, why) for place in assembly.messages)", "letters = ()"),
    Bug("an epoch is given up while its messages wait to be read", machine,
        "may_still_come = status.punctuated and status.partition in self.behind", "may_still_come = False"),
    Bug("repeated messages wait for an epoch that may never come", machine,
        "due = self.loose and (", "due = self.letters and ("),
    Bug("an epoch begins without all its chunks", assembly,
        "        if len(arrived) != punctuation.chunks:", "        return None\n        if len(arrived) != punctuation.chunks:"),
    Bug("the punctuations of one partition are enough", assembly,
        "itertools.product(range(partitions), sorted(sources))", "itertools.product(range(1), sorted(sources))"),
    Bug("the punctuation of one source is enough", assembly,
        "itertools.product(range(partitions), sorted(sources))", "itertools.product(range(partitions), [0])"),
    Bug("a differing copy passes for a duplicate", assembly, "if chunk.checksum in copies:", "if copies:"),
    Bug("the last copy of an event wins", assembly,
        "return sorted(found, key=lambda copy: copy[0])", "return sorted(found, key=lambda copy: copy[0], reverse=True)"),
)  # fmt: skip


def is_stale(bug: Bug) -> bool:
    """Whether the text to change is gone: the list moves with the code."""
    return bug.right not in _source(bug.module)


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8")


@contextmanager
def broken(bug: Bug) -> Iterator[MakeMachine]:
    """A machine with the mistake in it. The real modules stay as they are."""
    modules = (assembly, cutting, remembering, machine, record_machine)  # each imports only those before it
    real = {module.__name__: sys.modules[module.__name__] for module in modules}
    try:
        for module in modules:
            source = _source(module)
            if module is bug.module:
                source = source.replace(bug.right, bug.wrong, 1)
            spec = importlib.util.find_spec(module.__name__)
            assert spec is not None
            copy = importlib.util.module_from_spec(spec)
            sys.modules[module.__name__] = copy
            exec(compile(source, f"<{bug.name}>", "exec"), copy.__dict__)
        name = "RecordMachine" if bug.mode == "records" else "Machine"
        yield cast(MakeMachine, getattr(sys.modules[record_machine.__name__], name))
    finally:
        sys.modules.update(real)
