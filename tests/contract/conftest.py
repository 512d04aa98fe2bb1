"""The one fixture of the contract tests: every policy on 1, 2 and 4 threads (serial needs one), engines closed at the end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine import Application, Policy, TestDriver, all_policies
from engine.scheduling.policy import SERIAL, Abort

THREADS = (1, 2, 4)
SETTINGS = [(SERIAL, 1)] + [
    (policy, threads) for policy in all_policies() if not policy.is_serial for threads in THREADS
]
# `make check` runs these; `make test` all: each exploration, granularity and abort handling, and more threads than cores.
QUICK = {
    ("serial", 1),
    ("breadth-first/coarse/lazy", 2),
    ("depth-first/fine/lazy", 4),
    ("unstructured/fine/eager", 2),
}


@dataclass
class Setting:
    """One way to run: called with an application it gives a driver that runs it so."""

    policy: Policy
    threads: int
    opened: list[TestDriver] = field(default_factory=list)

    @property
    def is_lazy(self) -> bool:
        return not self.policy.is_serial and self.policy.abort is Abort.LAZY

    def __call__(self, app: Application, **options: Any) -> TestDriver:
        options = {"threads": self.threads, "policy": self.policy, **options}
        self.opened.append(TestDriver(app, **options))
        return self.opened[-1]


def _opened(setting: Setting) -> Iterator[Setting]:
    yield setting
    for driver in setting.opened:
        driver.close()


@pytest.fixture(
    params=[
        pytest.param(
            (policy, threads),
            id=f"{policy.name}-{threads}",
            marks=() if (policy.name, threads) in QUICK else pytest.mark.slow,
        )
        for policy, threads in SETTINGS
    ]
)
def drive(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """Every policy and thread count."""
    yield from _opened(Setting(*request.param))


@pytest.fixture
def open_driver() -> Iterator[Callable[..., TestDriver]]:
    """For tests that choose the policy themselves: serial unless told."""
    yield from _opened(Setting(SERIAL, 2))
