"""`Baseline`: which of the papers' schemes runs an epoch, in the place of a policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import DeclarationError
from engine.scheduling.policy import Abort, Exploration, Granularity, Policy

SCHEMES = ("lock", "mvlk", "pat", "tstream", "no-lock")
PARTITIONS = 16  # where PAT is not told: several a thread on the machines this runs on, so that threads can stay apart


@dataclass(frozen=True)
class Baseline(Policy):
    """A scheme of TStream's evaluation (its section VI): `Baseline("lock")`, `Baseline("pat", partitions=8)`.

    It is a `Policy` so that whatever takes one takes it too; like the serial mode it needs neither graph nor units.
    """

    exploration: Exploration = field(init=False, default=Exploration.SERIAL, repr=False)
    granularity: Granularity = field(init=False, default=Granularity.FINE, repr=False)
    abort: Abort = field(init=False, default=Abort.EAGER, repr=False)
    scheme: str = "lock"
    partitions: int = 0  # for PAT only

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise DeclarationError(f"no baseline {self.scheme!r}; there are {', '.join(SCHEMES)}")
        if self.scheme != "pat" and self.partitions != 0:
            raise DeclarationError(f"baseline {self.scheme!r} has no partitions; leave partitions= out, or take 'pat'")
        if self.partitions < 0:
            raise DeclarationError(f"partitions= is a number above 0, not {self.partitions}")
        if self.scheme == "pat" and self.partitions == 0:
            object.__setattr__(self, "partitions", PARTITIONS)

    @property
    def name(self) -> str:
        return f"pat:{self.partitions}" if self.scheme == "pat" else self.scheme

    @property
    def is_exact(self) -> bool:
        """Whether it gives the serial answer: all but No-Lock do."""
        return self.scheme != "no-lock"

    def __str__(self) -> str:
        return self.name


NO_LOCK = Baseline("no-lock")
EXACT = tuple(Baseline(scheme) for scheme in SCHEMES if scheme != NO_LOCK.scheme)


def baseline_named(name: str) -> Baseline | None:
    """The baseline of that name (`lock`, `mvlk`, `pat`, `pat:8`, `tstream`, `no-lock`); None where it names none."""
    scheme, colon, partitions = name.partition(":")
    if scheme not in SCHEMES:
        return None
    if not colon:
        return Baseline(scheme)
    if not partitions.isdecimal() or int(partitions) == 0:
        raise DeclarationError(f"policy {name!r}: after the colon comes a number of partitions, as in 'pat:8'")
    return Baseline(scheme, partitions=int(partitions))
