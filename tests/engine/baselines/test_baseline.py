"""The value that names a baseline, and that an engine takes it as it takes a policy."""

import pytest

from engine import DeclarationError, Engine, Policy
from engine.baselines import EXACT, NO_LOCK, Baseline, baseline_named
from engine.baselines.baseline import PARTITIONS, SCHEMES
from engine.scheduling.policy import SERIAL
from tests.contract.applications import ledger, random_transfers


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_name_gives_the_baseline_and_back(scheme):
    baseline = baseline_named(scheme)
    assert baseline == Baseline(scheme) == baseline_named(baseline.name)
    assert str(baseline) == baseline.name
    assert isinstance(baseline, Policy) and baseline != SERIAL


def test_partitions_are_part_of_the_name():
    assert baseline_named("pat:8") == Baseline("pat", partitions=8) != Baseline("pat")
    assert baseline_named("pat:8").name == "pat:8"
    assert Baseline("pat").partitions == PARTITIONS


def test_all_but_no_lock_are_exact():
    assert [baseline.scheme for baseline in EXACT] == ["lock", "mvlk", "pat", "tstream"]
    assert all(baseline.is_exact for baseline in EXACT) and not NO_LOCK.is_exact


def test_another_name_is_left_to_the_policies():
    assert baseline_named("serial") is None
    with pytest.raises(DeclarationError, match="no policy 'locks'"):
        Engine(ledger, policy="locks")


@pytest.mark.parametrize("name", ["pat:0", "pat:x", "pat:", "pat:-1", "lock:2"])
def test_a_wrong_number_of_partitions_is_refused(name):
    with pytest.raises(DeclarationError, match="partitions"):
        baseline_named(name)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(DeclarationError, match="no baseline 'calvin'; there are lock, mvlk"):
        Baseline("calvin")


@pytest.mark.parametrize("policy", [*SCHEMES, "pat:3", Baseline("tstream")], ids=str)
def test_an_engine_takes_it_and_says_so(policy):
    with Engine(ledger, threads=2, policy=policy) as engine:
        engine.load("accounts", list(range(12)), {"balance": [100] * 12})
        result = engine.run_epoch(next(random_transfers(1, epochs=1)))
    named = Baseline(policy) if policy in SCHEMES else policy
    assert result.policies == [str(named)]
    assert result.counters["operations"] >= 120
