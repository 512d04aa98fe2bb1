"""Each policy leaves its own signature in the counters while two threads really work, so that none can quietly be another."""

import pytest

from engine import Exploration, Granularity, all_policies
from engine.scheduling.policy import Abort
from tests.contract.busy_cells import LONG, SHORT, cells, send_step

THREADS = 2
TRIES = 5
PAIRS, ROUNDS = 20, 4
PARALLEL = [policy for policy in all_policies() if not policy.is_serial]


def only(**wanted):
    """The parallel policies with the given dimensions."""
    chosen = [p for p in PARALLEL if all(getattr(p, name) is value for name, value in wanted.items())]
    return pytest.mark.parametrize("policy", chosen, ids=lambda policy: policy.name)


def some_run(run, *arguments, shows):
    """A run that `shows` what depends on when the operating system wakes a thread; the last of a few if none does."""
    for _ in range(TRIES):
        result = run(*arguments)
        if shows(result):
            break
    return result


def both_worked(result):
    return min(result.operations_per_thread) > 0


@pytest.fixture
def run_pairs(open_driver):
    """Keys in pairs: in each round the even one changes, then the odd one, which reads it. Nothing fails."""

    def run(policy):
        driver = open_driver(cells, policy=policy, threads=THREADS)
        for number in range(ROUNDS):
            for pair in range(PAIRS):
                send_step(driver, 2 * number, 2 * pair)
                send_step(driver, 2 * number + 1, 2 * pair + 1, 2 * pair)
        return driver.punctuate()

    return run


# What the epoch above is made of, counted by hand: a chain each key, and even → odd in every round.
OPERATIONS = 2 * PAIRS * ROUNDS
TEMPORAL = 2 * PAIRS * (ROUNDS - 1)
PARAMETRIC = PAIRS * ROUNDS
CHAINS = 2 * PAIRS
STRATA = {Granularity.FINE: ROUNDS + 1, Granularity.COARSE: 2}
EDGES = {Granularity.FINE: TEMPORAL + PARAMETRIC, Granularity.COARSE: PARAMETRIC}  # chains hide their own


@only()
def test_both_threads_work(run_pairs, policy):
    result = some_run(run_pairs, policy, shows=both_worked)
    assert result.policies == [policy.name]
    assert len(result.operations_per_thread) == THREADS
    assert both_worked(result)
    assert sum(result.operations_per_thread) == OPERATIONS
    assert result.counters["T2"] + result.counters["T3"] == OPERATIONS
    assert [result.counters[name] for name in ("T4", "T5", "T6", "T7", "rounds", "rollbacks", "cancellations")] == [
        0
    ] * 7


@only(granularity=Granularity.FINE)
def test_fine_schedules_operations(run_pairs, policy):
    assert run_pairs(policy).counters["units"] == OPERATIONS


@only(granularity=Granularity.COARSE)
def test_coarse_schedules_chains(run_pairs, policy):
    counters = run_pairs(policy).counters
    assert counters["units"] == CHAINS
    assert counters["merged_cycles"] == 0  # even → odd in every round is no cycle


@only(exploration=Exploration.BREADTH_FIRST)
def test_breadth_first_meets_after_each_stratum(run_pairs, policy):
    counters = run_pairs(policy).counters
    assert counters["barriers"] == THREADS * STRATA[policy.granularity]
    assert (counters["signals"], counters["waits"], counters["T3"]) == (0, 0, 0)


@only(exploration=Exploration.DEPTH_FIRST)
def test_depth_first_meets_at_the_end_only(run_pairs, policy):
    counters = run_pairs(policy).counters
    assert counters["barriers"] == THREADS
    assert counters["signals"] == 0


@only(exploration=Exploration.DEPTH_FIRST)
def test_depth_first_waits_for_its_own_dependencies(open_driver, policy):
    """Each thread has one key of each stratum; the second thread's next one needs what the first is slow with."""

    def run():
        driver = open_driver(cells, policy=policy, threads=THREADS)
        send_step(driver, 1, 0, loops=2 * LONG)
        send_step(driver, 1, 1, loops=SHORT)
        send_step(driver, 2, 2, 0)
        send_step(driver, 2, 3, 0)
        return driver.punctuate()

    result = some_run(run, shows=lambda result: result.counters["waits"] > 0)
    assert result.operations_per_thread == [2, 2]  # an equal share of every stratum
    assert result.counters["waits"] >= 1
    assert result.counters["T3"] >= 1


@only(exploration=Exploration.UNSTRUCTURED)
def test_unstructured_signals_along_every_edge(run_pairs, policy):
    counters = run_pairs(policy).counters
    assert counters["signals"] == EDGES[policy.granularity]
    assert counters["barriers"] == THREADS
    assert (counters["waits"], counters["T3"]) == (0, 0)


@only(granularity=Granularity.COARSE)
def test_coarse_merges_chains_that_need_each_other(open_driver, policy):
    driver = open_driver(cells, policy=policy, threads=THREADS)
    for ts in range(4):
        send_step(driver, 2 * ts, 0, 1)  # 0 and 1 read each other: a cycle
        send_step(driver, 2 * ts + 1, 1, 0)
    for key, other in ((10, 9), (11, 10), (12, 10), (13, 11), (13, 12)):
        send_step(driver, 20 + key, key, other)  # a diamond, no cycle
    counters = driver.punctuate().counters
    assert counters["merged_cycles"] == 1
    assert counters["units"] == 1 + 4


def test_serial_needs_no_scheduling(run_pairs):
    result = run_pairs("serial")
    assert result.operations_per_thread == [OPERATIONS, 0]
    scheduling = ("T1", "T2", "T3", "signals", "barriers", "waits", "units", "rounds", "restarts", "cancellations")
    assert {name: result.counters[name] for name in scheduling} == dict.fromkeys(scheduling, 0)


def run_failures(open_driver, policy):
    """A transaction changes key 0 and fails on 1, before a chain on 0; at its end one fails on 2, then would change 3."""
    driver = open_driver(cells, policy=policy, threads=THREADS)
    driver.send("Two", ts=0, first=0, second=1, fails=2)
    for ts in range(1, 11):
        send_step(driver, ts, 0, loops=LONG // 10)
    send_step(driver, 11, 3, 0)
    driver.send("Two", ts=12, first=2, second=3, fails=1)
    result = driver.punctuate()
    assert [o.verdict for o in result.outcomes()] == ["failed", *["committed"] * 11, "failed"]
    return result


def cancelled(result):
    return result.counters["cancellations"] > 0


@only(abort=Abort.EAGER)
def test_eager_handles_a_failure_before_all_is_explored(open_driver, policy):
    result = some_run(run_failures, open_driver, policy, shows=cancelled)
    # The last operation came after its transaction's failure was settled: it never ran.
    assert cancelled(result)


@only(abort=Abort.LAZY)
def test_lazy_explores_everything_and_then_goes_round(open_driver, policy):
    result = run_failures(open_driver, policy)
    counters = result.counters
    assert counters["cancellations"] == 0
    assert counters["rounds"] >= 1
    assert counters["rollbacks"] >= 11  # the chain on 0 and its reader saw what was withdrawn
    assert counters["operations"] == 15 + counters["rollbacks"]  # everything once, and what was rolled back again
    if policy.exploration is not Exploration.BREADTH_FIRST:
        assert counters["barriers"] == THREADS * (1 + counters["rounds"])


def test_no_two_policies_look_alike(run_pairs, open_driver):
    """The signatures together tell all thirteen apart."""
    signatures = {}
    for policy in all_policies():
        calm = run_pairs(policy).counters
        stormy = some_run(run_failures, open_driver, policy, shows=cancelled)
        signatures[policy] = (calm["barriers"], calm["signals"] > 0, calm["units"], cancelled(stormy))
    assert len(set(signatures.values())) == len(all_policies()) == 13
