"""The command line itself: help without compiling, errors as one sentence, exit codes. The commands have own tests."""

import argparse
import subprocess
import sys

import pytest

from engine.errors import InputError
from services import cli


def parse(line: str) -> argparse.Namespace:
    return cli.build_parser().parse_args(line.split())


@pytest.mark.parametrize("command", ["demo", "verify", "verify engine", "verify mutations"])
def test_help_explains_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "example: millrace " + command.split()[0] in " ".join(capsys.readouterr().out.split())


def test_help_does_not_load_the_engine() -> None:
    script = "import sys, services.cli as c; c.build_parser().format_help(); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_arguments_are_parsed() -> None:
    demo = parse("demo --events 1_000 --epochs 3 --seed 0 --svg graph.svg")
    assert (demo.events, demo.epochs, demo.seed, demo.json, demo.svg) == (1000, 3, 0, False, "graph.svg")
    verify = parse("verify engine --epochs 7 --seed 2 --threads 1,2 --json")
    assert (verify.epochs, verify.seed, verify.threads, verify.json) == (7, 2, (1, 2), True)


@pytest.mark.parametrize(
    "line", ["", "verify", "demo --events 0", "demo --epochs x", "demo --seed -1", "verify engine --threads 1,0"]
)
def test_wrong_arguments_are_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_an_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: argparse.Namespace) -> int:
        raise InputError("epoch 3 has no punctuation;\n  send one")

    monkeypatch.setattr(cli, "_demo", fail)
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err == "millrace: epoch 3 has no punctuation; send one\n"


def test_an_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(arguments: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_demo", interrupt)
    assert cli.main(["demo"]) == 130


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(arguments: argparse.Namespace) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_demo", crash)
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])
