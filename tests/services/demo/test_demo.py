"""The demo: what a newcomer sees, what a program gets, and what is said where Java is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from services import cli
from services.demo.view import Figures, Steps

ROOT = Path(__file__).parents[3]
STATUS = {
    "ready": True, "recovering": False, "tally": {"committed": 70, "failed": 30, "filtered": 0, "dead_lettered": 0},
    "failed_by_reason": {"constraint": 3, "function_refused": 1}, "epochs": 4, "policies": ["serial"],
    "policies_chosen": {"serial": 3, "paper": 1}, "events_per_second": 1234.0, "latency_seconds": {"p50": 0.02, "p99": None},
}  # fmt: skip


def shown(figures: Figures) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(figures._render())
    return capture.get()


def test_the_live_view_shows_what_the_engine_says():
    figures = Figures(Console(quiet=True), 200)
    figures.published = 150
    figures.update(STATUS)
    text = shown(figures)
    for said in ("150 of 200", "70", "constraint 75%", "serial", "1,234 events/s", "p50 20 ms, p99 -", "running"):
        assert said in text, said
    assert figures.done == 100


def test_while_the_engine_is_dead_its_last_figures_stay():
    figures = Figures(Console(quiet=True), 200)
    figures.update(STATUS)
    figures.update(None)
    assert figures.done == 100 and not figures.alive
    assert "starting, recovering" in shown(figures)


def test_a_step_that_failed_says_so():
    console = Console(width=80, force_terminal=False)
    steps = Steps(console)
    with console.capture() as capture, pytest.raises(ZeroDivisionError), steps.shown(), steps.step("dividing"):
        raise ZeroDivisionError
    assert "dividing: failed after 0 s" in capture.get()


def test_without_java_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert cli.main(["demo"]) == 2
    assert "install Java 17 or newer" in capsys.readouterr().err


@pytest.mark.slow
def test_everything_adds_up_and_nothing_is_left_running():
    command = [sys.executable, "-m", "millrace", "demo", "--events", "60000", "--seed", "3", "--json"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout.strip().splitlines()[-1])
    assert (
        found["events"] == found["committed"] + found["failed"] + found["filtered"] + found["dead_lettered"] >= 60_000
    )
    assert (found["missing"], found["duplicated"], found["kills"]) == (0, 0, 1)
    assert found["failed"] > 0 and found["seconds"] > 0 and found["events_per_second"] > 0
    left = subprocess.run(["ps", "-ww", "-eo", "command"], capture_output=True, text=True, check=True).stdout
    assert "millrace-demo-" not in left
