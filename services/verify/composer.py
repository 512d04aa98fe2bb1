"""Composes the statements of one random transaction: where each goes, which function, what it reads and when.

Only forms that the declaration accepts are composed: a computed write never goes to a creating table that is folded whole,
a fire uses functions that look at no field of an event, and a wide derived record comes only from a wide event.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.api.tracing import Handle, Reference, TableProxy
from engine.functions.udf import UserFunction
from services.verify import pool

WINDOW_SIZES = (0, 5, 20, 100)
COPIED = [name for name in pool.WIDE_EVENT if name not in ("key", "amount")]


class EventKind(Enum):
    """What triggers a transaction."""

    WIDE = "wide"
    SLIM = "slim"
    FIRE = "fire"


@dataclass(frozen=True)
class Place:
    """A table to put statements on. `folded`: it may be folded whole, so no computed write creates keys in it."""

    table: TableProxy
    rich: bool
    folded: bool

    @property
    def computable(self) -> bool:
        return self.table.spec.key_types == ("int",)


class Composer:
    """Adds random statements to one transaction while it is traced; `lines` says what was added."""

    def __init__(
        self,
        rng: random.Random,
        txn: Any,
        event: Any,
        places: list[Place],
        kind: EventKind,
        derived: str | None,
        plain: bool = False,
    ) -> None:
        self.plain = plain  # no windows, folds or computed keys: what the inlined serial mode runs
        self.rng, self.txn, self.event, self.places, self.kind, self.derived = rng, txn, event, places, kind, derived
        self.records: list[tuple[str, Handle]] = []
        self.lists: list[tuple[str, Handle]] = []
        self.numbers: list[tuple[str, Handle, bool]] = []  # with: it is a float
        self.lines: list[str] = []

    def compose(self, count: int) -> None:
        forms: list[tuple[int, Callable[[], None]]] = [(10, self.write), (2, self.read), (1, self.delete)]
        if not self.plain:
            forms += [(3, self.write_number), (2, self.write_computed)]
        if self.kind is EventKind.WIDE:
            forms += [(3, self.write_many), (3, self.write_from_list)]
        weights = [weight for weight, _ in forms]
        for form in self.rng.choices([form for _, form in forms], weights, k=count):
            form()

    def close(self) -> None:
        """What most transactions need: a last write that a bad amount makes fail, after others took effect."""
        if self.rng.random() < 0.6 or not self.lines:
            place = self.rng.choice(self.places)
            name, target = self.key(place)
            self.txn.write(target, pool.guard)
            self.lines.append(f"write {name} guard")

    # Where a statement goes

    def key(self, place: Place) -> tuple[str, Reference]:
        """One key of a table, from the event's fields or constant."""
        numbers = [("key", "key"), ("amount", "amount")] if self.kind is EventKind.SLIM else []
        strings: list[tuple[str, str]] = []
        if self.kind is EventKind.WIDE:
            numbers = [("key", "key"), ("other", "other")]
            strings = [("name", "name"), ("label", "label")]
        if self.derived is not None:
            numbers.append((self.derived, self.derived))
        names, parts = [], []
        for expected in place.table.spec.key_types:
            options = numbers if expected == "int" else strings
            if not options or self.rng.random() < 0.12:
                constant: Any = self.rng.randint(0, 3) if expected == "int" else self.rng.choice(("k0", "k1"))
                names.append(repr(constant))
                parts.append(constant)
            else:
                name, attribute = self.rng.choice(options)
                names.append(name)
                parts.append(getattr(self.event, attribute))
        reference = place.table[tuple(parts) if len(parts) > 1 else parts[0]]
        return f"{place.table.name}[{', '.join(names)}]", reference

    def keys(self, place: Place) -> tuple[str, Reference]:
        """A list of keys; in a tuple one part is a list, the other a field."""
        event, expected = self.event, place.table.spec.key_types
        if expected == ("int",):
            return f"{place.table.name}[keys]", place.table[event.keys]
        if expected == ("string",):
            return f"{place.table.name}[names]", place.table[event.names]
        part: dict[str, Any] = {"int": event.keys, "string": event.name}
        return f"{place.table.name}[{', '.join(expected)} of keys]", place.table[tuple(part[each] for each in expected)]

    def computed(self, place: Place) -> tuple[str, Reference]:
        rng = self.rng
        functions = [pool.at_value, pool.at_quotient, pool.at_random]
        if self.kind is not EventKind.FIRE:
            functions.append(pool.at_amount)
        function = rng.choice(functions)
        reads, name = self.one_read() if function in (pool.at_value, pool.at_quotient) else ([], "")
        candidates = self.keys(place)[1] if self.kind is EventKind.WIDE and rng.random() < 0.3 else None
        within = " within keys" if candidates is not None else ""
        reference = place.table.computed(function, reads=reads, candidates=candidates)
        return f"{place.table.name}[{function.name}({name}){within}]", reference

    def one_read(self) -> tuple[list[Any], str]:
        """One record to read: a key of some table, or what an earlier statement read or made."""
        if self.records and self.rng.random() < 0.35:
            name, handle = self.rng.choice(self.records)
            return [handle], name
        name, reference = self.key(self.rng.choice(self.places))
        return [reference], name

    def number(self) -> tuple[str, Any, bool]:
        """A number to read: a window or a fold of a table, or the handle of one; with whether it is a float."""
        if self.numbers and self.rng.random() < 0.3:
            return self.rng.choice(self.numbers)
        name, reference, is_float = self.new_number()
        if self.rng.random() < 0.3:
            handle = self.txn.read(reference)
            self.lines.append(f"read {name}")
            self.numbers.append((f"read {name}", handle, is_float))
            return self.numbers[-1]
        return name, reference, is_float

    def new_number(self) -> tuple[str, Reference, bool]:
        place = self.rng.choice(self.places)
        fold = self.rng.choice(("sum", "sum", "sum", "count", "count", "mean", "mean", "min", "max"))
        floats = place.rich and fold not in ("min", "max") and self.rng.random() < 0.4  # an infinity fails most writes
        field = None if fold == "count" else "share" if floats else "value"
        is_float = fold == "mean" or field == "share"
        if place.folded and self.rng.random() < 0.4:
            return f"{fold} of {place.table.name}.{field}", place.table.fold(fold, field), is_float
        name, reference = self.key(place)
        size = self.rng.choice(WINDOW_SIZES)
        return f"{fold} of {field} in window {size} of {name}", reference.window(size, fold, field), is_float

    def condition(self) -> tuple[dict[str, Any], str]:
        """A condition for about a quarter of the writes."""
        chosen = self.rng.random()
        if chosen < 0.1 and self.kind is not EventKind.FIRE:
            return {"when": pool.is_even}, " when is_even"
        if chosen < 0.2:
            reads, name = self.one_read()
            return {"when": pool.holds, "when_reads": reads}, f" when holds {name}"
        if chosen < 0.25 and not self.plain:
            name, number, _ = self.number()
            return {"when": pool.is_low, "when_reads": [number]}, f" when is_low {name}"
        return {}, ""

    # Statements

    def add_write(self, name: str, target: Reference, function: UserFunction, reads: list[Any], read: str) -> None:
        options, when = self.condition()
        handle = self.txn.write(target, function, reads=reads, **options)
        self.lines.append(f"write {name} {function.name}{f'({read})' if read else ''}{when}")
        self.records.append((f"written {name}", handle))

    def write(self) -> None:
        place = self.rng.choice(self.places)
        name, target = self.key(place)
        self.write_at(place, name, target)

    def write_computed(self) -> None:
        places = [p for p in self.places if p.computable and not (p.folded and p.table.spec.creates_keys)]
        if not places:
            return self.write()
        place = self.rng.choice(places)
        name, target = self.computed(place)
        if self.rng.random() < 0.12:
            self.txn.delete(target)
            self.lines.append(f"delete {name}")
            return None
        return self.write_at(place, name, target)

    def write_at(self, place: Place, name: str, target: Reference) -> None:
        function, reads = self.rng.choice(self.writers(place))
        if reads == 0:
            return self.add_write(name, target, function, [], "")
        chosen = [self.one_read() for _ in range(reads)]
        read = ", ".join(each for _, each in chosen)
        return self.add_write(name, target, function, [one for found, _ in chosen for one in found], read)

    def writers(self, place: Place) -> list[tuple[UserFunction, int]]:
        """The functions that fit, with how many records each reads; the plainest more than once."""
        fitting = [(pool.stamp, 0), (pool.decay, 0), (pool.raise_high, 0), (pool.copy_from, 1), (pool.refuse_above, 1)]
        fitting += [(pool.toggle, 0)] if place.rich else [(pool.tally, 0)]
        if self.kind is not EventKind.FIRE:
            fitting += [(pool.deposit, 0), (pool.debit, 0)] * 3
            fitting += [(pool.assign, 0), (pool.multiply, 0), (pool.divide, 0), (pool.guard, 0)]
            fitting += [(pool.credit_if, 1), (pool.credit_if, 1), (pool.merge, 2)]
            fitting += [(pool.index_slot, 0)] if place.rich else []
        if self.kind is EventKind.WIDE and place.rich:
            fitting += [(pool.scale, 0), (pool.root, 0), (pool.quotient, 0), (pool.round_off, 0)]
        return fitting

    def write_number(self) -> None:
        """A write that reads a window or a table fold, or a user fold's accumulator."""
        place = self.rng.choice(self.places)
        name, target = self.key(place)
        if self.rng.random() < 0.25:
            other = self.rng.choice(self.places)
            read, reference = self.key(other)
            size = self.rng.choice(WINDOW_SIZES)
            folded = reference.window(size, pool.keep_most, into=pool.ACCUMULATOR)
            return self.add_write(name, target, pool.note_fold, [folded], f"keep_most in window {size} of {read}")
        read, number, is_float = self.number()
        if is_float and not place.rich:
            return self.add_write(name, target, pool.stamp, [], "")
        return self.add_write(name, target, pool.add_share if is_float else pool.add_number, [number], read)

    def write_many(self) -> None:
        place = self.rng.choice(self.places)
        name, target = self.keys(place)
        options, when = self.condition()
        if self.rng.random() < 0.6:
            handle = self.txn.write(target, pool.add_each, each=[self.event.amounts], **options)
            self.lines.append(f"write {name} add_each{when}")
        else:
            reads, read = self.one_read()
            function = self.rng.choice((pool.credit_if, pool.copy_from))
            handle = self.txn.write(target, function, reads=reads, **options)
            self.lines.append(f"write {name} {function.name}({read}){when}")
        self.lists.append((f"written {name}", handle))

    def list_read(self) -> tuple[str, Any]:
        if self.lists and self.rng.random() < 0.4:
            return self.rng.choice(self.lists)
        name, reference = self.keys(self.rng.choice(self.places))
        if not self.plain and self.rng.random() < 0.2:
            size = self.rng.choice(WINDOW_SIZES)
            name, reference = f"sums of value in windows {size} of {name}", reference.window(size, "sum", "value")
            return name, reference
        if self.rng.random() < 0.4:
            handle = self.txn.read(reference)
            self.lines.append(f"read {name}")
            self.lists.append((f"read {name}", handle))
            return f"read {name}", handle
        return name, reference

    def write_from_list(self) -> None:
        name, target = self.key(self.rng.choice(self.places))
        read, source = self.list_read()
        self.add_write(name, target, self.rng.choice((pool.sum_of, pool.sum_of, pool.pick_from)), [source], read)

    def read(self) -> None:
        place = self.rng.choice(self.places)
        if not self.plain and place.computable and self.rng.random() < 0.3:
            name, target = self.computed(place)
        else:
            name, target = self.key(place)
        self.records.append((f"read {name}", self.txn.read(target)))
        self.lines.append(f"read {name}")

    def delete(self) -> None:
        place = self.rng.choice(self.places)
        many = self.kind is EventKind.WIDE and self.rng.random() < 0.2
        name, target = self.keys(place) if many else self.key(place)
        options, when = self.condition()
        self.txn.delete(target, **options)
        self.lines.append(f"delete {name}{when}")

    def output(self, floats: bool) -> None:
        if floats:
            name, number, _ = self.number()
            self.txn.output(pool.show_level, reads=[number])
            self.lines.append(f"output show_level({name})")
            return
        chosen = self.rng.random()
        if chosen < 0.3 and not self.plain:
            name, number, is_float = self.number()
            if not is_float:
                self.txn.output(pool.show_number, reads=[number])
                self.lines.append(f"output show_number({name})")
                return
        if chosen < 0.5 and self.kind is EventKind.WIDE:
            name, source = self.list_read()
            self.txn.output(pool.show_all, reads=[source])
            self.lines.append(f"output show_all({name})")
            return
        reads, name = self.one_read()
        self.txn.output(pool.show, reads=reads)
        self.lines.append(f"output show({name})")

    def emit(self, record_type: str, kind: EventKind) -> None:
        copied = {name: getattr(self.event, name) for name in COPIED} if kind is EventKind.WIDE else {}
        options, when = self.condition()
        if self.kind is EventKind.FIRE:
            self.txn.emit(record_type, pool.pass_time, **options)
            self.lines.append(f"emit {record_type} pass_time{when}")
        elif self.rng.random() < 0.5:
            self.txn.emit(record_type, pool.pass_on, copy=copied, **options)
            self.lines.append(f"emit {record_type} pass_on{when}")
        else:
            reads, name = self.one_read()
            self.txn.emit(record_type, pool.pass_read, reads=reads, copy=copied, **options)
            self.lines.append(f"emit {record_type} pass_read({name}){when}")
