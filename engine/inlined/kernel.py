"""An application's inlined serial kernel: written, compiled once, cached on disk; compiled behind the running engine.

While it compiles, the generic serial mode serves. `why_not` says why an application has none.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from numba import int64

from engine.api.application import Application
from engine.api.model import Template
from engine.errors import LimitError
from engine.functions import cache
from engine.inlined.layout import TransactionLayout, why_not
from engine.inlined.source import assemble


class InlinedKernel:
    """The kernel and what each transaction of it is given."""

    def __init__(self, application: Application) -> None:
        text, self.layouts = assemble(application)
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.is_wide = any(layout.is_wide for layout in self.layouts)
        self._numbers = {layout.template.record_type: number for number, layout in enumerate(self.layouts)}
        self._module = cache.load_module(self.digest, text)
        self.run: Callable[..., int] = self._module.run
        self._compiled = False
        self._lock = threading.Lock()

    @property
    def is_cached(self) -> bool:
        return cache.facts_of(self.digest) is not None

    def compile(self) -> None:
        """Compiles the kernel, or loads it from the disk; once a process."""
        with self._lock:
            if self._compiled:
                return
            known = self.is_cached
            if not known and cache.on_compile is not None:
                cache.on_compile("the application's serial kernel")
            self.run.compile((int64,))  # type: ignore[attr-defined]
            if not known:
                cache.note_facts(self.digest, {})
            self._compiled = True

    def number_of(self, template: Template) -> int:
        return self._numbers[template.record_type]

    def layout_of(self, template: Template) -> TransactionLayout:
        return self.layouts[self.number_of(template)]

    @staticmethod
    def require(operations: int, limit: int) -> None:
        if operations > limit:
            raise LimitError(f"the epoch has {operations} operations, the limit is {limit}")


_kernels: WeakKeyDictionary[Application, InlinedKernel] = WeakKeyDictionary()
_kernels_lock = threading.Lock()


def _kernel_of(application: Application) -> InlinedKernel:
    """One kernel for all engines of an application."""
    with _kernels_lock:
        kernel = _kernels.get(application)
        if kernel is None or len(kernel.layouts) != len(application.templates):  # declared further meanwhile
            kernel = _kernels[application] = InlinedKernel(application)
        return kernel


class InlinedMode:
    """The inlined serial mode of one engine, ready once its kernel is compiled."""

    def __init__(self, application: Application, wait: bool) -> None:
        self.reason = why_not(list(application.templates.values()), list(application.tables.values()))
        self.kernel: InlinedKernel | None = None
        self._thread: threading.Thread | None = None
        if self.reason is not None:
            return
        kernel = _kernel_of(application)
        if wait or kernel.is_cached:
            kernel.compile()
            self.kernel = kernel
        else:
            self._thread = threading.Thread(target=self._compile, args=(kernel,), name="millrace-compile", daemon=True)
            self._thread.start()

    @classmethod
    def none(cls) -> InlinedMode:
        """For an engine that is told not to inline."""
        mode = cls.__new__(cls)
        mode.reason, mode.kernel, mode._thread = "the engine's options forbid it", None, None
        return mode

    def _compile(self, kernel: InlinedKernel) -> None:
        kernel.compile()
        self.kernel = kernel

    def wait(self) -> None:
        """Returns when the kernel is there (or never will be)."""
        if self._thread is not None:
            self._thread.join()
