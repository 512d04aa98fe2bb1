"""Small stages that tests look at from inside: the chooser keeps the stage, the test asks it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import Engine, Epoch, Policy
from engine.scheduling.choice import Explanation, fixed


class Keeping:
    """Serial, and keeps every stage it is asked about."""

    def __init__(self, look: Callable[[Any], Any] = lambda stage: None) -> None:
        self.inner = fixed(Policy())
        self.look = look
        self.seen: list[Any] = []

    def choose(self, stage: Any) -> Any:
        self.seen.append(self.look(stage))
        return self.inner.choose(stage)

    def learn(self, observation: Any) -> None:
        self.inner.learn(observation)

    def explain(self) -> Explanation:
        return self.inner.explain()


@pytest.fixture
def look_into() -> Callable[..., list[Any]]:
    """Runs epochs serially and gives what `look(stage)` gave before each stage ran."""

    def run(
        app: Any, epochs: list[Epoch], look: Callable[[Any], Any], tables: dict[str, int] | None = None
    ) -> list[Any]:
        keeping = Keeping(look)
        with Engine(app, threads=2, policy=keeping) as engine:
            for table, count in (tables or {}).items():
                engine.load(table, list(range(count)), {"balance": np.full(count, 1_000)})
            for epoch in epochs:
                engine.run_epoch(epoch)
        return keeping.seen

    return run
