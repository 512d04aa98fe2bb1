"""The ways a stage could be run, each with its predicted time: serial, the twelve parallel policies, groups side by side."""

from __future__ import annotations

from dataclasses import dataclass

from engine.scheduling.look import GroupWork, Look
from engine.scheduling.policy import ORDERED, SERIAL, Granularity, Policy
from engine.scheduling.prediction import building_ns, ordered_ns, plain_run_ns, predict_all, run_ns, serial_ns
from engine.scheduling.profile import Costs


@dataclass(frozen=True)
class Option:
    """One way to run the stage, and how long it is predicted to take: all that is to be done, and the running alone."""

    name: str
    parts: list[tuple[Policy, GroupWork | None]]
    total_ns: float
    run_ns: float

    @property
    def is_serial(self) -> bool:
        return self.name == SERIAL.name

    @property
    def needs_graph(self) -> bool:
        return self.name not in (SERIAL.name, ORDERED.name)

    @property
    def granularities(self) -> set[Granularity]:
        """The units it needs."""
        return {policy.granularity for policy, _ in self.parts if policy.needs_graph}


def serial_option(costs: Costs, operations: int) -> Option:
    time = serial_ns(costs, operations)
    return Option(SERIAL.name, [(SERIAL, None)], time, time)


def ordered_option(costs: Costs, operations: int, threads: float) -> Option:
    time = ordered_ns(costs, operations, threads)
    return Option(ORDERED.name, [(ORDERED, None)], time, time)


def make_options(costs: Costs, look: Look, inlines: bool) -> dict[str, Option]:
    """All that the look allows, by name."""
    options = {}
    if inlines:
        options[ORDERED.name] = ordered_option(costs, look.work.operations, look.work.threads)
    for policy, total in predict_all(costs, look.work).items():
        options[policy.name] = Option(policy.name, [(policy, None)], total, run_ns(costs, look.work, policy))
    for partition in look.partitions:
        option = _parted(costs, look, partition)
        if inlines and all(policy.is_serial for policy, _ in option.parts):
            continue  # ordered shares the work as evenly, without operations
        options[option.name] = option
    return options


def _parted(costs: Costs, look: Look, partition: list[GroupWork]) -> Option:
    """Each group under what is best for it on its share of the threads, all at once."""
    parts: list[tuple[Policy, GroupWork | None]] = []
    for group in partition:
        times = {policy: run_ns(costs, group.work, policy) for policy in predict_all(costs, group.work)}
        parts.append((min(times, key=lambda each: times[each]), group))
    name = parted_name(parts)
    running = parted_plain_ns(costs, parts) * costs.corrected(name) + costs.starting_ns(look.work.operations)
    option = Option(name, parts, 0.0, running)
    return Option(name, parts, running + building_ns(costs, look.work.operations, option.granularities), running)


def parted_plain_ns(costs: Costs, parts: list[tuple[Policy, GroupWork | None]]) -> float:
    """The longest group, without what the combination's own correction says."""
    return max(
        serial_ns(costs, group.work.operations) * costs.slowdown.value
        if policy.is_serial
        else plain_run_ns(costs, group.work, policy)
        for policy, group in parts
        if group is not None
    )


def parted_name(parts: list[tuple[Policy, GroupWork | None]]) -> str:
    return " + ".join(policy.name for policy, _ in parts)
