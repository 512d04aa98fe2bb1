"""`millrace verify engine` itself: it agrees on what is right, finds what is wrong, and refuses to be content too early."""

import argparse
import json
from typing import Any

import pytest

from engine import all_policies
from services.verify import command
from services.verify.comparison import Configuration, StreamReport
from services.verify.oracle import Oracle, OracleOutcome


def arguments(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"epochs": 10, "seed": 1, "threads": (1, 2), "json": False, **given})


def test_the_engine_agrees_with_the_oracle_under_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_engine(arguments(application=0, stream_seed=0)) == 0
    assert "0 mismatches" in capsys.readouterr().out


def test_several_processes_see_what_one_sees(capsys: pytest.CaptureFixture[str]) -> None:
    summaries = []
    for jobs in (1, 2):
        command.run_engine(arguments(epochs=10, threads=(1,), json=True, jobs=jobs))
        summaries.append(json.loads(capsys.readouterr().out))
    assert summaries[0]["verdicts"] == summaries[1]["verdicts"]
    assert summaries[0]["runs"] == summaries[1]["runs"] > 0


def test_a_short_run_is_tame_and_says_of_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_engine(arguments(epochs=2, threads=(1,), json=True)) == 1
    summary = json.loads(capsys.readouterr().out)
    assert (summary["result"], summary["epochs"], summary["seed"]) == ("tame", 2, 1)
    assert "window_across_epochs" in summary["missing"]


def test_what_must_have_occurred_is_checked_one_by_one() -> None:
    total = StreamReport()
    total.count({name: least for name, (least, _) in command.REQUIRED.items()})
    assert command.tame(total) == {}
    for name in command.REQUIRED:
        lacking = StreamReport()
        lacking.count({n: least - (n == name) for n, (least, _) in command.REQUIRED.items()})
        assert list(command.tame(lacking)) == [name]


def test_a_share_of_the_streams_is_held_up_and_other_threads_work_in_all() -> None:
    configurations = [Configuration(policy, threads) for policy in all_policies() for threads in (1, 2)]
    counters = [command.run_stream(0, seed, 2, configurations).counters for seed in range(8)]
    assert 0 < sum(each["delayed_epochs"] > 0 for each in counters) < 8
    assert all(each["by_others_replays"] > 0 for each in counters)
    only_one = [configuration for configuration in configurations if configuration.threads == 1]
    assert (
        sum(command.run_stream(0, 0, 2, only_one).counters[f"by_others_{how}"] for how in ("replays", "ordered")) == 0
    )


def break_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the oracle disagree about the last outcome of every epoch, as if the engine were wrong there."""
    run_epoch = Oracle.run_epoch

    def wrong(self: Oracle, number: int, punctuation_ts: int, events: Any) -> list[OracleOutcome]:
        outcomes = run_epoch(self, number, punctuation_ts, events)
        return [*outcomes[:-1], *(outcome._replace(statement=99) for outcome in outcomes[-1:])]

    monkeypatch.setattr(Oracle, "run_epoch", wrong)


def test_a_mismatch_is_shown_with_the_way_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_outcome(monkeypatch)
    assert command.run_engine(arguments()) == 1
    shown = capsys.readouterr().out
    assert "MISMATCH  seed 1, application 0, stream seed 2000000" in shown
    assert "policy    " in shown and "1 thread(s)" in shown and "(statement)" in shown
    assert "reproduce millrace verify engine --application 0 --stream-seed 2000000 --threads 1,2" in shown
    assert command.run_engine(arguments(json=True)) == 1
    assert json.loads(capsys.readouterr().out)["result"] == "mismatch"


def test_a_difference_in_state_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Oracle.state

    def wrong(self: Oracle) -> Any:
        tables = state(self)
        tables["table0"]["no such key"] = {"value": 1}
        return tables

    monkeypatch.setattr(Oracle, "state", wrong)
    report = command.run_stream(0, 0, 1, [Configuration(all_policies()[0], 1)])
    assert report.mismatch is not None
    assert (report.mismatch.what, report.mismatch.found) == ("state of table0['no such key']", "None")
