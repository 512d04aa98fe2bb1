"""A world with known true costs: stages that cost what its formula says, with noise, told to a cost model epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from engine.scheduling.choice import Observation
from engine.scheduling.cost_model import CostModel
from engine.scheduling.look import Look
from engine.scheduling.policy import SERIAL, Exploration, Granularity, Policy
from engine.scheduling.prediction import Work, building_ns, predict_all, run_ns
from engine.scheduling.profile import Costs
from engine.scheduling.properties import Properties, Shape

PROPERTIES = Properties(10, 40, 20, 5, 30, 0, 0, 0.1, False, 0.1, 0.0)  # whatever: the cost model uses shapes


@dataclass
class World:
    """What things really cost, and what the epochs look like."""

    costs: Costs = field(default_factory=Costs)
    operations: int = 40_000
    abort_ratio: float = 0.0
    threads: int = 2
    strata: int = 20
    noise: float = 0.05
    seed: int = 1

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    @property
    def transactions(self) -> int:
        return self.operations // 4

    def work(self, granularities: Iterable[Granularity]) -> Work:
        count = self.operations
        shapes = {
            Granularity.FINE: Shape(count, 2 * count, self.strata, float(self.strata), count / 2 + self.strata / 2),
            Granularity.COARSE: Shape(count // 4, count // 2, self.strata // 2, self.strata * 4.0, count * 0.6),
        }
        known = {granularity: shapes[granularity] for granularity in granularities}
        return Work(count, self.transactions, self.abort_ratio, float(self.threads), known)

    def time_ns(self, policy: Policy) -> float:
        """The true time of all there is to do under a policy."""
        return predict_all(self.costs, self.work(Granularity))[policy]

    def best_ns(self) -> float:
        return min(predict_all(self.costs, self.work(Granularity)).values())


class SimulatedStage:
    """A stage of that world; counts what is built of it."""

    number = 0
    first_operation = 0
    first_transaction = 0
    inlines = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.operations = world.operations
        self.transactions = world.transactions
        self.threads = world.threads
        self.built: set[Granularity] = set()
        self.looked = False
        self.timed = False

    def group_values(self):
        return np.zeros(self.transactions, np.int64)

    def graph(self):
        raise AssertionError("the simulated look needs no graph")

    def units(self, granularity):
        raise AssertionError("the simulated look needs no units")

    def time_operations(self) -> None:
        self.timed = True


def look_at_world(stage, profile, history, threads, granularities, whole, parted) -> Look:
    stage.looked = True
    stage.built |= set(granularities)
    work = stage.world.work(granularities)
    measured = {"all": PROPERTIES} if whole else {}
    return Look(measured, Work(work.operations, work.transactions, profile.abort_ratio, work.threads, work.shapes))


def observation_of(stage: SimulatedStage, policy: Policy) -> Observation:
    """What the engine would have measured."""
    world, costs = stage.world, stage.world.costs
    noise = 1.0 + world.noise * world.random.standard_normal()
    run = run_ns(costs, world.work(Granularity), policy) * max(0.5, noise)
    count = stage.operations
    aborts = round(world.abort_ratio * world.transactions)
    aborted = np.zeros(world.transactions, np.int8)
    aborted[:aborts] = 1
    if not policy.is_serial:
        stage.looked = True
        stage.built.add(policy.granularity)
    redone = 0 if policy.is_serial else round(aborts * costs.redo[policy.abort].value)
    ran = count + redone
    explore = 0.0 if policy.is_serial else costs.explore[policy.exploration, policy.granularity].value * ran
    signals = world.work(Granularity).shapes[policy.granularity].edges
    if policy.exploration is Exploration.UNSTRUCTURED:
        explore += signals * costs.signal
    useful = ran * (costs.serial.value if policy.is_serial else costs.useful_ns())
    strata = world.work(Granularity).shapes[policy.granularity].strata
    barriers = world.threads * (strata if policy.exploration is Exploration.BREADTH_FIRST else 1)
    return Observation(
        choice=[(policy, world.transactions)],
        operations=count,
        transactions=world.transactions,
        aborted=aborted,
        graph_ns=count * costs.graph.value if stage.looked else None,
        units_ns={each: count * costs.units[each].value for each in stage.built},
        run_ns=run,
        useful_ns=useful if stage.timed or policy.is_serial else 0.0,
        explore_ns=explore if stage.timed or policy.is_serial else explore + useful,
        abort_ns=aborts * costs.settle[policy.abort].value,
        sync_ns=barriers * costs.barrier.value,
        timed=stage.timed,
        counters={
            "operations": ran,
            "signals": signals if policy.exploration is Exploration.UNSTRUCTURED else 0,
            "barriers": 0 if policy.is_serial else barriers,
        },
        threads=world.threads,
        choosing_ns=costs.look.value if len(stage.built) > 1 else 0.0,
        ran_ns=run if policy.is_serial else run - costs.starting_ns(count),
    )


@dataclass
class Epoch:
    """One simulated epoch: what was chosen, whether the graph was looked at, and the true time of all that was done."""

    policy: Policy
    looked: bool
    time_ns: float


def play(model: CostModel, world: World, epochs: int) -> list[Epoch]:
    """Runs so many epochs of the world under the model's choices."""
    played = []
    for _ in range(epochs):
        stage = SimulatedStage(world)
        [(policy, members)] = model.choose(stage)
        assert members is None
        seen = observation_of(stage, policy)
        model.learn(seen)
        looked = model.explain().looked
        time = run_ns(world.costs, world.work(Granularity), policy)
        if looked or not policy.is_serial:
            time += building_ns(world.costs, world.operations, stage.built) + seen.choosing_ns
        played.append(Epoch(policy, looked, time))
    return played


__all__ = ["SERIAL", "Epoch", "SimulatedStage", "World", "look_at_world", "observation_of", "play"]
