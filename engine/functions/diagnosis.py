"""What numba has to say about a user function, in one sentence that names the user's own line.

Invariant: the user never sees generated code, its lines or numba's traceback.
"""

from __future__ import annotations

import operator
import re
import traceback
from types import ModuleType
from typing import Any

from numba import types
from numba.core import ir
from numba.core.errors import NumbaError

from engine.errors import DeclarationError
from engine.functions.checked import REFUSAL, type_name
from engine.functions.memory import Never
from engine.functions.source import ModuleSource
from engine.functions.udf import UserFunction

_LINE = re.compile(r"entry_[0-9a-f]{64}\.py(?:\", line | \()(\d+)")
_REFUSAL = re.compile(re.escape(REFUSAL) + r"(.+)")
_FIELD = re.compile(r"Unknown attribute '(\w+)' of type (.*)")
_UNIFY = re.compile(r"Cannot unify (.+?) and (.+?) for '([^'.]+)")
_CALL = re.compile(r"No implementation of function Function\((.+?)\) found for signature:\s+>>> (\S+?)\((.*)\)")
_RETURN = re.compile(r"Can't unify return type from the following types: (.*)")
_ITERATE = re.compile(r"Invalid use of getiter with parameters \((.*)\)")
_UNPACK = re.compile(r"wrong tuple length.*expected (\d+), got (\d+)")
_RECORD = re.compile(r"Record\(\[.*?\], \d+, (?:True|False)\)|Record\(.*?;\d+;(?:True|False)\)")
_OPERATORS = {"and_": "&", "or_": "|", "xor": "^", "eq": "==", "ne": "!=", "not_": "not"}
_OPERATORS |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PRESENT = (types.Number, types.Boolean, types.NoneType, types.Record, types.BaseTuple, types.Optional)
_PASSING = (types.RangeType, types.IteratorType, types.Pair, types.CPointer, types.Module, types.Callable, Never)


def explain(error: Exception, source: ModuleSource, function: UserFunction) -> DeclarationError:
    """The error for the user, made from numba's."""
    if not isinstance(error, NumbaError):
        return _explain_crash(error, source, function)
    text = str(error)
    # numba wraps the innermost complaint first, so the first line that comes from the user is the offending one.
    origins = [source.origin(int(found.group(1))) for found in _LINE.finditer(text)]
    known = [origin for origin in origins if origin is not None]
    if not known:
        return function.error(function.line, _reason(text))
    owner, line = known[0].function, known[0].line
    if _RETURN.search(text):  # numba names all returns, in the order of a set: take the user's first
        line = min(origin.line for origin in known if origin.function is owner)
    return owner.error(line, _reason(text))


def _explain_crash(error: Exception, source: ModuleSource, function: UserFunction) -> DeclarationError:
    """For a failure inside numba, a KeyError for an unknown field above all: it has no text, but a traceback."""
    owner, line, what = function, function.line, f"cannot be compiled: {type(error).__name__}: {error}"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        place = getattr(frame.f_locals.get("self"), "loc", None)
        origin = source.origin(place.line) if isinstance(place, ir.Loc) else None
        if origin is not None:
            owner, line = origin.function, origin.line
        record = frame.f_locals.get("record")
        if isinstance(error, KeyError) and isinstance(record, types.Record):
            what = f"there is no field {error.args[0]!r}; the fields are {', '.join(record.fields)}"
    return owner.error(line, what)


def _reason(text: str) -> str:
    if found := _REFUSAL.search(text):
        return found.group(1).strip()
    if found := _FIELD.search(text):
        fields = re.findall(r"(\w+)\[type=|\('(\w+)', \{", found.group(2))
        known = ", ".join(first or second for first, second in fields)
        return f"there is no field {found.group(1)!r}" + (f"; the fields are {known}" if known else "")
    if found := _UNIFY.search(text):
        one, other = _short(found.group(1)), _short(found.group(2))
        return f"{_variable(found.group(3))} is {one} on one way and {other} on another"
    if found := _CALL.search(text):
        called, operands = found.group(2), _short(found.group(3))
        builtin = re.search(r"built-in function (\w+)", found.group(1))
        name = builtin.group(1) if builtin else called
        return f"{_OPERATORS.get(name, name)} does not take ({operands})"
    if found := _RETURN.search(text):
        kinds = sorted(_short(found.group(1)).split(", "))  # numba's order is that of a set
        return f"returns values of different types: {', '.join(kinds)}"
    if found := _ITERATE.search(text):
        return f"a for loop cannot run over {_short(found.group(1))}"
    if found := _UNPACK.search(text):
        return f"unpacks {found.group(2)} values into {found.group(1)} names"
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("Failed in", "During:", "File ", "[1]"))]
    return f"cannot be compiled: {_short(told[0]) if told else 'numba gives no reason'}"


def _variable(name: str) -> str:
    return "the result" if name.startswith("$") else repr(name)


def _short(text: str) -> str:
    text = _RECORD.sub("a record", text)
    text = re.sub(r"nestedarray\(\w+, \(\d+,\)\)", "a vector", text)
    text = re.sub(r"Literal\[int\]\(-?\d+\)", "int64", text)
    return re.sub(r"Literal\[bool\]\(\w+\)", "bool", text)


def require_plain_values(module: ModuleType, source: ModuleSource, function: UserFunction) -> None:
    """No value of the compiled functions may need memory of its own: such code could allocate, raise or print."""
    for dispatcher in module.functions:
        for compiled in dispatcher.overloads.values():
            annotation = compiled.type_annotation
            for block in annotation.blocks.values():
                for statement in block.body:
                    what = _complaint(statement, annotation.typemap) if isinstance(statement, ir.Assign) else None
                    if what is not None:
                        origin = source.origin(statement.loc.line)
                        owner, line = (origin.function, origin.line) if origin else (function, function.line)
                        raise owner.error(line, what)


def _complaint(statement: Any, typemap: dict[str, types.Type]) -> str | None:
    kind, value = typemap[statement.target.name], statement.value
    if not _is_plain(kind):
        return f"computes {type_name(kind)}; only numbers can be computed"
    if isinstance(value, ir.Expr) and value.op == "call":
        if isinstance(kind, types.Optional):
            return f"the value is {type_name(kind)}; a helper must return a value on every way"
        called = typemap[value.func.name]
        operand = typemap[value.args[0].name] if value.args else None
        if getattr(called, "typing_key", None) in (bool, operator.truth) and isinstance(operand, types.Array):
            return f"{type_name(operand)} is neither true nor false; compare its items or its len()"
    return None


def _is_plain(kind: types.Type) -> bool:
    if isinstance(kind, types.Array):  # a vector field or the given records; a computed array is of another type
        return isinstance(kind, types.NestedArray) or isinstance(kind.dtype, types.Record)
    if isinstance(kind, types.Complex):
        return False
    return isinstance(kind, _PRESENT + _PASSING)
