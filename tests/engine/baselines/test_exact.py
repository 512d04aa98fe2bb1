"""Every exact baseline gives the serial answer: on all applications of the verification, and under injected delays."""

from functools import cache

import pytest

from engine import ExecutionOptions, TestDriver
from engine.baselines import EXACT, Baseline
from services.verify.command import run_stream
from services.verify.comparison import Configuration
from services.verify.generator import APPLICATIONS
from services.verify.handmade import HANDMADE
from tests.contract.applications import ledger, load_accounts, random_transfers

EPOCHS = 5
STREAMS = 3
BASELINES = (*EXACT, Baseline("pat", partitions=1), Baseline("pat", partitions=3))
CONFIGURATIONS = [Configuration(baseline, threads) for baseline in BASELINES for threads in (1, 2, 4)]
SEEDS = (1, 2, 3)


def check_streams(number):
    for stream_seed in range(STREAMS):
        report = run_stream(number, stream_seed, EPOCHS, CONFIGURATIONS)
        assert report.mismatch is None, f"application {number}, stream seed {stream_seed}: {report.mismatch}"
        assert report.epochs == EPOCHS


@pytest.mark.parametrize("number", range(len(HANDMADE)), ids=[declare.__name__ for declare in HANDMADE])
def test_handmade_applications(number):
    check_streams(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(HANDMADE), APPLICATIONS))
def test_generated_applications(number):
    check_streams(number)


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
@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_delays_change_nothing(baseline, threads, seed):
    options = ExecutionOptions(delay_seed=seed)
    snapshot, outcomes, _ = run(TestDriver(ledger, threads=threads, policy=baseline, options=options), seed)
    assert outcomes == serially(seed)[1]
    assert snapshot == serially(seed)[0]


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_delays_do_let_another_thread_in(baseline):
    shared = 0
    for seed in SEEDS:
        options = ExecutionOptions(delay_seed=seed)
        results = run(TestDriver(ledger, threads=2, policy=baseline, options=options), seed)[2]
        shared += sum(min(result.operations_per_thread) for result in results)
    assert shared > 0
