"""What an epoch's commit says, as messages: everything that is known once the epoch has run, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from engine import EpochResult
from services.codec import DecodedChunk
from services.engine.facts import Letter
from services.engine.kafka_log import Outgoing, OutgoingBatch
from services.engine.outcomes import ResultForm, outcome_records
from services.engine.records import changelog_of
from services.engine.wire import CHANGELOG, DEAD_LETTER, Wire
from services.kafka.topics import TopicNames


@dataclass(frozen=True)
class Encoded:
    """An epoch's results and changes."""

    results: list[Outgoing | OutgoingBatch]
    changes: list[Outgoing]


NOTHING_ENCODED = Encoded([], [])


def encode_epoch(wire: Wire, names: TopicNames, result: EpochResult, form: ResultForm) -> Encoded:
    """The epoch's messages, but for dead letters and the marker, which depend on what else is committed with it."""
    changes = [Outgoing(names.changelog, wire.encode(CHANGELOG, each)) for each in changelog_of(result.changes)]
    return Encoded(list(outcome_records(wire, names, result, form)), changes)


def encode_letter(
    wire: Wire, names: TopicNames, topic: str, letter: Letter, value: bytes, chunk: DecodedChunk | None
) -> Outgoing:
    """A dead letter about a message of this topic: its value as it came, and what is known of it."""
    place = letter.place
    fields = {
        "topic": topic, "partition": place.partition, "offset": place.offset, "reason": str(letter.reason),
        "detail": letter.detail, "epoch": chunk.epoch if chunk else None, "source": chunk.source if chunk else None,
        "payload": value,
    }  # fmt: skip
    return Outgoing(names.dead_letter, wire.encode(DEAD_LETTER, fields))
