# mypy: ignore-errors
"""Atomic array elements, raw memory and the scheduler's yield, for `nogil` kernels.

Everything here is one LLVM instruction or one C call. Array elements may be of any integer width; the value is cast to
the element's type. Addresses are plain int64 values.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from engine.execution.shared import View

_BYTE_POINTER = ir.IntType(8).as_pointer()


def _element(context, builder, signature, args):
    array = make_array(signature.args[0])(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [args[1]])


@intrinsic
def atomic_add(typing_context, array, index, value):
    """array[index] += value in one step; gives the value before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _element(context, builder, signature, args), args[2], "seq_cst")

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def atomic_swap(typing_context, array, index, value):
    """array[index] = value in one step; gives the value before."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _element(context, builder, signature, args), args[2], "seq_cst")

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def load_acquire(typing_context, array, index):
    """array[index]; what its writer stored before releasing it is visible afterwards."""

    def generate(context, builder, signature, args):
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        return builder.load_atomic(_element(context, builder, signature, args), "acquire", size)

    return array.dtype(array, types.intp), generate


@intrinsic
def store_release(typing_context, array, index, value):
    """array[index] = value, after everything this thread stored before."""

    def generate(context, builder, signature, args):
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        builder.store_atomic(args[2], _element(context, builder, signature, args), "release", size)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def load_word(typing_context, address):
    """The int64 at a byte address."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def store_word(typing_context, address, value):
    """Stores an int64 at a byte address, after everything this thread stored before."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store_atomic(args[1], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def load_float(typing_context, address):
    """The float64 at a byte address."""

    def generate(context, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return types.float64(types.int64), generate


@intrinsic
def store_float(typing_context, address, value):
    """Stores a float64 at a byte address."""

    def generate(context, builder, signature, args):
        builder.store(args[1], builder.inttoptr(args[0], ir.DoubleType().as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), generate


@intrinsic
def load_byte(typing_context, address):
    """The byte at an address, as int64."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.load(builder.inttoptr(args[0], _BYTE_POINTER)), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def copy_bytes(typing_context, destination, source, size):
    """memcpy."""

    def generate(context, builder, signature, args):
        to, origin = (builder.inttoptr(arg, _BYTE_POINTER) for arg in args[:2])
        cgutils.raw_memcpy(builder, to, origin, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def words_at(typing_context, address, count):
    """A one-dimensional int64 array over memory that someone else owns."""
    result = View(types.int64)

    def generate(context, builder, signature, args):
        array = make_array(result)(context, builder)
        data = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        eight = context.get_constant(types.intp, 8)
        array.data = data
        array.shape = cgutils.pack_array(builder, [args[1]])
        array.strides = cgutils.pack_array(builder, [eight])
        array.itemsize = eight
        array.nitems = args[1]
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()

    return result(types.int64, types.int64), generate


@intrinsic
def address_of(typing_context, array):
    """The address of an array's first element."""

    def generate(context, builder, signature, args):
        array = make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def call_entry(typing_context, entry, own, event, each, arguments):
    """Calls a compiled user function through its C address (`engine.functions.entry` has the meaning)."""

    def generate(context, builder, signature, args):
        word = ir.IntType(64)
        function_type = ir.FunctionType(word, [word] * 4)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        return builder.call(function, list(args[1:]))

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def cycle_counter(typing_context):
    """The processor's time stamp counter."""

    def generate(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(ir.IntType(64), []))
        return builder.call(function, [])

    return types.int64(), generate


@intrinsic
def yield_processor(typing_context):
    """Lets another thread run: waiting threads must not starve the one they wait for."""

    def generate(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate
