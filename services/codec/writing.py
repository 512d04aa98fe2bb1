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
    def function(self, signature: str, decorator: str = "@njit(nogil=True)") -> Iterator[None]:
        """A kernel that kernels of the same module call."""
        self.add("", "", decorator)
        with self.block(f"def {signature}:"):
            yield

    @contextmanager
    def entry(self, name: str, arrays: list[str]) -> Iterator[None]:
        """A kernel that Python calls with arrays; the body sees pointers of these names, and the array `x` as `x_`."""
        arguments = ", ".join(f"{array}_" for array in arrays)
        with self.function(f"{name}({arguments})", "@njit(nogil=True, cache=True)"):
            self.add(*(f"{array} = pointer_to({array}_)" for array in arrays))
            yield

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
