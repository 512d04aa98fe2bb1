# mypy: ignore-errors
"""Kernel intrinsics for what compiled entries need and Python cannot say: addresses, the fault cell, overflow flags.

Invariants: nothing here allocates, raises or takes the GIL. An address is an int64 that the caller keeps alive and
aligned. The fault cell lives in the entry's own stack frame, so that after inlining it is a register.
"""

from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.core.datamodel.models import OpaqueModel
from numba.core.typeconv import Conversion
from numba.extending import intrinsic, lower_cast, register_model

FAULT = types.CPointer(types.int64)


@intrinsic
def fault_cell(typing_context):
    """A pointer to a zeroed int64 in the caller's frame."""

    def codegen(context, builder, signature, arguments):
        return cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(64), 0))

    return FAULT(), codegen


@intrinsic
def record_at(typing_context, address, record):
    """The record of type `record` that lies at `address`, by reference."""

    def codegen(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return record.instance_type(address, record), codegen


@intrinsic
def pointer_at(typing_context, address, item):
    """`address` as a pointer to `item`s."""

    def codegen(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(item.instance_type)(address, item), codegen


@njit(error_model="numpy", nogil=True)
def records_at(address, count, record):
    """The `count` records that lie one after another at `address`."""
    return carray(pointer_at(address, record), (count,))


def _zeros(context, builder, record_type):
    storage = ir.ArrayType(ir.IntType(8), record_type.size)
    name = f"millrace.zeros.{record_type.size}"
    zeros = builder.module.globals.get(name)
    if zeros is None:
        zeros = cgutils.add_global_variable(builder.module, storage, name)
        zeros.linkage, zeros.global_constant, zeros.align = "internal", True, 16
        zeros.initializer = ir.Constant(storage, None)
    return builder.bitcast(zeros, context.get_value_type(record_type))


@intrinsic
def zero_record(typing_context, record):
    """A reference to a constant record of zeros: what an index out of bounds reads, even in an empty array."""

    def codegen(context, builder, signature, arguments):
        return _zeros(context, builder, signature.return_type)

    return record.instance_type(record), codegen


class Never(types.Opaque):
    """The type of what a function returns after a fault: it takes the type of the function's other results."""

    def __init__(self):
        super().__init__("Never")

    def unify(self, typing_context, other):
        return other

    def can_convert_to(self, typing_context, other):
        return Conversion.safe


NEVER = Never()
register_model(Never)(OpaqueModel)


@lower_cast(Never, types.Any)
@lower_cast(Never, types.Boolean)  # these two because numba has casts from any type to them
@lower_cast(Never, types.Optional)
def _never_to_any(context, builder, from_type, to_type, value):
    """Zeros of any type; for a record a reference that can be read."""
    if isinstance(to_type, types.Record):
        return _zeros(context, builder, to_type)
    return context.get_constant_null(to_type)


@intrinsic
def never(typing_context):
    """What to return once there is a fault."""

    def codegen(context, builder, signature, arguments):
        return context.get_dummy_value()

    return NEVER(), codegen


def _with_overflow(name):
    @intrinsic
    def operation(typing_context, left, right):
        """(wrapped result, whether it overflowed) of two int64."""
        result = types.Tuple((types.int64, types.boolean))

        def codegen(context, builder, signature, arguments):
            pair = getattr(builder, name)(*arguments)
            value, flag = builder.extract_value(pair, 0), builder.extract_value(pair, 1)
            return context.make_tuple(builder, signature.return_type, (value, flag))

        return result(types.int64, types.int64), codegen

    return operation


add_with_overflow = _with_overflow("sadd_with_overflow")
subtract_with_overflow = _with_overflow("ssub_with_overflow")
multiply_with_overflow = _with_overflow("smul_with_overflow")


@intrinsic
def stack_record(typing_context, record):
    """A reference to a record in the caller's frame; what it holds is undefined until something is stored."""

    def codegen(context, builder, signature, arguments):
        storage = ir.ArrayType(ir.IntType(64), signature.return_type.size // 8)
        return builder.bitcast(cgutils.alloca_once(builder, storage), context.get_value_type(signature.return_type))

    return record.instance_type(record), codegen


@intrinsic
def copy_record(typing_context, destination, source):
    """All bytes of one record to another of the same type."""

    def codegen(context, builder, signature, arguments):
        size = context.get_constant(types.intp, signature.args[0].size)
        cgutils.raw_memcpy(builder, arguments[0], arguments[1], size, 1)
        return context.get_dummy_value()

    return types.void(destination, source), codegen


@intrinsic
def copy_at(typing_context, address, source):
    """All bytes of a record to an address."""

    def codegen(context, builder, signature, arguments):
        size = context.get_constant(types.intp, signature.args[1].size)
        cgutils.raw_memcpy(builder, builder.inttoptr(arguments[0], arguments[1].type), arguments[1], size, 1)
        return context.get_dummy_value()

    return types.void(types.int64, source), codegen


@intrinsic
def address_of(typing_context, record):
    """The address of a record."""

    def codegen(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.int64(record), codegen


@intrinsic
def release_at(typing_context, address, value):
    """Stores an int64 at an address, after everything this thread stored before."""

    def codegen(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def unaligned_word(typing_context, address):
    """The eight bytes at any address, little-endian."""

    def codegen(context, builder, signature, arguments):
        word = builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.int64), codegen


@intrinsic
def store_unaligned(typing_context, address, word):
    """Stores eight bytes at any address, little-endian."""

    def codegen(context, builder, signature, arguments):
        store = builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), codegen


@intrinsic
def prefetch(typing_context, address):
    """Asks for the cache line at an address, to be written soon. Any address will do."""

    def codegen(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        write, keep, data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), write, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
