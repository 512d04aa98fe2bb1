# mypy: ignore-errors
"""Ordered access to one array item, so that one writer may add keys while others look keys up.

Plain loads and stores on x86, but the compiler may not move other accesses across them.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def _item_pointer(context, builder, signature, args):
    array = make_array(signature.args[0])(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [args[1]])


@intrinsic
def load_acquire(typing_context, array, index):
    """array[index]; what the writer stored before releasing this item is visible afterwards."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_item_pointer(context, builder, signature, args), "acquire", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def store_release(typing_context, array, index, value):
    """array[index] = value, after everything this thread stored before."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _item_pointer(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate
