"""How long the machine has been waiting for something, and when it should say so again."""

from __future__ import annotations

from services.engine.assembly import Waiting


class Patience:
    """Counts from when what is waited for changes in kind, or was told to begin anew."""

    def __init__(self, now_s: float) -> None:
        self._status: Waiting | None = None
        self._since_s = self._warned_s = now_s

    def end(self) -> None:
        """What was waited for has come."""
        self._status = None

    def waited_s(self, status: Waiting, now_s: float, *, anew: bool) -> float:
        if anew or self._status is None or self._status.punctuated != status.punctuated:
            self._since_s = self._warned_s = now_s
        self._status = status
        return now_s - self._since_s

    def is_warning_due(self, now_s: float, every_s: float) -> bool:
        """True once in so many seconds."""
        if now_s - self._warned_s < every_s:
            return False
        self._warned_s = now_s
        return True
