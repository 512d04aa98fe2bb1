"""Threads under injected random delays: whatever order they come in, the bytes are those of serial execution."""

from functools import cache

import pytest

from engine import ExecutionOptions, TestDriver, all_policies
from tests.contract.applications import ledger, load_accounts, random_transfers

SEEDS = (1, 2, 3)
PARALLEL = [policy for policy in all_policies() if not policy.is_serial]


def run(driver, seed):
    load_accounts(driver)
    results = [driver.engine.run_epoch(epoch) for epoch in random_transfers(seed, epochs=2, events=80)]
    driver.close()
    return driver.engine.snapshot(), [result.outcomes() for result in results], results


@cache
def serially(seed):
    return run(TestDriver(ledger, threads=1), seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("policy", PARALLEL, ids=lambda policy: policy.name)
def test_delays_change_nothing(policy, threads, seed):
    options = ExecutionOptions(delay_seed=seed)
    snapshot, outcomes, _ = run(TestDriver(ledger, threads=threads, policy=policy, options=options), seed)
    assert outcomes == serially(seed)[1]
    assert snapshot == serially(seed)[0]


@pytest.mark.parametrize("policy", PARALLEL, ids=lambda policy: policy.name)
def test_delays_do_let_another_thread_in(policy):
    shared = 0
    for seed in SEEDS:
        options = ExecutionOptions(delay_seed=seed)
        results = run(TestDriver(ledger, threads=2, policy=policy, options=options), seed)[2]
        shared += sum(min(result.operations_per_thread) for result in results)
    assert shared > 0
