"""Worker threads. They live as long as the engine; inside kernels they hold no GIL."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence


class ThreadPool:
    """A fixed number of threads; the caller's own thread does the first share of each call."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._tasks: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        for number in range(1, threads):
            tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(tasks,), name=f"millrace-{number}", daemon=True).start()
            self._tasks.append(tasks)

    def run(self, shares: Sequence[Callable[[], None]]) -> None:
        """Runs at most `threads` shares at once, each on its own thread; raises the first error after all ended."""
        assert len(shares) <= self.threads
        for tasks, share in zip(self._tasks, shares[1:], strict=False):
            tasks.put(share)
        failure: BaseException | None = None
        try:
            shares[0]()
        except BaseException as error:
            failure = error
        for _ in shares[1:]:
            failure = self._results.get() or failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        for tasks in self._tasks:
            tasks.put(None)
        self._tasks = []

    def _work(self, tasks: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (share := tasks.get()) is not None:
            try:
                share()
                self._results.put(None)
            except BaseException as error:
                self._results.put(error)
