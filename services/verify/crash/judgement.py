"""Holds what is in the result topics, and the state, against the oracle: nothing missing, twice, torn, out of order or wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from engine.api.application import Application
from services.codec import unframe
from services.codec.columns import column_items
from services.engine.facts import Tally
from services.engine.wire import COMMITTED, DEAD_LETTER, FAILED, MARKER, Wire
from services.kafka.topics import TopicNames
from services.verify.crash.subject import Expected, Row, Sent, Tables, as_text
from services.verify.crash.topics import Record

KINDS = ("missing", "duplicated", "torn", "misordered", "wrong", "state")
SHOWN = 5  # violations that are written out


@dataclass
class Judgement:
    """What was found: counts by kind, and the first violations in words."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def note(self, kind: str, what: str, count: int = 1) -> None:
        self.counts[kind] += count
        if len(self.violations) < SHOWN:
            self.violations.append(f"{kind}: {what}")

    def add(self, other: Judgement) -> None:
        self.counts.update(other.counts)
        self.violations += other.violations

    @property
    def is_clean(self) -> bool:
        return not self.counts


@dataclass
class _Found:
    """The records of the result topics, decoded: rows of each epoch in order, by topic."""

    rows: dict[str, dict[int, list[Row]]] = field(default_factory=dict)
    letters: list[dict[str, Any]] = field(default_factory=list)
    markers: list[dict[str, Any]] = field(default_factory=list)


def judge(
    expected: Expected, wire: Wire, names: TopicNames, seen: list[Record], final: list[Record],
    places: dict[tuple[int, int], Sent],
) -> Judgement:  # fmt: skip
    """All but the state. `seen`: by the reader all along; `final`: by the one at the end; `places`: the input's messages."""
    judgement = Judgement()
    found = _decode(wire, names, final, judgement)
    _judge_epochs(expected, found, judgement)
    _judge_markers(expected, found, judgement, places)
    broken = Counter((place, "undecodable") for place, message in places.items() if message.broken)
    letters = Counter(((letter["partition"], letter["offset"]), letter["reason"]) for letter in found.letters)
    for letter, count in (broken - letters).items():
        judgement.note("missing", f"dead letter {letter}", count)
    for letter, count in (letters - broken).items():
        judgement.note("duplicated", f"dead letter {letter}", count)
    for record in set(seen) ^ set(final):
        who = "all along" if record in set(seen) else "at the end"
        judgement.note("torn", f"only the reader {who} saw {record.topic} {record.partition}/{record.offset}")
    return judgement


def _decode(wire: Wire, names: TopicNames, records: list[Record], judgement: Judgement) -> _Found:
    found = _Found({names.committed: {}, names.failed: {}})
    newest: dict[tuple[str, int], tuple[int, int]] = {}
    for record in sorted(records, key=lambda each: (each.topic, each.partition, each.offset)):
        if record.topic == names.epochs:
            found.markers.append(wire.decode(MARKER, record.value))
        elif record.topic == names.dead_letter:
            found.letters.append(wire.decode(DEAD_LETTER, record.value))
        else:
            chunk, rows = _rows(wire, COMMITTED if record.topic == names.committed else FAILED, record.value)
            lane = record.topic, record.partition
            if chunk <= newest.get(lane, (-1, -1)):
                judgement.note("misordered", f"{lane}: chunk {chunk} after {newest[lane]}")
            newest[lane] = chunk
            found.rows[record.topic].setdefault(chunk[0], []).extend(rows)
    return found


def _rows(wire: Wire, kind: str, value: bytes) -> tuple[tuple[int, int], list[Row]]:
    codec = wire.committed if kind == COMMITTED else wire.failed
    decoded = codec.decode(unframe(value)[1])
    by_type: dict[str, list[dict[str, Any]]] = {}
    for name, columns in decoded.columns.items():
        items = {column: column_items(values) for column, values in columns.items()}
        by_type[name] = [{column: items[column][row] for column in items} for row in range(decoded.rows[name])]
    following = {name: iter(items) for name, items in by_type.items()}
    types = list(by_type)
    rows = []
    for position in decoded.kinds.tolist():
        name = types[position]
        item = next(following[name])
        place = (item["stage"], item["ts"], item["source"], item["seq"], tuple(item["path"]))
        if kind == FAILED:
            what = f"{item['reason']} at {item['statement']}, key {item['key']}"
            rows.append(Row(*place, item["record_type"], "failed", what))
        else:
            output = {each.removeprefix("output."): v for each, v in item.items() if each.startswith("output.")}
            rows.append(Row(*place, name, "committed", as_text(output)))
    return (decoded.header["epoch"], decoded.header["chunk"]), rows


def _judge_epochs(expected: Expected, found: _Found, judgement: Judgement) -> None:
    closed = {marker["epoch"] for marker in found.markers if marker["closes"]}
    for number in sorted(set(range(len(expected.rows))) | {e for rows in found.rows.values() for e in rows}):
        wanted = expected.rows[number] if number < len(expected.rows) else []
        given = [row for rows in found.rows.values() for row in rows.get(number, [])]
        wanted_ids, given_ids = Counter(row.identity for row in wanted), Counter(row.identity for row in given)
        missing, more = wanted_ids - given_ids, given_ids - wanted_ids
        if missing:
            judgement.note("missing", f"epoch {number}: {sum(missing.values())}, first {min(missing)}", missing.total())
        if more:
            judgement.note("duplicated", f"epoch {number}: {sum(more.values())}, first {min(more)}", more.total())
        if (missing and given) or (given and number not in closed):
            judgement.note(
                "torn", f"epoch {number}: {len(given)} of {len(wanted)} are there, marker: {number in closed}"
            )
        if missing or more:
            continue
        for verdict, rows in zip(("committed", "failed"), found.rows.values(), strict=True):
            mine = [row for row in wanted if row.verdict == verdict]
            there = rows.get(number, [])
            if sorted(mine) != sorted(there):
                first = next(
                    (pair for pair in zip(sorted(mine), sorted(there), strict=False) if pair[0] != pair[1]), None
                )
                judgement.note("wrong", f"epoch {number}, {verdict}: expected and found {first}")
            elif mine != there:
                judgement.note("misordered", f"epoch {number}, {verdict}")


def _judge_markers(
    expected: Expected, found: _Found, judgement: Judgement, places: dict[tuple[int, int], Sent]
) -> None:
    closing = [marker["epoch"] for marker in found.markers if marker["closes"]]
    if closing != list(range(len(expected.rows))):
        gap = next(
            (n for n, (a, b) in enumerate(zip(closing, range(len(expected.rows)), strict=False)) if a != b),
            len(closing),
        )
        judgement.note(
            "torn", f"{len(closing)} markers of {len(expected.rows)} epochs, the first that differs is {gap}"
        )
    messages = places.values()
    wanted = replace(
        expected.tally,
        repeated=sum(message.repeated for message in messages),
        duplicates=sum(message.events for message in messages if message.repeated),
        undecodable=sum(message.broken for message in messages),
    )
    last = found.markers[-1] if found.markers else {}
    tally = Tally(**{name: last.get(name, 0) for name in Tally.__dataclass_fields__})
    if tally != wanted:
        judgement.note("wrong", f"counted {tally}, expected {wanted}")


def judge_state(app: Application, expected: Expected, found: Tables, source: str) -> Judgement:
    """The tables as they were recovered from `source`."""
    judgement = Judgement()
    for table in app.tables:
        right, given = expected.state[table], found[table]
        if right != given:
            key = next(key for key in {**right, **given} if right.get(key) != given.get(key))
            judgement.note("state", f"{table}[{key!r}] from {source} is {given.get(key)}, expected {right.get(key)}")
    return judgement
