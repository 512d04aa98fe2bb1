"""An epoch between its close and its commit, whatever it was made of."""

from __future__ import annotations

from dataclasses import dataclass

from services.engine.assembly import Assembly
from services.engine.cutting import Cut
from services.engine.facts import NOTHING, Letter, Tally


@dataclass
class Closed:
    """An epoch that is being executed or waits for its commit."""

    assembly: Assembly | Cut
    punctuation_ts: int
    letters: tuple[Letter, ...] = ()  # all its messages, where it is not run but given up
    tally: Tally = NOTHING
