"""Compiles what the demo's engine needs, so that it runs at once: a small ledger under the policies that it may choose."""

from __future__ import annotations

from dataclasses import replace

from numba.core import event

from engine import Engine
from services.apps import workloads
from services.apps.first_tables import streaming_ledger as first_tables
from services.apps.streaming_ledger import build
from services.compiling import Listener
from services.demo.view import Step
from services.engine.command import ids_of
from services.engine.outcomes import CHUNKS, outcome_records
from services.engine.publishing import SourceEpoch
from services.engine.wire import Wire
from services.kafka.topics import TopicNames
from services.settings import EngineSettings

POLICIES = ("serial", "unstructured/fine/lazy")
EPOCH_EVENTS = 2_000


def warm_up(step: Step) -> None:
    """Runs two epochs under each policy, and encodes and decodes one; the step says what is being compiled."""
    application, what = build(), step.what

    def say(text: str) -> None:
        step.what = text

    with event.install_listener("numba:compile", Listener(say, what)):
        for policy in POLICIES:
            with Engine(application, policy=policy, wait=True) as engine:
                for table, (keys, columns) in first_tables().items():
                    engine.load(table, keys.tolist(), columns)
                parameters = replace(workloads.STREAMING_LEDGER, transactions=EPOCH_EVENTS)
                for epoch in workloads.streaming_ledger(parameters, 2):
                    result = engine.run_epoch(epoch)
        say("the codecs of the ledger's topics")
        wire = Wire(application, ids_of(EngineSettings(), application))
        source = SourceEpoch(wire, 0, 0, 1)
        for record_type, given in epoch.events.items():
            source.add(record_type, given)
        for _, value in source.close(epoch.punctuation_ts):
            wire.read(value)
        outcome_records(wire, TopicNames(application.name), result, CHUNKS)
    step.what = what
