"""Tells an input that stands still although it has more from one that has ended.

A client that was told of no brokers forgets all of them and may never ask again (librdkafka issue 5301): nothing comes, and
nothing says so. A quiet input is therefore asked, by another client, how far it reaches; what lies before that and still has not
come a while later will not come. No clock and no Kafka in here.
"""

from __future__ import annotations

from collections.abc import Mapping

QUIET_S = 10.0  # without a message or an end until the input is asked
GRACE_S = 3.0  # for what had only just arrived when it was asked
PATIENCE_MAX_S = 160.0  # each reopening in vain doubles the patience: a slow broker must be able to answer in between


class Standstill:
    """Of one input: `came` with every sign of life, `asks` and `stands` while there is none."""

    def __init__(self, now_s: float) -> None:
        self._since_s, self._patience_s = now_s, QUIET_S
        self._ends: Mapping[int, int] = {}  # as the last answer said

    def came(self, now_s: float) -> None:
        """Something was read."""
        self._patience_s = QUIET_S
        self.begins(now_s)

    def begins(self, now_s: float) -> None:
        """The input is read from elsewhere, or other partitions of it."""
        self._since_s, self._ends = now_s, {}

    def asks(self, now_s: float) -> bool:
        """Whether it is time to ask where the input ends."""
        return not self._ends and now_s - self._since_s >= self._patience_s

    def told(self, ends: Mapping[int, int], now_s: float) -> None:
        """By partition where the input ends; nothing if nobody answered. The grace, or the patience, begins."""
        self._since_s, self._ends = now_s, ends

    def stands(self, reached: Mapping[int, int], now_s: float) -> bool:
        """Whether something lies before the ends and does not come. `reached`: by partition that is read, the next offset."""
        if not self._ends or now_s - self._since_s < GRACE_S:
            return False
        missing = any(at < self._ends.get(partition, at) for partition, at in reached.items())
        if missing:
            self._patience_s = min(2 * self._patience_s, PATIENCE_MAX_S)
        self.begins(now_s)
        return missing
