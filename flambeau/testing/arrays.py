"""NumPy arrays and tensors over the same memory, in any dtype and any layout.

A test draws float64 values, `stored` puts them into the storage of a dtype, a function of LAYOUTS gives the
array its strides, and `to_tensor` makes a tensor of exactly that memory. bfloat16 is stored as uint16 bits.
"""

import ctypes


from flambeau.ir.graph_interpret import round_to_bfloat16, widen_bfloat16
from flambeau.runtime import _core
from flambeau.types import dtype as dtypes
from flambeau.types.dtype import bfloat16
from flambeau.base.lazy import LazyModule

numpy = LazyModule("numpy")


def to_tensor(array, dtype=None):
    """A tensor over the memory of `array` with its sizes and strides, negative ones too.

    dtype: what the elements are, by default the array's dtype; uint16 bits become bfloat16 only if it is given.
    """
    dtype = dtype or dtypes.from_numpy(array.dtype)
    if array.dtype != dtype.numpy:
        raise TypeError(f"an array of {array.dtype} does not hold {dtype!r}")
    size, strides = array.itemsize, [s // array.itemsize for s in array.strides]
    if array.size == 0:
        return _core.empty_strided(array.shape, None, dtype)
    if not array.ndim:
        array = array.copy() if array.base is None else array      # a NumPy scalar has no memory of its own
    reach = [(n - 1) * s for n, s in zip(array.shape, strides)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    address = array.ctypes.data + low * size
    whole = _core.from_memory(address, (high - low + 1) * size, array, (high - low + 1,), (1,), 0, dtype)
    return _core.view_of(whole, array.shape, strides, -low)


def to_array(tensor):
    """A row-major copy of the tensor's elements (bfloat16: their bits)."""
    shape, strides, size = tuple(tensor.shape), tensor.stride(), tensor.dtype.itemsize
    result = numpy.empty(shape, tensor.dtype.numpy)
    if result.size == 0:
        return result
    reach = [(n - 1) * s for n, s in zip(shape, strides)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    memory = (ctypes.c_char * ((high - low + 1) * size)).from_address(tensor.data_ptr() + low * size)
    result[...] = numpy.ndarray(shape, result.dtype, memory, -low * size, [s * size for s in strides])
    return result


def stored(values, dtype):
    """Values in the storage of `dtype`: bool by sign, unsigned integers by magnitude, floats rounded."""
    values = numpy.asarray(values)
    with numpy.errstate(all="ignore"):
        if dtype is bfloat16:
            return round_to_bfloat16(values)
        if dtype.kind == "b":
            return numpy.asarray(values > 0)
        if dtype.kind == "u":
            values = abs(values)
        return values.astype(dtype.numpy)


def values_of(array, dtype):
    """What a reference is given: floats as float64, everything else as it is stored."""
    if dtype is bfloat16:
        array = widen_bfloat16(array)
    return array.astype(numpy.float64) if dtype.kind == "f" else array


# ------------------------------------------------------------------------------ layouts
def transposed(array):
    """The same elements with the axes in memory the other way round."""
    return numpy.ascontiguousarray(array.T).T if array.ndim else array


def sliced(array):
    """Every other element of a wider array."""
    if not array.ndim:
        return array
    wide = numpy.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def reversed_axes(array):
    """Negative strides on every axis."""
    backward = tuple(slice(None, None, -1) for _ in array.shape)
    return numpy.ascontiguousarray(array[backward])[backward]


def expanded(array):
    """Stride 0 on the first axis: its first row everywhere (other elements than before)."""
    return numpy.broadcast_to(array[:1].copy(), array.shape) if array.ndim and array.shape[0] else array


LAYOUTS = {"contiguous": numpy.ascontiguousarray, "transposed": transposed, "sliced": sliced,
           "reversed": reversed_axes, "expanded": expanded}
