"""`millrace verify crash`: runs each kind of trouble that is asked for, and reports what was done and found."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from engine.errors import MillraceError
from services.verify.crash.judgement import KINDS, Judgement
from services.verify.crash.scene import Scene, Stuck
from services.verify.crash.subject import Subject
from services.verify.crash.troubles import (
    EPOCHS_A_TROUBLE,
    broker_kills,
    cuts,
    kills,
    one_broker,
    pauses,
    proxied_broker,
    three_brokers,
)

REPORT_EVERY = 5  # troubles, where there is no live view

Troubles = Callable[[Any, Any, int, random.Random, Callable[[str], None]], None]
Places = Callable[[Subject, Path], AbstractContextManager[tuple[Scene, Any]]]

CAMPAIGNS: dict[str, tuple[Places, Troubles]] = {
    "kills": (one_broker, lambda scene, _, count, chance, did: kills(scene, count, chance, did)),
    "broker_kills": (three_brokers, broker_kills),
    "pauses": (one_broker, pauses),
    "cuts": (proxied_broker, cuts),
}


@dataclass
class Campaign:
    """What one kind of trouble came to."""

    name: str
    application: int
    done: Counter[str] = field(default_factory=Counter)
    judgement: Judgement = field(default_factory=Judgement)
    facts: dict[str, Any] = field(default_factory=dict)
    kept: str | None = None  # where everything lies, if something was wrong
    seconds: float = 0.0


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 if anything was wrong."""
    asked = {name: getattr(arguments, name) for name in CAMPAIGNS if getattr(arguments, name)}
    console = Console(stderr=True)
    campaigns = []
    with Progress(console=console, transient=True, disable=arguments.json or not console.is_terminal) as progress:
        for name, count in asked.items():
            task = progress.add_task(name.replace("_", " "), total=count)
            did = _reporter(progress, task, name, count, arguments.json)
            campaign = run_campaign(name, count, arguments.seed, did, arguments.application)
            campaigns.append(campaign)
    found = Judgement()
    for campaign in campaigns:
        found.add(campaign.judgement)
    if arguments.json:
        print(json.dumps(_summary(arguments.seed, campaigns, found)))
    else:
        _print(arguments.seed, campaigns, found)
    return 0 if found.is_clean else 1


def run_campaign(name: str, count: int, seed: int, did: Callable[[str], None], application: int = -1) -> Campaign:
    """One kind of trouble from an empty broker to the judgement. What it leaves is kept only where something is wrong."""
    started_s = time.monotonic()
    places, troubles = CAMPAIGNS[name]
    subject = Subject(seed, 60 + EPOCHS_A_TROUBLE * count, application)
    campaign = Campaign(name, subject.number)
    directory = Path(tempfile.mkdtemp(prefix=f"millrace-crash-{name}-"))

    def done(what: str) -> None:
        campaign.done[what] += 1
        did(what)

    scene: Scene | None = None
    try:
        with places(subject, directory) as (scene, place):
            troubles(scene, place, count, random.Random(f"{name} {seed}"), done)
            campaign.judgement = scene.finish()
    except (Stuck, TimeoutError, AssertionError, MillraceError) as error:
        campaign.judgement.note("stuck", f"{type(error).__name__}: {error}")
    campaign.facts = scene.facts() if scene is not None else {}
    campaign.seconds = time.monotonic() - started_s
    if campaign.judgement.is_clean:
        shutil.rmtree(directory)
    else:
        campaign.kept = str(directory)
    return campaign


def _reporter(progress: Progress, task: TaskID, name: str, count: int, quiet: bool) -> Callable[[str], None]:
    done: Counter[str] = Counter()

    def did(what: str) -> None:
        done[what] += 1
        if what == "double":
            return
        progress.advance(task)
        number = done.total() - done["double"]
        if progress.disable and not quiet and (number % REPORT_EVERY == 0 or number == count):
            print(f"{name.replace('_', ' ')}: {number} of {count}", file=sys.stderr, flush=True)

    return did


def _summary(seed: int, campaigns: list[Campaign], found: Judgement) -> dict[str, Any]:
    counts = {kind: found.counts[kind] for kind in (*KINDS, "stuck")}
    details = [
        {"kind": c.name, "application": c.application, "done": dict(c.done), "seconds": round(c.seconds, 1), **c.facts,
         "kept": c.kept, "violations": c.judgement.violations}
        for c in campaigns
    ]  # fmt: skip
    return {"result": "ok" if found.is_clean else "violated", "seed": seed, **counts, "campaigns": details}


def _print(seed: int, campaigns: list[Campaign], found: Judgement) -> None:
    for campaign in campaigns:
        troubles = ", ".join(f"{count} {what}" for what, count in sorted(campaign.done.items()))
        facts = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in campaign.facts.items())
        print(f"{campaign.name.replace('_', ' ')} (seed {seed}, application {campaign.application}): {troubles}")
        print(f"  {facts}, {campaign.seconds:.0f} s")
        for violation in campaign.judgement.violations:
            print(f"  VIOLATION {violation}")
        if not campaign.judgement.is_clean:
            count = campaign.done.total() - campaign.done["double"]
            flag = f"--application {campaign.application} --{campaign.name.replace('_', '-')}"
            print(
                f"  reproduce millrace verify crash {flag} {max(count, 1)} --seed {seed}; this run is kept in {campaign.kept}"
            )
    print(", ".join(f"{found.counts[kind]} {kind}" for kind in (*KINDS, "stuck")))
