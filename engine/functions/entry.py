"""Compile a user function to a C function pointer of the one signature that all kernels know.

`int64 entry(int64 own, int64 event, int64 each, int64 args)`, all addresses; 1 is success, 0 is False, negative is
minus the `Reason` of a fault. With result "value", the value is written at `own` in 8-byte words (nothing is written
on a fault).

Invariants: an entry never raises, prints or takes the GIL. The same request in one process gives the same Entry.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

import numba
import numpy as np
from numba import types

from engine.errors import InvariantError
from engine.functions import cache
from engine.functions.diagnosis import explain, require_plain_values
from engine.functions.source import ModuleSource, Parameter, assemble
from engine.functions.transform import transform
from engine.functions.udf import UserFunction

SIGNATURE = "int64(int64, int64, int64, int64)"

__all__ = ["Entry", "Parameter", "compile_entry"]

_lock = threading.RLock()
_entries: dict[str, Entry] = {}


@dataclass(frozen=True, eq=False)
class Entry:
    """A compiled user function; its code lives as long as this object."""

    address: int
    result: np.dtype | int | None  # "value": the dtype of the number, or how many int64 a tuple has; "verdict": None
    from_cache: bool
    module: ModuleType = field(repr=False)  # for kernels that inline the function: `module.functions[-1]`
    compiled: Any = field(repr=False)  # numba's object, which owns the machine code


def compile_entry(
    function: UserFunction, parameters: tuple[Parameter, ...], result: Literal["verdict", "value"]
) -> Entry:
    """The entry that calls `function` with `parameters`; from memory, from the disk, or compiled now."""
    passed = tuple(each for each in parameters if not (each.kind in ("own", "event") and each.dtype is None))
    if any(each.writable for each in passed[1:]):
        raise InvariantError("only the first parameter of a user function can be writable")
    if len(function.parameters) != len(passed):
        given = ", ".join(each.kind for each in passed) or "none"
        what = f"takes {len(function.parameters)} parameters, here it is given {len(passed)} ({given})"
        raise function.error(function.line, what)
    writable = bool(passed) and passed[0].writable
    source = assemble(transform(function, writable), passed, result)
    with _lock:
        entry = _entries.get(source.digest)
        if entry is None:
            entry = _entries[source.digest] = _load(function, source, result)
        return entry


def _load(function: UserFunction, source: ModuleSource, result: str) -> Entry:
    cache.install()
    facts = cache.facts_of(source.digest)
    module = cache.load_module(source.digest, source.text)
    if facts is None:
        if cache.on_compile is not None:
            cache.on_compile(function.name)
        facts = {"result": _check(module, function, source, result)}
        compiled = _compile(module, function, source)
        cache.note_facts(source.digest, facts)
    else:
        compiled = _compile(module, function, source)
    noted = facts["result"]
    shape = np.dtype(noted) if isinstance(noted, str) else noted
    return Entry(compiled.address, shape, compiled.cache_hits > 0, module, compiled)


def _compile(module: ModuleType, function: UserFunction, source: ModuleSource) -> Any:
    try:
        return numba.cfunc(SIGNATURE, cache=True, error_model="numpy")(module.entry)
    except Exception as error:  # numba lets its own failures through, a KeyError for an unknown field among them
        raise explain(error, source, function) from None


def _check(module: ModuleType, function: UserFunction, source: ModuleSource, result: str) -> str | int | None:
    """Compile the function alone, which the entry then reuses, and look at the types it came to."""
    dispatcher = module.functions[-1]
    try:
        dispatcher.compile(module.argument_types)
    except Exception as error:  # numba lets its own failures through, a KeyError for an unknown field among them
        raise explain(error, source, function) from None
    require_plain_values(module, source, function)
    if result == "verdict":
        return None
    returned: Any = types.unliteral(dispatcher.overloads[module.argument_types].signature.return_type)  # type: ignore[no-untyped-call]
    if isinstance(returned, types.Boolean):
        return "bool"
    if isinstance(returned, types.Integer):
        return "int64"
    if isinstance(returned, types.Float):
        return "float64"
    return returned.count if isinstance(returned, types.UniTuple) else None  # anything else: the entry's typing refuses
