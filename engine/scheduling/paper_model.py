"""The paper's decision model (section 5.4, Fig. 7) with the thresholds of its published code, fed by measurement.

Structured means breadth-first, as in the published code. Before anything has run, C and the abort ratio are taken as 0.
"""

from __future__ import annotations

from engine.scheduling.choice import Choice, Explanation, Observation, Stage, explanation_of
from engine.scheduling.groups import AbortHistory, Grouping, buckets_of, find_groups
from engine.scheduling.policy import Abort, Exploration, Granularity, Policy
from engine.scheduling.profile import Profile
from engine.scheduling.properties import Properties, measure

DEPENDENCIES_MIN = 0.8  # T, for structured exploration
SKEW_MAX = 0.3  # for structured exploration
TEMPORAL_MIN = 0.2  # T, for coarse units
PARAMETRIC_MAX = 0.3  # T, for coarse units
COMPLEXITY_MIN_US = 40.0  # from which aborts are eager however many
ABORTS_MAX = 0.7  # below which aborts are eager however cheap the functions
TIMED_EVERY = 8  # epochs: C changes with the application, not with the epoch


def decide(found: Properties) -> Policy:
    """Fig. 7: three decisions that do not depend on each other."""
    structured = found.dependency_ratio > DEPENDENCIES_MIN and found.degree_skew < SKEW_MAX
    fine = bool(found.cyclic) or found.temporal_ratio < TEMPORAL_MIN or found.parametric_ratio > PARAMETRIC_MAX
    eager = found.complexity_us >= COMPLEXITY_MIN_US or found.abort_ratio < ABORTS_MAX
    return Policy(
        Exploration.BREADTH_FIRST if structured else Exploration.UNSTRUCTURED,
        Granularity.FINE if fine else Granularity.COARSE,
        Abort.EAGER if eager else Abort.LAZY,
    )


def reasons(found: Properties) -> list[str]:
    """The same three decisions in words."""
    structured = found.dependency_ratio > DEPENDENCIES_MIN and found.degree_skew < SKEW_MAX
    exploration = "breadth-first" if structured else "unstructured"
    policy = decide(found)
    cycles = "are" if found.cyclic else "are no"
    return [
        f"{exploration}: TD + PD + LD is {found.dependency_ratio:.2f} T (structured above {DEPENDENCIES_MIN} T), degree "
        f"skew {found.degree_skew:.2f} (structured below {SKEW_MAX})",
        f"{policy.granularity.name.lower()}: there {cycles} cyclic chains, TD is {found.temporal_ratio:.2f} T (fine below "
        f"{TEMPORAL_MIN} T), PD {found.parametric_ratio:.2f} T (fine above {PARAMETRIC_MAX} T)",
        f"{policy.abort.name.lower()}: C is {found.complexity_us:.3g} µs (eager from {COMPLEXITY_MIN_US:g} µs), aborts "
        f"{found.abort_ratio:.0%} (eager below {ABORTS_MAX:.0%})",
    ]


class PaperModel:
    """Chooses as the paper does, for each group of a stage."""

    def __init__(self) -> None:
        self._profiles: dict[int, Profile] = {}
        self._histories: dict[int, AbortHistory] = {}
        self._epochs = 0
        self._stage: Stage | None = None
        self._explanation: Explanation | None = None

    def choose(self, stage: Stage) -> Choice:
        self._stage = stage
        profile = self._profiles.setdefault(stage.number, Profile())
        if profile.costs.serial.count == 0 or self._epochs % TIMED_EVERY == 0:
            stage.time_operations()
        self._epochs += 1
        history = self._histories.setdefault(stage.number, AbortHistory())
        grouping = find_groups(stage, history, profile.abort_ratio, split_giant=False)
        found = measure(
            stage.graph(), grouping.of_transaction, grouping.count, profile.complexity_us, grouping.abort_ratios,
            stage.units(Granularity.COARSE),
        )  # fmt: skip
        policies = [decide(each) for each in found]
        together = len(set(policies)) == 1
        chosen: Choice = (
            [(policies[0], None)]
            if together
            else [(policy, grouping.members(number)) for number, policy in enumerate(policies)]
        )
        self._explain(stage, chosen, grouping, found)
        return chosen

    def learn(self, observation: Observation) -> None:
        stage = self._stage
        assert stage is not None and self._explanation is not None
        self._profiles[stage.number].learn(observation)
        self._histories[stage.number].learn(buckets_of(stage), observation.aborted)
        self._explanation.observed_run_ms = observation.run_ns / 1e6
        self._stage = None

    def explain(self) -> Explanation:
        assert self._explanation is not None, "nothing has been chosen yet"
        return self._explanation

    def _explain(self, stage: Stage, chosen: Choice, grouping: Grouping, found: list[Properties]) -> None:
        explanation = explanation_of("paper", stage, chosen)
        explanation.looked = True
        explanation.properties = dict(zip(grouping.names, found, strict=True))
        explanation.reasons += grouping.notes
        for name, each in zip(grouping.names, found, strict=True):
            prefix = f"{name}: " if grouping.count > 1 else ""
            explanation.reasons += [prefix + sentence for sentence in reasons(each)]
        self._explanation = explanation
