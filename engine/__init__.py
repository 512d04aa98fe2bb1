"""Millrace's engine: ACID transactions over streams of events, exactly as in event order, on all cores.

Users import these names from `millrace`.
"""

from engine.functions import cache as _cache

_cache.install()  # before any kernel is imported

from engine.api.application import Application  # noqa: E402
from engine.api.types import BOOLEAN as boolean  # noqa: E402, N811
from engine.api.types import FLOAT64 as float64  # noqa: E402, N811
from engine.api.types import INT64 as int64  # noqa: E402, N811
from engine.api.types import list_of, vector  # noqa: E402
from engine.config import Limits  # noqa: E402
from engine.driver import TestDriver  # noqa: E402
from engine.engine import Engine  # noqa: E402
from engine.errors import (  # noqa: E402
    DeclarationError,
    InputError,
    InvariantError,
    LimitError,
    MillraceError,
    Reason,
    SnapshotError,
)
from engine.execution.executor import ExecutionOptions  # noqa: E402
from engine.functions.udf import udf  # noqa: E402
from engine.planning.epoch import Epoch  # noqa: E402
from engine.planning.open_epoch import OpenEpoch  # noqa: E402
from engine.result import EpochResult, Outcome  # noqa: E402
from engine.scheduling.policy import Abort, Exploration, Granularity, Policy, all_policies  # noqa: E402
from engine.warming import warm_up  # noqa: E402

__all__ = [
    "Abort",
    "Application",
    "DeclarationError",
    "Engine",
    "Epoch",
    "EpochResult",
    "ExecutionOptions",
    "Exploration",
    "Granularity",
    "InputError",
    "InvariantError",
    "LimitError",
    "Limits",
    "MillraceError",
    "OpenEpoch",
    "Outcome",
    "Policy",
    "Reason",
    "SnapshotError",
    "TestDriver",
    "all_policies",
    "boolean",
    "float64",
    "int64",
    "list_of",
    "udf",
    "vector",
    "warm_up",
]
