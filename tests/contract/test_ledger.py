"""Money: no policy makes or loses any, and all of them leave the same bytes and tell the same story."""

from functools import cache

import pytest

from engine import TestDriver
from tests.contract.applications import KEYS, START, ledger, load_accounts, random_transfers

SEEDS = (1, 2)


def run(driver, seed):
    """The snapshot after each epoch, and all outcomes."""
    load_accounts(driver)
    snapshots, outcomes = [], []
    for epoch in random_transfers(seed):
        result = driver.engine.run_epoch(epoch)
        snapshots.append(driver.engine.snapshot())
        outcomes += result.outcomes()
        assert sum(record["balance"] for record in driver.state("accounts").values()) == KEYS * START
        assert result.committed + result.failed == 120
    return snapshots, outcomes


@cache
def serially(seed):
    driver = TestDriver(ledger, threads=1)
    return run(driver, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_money_is_conserved_and_every_policy_leaves_the_same_bytes(drive, seed):
    assert run(drive(ledger), seed) == serially(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_input_is_not_tame(seed):
    verdicts = [outcome.verdict for outcome in serially(seed)[1]]
    assert verdicts.count("failed") > 50
    assert verdicts.count("committed") > 50
