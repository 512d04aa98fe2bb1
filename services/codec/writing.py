"""Lines of generated source with their indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """A module's text as it is written, block by block."""

    def __init__(self, head: str) -> None:
        self._lines = [head]
        self._depth = 0

    def add(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def function(self, signature: str, cached: bool = True) -> Iterator[None]:
        """A kernel; cached ones are entered from Python, the others only from kernels of the same module."""
        self.add("", "", f"@njit(nogil=True{', cache=True' if cached else ''})")
        with self.block(f"def {signature}:"):
            yield

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
