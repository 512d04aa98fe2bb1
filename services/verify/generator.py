"""Random applications: every form of the programming model, put together from the pool by a seed.

An application has two to four tables (integer, string and tuple keys; creating or not; maybe constrained), one or two input
types, up to two derived types over three stages, and maybe a transaction that fires by itself. Every third has no windows,
folds or computed keys, so that the inlined serial mode runs it. The same seed gives the same
application; `generate_application` numbers the handmade ones first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from engine.api.application import Application
from engine.functions.udf import UserFunction
from services.verify import pool
from services.verify.composer import Composer, EventKind, Place
from services.verify.handmade import HANDMADE

GENERATED = 64  # random applications in one round of the verification, beside the handmade ones
APPLICATIONS = len(HANDMADE) + GENERATED

_KEYS: tuple[Any, ...] = (int, int, str, (int, str), (str, int))
_CONSTRAINTS: tuple[UserFunction | None, ...] = (None, None, pool.non_negative, pool.bounded)


def generate_application(number: int) -> tuple[Application, str]:
    """Application `number` and a description of it, one line a statement."""
    if number < len(HANDMADE):
        declare = HANDMADE[number]
        app = Application(f"verify-{number}")
        declare(app)
        name = declare.__name__.replace("_", " ")
        return app, f"{name}: {' '.join((declare.__doc__ or '').split())}"
    generation = _Generation(number, random.Random(f"application {number}"))
    generation.declare()
    return generation.app, "\n".join(generation.description)


@dataclass
class _Generation:
    number: int
    rng: random.Random
    description: list[str] = field(default_factory=list)

    def declare(self) -> None:
        self.plain = self.number % 3 == 0
        self.app = Application(f"verify-{self.number}")
        self.tables = [self.table(position) for position in range(self.rng.randint(2, 4))]
        wide = self.rng.random() < 0.75
        kind = EventKind.WIDE if wide else EventKind.SLIM
        derived = self.rng.choice((0, 0, 1, 2))
        inputs = ["First", "Second"][: self.rng.randint(1, 2)]
        chain = ["Child", "Grandchild"][:derived]
        derived_kind = kind if self.rng.random() < 0.4 else EventKind.SLIM
        for name in inputs:
            self.app.event(name, _fields(kind))
        for name in chain:
            self.app.event(name, _fields(derived_kind))
        for name in inputs:
            self.transaction(name, kind, chain, derived_kind)
        for position, name in enumerate(chain):
            self.transaction(name, derived_kind, chain[position + 1 :], derived_kind)
        if self.rng.random() < 0.35:
            self.fire(chain if derived_kind is EventKind.SLIM else [])

    def table(self, position: int) -> Place:
        """A table, and whether it may be folded whole; the first has integer keys, so that keys can be computed."""
        rng = self.rng
        key = int if position == 0 else rng.choice(_KEYS)
        create = rng.random() < 0.6
        rich = rng.random() < 0.4
        constraint = rng.choice(_CONSTRAINTS)
        default = {"value": rng.choice((0, 0, 5, 60))} if rng.random() < 0.3 else {}
        name = f"table{position}"
        proxy = self.app.table(
            name,
            key=key,
            value=pool.RICH if rich else pool.PLAIN,
            default=default,
            constraint=constraint,
            create=create,
        )
        kinds = " ".join(part.__name__ for part in (key if isinstance(key, tuple) else (key,)))
        limits = constraint.name if constraint is not None else "unconstrained"
        self.description.append(
            f"{name}: keys {kinds}, {'rich' if rich else 'plain'}, {'creating' if create else 'fixed'}, {limits}"
        )
        return Place(proxy, rich, folded=not create or rng.random() < 0.4)

    def transaction(self, name: str, kind: EventKind, emits: list[str], emitted_kind: EventKind) -> None:
        rng = self.rng
        derive = {"halved": rng.choice((pool.halved, pool.hundredth))} if rng.random() < 0.15 else {}
        only = pool.is_kept if rng.random() < 0.2 else None
        output = rng.choice((None, pool.OUTPUT, pool.OUTPUT, pool.OUTPUT if self.plain else pool.FLOAT_OUTPUT))

        @self.app.transaction(name, derive=derive, filter=only, output=output)
        def traced(txn: Any, event: Any) -> None:
            composer = Composer(rng, txn, event, self.tables, kind, "halved" if derive else None, self.plain)
            composer.compose(rng.randint(1, 5))
            for record_type in emits:
                if rng.random() < 0.8:
                    composer.emit(record_type, emitted_kind)
            if output is not None:
                composer.output(floats=output is pool.FLOAT_OUTPUT)
            composer.close()
            self.note(name, composer.lines, derive, only)

    def fire(self, emits: list[str]) -> None:
        period = self.rng.choice((7, 25, 100))

        @self.app.every("Tick", period, output=pool.OUTPUT)
        def traced(txn: Any, event: Any) -> None:
            composer = Composer(self.rng, txn, event, self.tables, EventKind.FIRE, None, self.plain)
            composer.compose(self.rng.randint(1, 2))
            if emits and self.rng.random() < 0.5:
                composer.emit(emits[0], EventKind.SLIM)
            composer.output(floats=False)
            self.note(f"Tick every {period}", composer.lines, {}, None)

    def note(self, name: str, lines: list[str], derive: dict[str, Any], only: UserFunction | None) -> None:
        before = "".join(f", derives {function.name}" for function in derive.values())
        before += f", filter {only.name}" if only is not None else ""
        self.description.append(f"{name}{before}:")
        self.description.extend(f"  {line}" for line in lines)


def _fields(kind: EventKind) -> dict[str, Any]:
    return pool.WIDE_EVENT if kind is EventKind.WIDE else pool.SLIM_EVENT
