"""From what a user gives as `policy=` to a chooser: a policy, a policy's name, a model's name, a function, a chooser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.errors import DeclarationError
from engine.scheduling.choice import ChoiceFunction, Chooser, FromFunction, fixed
from engine.scheduling.cost_model import CostModel
from engine.scheduling.paper_model import PaperModel
from engine.scheduling.policy import ORDERED, Policy, all_policies, policy_named

MODELS: dict[str, Callable[[], Chooser]] = {"cost": CostModel, "paper": PaperModel}

Given = Policy | str | Chooser | ChoiceFunction | None


def make_chooser(policy: Given) -> Chooser:
    """A new chooser for one engine; None means the cost model."""
    if policy is None:
        return CostModel()
    if isinstance(policy, Policy):
        return fixed(policy)
    if isinstance(policy, str):
        if policy in MODELS:
            return MODELS[policy]()
        known = [each.name for each in (*all_policies(), ORDERED)]
        if policy not in known:
            raise DeclarationError(
                f"no policy {policy!r}; there are {', '.join(known)}, and the models {', '.join(MODELS)}"
            )
        return fixed(policy_named(policy))
    given: Any = policy
    if all(hasattr(given, name) for name in ("choose", "learn", "explain")):
        chooser: Chooser = given
        return chooser
    if not callable(given):
        raise DeclarationError(f"policy= is a policy, a name, a chooser or a function, not {policy!r}")
    return FromFunction(given, "function", "chosen by the function that the engine was given")
