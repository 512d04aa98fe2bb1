"""The simulation: seeds without a violation, deliberate bugs that are found, and checks that can fail."""

import argparse
import json

import pytest

from services.verify.simulation.bugs import BUGS, is_stale
from services.verify.simulation.checks import check, expected_tally
from services.verify.simulation.command import find, run
from services.verify.simulation.record_bugs import RECORD_BUGS
from services.verify.simulation.records import check_records, expected_epochs, make_record_scenario
from services.verify.simulation.run import simulate
from services.verify.simulation.scenario import make_scenario
from services.verify.simulation.world import World


def arguments(**given) -> argparse.Namespace:
    return argparse.Namespace(
        **{"seeds": 1, "seed": 0, "jobs": 1, "bugs": False, "json": True, "input": "chunks", **given}
    )


@pytest.mark.parametrize("mode", ["chunks", "records"])
def test_a_hundred_seeds(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    assert run(arguments(seeds=100, input=mode)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] == 0
    for what in ("crashes", "doubles", "stops", "commits", "exit 3"):
        assert found["counts"][what] > 10, f"the simulation was tame: {what}"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["chunks", "records"])
def test_a_thousand_seeds(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    assert run(arguments(seeds=1000, seed=10_000, jobs=2, input=mode)) == 0, capsys.readouterr().out


# Each once showed a mistake: a snapshot of an epoch that was not committed, a late copy counted twice (two ways), partitions
# paused that the next epoch needed, an epoch given up too early, a repeated message that no commit handled.
@pytest.mark.parametrize("seed", [2, 16, 31, 33, 224, 703, 1008, 1031, 1595, 2245])
def test_a_seed_that_once_failed(seed: int) -> None:
    assert simulate(seed).violations == []


# The cursor passed what a restart had not read again; a late record was not sent because its epoch was cut before that.
@pytest.mark.parametrize("seed", [38, 53, 77])
def test_a_seed_of_records_that_once_failed(seed: int) -> None:
    assert simulate(seed, mode="records").violations == []


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(77).counts == simulate(77).counts


@pytest.mark.parametrize("bug", BUGS + RECORD_BUGS, ids=lambda bug: bug.name)
def test_the_text_of_each_bug_is_still_there(bug) -> None:
    assert not is_stale(bug)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS + RECORD_BUGS, ids=lambda bug: bug.name)
def test_each_bug_is_found(bug) -> None:
    assert find(bug, first_seed=0) is not None


def test_the_checks_can_fail() -> None:
    scenario = make_scenario(3)
    assert "each once, in order" in check(scenario, World(log=[_empty_transaction()]))[0]
    assert expected_tally(scenario).committed > 0


def test_the_checks_of_records_can_fail() -> None:
    seed = next(seed for seed in range(100) if any(make_record_scenario(seed).partitions))
    assert check_records(make_record_scenario(seed), World()), "nothing was committed"
    exact = next(s for s in range(100) if make_record_scenario(s).rules.cutting.idle_timeout_s > 1e9)
    assert len(expected_epochs(make_record_scenario(exact))) > 0


def _empty_transaction():
    from services.engine.facts import Memory
    from services.verify.simulation.world import Transaction

    return Transaction(None, (), Memory())
