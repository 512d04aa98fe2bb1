"""The simulated broker and disk: what outlives a crash. Kafka's rules as the service relies on them: a transaction is whole or
not at all, initialising a producer aborts what its predecessor left open and fences it, an acknowledgement may get lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.engine.facts import Commit, Letter, Memory, Place
from services.verify.simulation.scenario import Event

State = dict[str, int]  # the application's tables: a running digest and counts


@dataclass(frozen=True)
class Output:
    """What an epoch's execution gave: the winning payload of each event, in event order; the new state; the events that lost
    against another copy, with their place, which go to the dead letters."""

    epoch: int
    events: tuple[tuple[Event, int], ...]
    state: tuple[tuple[str, int], ...]
    conflicts: tuple[tuple[Place, Event], ...] = ()


@dataclass(frozen=True)
class Transaction:
    """What one Kafka transaction put into the result topics."""

    output: Output | None
    letters: tuple[Letter, ...]
    memory: Memory


class FencedError(Exception):
    """A newer producer has the transactional id."""


@dataclass
class World:
    """Broker and disk."""

    log: list[Transaction] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)  # by producer epoch: prepared, not ended
    producer_epoch: int = 0
    snapshots: list[tuple[Memory, State, bool]] = field(default_factory=list)  # whole or torn
    attempts: int = 0

    def init_transactions(self) -> int:
        """A new producer: the transactions of older ones are aborted, and so are their late requests."""
        self.producer_epoch += 1
        self.open.clear()
        return self.producer_epoch

    def prepare(self, producer: int, commit: Commit, output: Output | None) -> None:
        self._require(producer)
        self.open[producer] = Transaction(output, commit.letters, commit.memory)

    def end(self, producer: int) -> None:
        """Commits what the producer prepared."""
        self._require(producer)
        if producer in self.open:
            self.log.append(self.open.pop(producer))

    def _require(self, producer: int) -> None:
        if producer != self.producer_epoch:
            raise FencedError(f"producer {producer} was fenced by {self.producer_epoch}")

    def recover(self) -> tuple[Memory, State]:
        """The newest whole snapshot, then the changelog after it."""
        memory, state = Memory(), {"digest": 0, "events": 0}
        for kept, saved, whole in reversed(self.snapshots):
            if whole:
                memory, state = kept, dict(saved)
                break
        for transaction in self.log:
            if transaction.output is not None and transaction.output.epoch > memory.epoch:
                state = dict(transaction.output.state)
        if self.log:
            memory = self.log[-1].memory
        return memory, state


def apply_epoch(state: State, events: list[tuple[Event, int]]) -> State:
    """The simulated application: the digest depends on every event and on their order."""
    digest = state["digest"]
    for event, value in events:
        digest = hash((digest, event, value))
    return {"digest": digest, "events": state["events"] + len(events)}
