"""One seed: a scenario, a world, service processes that crash, are doubled, stopped and restarted; then peace, and the checks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from services.engine.facts import StopAsked, Ticked
from services.engine.machine import Machine
from services.engine.record_machine import RecordMachine
from services.engine.rules import EXIT_CLEAN, EXIT_FENCED, Rules
from services.verify.simulation.checks import check
from services.verify.simulation.instance import Instance
from services.verify.simulation.records import RecordInstance, check_records, make_record_scenario
from services.verify.simulation.scenario import Scenario, make_scenario
from services.verify.simulation.world import World

TROUBLED_STEPS = 300
STEPS_MAX = 6_000
SETTLING_TICKS = 12

MakeMachine = Callable[[Rules, float], Machine]


@dataclass(frozen=True)
class Mode:
    """One kind of input, as it is made, read and checked."""

    make_machine: MakeMachine
    make_scenario: Callable[[int], Scenario]
    make_instance: Callable[[Machine, World, Scenario, random.Random], Instance]
    check: Callable[[Scenario, World], list[str]]


MODES = {
    "chunks": Mode(Machine, make_scenario, Instance, check),
    "records": Mode(RecordMachine, make_record_scenario, RecordInstance, check_records),
}


@dataclass
class Report:
    """What a seed showed."""

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, make_machine: MakeMachine | None = None, mode: str = "chunks") -> Report:
    """Runs one seed to its end; an exception of the service is a violation too."""
    report = Report(seed)
    try:
        _Run(seed, MODES[mode], make_machine or MODES[mode].make_machine, report).run()
    except Exception as error:  # whatever breaks in a simulated service is what we look for
        report.violations.append(f"{type(error).__name__}: {error}")
    return report


class _Run:
    def __init__(self, seed: int, mode: Mode, make_machine: MakeMachine, report: Report) -> None:
        self.chance = random.Random(seed * 7919 + 1)
        self.mode, self.scenario = mode, mode.make_scenario(seed)
        self.world = World()
        self.make_machine, self.report = make_machine, report
        self.now_s = self.chance.uniform(0, 1e6)
        self.instances: list[Instance] = []
        self._start()

    def run(self) -> None:
        for _ in range(TROUBLED_STEPS):
            self._trouble()
            self.chance.choice(self.instances).step()
            self._bury()
        if not self._settle():
            return
        self.report.violations += self.mode.check(self.scenario, self.world)

    def _start(self) -> None:
        machine = self.make_machine(self.scenario.rules, self.now_s)
        self.instances.append(self.mode.make_instance(machine, self.world, self.scenario, self.chance))

    def _trouble(self) -> None:
        kind = self.chance.random()
        newest = self.instances[-1]
        if kind < 0.012:
            self.report.counts["crashes"] += 1
            newest.crash()
            if self.chance.random() < 0.3 and self.world.snapshots:
                memory, state, _ = self.world.snapshots[-1]
                self.world.snapshots.append((memory, state, False))  # it was being written
        elif kind < 0.018:
            self.report.counts["doubles"] += 1
            self._start()
        elif kind < 0.024:
            self.report.counts["stops"] += 1
            newest.tell(StopAsked())
        elif kind < 0.08:
            self._tick(self.chance.uniform(0, 3))
        elif kind < 0.09:
            self._tick(self.chance.uniform(20, 60))  # the process stood still

    def _tick(self, seconds: float) -> None:
        self.now_s += seconds
        for instance in self.instances:
            if instance.ended is None:
                instance.tell(Ticked(self.now_s, instance.behind))

    def _bury(self) -> None:
        """Ended processes leave; one always runs."""
        for instance in [instance for instance in self.instances if instance.ended is not None]:
            self.instances.remove(instance)
            ended = instance.ended
            assert ended is not None
            self.report.counts[f"exit {ended.code}"] += 1
            if ended.code not in (EXIT_CLEAN, EXIT_FENCED, 137) and not self._is_too_large(ended.why):
                raise AssertionError(f"halted: {ended.why}")
        if not self.instances:
            self._start()

    def _is_too_large(self, why: str) -> bool:
        """An epoch over the memory cap may halt the service; whoever runs it raises the cap."""
        if "memory cap" not in why:
            return False
        self.scenario.rules = replace(self.scenario.rules, memory_bytes=10**9)
        return True

    def _settle(self) -> bool:
        """No more trouble: everything must come to its end."""
        ticks = 0
        for _ in range(STEPS_MAX):
            self._bury()
            instance = self.instances[-1]
            if not instance.is_idle:
                ticks = 0
                instance.step()
                continue
            if ticks == SETTLING_TICKS:
                self.report.counts["commits"] += len(self.world.log)
                return True
            ticks += 1
            self._tick(5.0)
        self.report.violations.append(f"not at rest after {STEPS_MAX} steps: {self.instances[-1].warnings[-1:]}")
        return False
