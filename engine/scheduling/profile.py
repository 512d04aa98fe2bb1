"""What earlier epochs of one stage cost, so that the next one's time can be predicted. Nanoseconds throughout.

Starting values only decide what is tried first; each is replaced by what is measured. They come from runs of the Streaming
Ledger on two cores. Threads' times are divided as in section 8.3: useful, exploring, handling aborts, waiting.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import exp, log

from engine.scheduling.choice import Observation
from engine.scheduling.policy import ORDERED, SERIAL, Abort, Exploration, Granularity, Policy

WEIGHT = 0.25  # of a new value against those before
CLEARLY = 2.0  # times more or less is no noise
SLOWDOWN_MAX = 2.0  # two threads of one core run at half speed at worst
BESIDE_MAX = 16.0  # threads that write next to each other wait for cache lines, which no number of cores bounds
STILL_FALLING = 0.9  # of the serial epoch before: memory is touched for the first time, caches fill
BELIEVED_MAX = 4.0  # what a serial epoch says of the ordered ones before it, at most: the input may have changed, too
CHEAP_NS = 500.0  # below it, what differs from serial is the call; above, the core
FIRST_TIME_RATIO = 4.0  # slower than predicted by so much the first time: kernels were loaded or compiled meanwhile
_EXPLORE_START = {Exploration.BREADTH_FIRST: 40.0, Exploration.DEPTH_FIRST: 50.0, Exploration.UNSTRUCTURED: 80.0}


class Average:
    """A moving average that ignores one outlier and follows two: noise passes, a changed workload stays."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.count = 0
        self._outlier = 0.0

    def add(self, value: float) -> None:
        """Takes in a measured value. The first replaces the starting value, unless kernels may have been loading."""
        if self.count == 0:
            if value > FIRST_TIME_RATIO * self.value and not self._outlier:
                self._outlier = value
                return
            self.value = value
            self._outlier = 0.0
        elif self.value / CLEARLY <= value <= self.value * CLEARLY:
            self.value += WEIGHT * (value - self.value)
            self._outlier = 0.0
        elif self._outlier and self._outlier / CLEARLY <= value <= self._outlier * CLEARLY:
            self.value = value
            self._outlier = 0.0
        else:
            self._outlier = value
        self.count += 1

    def confirm(self) -> None:
        """A value was about as expected, and is not taken in: an outlier before it stood alone."""
        self._outlier = 0.0


@dataclass
class Costs:
    """The numbers a prediction uses."""

    serial: Average = field(default_factory=lambda: Average(60.0))  # an operation, run serially
    rest: Average = field(default_factory=lambda: Average(20.0))  # of it, what is not the kernel's own time
    # The ordered mode: all of it against the serial mode's, and its threads' own time against the serial kernel's.
    # A first time slower than serial may have loaded its kernels: it has to come twice, hence the low start.
    ordered: Average = field(default_factory=lambda: Average(0.999 / FIRST_TIME_RATIO))
    beside: Average = field(default_factory=lambda: Average(1.0))
    # In the parallel kernels an operation takes so many times longer (cores that share what they run on) …
    slowdown: Average = field(default_factory=lambda: Average(1.0))
    extra: Average = field(
        default_factory=lambda: Average(40.0)
    )  # … and so much longer (calls that serial has inlined)
    start: Average = field(default_factory=lambda: Average(100_000.0))  # a parallel stage: waking threads …
    opening: Average = field(default_factory=lambda: Average(20.0))  # … and an operation: laying out what they share
    graph: Average = field(default_factory=lambda: Average(120.0))  # making an operation and its edges, collecting it
    look: Average = field(
        default_factory=lambda: Average(1_000_000.0)
    )  # measuring a graph and weighing all options, once
    units: dict[Granularity, Average] = field(
        default_factory=lambda: {Granularity.FINE: Average(40.0), Granularity.COARSE: Average(150.0)}
    )
    explore: dict[tuple[Exploration, Granularity], Average] = field(
        default_factory=lambda: {
            (exploration, granularity): Average(cost * (1.0 if granularity is Granularity.FINE else 0.7))
            for exploration, cost in _EXPLORE_START.items()
            for granularity in Granularity
        }
    )
    signal: float = 15.0  # an edge, unstructured; told apart from `explore` by its share only
    barrier: Average = field(default_factory=lambda: Average(2_000.0))
    # An aborting transaction: settling it while all threads wait, and the operations run again because of it.
    settle: dict[Abort, Average] = field(
        default_factory=lambda: {Abort.EAGER: Average(1_000.0), Abort.LAZY: Average(300.0)}
    )
    redo: dict[Abort, Average] = field(default_factory=lambda: {Abort.EAGER: Average(1.0), Abort.LAZY: Average(3.0)})
    # Observed against predicted time by policy: what the formula does not know.
    correction: dict[Hashable, Average] = field(default_factory=dict)

    def useful_ns(self) -> float:
        """An operation's own time in the parallel kernels."""
        return self.serial.value * self.slowdown.value + self.extra.value

    def starting_ns(self, operations: int) -> float:
        """What a parallel stage of so many operations takes besides its threads' own time."""
        return self.start.value + operations * self.opening.value

    def corrected(self, key: Hashable) -> float:
        """A policy's correction; for one that has not run, what those have in common that have, its like before others."""
        if self.seen(key):
            return self.correction[key].value
        known = {other: average.value for other, average in self.correction.items() if average.count}
        like = [value for other, value in known.items() if _are_alike(key, other)] or list(known.values())
        return exp(sum(map(log, like)) / len(like)) if like else 1.0

    def seen(self, key: Hashable) -> int:
        """How often a policy has run."""
        found = self.correction.get(key)
        return found.count if found is not None else 0


def _are_alike(one: Hashable, other: Hashable) -> bool:
    """Whether two policies differ in handling aborts only."""
    if not isinstance(one, Policy) or not isinstance(other, Policy):
        return False
    return (one.exploration, one.granularity) == (other.exploration, other.granularity)


class Profile:
    """The costs of one stage, its abort ratio, and how they are learned."""

    def __init__(self) -> None:
        self.costs = Costs()
        self.aborts = Average(0.0)
        self.abort_ratio = 0.0
        self.serial_falls = False  # the last serial epoch was clearly faster than the one before: more will be
        self._last_serial_ns = 0.0
        self._serial_kernel_ns = 0.0  # an operation's, in the last serial epoch
        self._serial_is_fresh = False  # the last epoch ran serially, so the next can be compared with it

    @property
    def complexity_us(self) -> float:
        """C: what an operation itself takes; 0 as long as nothing has run."""
        return self.costs.serial.value / 1e3 if self.costs.serial.count else 0.0

    def confirm(self) -> None:
        """An epoch without a graph took about what it was predicted to, and is not learned from."""
        for average in (self.costs.serial, self.costs.rest, self.costs.ordered, self.costs.beside):
            average.confirm()

    def learn(self, seen: Observation) -> None:
        """Takes in what a stage cost, but for its policies' corrections (see `correct`)."""
        if seen.operations == 0:
            return
        self.abort_ratio = _follow(self.abort_ratio, seen.aborts / max(1, seen.transactions), self.aborts.count)
        self.aborts.count += 1
        costs = self.costs
        if seen.graph_ns is not None:
            costs.graph.add((seen.plan_ns + seen.graph_ns) / seen.operations)
        for granularity, taken in seen.units_ns.items():
            costs.units[granularity].add(taken / seen.operations)
        policies = [policy for policy, _ in seen.choice]
        if policies == [SERIAL]:
            if seen.inlined:
                self._learn_serial(seen.run_ns / seen.operations)
                costs.rest.add(max(1.0, (seen.run_ns - seen.useful_ns) / seen.operations))
                self._serial_kernel_ns = max(1.0, seen.useful_ns / seen.operations)
                self._serial_is_fresh = True
            elif seen.graph_ns is None:  # else it ran operation by operation, because the graph had been looked at
                costs.serial.add((seen.plan_ns + seen.run_ns) / seen.operations)
                self._serial_is_fresh = True
        elif policies == [ORDERED]:
            self._learn_ordered(seen)
        elif len(policies) == 1:
            self._learn_parallel(seen, policies[0])
        elif seen.timed:
            self._learn_useful(seen.useful_ns / max(1, seen.counters["operations"]))

    def _learn_serial(self, taken: float) -> None:
        """While serial epochs fall, the last one counts alone. One after ordered epochs says how wrong was what those
        had said of it: their own time was measured, so it is their share that moves."""
        serial, before = self.costs.serial, self._last_serial_ns
        self.serial_falls = self._serial_is_fresh and taken < STILL_FALLING * before
        self._last_serial_ns = taken
        if self.serial_falls:
            serial.value = taken
            return
        if not self._serial_is_fresh and self.costs.ordered.count and serial.count:
            self.costs.ordered.value *= min(max(1 / BELIEVED_MAX, serial.value / taken), BELIEVED_MAX)
            serial.value = taken
        serial.add(taken)

    def _learn_ordered(self, seen: Observation) -> None:
        """Its threads do what the serial kernel does, waiting aside: so each such epoch says what a serial one would take."""
        costs, kernel = self.costs, max(1.0, seen.useful_ns / seen.operations)
        if self._serial_is_fresh and self._serial_kernel_ns:
            costs.beside.add(min(max(1 / SLOWDOWN_MAX, kernel / self._serial_kernel_ns), BESIDE_MAX))
        else:
            costs.serial.add(kernel / costs.beside.value + costs.rest.value)
        costs.ordered.add(seen.run_ns / seen.operations / costs.serial.value)
        self._serial_is_fresh = False

    def _learn_parallel(self, seen: Observation, policy: Policy) -> None:
        costs = self.costs
        ran = max(1, seen.counters["operations"])
        # Told apart by their shares only: what starting took as a whole, against what it was predicted to take.
        ratio = max(1_000.0, seen.run_ns - seen.ran_ns) / costs.starting_ns(seen.operations)
        for average in (costs.start, costs.opening):
            average.add(average.value * ratio)
        if seen.timed:  # else useful time cannot be told from looking for work
            signals = seen.counters["signals"] * costs.signal
            costs.explore[policy.exploration, policy.granularity].add(max(1.0, (seen.explore_ns - signals) / ran))
            self._learn_useful(seen.useful_ns / ran)
        aborts = seen.aborts
        if aborts:
            costs.settle[policy.abort].add(seen.abort_ns / aborts)
            costs.redo[policy.abort].add(max(0.0, (ran - seen.operations) / aborts) + 0.01)
        if policy.exploration is Exploration.BREADTH_FIRST and seen.counters["barriers"]:
            costs.barrier.add(max(100.0, seen.sync_ns / seen.counters["barriers"]))

    def _learn_useful(self, useful: float) -> None:
        """An operation's own time in a parallel run: right after a serial one it says what differs there, else how C
        changed."""
        costs = self.costs
        if self._serial_is_fresh and costs.serial.count:
            if costs.serial.value > CHEAP_NS:
                costs.slowdown.add(min(max(1.0, (useful - costs.extra.value) / costs.serial.value), SLOWDOWN_MAX))
            else:
                costs.extra.add(max(1.0, useful - costs.serial.value * costs.slowdown.value))
        else:
            costs.serial.add(max(1.0, (useful - costs.extra.value) / costs.slowdown.value))
        self._serial_is_fresh = False

    def correct(self, key: Hashable, ratio: float) -> None:
        """Notes how much longer (or shorter) a policy took than the formula said, its correction left out."""
        self.costs.correction.setdefault(key, Average(1.0)).add(min(max(ratio, 0.05), 20.0))


def _follow(before: float, now: float, count: int) -> float:
    """Aborts change with the input, not with noise: half of the way each epoch."""
    return now if count == 0 else before + 0.5 * (now - before)
