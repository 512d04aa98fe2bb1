"""Every exact baseline gives the serial answer: on all applications of the verification, and under injected delays."""

import random
from functools import cache

import pytest

from engine import Engine, ExecutionOptions, TestDriver
from engine.baselines import EXACT, Baseline
from engine.scheduling.policy import SERIAL
from services.verify import comparison
from services.verify.command import run_stream
from services.verify.comparison import Configuration
from services.verify.generator import APPLICATIONS, generate_application
from services.verify.handmade import HANDMADE
from services.verify.streams import generate_epochs
from tests.contract.applications import ledger, load_accounts, random_transfers
from tests.contract.busy_cells import cells

pytestmark = pytest.mark.slow

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


def delayed(seed, baselines=BASELINES):
    """Runs each stage serially, then under the baselines with random pauses, and raises where an answer differs."""
    replays = [(SERIAL, 1), *((baseline, threads) for baseline in baselines for threads in (2, 4))]
    return ExecutionOptions(replays=tuple(replays), delay_seed=seed)


@pytest.mark.parametrize("number", range(len(HANDMADE)), ids=[declare.__name__ for declare in HANDMADE])
def test_handmade_applications_under_delays(number):
    app, _ = generate_application(number)
    for seed in SEEDS:
        stream = generate_epochs(app, seed, hot=True)
        with Engine(app, threads=4, policy=SERIAL, options=delayed(seed)) as engine:
            comparison.load(engine, stream)
            for epoch in stream.epochs:
                engine.run_epoch(comparison.columns_of(app, epoch))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_transactions_that_only_read_a_key_see_the_right_version(baseline, seed):
    """Each changes one key and reads another, for times from nothing to tens of µs; some fail, some after a write."""
    draw = random.Random(seed)
    driver = TestDriver(cells, threads=4, policy=SERIAL, options=delayed(seed, [baseline]))
    for ts in range(200):
        key, other = draw.randrange(5), draw.randrange(5)
        if draw.random() < 0.2:
            driver.send("Two", ts=ts, first=key, second=other, fails=draw.randrange(3))
        else:
            fails = int(draw.random() < 0.2)
            driver.send("Step", ts=ts, key=key, other=other, loops=draw.choice((0, 0, 300, 3000)), fails=fails)
    driver.punctuate()
    driver.close()


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
