"""What planning costs follows the keys that an epoch touches, not the size of the tables: counted in bytes, never in time."""

# mypy: ignore-errors

import tracemalloc

import numpy as np
import pytest

from engine import Engine, Epoch
from tests.contract.applications import ledger

EVENTS = 300
SLACK_BYTES = 64 * 1024  # Python's own objects come and go; a word for each of a million keys would be eight megabytes


def transfers(number):
    """An epoch among the first hundred accounts, whatever else is in the table."""
    draw = np.random.default_rng(number)
    columns = {name: draw.integers(0, 100, EVENTS) for name in ("sender", "receiver", "amount")}
    return Epoch(
        number, (number + 1) * EVENTS, {"Transfer": {"ts": number * EVENTS + np.arange(1, EVENTS + 1), **columns}}
    )


def bytes_of_an_epoch(loaded, policy):
    """Working memory as the engine tells it, and the peak of all memory while an epoch ran; the first one warms up."""
    with Engine(ledger, threads=1, policy=policy, wait=True) as engine:  # nothing compiles behind the measured epoch
        engine.load("accounts", np.arange(loaded).tolist(), {"balance": np.full(loaded, 100)})
        engine.run_epoch(transfers(0))
        tracemalloc.start()
        try:
            result = engine.run_epoch(transfers(1))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert result.committed + result.failed == EVENTS
    return result.working_bytes, peak


@pytest.mark.parametrize("policy", ["serial", "breadth-first/fine/lazy", "unstructured/coarse/eager"])
def test_an_epoch_needs_the_same_memory_on_a_small_and_on_a_large_table(policy):
    small, small_peak = bytes_of_an_epoch(1_000, policy)
    large, large_peak = bytes_of_an_epoch(1_000_000, policy)
    assert small == large > 0
    assert abs(large_peak - small_peak) < SLACK_BYTES
