"""The data types an application may declare, and the memory layout they get.

Record layouts are aligned numpy structs whose size is a multiple of eight bytes, so that versions can be copied by
words and addressed from compiled code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DeclarationError


@dataclass(frozen=True)
class ScalarType:
    """A number, a truth value, or (in events and keys only) a string."""

    name: str

    @property
    def dtype(self) -> np.dtype:
        return _SCALAR_DTYPES[self.name]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class VectorType:
    """A fixed number of numbers inside a record."""

    element: ScalarType
    length: int

    @property
    def dtype(self) -> np.dtype:
        return np.dtype((self.element.dtype, (self.length,)))

    def __repr__(self) -> str:
        return f"vector({self.element}, {self.length})"


@dataclass(frozen=True)
class ListType:
    """A varying number of values in an event."""

    element: ScalarType

    def __repr__(self) -> str:
        return f"list_of({self.element})"


FieldType = ScalarType | VectorType | ListType

INT64 = ScalarType("int64")
FLOAT64 = ScalarType("float64")
BOOLEAN = ScalarType("boolean")
STRING = ScalarType("string")

_SCALAR_DTYPES = {"int64": np.dtype("<i8"), "float64": np.dtype("<f8"), "boolean": np.dtype("?")}
_PYTHON_TYPES: dict[object, ScalarType] = {int: INT64, float: FLOAT64, bool: BOOLEAN, str: STRING}


def field_type(where: str, declared: object) -> FieldType:
    """The field type that `declared` (a Millrace type or int, float, bool, str) stands for."""
    if isinstance(declared, ScalarType | VectorType | ListType):
        return declared
    if isinstance(declared, type) and declared in _PYTHON_TYPES:
        return _PYTHON_TYPES[declared]
    raise DeclarationError(
        f"{where} has type {declared!r}, which Millrace does not hold; "
        "use int64, float64, boolean, str, vector(type, length) or list_of(type)"
    )


def vector(element: object, length: int) -> VectorType:
    """A fixed-length vector of int64 or float64, for records and events."""
    kind = field_type("a vector's element", element)
    if kind not in (INT64, FLOAT64):
        raise DeclarationError(f"a vector holds int64 or float64, not {kind!r}")
    if not isinstance(length, int) or length < 1:
        raise DeclarationError(f"a vector's length is a whole number of at least 1, not {length!r}")
    assert isinstance(kind, ScalarType)
    return VectorType(kind, length)


def list_of(element: object) -> ListType:
    """A list of varying length, for events."""
    kind = field_type("a list's element", element)
    if not isinstance(kind, ScalarType):
        raise DeclarationError(f"a list holds int64, float64, boolean or str, not {kind!r}")
    return ListType(kind)


def record_dtype(fields: Mapping[str, ScalarType | VectorType]) -> np.dtype[Any]:
    """The aligned layout of a record, its size padded to a multiple of eight bytes (at least eight)."""
    plain: Any = np.dtype([(name, kind.dtype) for name, kind in fields.items()], align=True)
    layout: Any = {
        "names": list(plain.names),
        "formats": [plain.fields[name][0] for name in plain.names],
        "offsets": [plain.fields[name][1] for name in plain.names],
        "itemsize": max(8, -(-plain.itemsize // 8) * 8),
        "aligned": True,
    }
    dtype: np.dtype[Any] = np.dtype(layout)
    return dtype
