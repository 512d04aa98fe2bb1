"""Shows which kernel numba compiles, while it does: the first start after an installation takes a minute or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event
from rich.console import Console


class Listener(event.Listener):
    """Names each kernel when it begins to compile; what comes from the disk is not compiled and not named."""

    def __init__(self, say: Callable[[str], object], what: str) -> None:
        self.say, self.what, self.count = say, what, 0

    def on_start(self, happened: Any) -> None:
        self.count += 1
        name = happened.data["dispatcher"].py_func.__name__
        self.say(f"{self.what}: {self.count} compiled, now {name} …")

    def on_end(self, happened: Any) -> None:
        """Nothing to say; the next one says it."""


@contextmanager
def shown(console: Console, what: str = "compiling kernels (once, then cached)") -> Iterator[None]:
    """While the body runs, a line says what is being compiled."""
    with console.status(f"{what} …") as status, event.install_listener("numba:compile", Listener(status.update, what)):
        yield
