"""Regret, and which two parallel policies each win somewhere, on made-up measurements."""

from bench.data import Data, Row
from bench.experiments.speed_policies import regrets, two_regimes


def data(**medians: dict[str, float]) -> Data:
    """A sweep of C with a point for each keyword; every repeat is within 1 % of what is given."""
    rows: list[Row] = [
        {
            "repeat": repeat,
            "sweep": "busy_us",
            "value": float(at[1:]),
            "policy": policy,
            "throughput_per_s": speed * off,
        }
        for at, speeds in medians.items()
        for policy, speed in speeds.items()
        for repeat, off in enumerate((0.99, 1.0, 1.01), start=1)
    ]
    return Data({}, ("sweep", "value", "policy"), rows)


def test_regret_is_against_the_best_fixed_policy() -> None:
    found = regrets(data(c1={"serial": 100.0, "ordered": 50.0, "cost": 80.0}))
    assert found == {("busy_us", 1.0): {"serial": 0.0, "ordered": 1.0, "cost": 0.25}}


def test_a_point_without_a_fixed_policy_has_no_regret() -> None:
    assert regrets(data(c1={"cost": 80.0})) == {}


def test_two_regimes_are_found_where_each_wins_clearly() -> None:
    told = two_regimes(data(c1={"a": 100.0, "b": 80.0}, c2={"a": 50.0, "b": 60.0}), ("a", "b"))
    assert "at busy_us = 1 a is the best and 1.25 × b" in told
    assert "at busy_us = 2 b is the best and 1.20 × a" in told


def test_a_win_within_the_spread_is_none() -> None:
    told = two_regimes(data(c1={"a": 100.0, "b": 80.0}, c2={"a": 50.0, "b": 50.5}), ("a", "b"))
    assert told.startswith("none")


def test_policies_that_are_not_asked_about_do_not_count() -> None:
    told = two_regimes(data(c1={"a": 100.0, "b": 80.0}, c2={"a": 50.0, "b": 60.0}), ("a",))
    assert told.startswith("none")
