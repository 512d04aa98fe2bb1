# mypy: ignore-errors
"""Named tuples of arrays as one pointer for kernels.

numba passes a named tuple of arrays by value, seven words an array: with eighty arrays every call inside a kernel would move
hundreds of words, and compiling them takes minutes. `share(tuple)` lays the arrays' addresses and sizes into one block and
kernels get its address; inside them `operations.row[i]` reads as before. The views own nothing: the shared tuple (and with
it the arrays) must outlive the call, and arrays must be contiguous and one-dimensional. Whole numbers are passed as values.

The views are `View`s: arrays whose memory numba does not count references of. Counting cost more than the kernels' own work
(230 ns of 250 ns an operation when planning).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array

NUMBER = -1  # instead of a dtype's number: a field that is a number itself
_DTYPES = {dtype.num: dtype for dtype in map(np.dtype, (np.int8, np.int32, np.int64, np.uint8, np.float64))}


class View(types.Array):
    """The numba type of a field: a one-dimensional array over memory that someone else keeps alive."""

    def __init__(self, dtype: types.Type) -> None:
        super().__init__(dtype, 1, "C", name=f"View({dtype})")


@register_model(View)
class _ViewModel(models.StructModel):
    """As numba's own arrays, but the memory's owner is a plain pointer (always null)."""

    def __init__(self, manager: Any, kind: Any) -> None:
        pair = types.UniTuple(types.intp, 1)
        members = [
            ("meminfo", types.voidptr),
            ("parent", types.voidptr),
            ("nitems", types.intp),
            ("itemsize", types.intp),
            ("data", types.CPointer(kind.dtype)),
            ("shape", pair),
            ("strides", pair),
        ]
        super().__init__(manager, kind, members)


class SharedType(types.Type):
    """The numba type of a shared tuple: its name and its fields' dtypes."""

    def __init__(self, name: str, fields: tuple[tuple[str, int], ...]) -> None:
        self.fields = fields
        super().__init__(name=f"Shared({name}, {fields})")

    def position(self, attribute: str) -> int:
        return [name for name, _ in self.fields].index(attribute)

    def field_type(self, attribute: str) -> types.Type | None:
        for name, dtype in self.fields:
            if name == attribute:
                return types.int64 if dtype == NUMBER else View(from_dtype(_DTYPES[dtype]))
        return None


class Shared:
    """A named tuple of arrays, addressable as one block."""

    def __init__(self, arrays: NamedTuple) -> None:
        self.arrays = arrays
        words: list[int] = []
        dtypes = []  # by number: numpy hashes its dtypes slowly
        for value in arrays:
            if isinstance(value, np.ndarray):
                assert value.ndim == 1 and value.flags.c_contiguous, "a shared array must be one contiguous row"
                dtypes.append(value.dtype.num)
                words += (value.__array_interface__["data"][0], value.size)
            else:
                dtypes.append(NUMBER)
                words += (value, 0)
        self.words = np.array(words, np.int64)
        self.address: int = self.words.__array_interface__["data"][0]
        self.type = _type_of(type(arrays), tuple(dtypes))


@cache
def _type_of(kind: type, dtypes: tuple[int, ...]) -> SharedType:
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return SharedType(kind.__name__, tuple(zip(names, dtypes, strict=True)))


def share(arrays: Any) -> Shared:
    """The tuple as kernels take it."""
    return Shared(arrays)


@register_model(SharedType)
class _SharedModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@typeof_impl.register(Shared)
def _type_of_shared(value: Shared, context: Any) -> SharedType:
    return value.type


@unbox(SharedType)
def _unbox_shared(kind: Any, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word, ir.IntType(64).as_pointer()))


@infer_getattr
class _SharedAttributes(AttributeTemplate):
    key = SharedType

    def generic_resolve(self, kind: SharedType, attribute: str) -> types.Type | None:
        return kind.field_type(attribute)


@lower_getattr_generic(SharedType)
def _load_field(context: Any, builder: Any, kind: SharedType, value: Any, attribute: str) -> Any:
    position = kind.position(attribute)
    result = kind.field_type(attribute)
    first = builder.load(builder.gep(value, [ir.Constant(ir.IntType(64), 2 * position)]))
    if result is types.int64:
        return first
    size = builder.load(builder.gep(value, [ir.Constant(ir.IntType(64), 2 * position + 1)]))
    assert isinstance(result, View)
    array = make_array(result)(context, builder)
    item_bytes = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(result.dtype)))
    array.data = builder.inttoptr(first, context.get_data_type(result.dtype).as_pointer())
    array.shape = cgutils.pack_array(builder, [size])
    array.strides = cgutils.pack_array(builder, [item_bytes])
    array.itemsize = item_bytes
    array.nitems = size
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()
