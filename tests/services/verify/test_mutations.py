"""The list of deliberate bugs moves with the code: `millrace verify mutations` (a minute each) shows that each is found."""

import argparse
import json
from typing import Any

import pytest

from services.verify import mutations
from services.verify.handmade import HANDMADE
from services.verify.mutations import MUTATIONS, ROOT, Mutation, Trial, judge

MISMATCH = {"epoch": 3, "policy": "depth-first/fine/lazy", "threads": 2, "what": "state of t[1]", "expected": "2"}


def answer(result: str = "ended", **more: Any) -> str:
    return json.dumps({"result": result, "application": 1, "stream_seed": 7, "streams": 12, **more})


def outcome(returncode: int, stdout: str, stderr: str = "") -> str:
    return judge(returncode, stdout, stderr).outcome


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_deliberate_bug_can_still_be_put_in(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.right) >= 1, f"{mutation.file} no longer has the text that this mistake changes"
    compile(text.replace(mutation.right, mutation.wrong, 1), mutation.file, "exec")
    assert mutation.application in {declare.__name__ for declare in HANDMADE}


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(MUTATIONS) >= 10
    assert len({(mutation.file, mutation.right, mutation.wrong) for mutation in MUTATIONS}) == len(MUTATIONS)


def test_only_a_real_difference_counts_as_found() -> None:
    assert outcome(0, answer(mismatch={**MISMATCH, "found": "3"})) == "found"
    refused = "InvariantError: serial on 1 thread(s) gives another answer than ordered"
    assert outcome(0, answer(mismatch={**MISMATCH, "what": "an exception", "found": refused})) == "invariant"
    assert outcome(-11, "") == "crashed"
    assert outcome(1, answer("endless")) == "endless"


def test_a_run_that_agrees_or_cannot_run_counts_as_nothing() -> None:
    assert outcome(0, answer(mismatch=None)) == "unnoticed"  # "mismatch" stands in this output, too
    trial = judge(1, "", "Traceback (most recent call last):\nTypingError: cannot compile")
    assert trial == Trial("broken", "TypingError: cannot compile")
    assert outcome(1, "0 mismatches", "") == "broken"


@pytest.mark.parametrize(
    ("control", "trial", "code"),
    [("unnoticed", "found", 0), ("unnoticed", "unnoticed", 1), ("unnoticed", "broken", 1), ("found", "found", 1)],
)
def test_the_command_needs_the_control_to_pass_and_every_bug_to_be_found(
    monkeypatch: pytest.MonkeyPatch, control: str, trial: str, code: int
) -> None:
    monkeypatch.setattr(
        mutations, "try_mutation", lambda mutation: Trial(trial if mutation is not None else control, "here")
    )
    assert mutations.run(argparse.Namespace(only="stale", json=True, jobs=1)) == code
