"""The engine service as the demo's child process: started, watched through its `/status` page, killed, started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from services.errors import ProgramError
from services.kafka.node_files import free_ports

APPLICATION = "services.apps.streaming_ledger:build"
TABLES = "services.apps.first_tables:streaming_ledger"
STATUS_TIMEOUT_S = 2.0
STOP_TIMEOUT_S = 30.0


class Service:
    """One engine service; `folder` has its log and its snapshots."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.log = folder / "engine.log"
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._command = [
            sys.executable, "-m", "millrace", "run", "--app", APPLICATION, "--tables", TABLES,
            "--kafka-bootstrap", bootstrap, "--snapshots", str(folder / "snapshots"), "--snapshot-every", "20",
            "--http", self._address,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def status(self) -> dict[str, Any] | None:
        """What it says of itself; None while it does not answer. ProgramError if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ProgramError(
                f"the engine service ended with exit code {self._process.returncode}: {self._last_words()}"
            )
        try:
            with urllib.request.urlopen(f"http://{self._address}/status", timeout=STATUS_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return None

    def kill(self) -> None:
        """Ends it at once (-9)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Ends it in order, by force if it takes too long; nothing if it does not run."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []
        return (lines or ["it left no log"])[-1]
