"""Less common ways to make a tensor."""

from flambeau.base.errors import DTypeError, fail
from flambeau.ops.interpose import visible
from flambeau.ops.join import stack
from flambeau.ops.reinterpret import view_as_complex
from flambeau.ops.shape import broadcast_tensors
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import create
from flambeau.types.dtype import complex128, float64, get_default_dtype, scalar_dtype
from flambeau.types.layout import contiguous_strides


def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A 0-d tensor of the number `s`, in the default dtype."""
    return create.tensor(s, dtype=get_default_dtype() if dtype is None else dtype, device=device,
                         requires_grad=requires_grad)


@create.into_out
def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """start, start + step, ... up to and including end. PyTorch calls it deprecated; use arange."""
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign" if step
                           else "step must be nonzero")
    count = int((end - start) / step) + 1
    made = (create.arange(count, dtype=float64) * step + start).to(get_default_dtype() if dtype is None
                                                                   else dtype)
    return made.requires_grad_(True) if requires_grad else made


@create.into_out
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None,
             requires_grad=False):
    """`steps` powers of `base` with evenly spaced exponents from start to end."""
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    if dtype is None:
        dtype = scalar_dtype(start + end + 0.5)
    if dtype.is_integer:
        start, end = int(start), int(end)
    exponents = create.linspace(start, end, steps, dtype=complex128 if dtype.is_complex else float64)
    made = (exponents * 0 + base) ** exponents
    made = (made + 1e-9 if dtype.is_integer else made).to(dtype)        # 2 ** 3.0 must not be cut to 7
    return made.requires_grad_(True) if requires_grad else made


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor on the memory of a bytes-like object.

    Args:
        buffer: the object; what is read-only must not be written to.
        count: elements, by default as many as there are.
        offset: bytes that are left out at the start.
    """
    import numpy

    memory = numpy.frombuffer(buffer, "uint8")
    left = memory.size - offset
    if not 0 <= offset < max(memory.size, 1) or memory.size == 0:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
                         f"({memory.size} bytes) minus 1")
    if count < 0 and left % dtype.itemsize:
        raise ValueError(f"buffer length ({memory.size} bytes) after offset ({offset} bytes) must be a multiple of element "
                         f"size ({dtype.itemsize})")
    count = left // dtype.itemsize if count < 0 else count
    if count * dtype.itemsize > left:
        raise ValueError(f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not "
                         f"be greater than actual buffer length ({memory.size} bytes)")
    made = _core.from_memory(memory.ctypes.data + offset, count * dtype.itemsize, memory, (count,), (1,), 0,
                             dtype)
    return made.requires_grad_(True) if requires_grad else made


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """A 1-d tensor of the first `size` elements of a file, mapped into memory.

    Args:
        shared: write changes back to the file, which is made if it is not there; else they stay in memory.
        dtype: of the elements, by default the default dtype.
    """
    import os

    import numpy

    dtype = get_default_dtype() if dtype is None else dtype
    if size and not shared and os.path.getsize(filename) < size * dtype.itemsize:
        fail("from_file", "the file is too small", f"{os.path.getsize(filename)} bytes", f"{size * dtype.itemsize} bytes")
    if not size:
        return create.empty(0, dtype=dtype)
    if shared and (not os.path.exists(filename) or os.path.getsize(filename) < size * dtype.itemsize):
        with open(filename, "ab") as file:
            file.truncate(size * dtype.itemsize)
    memory = numpy.memmap(filename, "uint8", "r+" if shared else "c", shape=(size * dtype.itemsize,))
    return _core.from_memory(memory.ctypes.data, memory.size, memory, (size,), (1,), 0, dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """`obj` as a tensor: sharing memory with tensors, arrays, DLPack objects and buffers unless `copy` is true."""
    if isinstance(obj, Tensor) or type(obj).__module__ == "numpy":
        made = create.as_tensor(obj, dtype=dtype)
    elif hasattr(obj, "__dlpack__"):
        from flambeau.tensor.dlpack import from_dlpack
        made = create.as_tensor(from_dlpack(obj), dtype=dtype)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        made = frombuffer(obj, dtype=get_default_dtype() if dtype is None else dtype)
    elif copy is False:
        fail("asarray", "the object's memory cannot be shared", type(obj).__name__, kind=ValueError)
    else:
        return create.tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    made = made.detach().clone() if copy else made
    return made.requires_grad_(True) if requires_grad else made


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False):
    """Uninitialised memory whose dimensions lie in the order `physical_layout`, outermost first."""
    if sorted(physical_layout) != [axis for axis, _ in enumerate(size)]:
        fail("empty_permuted", "the layout does not name each dimension once", tuple(physical_layout),
             f"an order of 0 to {len(size) - 1}")
    dense = contiguous_strides(tuple(size[axis] for axis in physical_layout))
    strides = [0] * len(size)
    for axis, stride in zip(physical_layout, dense):
        strides[axis] = stride
    return create.empty_strided(tuple(size), tuple(strides), dtype=dtype, device=device,
                                requires_grad=requires_grad)


@create.into_out
def complex(real, imag, *, out=None):
    """Complex numbers of their real and imaginary parts, two floating point tensors of one dtype."""
    if real.dtype is not imag.dtype:
        fail("complex", "both parts must have one dtype", [real.dtype, imag.dtype], kind=DTypeError)
    if not real.is_floating_point():
        fail("complex", "both parts must be floating point", real.dtype, kind=DTypeError)
    real, imag = broadcast_tensors(real, imag)
    return view_as_complex(stack([real, imag], -1))


@create.into_out
@visible
def polar(abs, angle, *, out=None):
    """Complex numbers of their magnitudes and angles (in radians)."""
    return complex(abs * angle.cos(), abs * angle.sin())


def get_device(input):
    """-1: the tensor is on the CPU."""
    return -1


NAMES = {function.__name__: function for function in (scalar_tensor, range, logspace, frombuffer, from_file, asarray,
                                                      empty_permuted,
                                                      complex, polar, get_device)}
