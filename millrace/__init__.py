"""Millrace: ACID transactions over event streams, in Python.

What users import. It owns nothing: every name here is the engine's own, so that an application reads
`from millrace import Application` while the source keeps its folders at the top level.
"""

from engine import (
    Application,
    Engine,
    Epoch,
    Limits,
    TestDriver,
    boolean,
    float64,
    int64,
    list_of,
    udf,
    vector,
    warm_up,
)
from engine.errors import (
    DeclarationError,
    InputError,
    InvariantError,
    LimitError,
    MillraceError,
    Reason,
    SnapshotError,
)

__all__ = [
    "Application",
    "DeclarationError",
    "Engine",
    "Epoch",
    "InputError",
    "InvariantError",
    "LimitError",
    "Limits",
    "MillraceError",
    "Reason",
    "SnapshotError",
    "TestDriver",
    "boolean",
    "float64",
    "int64",
    "list_of",
    "udf",
    "vector",
    "warm_up",
]
