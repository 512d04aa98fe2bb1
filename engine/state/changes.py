"""What one epoch changed: enough to bring a copy of the state from the epoch before to this one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.state.key_encoding import EncodedKeys


@dataclass
class Changes:
    """A table's changed keys, in no particular order, with their new values; `live` 0 marks a deleted key."""

    keys: EncodedKeys
    live: NDArray[np.uint8]
    records: NDArray[Any]
    history_keys: EncodedKeys | None = None  # versions added for windows, in the order they were committed
    history_ts: NDArray[np.int64] | None = None
    history_records: NDArray[np.uint8] | None = None


@dataclass
class EpochChanges:
    """All that an epoch changed: tables by name, and when transactions fire next (None before the first event ever)."""

    epoch: int
    punctuation_ts: int
    tables: dict[str, Changes] = field(default_factory=dict)
    next_fires: dict[str, int] | None = None
