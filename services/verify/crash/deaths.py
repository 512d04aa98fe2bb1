"""How an engine process kills itself: at the n-th occurrence of a phase, by hooks around the parts that the service is made of.

The process says in a file where it dies, then dies by SIGKILL. Or it stops another process there, a broker, and lives on.
Nothing in the service knows of this.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
from confluent_kafka import Producer
from fsspec.implementations.local import LocalFileSystem

PHASES = (
    "fetch", "decode", "execute", "produce", "before commit", "in commit", "after commit", "snapshot", "recovery",
)  # fmt: skip
FILES = "millrace-dying"  # the protocol of a directory in which writing may be the end


@dataclass(frozen=True)
class Death:
    """Where to die. `delay_s` after the beginning, in phases that last; a snapshot half written, or whole and not renamed.

    `stops` is the process that stands still from then on, instead of a death.
    """

    phase: str
    occurrence: int
    delay_s: float = 0.0
    half: bool = True
    stops: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def choose_death(phase: str, chance: random.Random) -> Death:
    """Early enough to be soon, late enough that something was done before."""
    most = {"fetch": 12, "decode": 30, "produce": 12, "snapshot": 2, "recovery": 12}.get(phase, 4)
    delay_s = chance.uniform(0, 0.004 if phase == "in commit" else 0.002)
    return Death(phase, chance.randint(1, most), delay_s, chance.random() < 0.7)


class Hooks:
    """Puts a death into this process."""

    def __init__(self, death: Death, report: Path) -> None:
        self.death, self._report = death, report
        self._met = 0
        self._over = False
        self._lock = threading.RLock()  # so that what lasts cannot end between the look and the death

    def die(self) -> None:
        """Says where, then is gone; or has stopped another."""
        with self._lock:
            self._report.write_text(self.death.phase)
            if self.death.stops is not None:
                os.kill(self.death.stops, signal.SIGSTOP)
                self._over = True
                return
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal may take a moment; nothing must go on meanwhile

    def meet(self, phase: str) -> bool:
        """Whether this is the occurrence to die at."""
        if phase != self.death.phase or self._over:
            return False
        self._met += 1
        return self._met >= self.death.occurrence

    def at(self, phase: str) -> None:
        if self.meet(phase):
            self.die()

    def during(self, phase: str, action: Callable[[], Any]) -> Any:
        """Runs the action, and dies while it lasts; if it was too quick, at its next occurrence, sooner."""
        if not self.meet(phase):
            return action()
        over = threading.Event()
        delay_s = self.death.delay_s / 2 ** (self._met - self.death.occurrence)
        threading.Thread(target=self._die_later, args=(delay_s, over), daemon=True).start()
        try:
            return action()
        finally:
            with self._lock:
                over.set()

    def _die_later(self, delay_s: float, over: threading.Event) -> None:
        time.sleep(delay_s)
        with self._lock:
            if not over.is_set():
                self.die()


def around(owner: Any, name: str, hooks: Hooks, phase: str) -> None:
    """Dies during a method of an object or class."""
    inner = getattr(owner, name)

    def outer(*arguments: Any, **options: Any) -> Any:
        return hooks.during(phase, lambda: inner(*arguments, **options))

    setattr(owner, name, outer)


def before(owner: Any, name: str, hooks: Hooks, phase: str, *, last: bool = False) -> None:
    """Dies when a method is called. `last`: the phase has no more occurrences, so this must be it."""
    inner = getattr(owner, name)

    def outer(*arguments: Any, **options: Any) -> Any:
        hooks.at(phase)
        if last and phase == hooks.death.phase:
            hooks.die()
        return inner(*arguments, **options)

    setattr(owner, name, outer)


def after(owner: Any, name: str, hooks: Hooks, phase: str) -> None:
    """Dies when a method has given something."""
    inner = getattr(owner, name)

    def outer(*arguments: Any, **options: Any) -> Any:
        given = inner(*arguments, **options)
        if given:
            hooks.at(phase)
        return given

    setattr(owner, name, outer)


def each(owner: Any, name: str, hooks: Hooks, phase: str) -> None:
    """Dies at one of the things that a generator gives."""
    inner = getattr(owner, name)

    def outer(*arguments: Any) -> Iterator[Any]:
        for given in inner(*arguments):
            hooks.at(phase)
            yield given

    setattr(owner, name, outer)


def dying_producer(hooks: Hooks) -> type[Producer]:
    """A producer class that dies. A transaction without records is the claim that ends a recovery's first part."""

    class DyingProducer(Producer):
        records = 0

        def init_transactions(self, *arguments: Any) -> None:
            hooks.at("recovery")
            super().init_transactions(*arguments)
            hooks.at("recovery")

        def begin_transaction(self) -> None:
            self.records = 0
            super().begin_transaction()

        def produce(self, *arguments: Any, **options: Any) -> None:
            self.records += 1
            super().produce(*arguments, **options)
            hooks.at("produce")

        def produce_batch(self, *arguments: Any, **options: Any) -> int:
            self.records += 1
            hooks.at("produce")
            sent: int = super().produce_batch(*arguments, **options)
            return sent

        def commit_transaction(self, *arguments: Any) -> None:
            claims = not self.records
            hooks.at("recovery" if claims else "before commit")
            hooks.during(
                "" if claims else "in commit", lambda: super(DyingProducer, self).commit_transaction(*arguments)
            )
            hooks.at("recovery" if claims else "after commit")

    return DyingProducer


def register_files(hooks: Hooks | None) -> None:
    """Makes `FILES` a protocol; with hooks, one in which a snapshot is half written, or whole under its first name."""

    class DyingFiles(LocalFileSystem):  # type: ignore[misc]
        protocol = FILES
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            return super()._strip_protocol(str(path).removeprefix(f"{FILES}://"))

        def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
            opened = super()._open(path, mode, block_size, **options)
            return _HalfWritten(opened, hooks) if hooks is not None and hooks.death.half and "w" in mode else opened

        def mv(self, *arguments: Any, **options: Any) -> None:
            if hooks is not None and not hooks.death.half:
                hooks.at("snapshot")
            super().mv(*arguments, **options)

    fsspec.register_implementation(FILES, DyingFiles, clobber=True)


class _HalfWritten:
    """A file of which only the first half is ever written."""

    def __init__(self, file: Any, hooks: Hooks) -> None:
        self._file, self._hooks = file, hooks

    def write(self, data: bytes) -> int:
        if self._hooks.meet("snapshot"):
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            self._hooks.die()
        written: int = self._file.write(data)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _HalfWritten:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()
