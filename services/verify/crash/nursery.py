"""Where engine processes come from: a process that has loaded everything and forks, so that a life begins in a moment.

`Nursery` starts it (`python -m services.verify.crash.nursery GIVEN`) and talks to it in lines: JSON of what a life is told (see
`engine_process.live`) in, `began PID` and `ended PID STATUS` out. It has no threads and no Kafka client when it forks.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


class Nursery:
    """The driver's end."""

    def __init__(self, given: Path, log: Path) -> None:
        with log.open("a") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.verify.crash.nursery", str(given)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip
        self._began: queue.Queue[int] = queue.Queue()
        self._ended: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, pid, *status = line.split()
            if what == "began":
                self._began.put(int(pid))
            else:
                self._ended[int(pid)] = os.waitstatus_to_exitcode(int(status[0]))

    def begin(self, told: dict[str, Any], timeout_s: float) -> int:
        """Starts a life and gives its pid."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        return self._began.get(timeout=timeout_s)

    def exit_code(self, pid: int) -> int | None:
        return self._ended.get(pid)

    def wait(self, pid: int, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        while pid not in self._ended:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"process {pid} did not end within {timeout_s:g} s")
            time.sleep(0.01)
        return self._ended[pid]

    def close(self) -> None:
        """Ends it; its children must have ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def main() -> None:
    """The process itself: prepares, forks as told, says who ended; ends with its input."""
    from services.verify.crash import engine_process

    engine_process.prepare(Path(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pending, children = b"", set()
    while True:
        readable, _, _ = select.select([0], [], [], 0.02)
        if readable:
            data = os.read(0, 65_536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    os.close(0)
                    os._exit(engine_process.live(json.loads(line)))
                children.add(pid)
                os.write(1, f"began {pid}\n".encode())
        for pid in list(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.discard(pid)
                os.write(1, f"ended {pid} {status}\n".encode())


if __name__ == "__main__":
    main()
