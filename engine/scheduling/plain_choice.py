"""Which of the two modes that need no graph is better: serial, or ordered where the stage can run inlined.

Ordered is tried as soon as an even share of the work for each thread would beat serial: the worst it can do is to wait as long
as serial takes. From then on both are known: each ordered epoch says what a serial one would take (its threads' time without
the waiting). Whichever is believed to be worse is tried again now and then, as far as the account of trials allows: ordered,
because fewer may wait now; serial, because what ordered epochs say of it is not measured.
"""

from __future__ import annotations

from engine.scheduling.choice import Reason, Stage
from engine.scheduling.cost_memory import KEEP_MARGIN, TRIALS_APART, Memory
from engine.scheduling.options import Option, ordered_option, serial_option
from engine.scheduling.policy import ORDERED, SERIAL
from engine.scheduling.prediction import ordered_best_ns

PLAIN = (SERIAL.name, ORDERED.name)


def choose_plain(memory: Memory, stage: Stage, threads: float) -> tuple[Option, Option, Reason | None]:
    """What to run if no graph is looked at, what is believed to be best, and why where something is to be tried."""
    costs, count = memory.profile.costs, stage.operations
    serial = serial_option(costs, count)
    if not stage.inlines:
        return serial, serial, None
    ordered = ordered_option(costs, count, threads)
    if not costs.ordered.count:
        if ordered.total_ns < serial.total_ns:
            return ordered, ordered, lambda: f"ordered is tried: serial takes {_ms(serial)}, it may take {_ms(ordered)}"
        return serial, serial, None
    best, other = (ordered, serial) if ordered.total_ns < serial.total_ns else (serial, ordered)
    if memory.last == other.name and other.total_ns < best.total_ns * (1 + KEEP_MARGIN):
        best = other
    if best is ordered and memory.epochs >= memory.next_serial and serial.total_ns - best.total_ns <= memory.budget_ns:
        memory.note_serial_trial()
        return (
            serial,
            ordered,
            lambda: (
                f"serial is tried again: by ordered epochs it takes {_ms(serial)}, and {_ms(ordered)} are to be beaten"
            ),
        )
    if best is serial and memory.epochs - memory.last_trial >= TRIALS_APART:
        hope = ordered_best_ns(costs, count, threads)
        if hope < serial.total_ns * (1 - KEEP_MARGIN) and ordered.total_ns - serial.total_ns <= memory.budget_ns:
            memory.last_trial = memory.epochs
            return (
                ordered,
                serial,
                lambda: (
                    f"ordered is tried again: it last took {ordered.total_ns / serial.total_ns:.2f} times as long as serial, "
                    f"{hope / serial.total_ns:.2f} times is possible"
                ),
            )
    return best, best, None


def _ms(option: Option) -> str:
    return f"{option.total_ns / 1e6:.3g} ms"
