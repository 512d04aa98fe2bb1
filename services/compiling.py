"""Shows which kernel numba compiles, while it does: the first start after an installation takes a minute or two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event
from rich.console import Console
from rich.status import Status


class _Listener(event.Listener):
    """Names each kernel when it begins to compile; what comes from the disk is not compiled and not named."""

    def __init__(self, status: Status, what: str) -> None:
        self.status, self.what, self.count = status, what, 0

    def on_start(self, happened: Any) -> None:
        self.count += 1
        name = happened.data["dispatcher"].py_func.__name__
        self.status.update(f"{self.what}: {self.count} compiled, now {name} …")

    def on_end(self, happened: Any) -> None:
        """Nothing to say; the next one says it."""


@contextmanager
def shown(console: Console, what: str = "compiling kernels (once, then cached)") -> Iterator[None]:
    """While the body runs, a line says what is being compiled."""
    with console.status(f"{what} …") as status, event.install_listener("numba:compile", _Listener(status, what)):
        yield
