"""Whether state and input still belong together, asked before anything is read on: the declaration and the offsets.

Each error says what changed and how: nothing is begun anew, skipped or reset in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.api.application import Application
from services.engine.facts import Cursor
from services.errors import InputGoneError, StateError

Declaration = Mapping[str, Any]


def check_declaration(application: Application, before: Declaration) -> None:
    """Refuses the state of an application whose tables, windows or firing transactions were declared otherwise."""
    changed = differences(before, application.state_declaration())
    if changed:
        raise StateError(
            f"the state of {application.name} was made by another declaration: {'; '.join(changed)}; "
            "start with that one, or under another name"
        )


def check_input(name: str, before: tuple[str, int], now: tuple[str, int]) -> None:
    """Refuses the state that was made from another topic, or from another number of its partitions."""
    if before[0] != now[0]:
        raise StateError(
            f"the state of {name} was made from {before[0]}, engine.input now says {now[0]}; "
            "set it back, or begin under another name"
        )
    if before[1] != now[1]:
        raise StateError(
            f"{now[0]} has {now[1]} partitions, the state was made with {before[1]}; "
            "give it as many again, or begin under another name"
        )


def differences(before: Declaration, now: Declaration) -> list[str]:
    """What became of tables and firing transactions, a sentence each."""
    found = []
    for kind, what in (("tables", "table"), ("fires", "transaction that fires by itself")):
        old, new = before.get(kind, {}), now.get(kind, {})
        found += [f"{what} {name} is gone" for name in old if name not in new]
        found += [f"{what} {name} is new" for name in new if name not in old]
        for name in old:
            if name in new and old[name] != new[name]:
                parts = [
                    f"{each} was {old[name][each]}, is {new[name][each]}" for each in _changed(old[name], new[name])
                ]
                found.append(f"{what} {name}: {', '.join(parts)}")
    if not found and list(before.get("tables", {})) != list(now["tables"]):
        found.append(f"tables were declared in the order {', '.join(before['tables'])}, now {', '.join(now['tables'])}")
    return found


def _changed(old: Any, new: Any) -> list[str]:
    return [each for each in old if old[each] != new.get(each)]


@dataclass(frozen=True)
class Reach:
    """What a partition holds: from its first offset to that after its last."""

    first: int
    end: int


def check_reach(topic: str, cursors: Mapping[int, Cursor], reach: Mapping[int, Reach]) -> None:
    """Refuses to go on where messages that were not dealt with are gone, or where the partition ends before our place in it."""
    wrong = []
    for partition, cursor in sorted(cursors.items()):
        held = reach[partition]
        gone = sum(1 for offset in cursor.handled if offset < held.first)
        missing = held.first - cursor.low - gone
        if missing > 0:
            wrong.append(
                f"partition {partition}: offsets {cursor.low} to {held.first - 1} are gone, {missing} of them were never "
                "dealt with (retention, or somebody deleted records)"
            )
        if held.end < cursor.low:
            wrong.append(
                f"partition {partition}: it ends at offset {held.end}, but was read up to {cursor.low} "
                "(the topic was deleted and made again)"
            )
    if wrong:
        raise InputGoneError(
            f"{topic} does not hold what comes next: {'; '.join(wrong)}; restore it, or begin under another name"
        )
