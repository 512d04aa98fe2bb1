"""Our own decision model: predicts each policy's time from this epoch's graph and earlier epochs' costs, takes the least.

The graph is not built where earlier epochs say that serial is clearly best: even a graph without any dependency could not
pay for itself. It looks again every so many epochs (more and more of them while the answer stays the same), and at once when
C, the aborts or the epoch's size change clearly. An alternative that is predicted to be close, the less often tried the less
close, is tried now and then, as long as all that looks and trials have cost stays a small share of the time spent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable

from engine.scheduling.choice import Choice, Explanation, Observation, Reason, Stage, explanation_of
from engine.scheduling.cost_memory import CHANGED, KEEP_MARGIN, LOOK_EVERY_MIN, REGRET_SHARE, TRIALS_APART, Memory
from engine.scheduling.groups import buckets_of
from engine.scheduling.look import Look, look_at
from engine.scheduling.options import Option, make_options, parted_plain_ns, serial_option
from engine.scheduling.plain_choice import PLAIN, choose_plain
from engine.scheduling.policy import ORDERED, SERIAL, Granularity
from engine.scheduling.prediction import building_ns, optimistic_ns, ordered_ns, plain_run_ns, serial_ns
from engine.scheduling.profile import FIRST_TIME_RATIO, Costs

SERIAL_RUNS_FIRST = 2  # the first may have loaded kernels; the second is believed …
SERIAL_RUNS_FIRST_MAX = 8  # … unless it was clearly faster than the first, and so on
GROUPS_GAIN = 0.10  # groups must be better by this, because their predictions are less exact still
UNTRIED_GAIN = 0.20  # serial or ordered is left for a policy that has never run only if it promises so much
UNTRIED_RANGE = 1.5  # an untried policy may be so many times faster than predicted; less with every run
SERIAL_RANGE = 1.25  # and serial so many times faster than parallel epochs say
ABORTS_MATTER = 0.005  # below this share of aborts, eager and lazy are the same
TIMED_EVERY = 16  # parallel epochs: timing costs 20 ns an operation
SETTLED_NS = 2e6  # where an epoch takes less, deciding (16 µs) would show: see `Settled`


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CostModel:
    """Takes what is predicted to be fastest. `look` and `cores` are there for tests to replace."""

    def __init__(self, look: Callable[..., Look] = look_at, cores: int | None = None) -> None:
        self.cores = cores if cores is not None else available_cores()
        self.memories: dict[int, Memory] = {}
        self._look = look
        self._now: tuple[Stage, Memory, Option, Option, Look | None] | None = None
        self._explanation: Explanation | None = None

    def choose(self, stage: Stage) -> Choice:
        memory = self.memories.get(stage.number)
        if memory is None:
            memory = self.memories[stage.number] = Memory()
        memory.epochs += 1
        settled = memory.settled
        if settled is not None and settled.holds(memory.epochs, stage.operations):
            return self._take(stage, memory, settled.option, settled.option, None, [settled.reason], {})
        memory.settled = None
        threads = min(stage.threads, self.cores)
        serial = serial_option(memory.profile.costs, stage.operations)
        if threads < 2:
            alone = f"{stage.threads} thread(s) on {self.cores} core(s): nothing can run beside anything"
            return self._take(stage, memory, serial, serial, None, [alone], {})
        if memory.epochs <= SERIAL_RUNS_FIRST or (
            memory.epochs <= SERIAL_RUNS_FIRST_MAX and memory.profile.serial_falls and memory.last == SERIAL.name
        ):
            learning = "the first epochs run serially, to learn what an operation costs"
            return self._take(stage, memory, serial, serial, None, [learning], {})
        plain, plain_best, why = choose_plain(memory, stage, threads)
        is_trial = why is not None
        if why is None and memory.last in PLAIN:
            memory.last = plain_best.name
            why = _why_not_look(memory, stage, threads, plain_best)
        if why is not None:
            if not is_trial and plain.total_ns < SETTLED_NS:
                memory.settle(plain, why, stage.operations)
            return self._take(stage, memory, plain, plain_best, None, [why], {})
        due = memory.last in PLAIN or memory.is_due(stage.operations)
        granularities = set(Granularity) if due else memory.last_granularities
        look = memory.keep_shapes(
            self._look(stage, memory.profile, memory.history, threads, granularities, due, due or memory.last_parted)
        )
        options = make_options(memory.profile.costs, look, stage.inlines)
        best = _best(memory, options)
        taken, reason = _try_another(memory, options, best, due)
        memory.settle_on(best, stage.operations, due)
        return self._take(stage, memory, taken, best, look, [*look.notes, reason], options)

    def learn(self, observation: Observation) -> None:
        assert self._now is not None and self._explanation is not None
        stage, memory, taken, best, look = self._now
        self._now = None
        self._explanation.observed_run_ms = observation.run_ns / 1e6
        if memory.settled is not None and memory.settled.since < memory.epochs:
            predicted = self._predicted_ns(memory, taken, stage)
            if memory.settled.is_confirmed(observation.run_ns, stage.operations, predicted):
                memory.profile.confirm()
                memory.spent_ns += observation.run_ns
                return
            memory.settled = None
        costs = memory.profile.costs
        graph_known, known = costs.graph.count, _runs_of(costs, taken)
        memory.profile.learn(observation)
        if look is not None and taken.needs_graph:
            if len(taken.parts) > 1:
                plain = parted_plain_ns(costs, taken.parts)
            else:
                plain = plain_run_ns(costs, look.work, taken.parts[0][0])
            starting = costs.starting_ns(observation.operations)
            memory.profile.correct(_key(taken), max(1.0, observation.run_ns - starting) / max(1.0, plain))
            memory.time_next = not observation.timed and not (
                taken.run_ns / CHANGED < observation.run_ns < taken.run_ns * CHANGED
            )
        # Loading or compiling kernels is nobody's fault: it is left out of the account.
        loading = known == 0 and observation.run_ns > FIRST_TIME_RATIO * taken.run_ns
        run = taken.run_ns if loading else observation.run_ns
        building = _built_ns(observation) if graph_known else 0.0
        memory.spent_ns += run + building
        if look is not None:
            if look.properties:  # a whole look
                costs.look.add(observation.choosing_ns)
            memory.history.learn(buckets_of(stage), observation.aborted)
            needed = best.total_ns - best.run_ns if best.needs_graph else 0.0
            memory.regret_ns += max(0.0, building - needed)
        if taken is not best:
            memory.regret_ns += max(0.0, run - best.run_ns)

    def _predicted_ns(self, memory: Memory, plain: Option, stage: Stage) -> float:
        """What serial or ordered should take by all that is known now."""
        costs = memory.profile.costs
        if plain.is_serial:
            return serial_ns(costs, stage.operations)
        return ordered_ns(costs, stage.operations, min(stage.threads, self.cores))

    def explain(self) -> Explanation:
        assert self._explanation is not None, "nothing has been chosen yet"
        return self._explanation

    def _take(
        self,
        stage: Stage,
        memory: Memory,
        taken: Option,
        best: Option,
        look: Look | None,
        reasons: list[Reason],
        options: dict[str, Option],
    ) -> Choice:
        if taken.needs_graph:
            if memory.time_next or memory.parallel_epochs % TIMED_EVERY == 0:
                stage.time_operations()
            memory.parallel_epochs += 1
        chosen: Choice = [(policy, group.members if group is not None else None) for policy, group in taken.parts]
        explanation = explanation_of("cost", stage, chosen)
        explanation.reasons = reasons
        explanation.predicted_ms = {name: option.total_ns / 1e6 for name, option in options.items()}
        explanation.predicted_run_ms = taken.run_ns / 1e6
        if look is not None:
            explanation.properties, explanation.looked = look.properties, True
        self._now = (stage, memory, taken, best, look)
        self._explanation = explanation
        return chosen


def _why_not_look(memory: Memory, stage: Stage, threads: float, plain: Option) -> Reason | None:
    """Why the better of serial and ordered is taken without building the graph; None if the graph is to be looked at."""
    costs, count = memory.profile.costs, stage.operations
    best, bound = plain.total_ns, optimistic_ns(costs, count, threads)
    if plain.name == ORDERED.name and bound > best * (1 - KEEP_MARGIN):
        return lambda: (
            f"no graph was built: ordered takes {best / 1e6:.3g} ms, no run over a graph less than {bound / 1e6:.3g} ms"
        )
    if not memory.is_due(count):
        return lambda: _skipped(memory, plain, bound)
    cost = building_ns(costs, count, set(Granularity)) + costs.look.value
    if cost > max(memory.budget_ns, LOOK_EVERY_MIN * (best - bound)):
        return lambda: (
            f"no graph was built: {plain.name} takes {best / 1e6:.3g} ms, no parallel run less than {bound / 1e6:.3g} ms, and "
            f"another look would cost {cost / 1e6:.3g} ms, more than the {REGRET_SHARE:.0%} of all time that looks and "
            "trials may take"
        )
    return None


def _runs_of(costs: Costs, option: Option) -> int:
    """How often it has run."""
    if option.is_serial:
        return costs.serial.count
    return costs.seen(_key(option)) if option.needs_graph else costs.ordered.count


def _best(memory: Memory, options: dict[str, Option]) -> Option:
    """The least predicted time; whatever ran last keeps its place unless another is clearly better."""
    best = min(options.values(), key=lambda option: _demanded_ns(memory, option))
    last = options.get(memory.last)
    return last if last is not None and last.total_ns < best.total_ns * (1 + KEEP_MARGIN) else best


def _demanded_ns(memory: Memory, option: Option) -> float:
    """The predicted time, with what must be gained for such a prediction to be trusted."""
    gain = GROUPS_GAIN if len(option.parts) > 1 else 0.0
    if memory.last in PLAIN and option.needs_graph and not memory.profile.costs.seen(_key(option)):
        gain = max(gain, UNTRIED_GAIN)
    return option.total_ns * (1 + gain)


def _try_another(memory: Memory, options: dict[str, Option], best: Option, due: bool) -> tuple[Option, Reason]:
    """The best, or another that could be better, if what its prediction says it loses is affordable."""
    costs = memory.profile.costs

    def hope(option: Option) -> float:
        if (
            not option.needs_graph
        ):  # what it costs now is known from parallel epochs only: compare again when a look is due
            return option.total_ns / (SERIAL_RANGE if due else 1.0)
        return option.total_ns / (1.0 + (UNTRIED_RANGE - 1.0) / (1 + costs.seen(_key(option))) ** 2)

    def pays(option: Option) -> bool:
        """Whether what it may lose now is affordable, or made good in the next epochs if it is what it may be."""
        gain = best.total_ns - hope(option)
        if not best.needs_graph and not _runs_of(costs, option) and _demanded_ns(memory, option) > best.total_ns:
            return gain > 0 and option.total_ns <= memory.budget_ns  # affordable even if it comes to nothing
        return gain > 0 and option.total_ns - best.total_ns <= max(memory.budget_ns, LOOK_EVERY_MIN * gain)

    quiet = memory.profile.abort_ratio < ABORTS_MATTER
    candidates = [
        option
        for option in options.values()
        if option is not best and pays(option) and not (quiet and _differ_in_aborts_only(option, best))
    ]
    # As long as the best has never run itself, it is the one to find out about.
    if candidates and _runs_of(costs, best) and memory.epochs - memory.last_trial >= TRIALS_APART:
        other = min(candidates, key=hope)
        memory.last_trial = memory.epochs
        return (
            other,
            lambda: (
                f"{other.name} is tried: {other.total_ns / 1e6:.3g} ms predicted against {best.total_ns / 1e6:.3g} ms for "
                f"{best.name}, close enough to be worth knowing"
            ),
        )
    return (
        best,
        lambda: f"{best.name} has the least predicted time, {best.total_ns / 1e6:.3g} ms with all that is built",
    )


def _differ_in_aborts_only(one: Option, other: Option) -> bool:
    a, b = one.parts[0][0], other.parts[0][0]
    alike = (a.exploration, a.granularity) == (b.exploration, b.granularity)
    return alike and len(one.parts) == len(other.parts) == 1


def _key(option: Option) -> Hashable:
    """What an option's correction is kept under."""
    return option.parts[0][0] if len(option.parts) == 1 else option.name


def _built_ns(observation: Observation) -> float:
    built = (observation.graph_ns or 0.0) + sum(observation.units_ns.values())
    return built + observation.plan_ns + observation.choosing_ns


def _skipped(memory: Memory, plain: Option, bound: float) -> str:
    costs = memory.profile.costs
    why = (
        f"no parallel run can take less than {bound / 1e6:.3g} ms, with {costs.graph.value:.3g} ns an operation for the graph"
        if plain.total_ns < bound
        else "the last look at the graph found nothing faster"
    )
    return (
        f"no graph was built: {plain.name} takes {plain.total_ns / 1e6:.3g} ms (serial {costs.serial.value:.3g} ns an "
        f"operation), {why}; looking again in {memory.next_look - memory.epochs} epoch(s)"
    )
