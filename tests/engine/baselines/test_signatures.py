"""Each baseline leaves its own signature in the counters, so that none can quietly be another, or plain serial execution."""

import pytest

from engine import TestDriver
from engine.baselines import Baseline
from tests.contract.busy_cells import LONG, NOWHERE, SHORT, cells, send_step
from tests.contract.registers import pair, registers, values, verdicts

KEYS = 8
EVENTS = 40
TRIES = 5


@pytest.fixture
def open_driver():
    opened = []

    def open_with(app, policy, threads):
        opened.append(TestDriver(app, policy=policy, threads=threads))
        if app is cells:
            opened[-1].load("cells", {key: {"value": 0} for key in range(KEYS)})  # so that a key is its row
        return opened[-1]

    yield open_with
    for driver in opened:
        driver.close()


def some_run(run, shows):
    """A run that `shows` what depends on when the operating system wakes a thread; the last of a few if none does."""
    for _ in range(TRIES):
        result = run()
        if shows(result):
            break
    return result


def run_steps(driver, key_of, other_of, loops=SHORT):
    for ts in range(EVENTS):
        send_step(driver, ts, key_of(ts), other_of(ts), loops)
    return driver.punctuate()


@pytest.mark.parametrize("scheme", ["lock", "mvlk", "pat"])
def test_transactions_are_dealt_to_threads_in_turn(open_driver, scheme):
    result = run_steps(open_driver(cells, scheme, 4), lambda ts: ts % KEYS, lambda ts: ts % KEYS)
    assert result.operations_per_thread == [EVENTS // 4] * 4
    assert (result.counters["barriers"], result.counters["rounds"], result.counters["signals"]) == (0, 0, 0)


@pytest.mark.parametrize("scheme", ["lock", "mvlk", "pat"])
def test_a_hot_key_makes_threads_wait(open_driver, scheme):
    contended = run_steps(open_driver(cells, scheme, 2), lambda ts: 0, lambda ts: 0)
    assert contended.counters["waits"] > 0
    assert contended.times.sync > 0
    alone = run_steps(open_driver(cells, scheme, 1), lambda ts: 0, lambda ts: 0)
    assert alone.counters["waits"] == 0


def reader_then_writer(open_driver, scheme):
    """A slow transaction reads key 0; the next one, of the other thread, writes key 0 at once."""
    driver = open_driver(cells, scheme, 2)
    send_step(driver, 1, 1, 0, 4 * LONG)
    send_step(driver, 2, 0, NOWHERE, 1)
    result = driver.punctuate()
    return result.times.sync / result.times.useful


def test_under_lock_a_writer_waits_for_readers_before_it(open_driver):
    assert some_run(lambda: reader_then_writer(open_driver, "lock"), lambda share: share > 0.5) > 0.5


def test_under_mvlk_it_does_not(open_driver):
    assert some_run(lambda: reader_then_writer(open_driver, "mvlk"), lambda share: share < 0.5) < 0.5


@pytest.mark.parametrize("scheme", ["lock", "mvlk"])
def test_a_reader_waits_for_writers_before_it(open_driver, scheme):
    """The same the other way round: the second transaction needs what the first one writes."""

    def run():
        driver = open_driver(cells, scheme, 2)
        send_step(driver, 1, 0, NOWHERE, 4 * LONG)
        send_step(driver, 2, 1, 0, 1)
        result = driver.punctuate()
        return result.times.sync / result.times.useful

    assert some_run(run, lambda share: share > 0.5) > 0.5


def test_readers_of_a_key_share_its_lock(open_driver):
    def run():
        driver = open_driver(cells, "lock", 2)
        send_step(driver, 1, 1, 0, 4 * LONG)
        send_step(driver, 2, 2, 0, 1)
        result = driver.punctuate()
        return result.times.sync / result.times.useful

    assert some_run(run, lambda share: share < 0.5) < 0.5


def test_under_pat_transactions_of_one_partition_each_stay_apart(open_driver):
    """Two partitions, two threads: even transactions touch even keys, odd ones odd keys, and nobody ever waits."""
    driver = open_driver(cells, Baseline("pat", partitions=2), 2)
    result = run_steps(driver, lambda ts: ts % KEYS, lambda ts: (ts + 2) % KEYS)
    assert result.counters["waits"] == 0


def test_under_pat_transactions_of_several_partitions_wait(open_driver):
    """The same keys, but each transaction reads one of the other partition."""
    driver = open_driver(cells, Baseline("pat", partitions=2), 2)
    result = run_steps(driver, lambda ts: ts % KEYS, lambda ts: (ts + 1) % KEYS)
    assert result.counters["waits"] > 0


def test_tstream_leaves_a_chain_for_the_next_round(open_driver):
    """Key 0's second operation reads key 1, whose chain comes later: one stop, two rounds, and post-processing."""
    driver = open_driver(cells, "tstream", 1)
    send_step(driver, 1, 0)
    send_step(driver, 2, 1)
    send_step(driver, 3, 0, 1)
    counters = driver.punctuate().counters
    assert (counters["waits"], counters["barriers"], counters["units"], counters["rounds"]) == (1, 3, 2, 0)


def test_tstream_gets_through_chains_that_need_each_other(open_driver):
    driver = open_driver(cells, "tstream", 1)
    for ts in range(EVENTS):
        send_step(driver, ts, ts % 2, 1 - ts % 2)
    counters = driver.punctuate().counters
    assert (counters["operations"], counters["units"]) == (EVENTS, 2)
    assert counters["waits"] > EVENTS / 4  # each round one step of each chain


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_tstream_redoes_the_whole_batch(open_driver, threads):
    """One failure: what it wrote is hidden, it is left out, and all the others run again, also those apart from it."""
    driver = open_driver(registers, "tstream", threads)
    pair(driver, 1, "a", "b", fails=("b",))
    pair(driver, 2, "c", "d")
    pair(driver, 3, "e", "f")
    result = driver.punctuate()
    assert verdicts(result) == ["failed", "committed", "committed"]
    counters = result.counters
    assert (counters["rounds"], counters["rollbacks"], counters["operations"]) == (1, 4, 6 + 4)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_tstream_takes_back_a_failure_that_came_of_a_failed_one(open_driver, threads):
    """The guard fails in the first pass because of a version that does not stand; leaving it out would be wrong."""
    driver = open_driver(registers, "tstream", threads)
    pair(driver, 1, "x", "y", fails=("y",))
    driver.send("Guard", ts=2, key="x", limit=5)
    result = driver.punctuate()
    assert verdicts(result) == ["failed", "committed"]
    assert values(driver) == {"x": 1}
    assert (result.counters["rounds"], result.counters["operations"]) == (2, 3 + 1 + 1)
