"""A broker's process, whoever started it: its pid file, whether it lives, signals to it.

A pid alone proves nothing: the process may be gone, unreaped, or its number another's by now. So a process counts as the
node's only while its command line names the node's properties file. A pid file without such a process is stale, and
says only that the broker did not stop properly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from services.errors import BrokerError, NotRunningError
from services.kafka.node_files import NodeFiles, write_whole

# Children of this process, by pid, so that a dead one is reaped whichever object asks; and none is warned about as
# unreaped, because it may well outlive us.
_children: dict[int, subprocess.Popen[bytes]] = {}

_POLL_S = 0.05


class BrokerProcess:
    """The process of the node with these files."""

    def __init__(self, files: NodeFiles) -> None:
        self.files = files

    def spawn(self, command: Sequence[str], bootstrap: str) -> None:
        """Starts the command in a session of its own (Ctrl-C is for us, not for it) and notes it."""
        with self.files.log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        _children[process.pid] = process
        write_whole(self.files.running, json.dumps({"pid": process.pid, "bootstrap": bootstrap}) + "\n")

    def noted_pid(self) -> int | None:
        """The pid in the pid file, dead or alive."""
        try:
            pid = json.loads(self.files.running.read_text("utf-8"))["pid"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if isinstance(pid, int) and pid > 1 else None

    def pid(self) -> int | None:
        """The running broker's pid, or None."""
        pid = self.noted_pid()
        if pid is None:
            return None
        if pid in _children:  # asked first: for a moment after it was started, a process has no command line
            if _children[pid].poll() is None:
                return pid
            del _children[pid]
            return None
        return pid if str(self.files.properties) in command_line(pid) else None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; NotRunningError if no broker runs here."""
        pid = self.pid()
        if pid is None:
            raise NotRunningError(f"no broker runs in {self.files.directory}; start it first")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it ended meanwhile
        except PermissionError:
            raise BrokerError(f"the broker in {self.files.directory} (process {pid}) belongs to another user") from None

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether it has ended, within the time."""
        deadline = time.monotonic() + timeout_s
        while self.pid() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def forget(self) -> None:
        self.files.running.unlink(missing_ok=True)


def command_line(pid: int) -> str:
    """A process's command line; empty if there is none, or if it is dead and unreaped."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="surrogateescape")
        except OSError:
            return ""
    answer = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout
