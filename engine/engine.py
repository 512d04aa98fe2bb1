"""`Engine`: runs an application's epochs on all cores. Exactly as if transactions had run one by one in event order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from engine.api.application import Application
from engine.baselines import baseline_named
from engine.buffers import Buffers
from engine.config import Limits
from engine.errors import DeclarationError, InputError
from engine.execution.executor import ExecutionOptions
from engine.execution.threads import ThreadPool
from engine.inlined.kernel import InlinedMode
from engine.pipeline import Machinery, run_epoch
from engine.planning.epoch import Epoch
from engine.planning.open_epoch import OpenEpoch
from engine.planning.program import compile_program
from engine.result import EpochResult
from engine.scheduling.chooser import Given, make_chooser
from engine.state.changes import EpochChanges
from engine.state.store import Store


class Engine:
    """One application's state and the threads that change it. Not to be shared between threads, except for `read`.

    `policy` says how epochs are run, never what they give: a policy or its name, a model that chooses anew for each epoch
    ("cost", the default, or "paper"), a chooser of your own, or a function of (operations, graph maker).
    """

    def __init__(
        self,
        application: Application,
        *,
        threads: int | None = None,
        policy: Given = None,
        limits: Limits | None = None,
        options: ExecutionOptions | None = None,
        collect_changes: bool = False,
        wait: bool = False,
    ) -> None:
        """`wait` compiles the application's serial kernel now; otherwise the generic one serves until it is there.

        `collect_changes` keeps what each epoch changed with its result (for a changelog, say); otherwise it is to be had
        until the next epoch runs.
        """
        application.check_complete()
        threads = threads if threads is not None else os.cpu_count() or 1
        if threads < 1 or threads > 127:
            raise DeclarationError(f"threads= is a number from 1 to 127, not {threads}")
        if isinstance(policy, str):
            policy = baseline_named(policy) or policy
        self.chooser = make_chooser(policy)
        self.application = application
        self.store = Store(application)
        self.options = options or ExecutionOptions()
        self.threads = threads
        self.program = compile_program(application)
        self._machinery = Machinery(
            application,
            self.program,
            self.store,
            ThreadPool(threads),
            self.chooser,
            limits or Limits(),
            self.options,
            InlinedMode(application, wait) if self.options.allows_inlining else InlinedMode.none(),
            collect_changes,
            Buffers(),
        )

    @classmethod
    def restore(cls, application: Application, data: bytes, **options: Any) -> Engine:
        """An engine that goes on from a snapshot."""
        engine = cls(application, **options)
        engine.store.load_snapshot(data)
        return engine

    def load(self, table: str, keys: Sequence[Any], values: dict[str, Any]) -> None:
        """Fills a table before the first epoch; windows do not count loaded values as versions."""
        if self.store.last_epoch is not None:
            raise InputError(f"table {table!r} can be loaded before the first epoch only")
        with self.store.lock:
            self.store.table(table).load(keys, values)

    def open_epoch(self, number: int) -> OpenEpoch:
        """An epoch to add chunks to as they arrive, also from another thread and while an earlier epoch runs."""
        return OpenEpoch(self.application, number, self._machinery.limits)

    def run_epoch(self, epoch: Epoch, *, careful: bool = False) -> EpochResult:
        """Runs one epoch. An InputError means that nothing ran and nothing changed. `careful` runs operations one by one, so
        that `running_place` can name the one that does not end."""
        return run_epoch(self._machinery, epoch, careful)

    def running_place(self) -> str | None:
        """From another thread: the user function and the event that a careful run is at."""
        return self._machinery.running.place()

    def follow(self, changes: EpochChanges) -> None:
        """Takes over what another engine's epoch changed (`EpochResult.changes`) instead of running it: recovery, replicas."""
        self.store.follow(changes)

    def read(self, reads: dict[str, Sequence[Any]]) -> tuple[int | None, dict[str, list[dict[str, Any] | None]]]:
        """Values of several keys as of the last finished epoch, from any thread, also while an epoch runs."""
        return self.store.read(reads)

    def state(self, table: str) -> dict[Any, dict[str, Any]]:
        """A whole table as of the last finished epoch."""
        return self.store.contents(table)

    def snapshot(self) -> bytes:
        """All state as bytes, versioned and checksummed; equal states give equal bytes."""
        return self.store.dump()

    @property
    def inlines(self) -> bool:
        """Whether the application's own serial kernel is ready."""
        return self._machinery.inlined.kernel is not None

    def close(self) -> None:
        self._machinery.pool.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
