"""What the cost model remembers about one stage of the application, and when it has to look at the graph again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.scheduling.choice import Reason
from engine.scheduling.groups import AbortHistory
from engine.scheduling.look import Look
from engine.scheduling.options import Option
from engine.scheduling.policy import SERIAL, Granularity
from engine.scheduling.profile import Profile
from engine.scheduling.properties import Shape

KEEP_MARGIN = 0.05  # a policy is left only for one that is better by this, because predictions are not exact
TRIALS_APART = 4  # epochs between two trials, so that most run as predicted best
REGRET_SHARE = 0.02  # of all time: what looks and trials together may cost
LOOK_EVERY_MIN, LOOK_EVERY_MAX = 8, 1024  # epochs
CHANGED = 1.5  # times another C or size is clearly another workload …
SETTLED_EPOCHS = 8  # for which a cheap epoch's decision is good
ABORTS_CHANGED = 0.15  # … and so is an abort ratio so far away


@dataclass(frozen=True)
class Settled:
    """A decision without a graph that is good until an epoch, as long as epochs are about as large and take about as long."""

    option: Option
    reason: Reason
    operations: int
    since: int
    until: int

    def holds(self, epoch: int, operations: int) -> bool:
        return epoch < self.until and _is_about(operations, self.operations)

    def is_confirmed(self, run_ns: float, operations: int, predicted_ns: float) -> bool:
        """Whether an epoch took what was predicted when it was decided, and what would be predicted now."""
        then_ns = self.option.run_ns * operations / max(1, self.operations)
        return _is_about(run_ns, then_ns) and _is_about(run_ns, predicted_ns)


def _is_about(now: float, before: float) -> bool:
    return before <= now * CHANGED and now <= before * CHANGED


@dataclass
class Memory:
    """One stage's profile, the last choice, and the account of what choosing has cost."""

    profile: Profile = field(default_factory=Profile)
    history: AbortHistory = field(default_factory=AbortHistory)
    epochs: int = 0
    parallel_epochs: int = 0
    time_next: bool = False  # the last parallel epoch surprised: C may have changed
    last: str = SERIAL.name
    last_granularities: set[Granularity] = field(default_factory=set)
    last_parted: bool = False
    last_trial: int = -1_000
    next_look: int = 0
    look_every: int = LOOK_EVERY_MIN
    next_serial: int = LOOK_EVERY_MIN  # when serial is tried again, while ordered is best
    serial_every: int = LOOK_EVERY_MIN
    looked_at: tuple[float, float, int] | None = None  # C in ns, abort ratio and size at the last whole look
    shapes: dict[Granularity, tuple[int, Shape]] = field(default_factory=dict)  # with the operations they were seen at
    settled: Settled | None = None
    spent_ns: float = 0.0  # on all epochs so far
    regret_ns: float = 0.0  # on looks that changed nothing, and on trials that lost

    @property
    def budget_ns(self) -> float:
        """What may still be spent on finding out."""
        return REGRET_SHARE * self.spent_ns - self.regret_ns

    def note_serial_trial(self) -> None:
        """The next one comes twice as late."""
        self.last_trial = self.epochs
        self.serial_every = min(2 * self.serial_every, LOOK_EVERY_MAX)
        self.next_serial = self.epochs + self.serial_every

    def has_changed(self, operations: int) -> bool:
        """Whether C, the aborts or the size are clearly others than at the last whole look."""
        if self.looked_at is None:
            return True
        cost, aborts, count = self.looked_at
        pairs = ((cost, self.profile.costs.serial.value), (count, operations))
        return abs(aborts - self.profile.abort_ratio) > ABORTS_CHANGED or any(
            not _is_about(now, before) for before, now in pairs
        )

    def is_due(self, operations: int) -> bool:
        return self.epochs >= self.next_look or self.has_changed(operations)

    def settle(self, option: Option, reason: Reason, operations: int) -> None:
        """The decision just made is good for some epochs, but no longer than until the next look is due."""
        until = self.epochs + SETTLED_EPOCHS
        if self.next_look > self.epochs:
            until = min(until, self.next_look)
        self.settled = Settled(option, reason, operations, self.epochs, until)

    def keep_shapes(self, look: Look) -> Look:
        """Remembers the shapes just seen, and adds those seen earlier, for this epoch's size."""
        work = look.work
        count = max(1, work.operations)
        shapes = dict(work.shapes)
        for granularity, shape in shapes.items():
            self.shapes[granularity] = (count, shape)
        for granularity, (seen, shape) in self.shapes.items():
            shapes.setdefault(granularity, _scaled(shape, count / seen))
        whole = replace(work, shapes=shapes)
        return Look(look.properties, whole, look.partitions, look.notes)

    def settle_on(self, best: Option, operations: int, due: bool) -> None:
        """Notes the best option; while it stays the same, looks become rarer."""
        if best.name != self.last or self.has_changed(operations):
            self.look_every = LOOK_EVERY_MIN
        elif due:
            self.look_every = min(2 * self.look_every, LOOK_EVERY_MAX)
        if due:
            self.next_look = self.epochs + self.look_every
            self.looked_at = (self.profile.costs.serial.value, self.profile.abort_ratio, operations)
        self.last, self.last_granularities, self.last_parted = best.name, best.granularities, len(best.parts) > 1


def _scaled(shape: Shape, factor: float) -> Shape:
    """A shape seen on another epoch, for this one's size."""
    return Shape(
        round(shape.units * factor),
        round(shape.edges * factor),
        shape.strata,
        shape.span * factor,
        shape.steps * factor,
    )
