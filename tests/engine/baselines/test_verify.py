"""`millrace verify engine --baselines`: the exact baselines stand beside the policies there."""

import json

import pytest

from engine import all_policies
from engine.baselines import EXACT
from services import cli
from services.verify.oracle import Oracle

LINE = ["verify", "engine", "--application", "2", "--threads", "1,2", "--json"]


@pytest.mark.parametrize("baselines", [(), EXACT], ids=["without", "with"])
def test_the_configurations_are_those_asked_for(baselines, capsys):
    assert cli.main([*LINE, *(["--baselines"] if baselines else [])]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["configurations"] == 2 * (len(all_policies()) + len(baselines))
    assert summary["mismatches"] == 0


def test_the_way_to_see_a_mismatch_again_says_baselines(monkeypatch, capsys):
    monkeypatch.setattr(Oracle, "run_epoch", lambda *_: [])
    assert cli.main([*LINE, "--baselines"]) == 1
    assert json.loads(capsys.readouterr().out)["reproduce"].endswith("--threads 1,2 --baselines")
