"""Creation of tensors: constants, ranges, random draws, and conversion from Python and NumPy."""

import functools
import inspect
import math
from types import SimpleNamespace

from flambeau.base.errors import ArgumentError, DTypeError, fail
from flambeau.ops import random as draws
from flambeau.ops import view
from flambeau.ops.elementwise import cast
from flambeau.ops.held import check_held
from flambeau.ops.view import clone
from flambeau.ops.spec import write_out
from flambeau.ops.wrapped import drawn, inside, running
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import stream
from flambeau.tensor.rng import chosen, default_generator, next_key
from flambeau.types import dtype as dtypes
from flambeau.types.device import CPU, is_meta
from flambeau.types.dtype import bool_, float32, float64, get_default_dtype, int64, on_default_change
from flambeau.types.info import LAYOUTS
from flambeau.types.layout import contiguous_strides


def sizes_of(size):
    """(2, 3), ((2, 3),) or a Size -> (2, 3); also a 0-d tensor is one size."""
    if len(size) == 1 and not isinstance(size[0], int) and hasattr(size[0], "__iter__"):
        if getattr(size[0], "ndim", 1):
            size = tuple(size[0])
    return tuple(s.__index__() for s in size)


def new(shape, dtype, device, requires_grad=False):
    """Uninitialised memory."""
    dtype = get_default_dtype() if dtype is None else dtype
    if is_meta(device):
        out = _core.shape_only(shape, dtype)
    else:
        out = _core.empty_strided(shape, None, dtype)
    if requires_grad:
        out.requires_grad = True
    return out


def filled(shape, value, dtype, device, requires_grad):
    out = new(shape, dtype, device)
    if not out.is_shape_only and out.numel():
        write(out, value)
        out._reset_version()
    if requires_grad:
        out.requires_grad = True
    return out


def without_data(made):
    """The meta tensor of these sizes."""
    return _core.shape_only(tuple(made.shape), made.dtype).requires_grad_(made.requires_grad)


def into_out(function=None, *, native=None, again=False):
    """Decorator of a creation function: `out=` takes the result (in its dtype, unless one is given).

    `native(args, kwargs)` makes small tensors on the CPU, or answers NotImplemented. With `again` a small result of
    numbers is kept, and the same numbers get a copy of it.
    """
    if function is None:
        return functools.partial(into_out, native=native, again=again)
    named = SimpleNamespace(name=function.__name__)
    parameters = inspect.signature(function).parameters
    typed = "dtype" in parameters
    spread = "size" in parameters and parameters["size"].kind is inspect.Parameter.VAR_POSITIONAL
    known = {}

    @functools.wraps(function)
    def create(*args, out=None, **kwargs):
        if spread and "size" in kwargs:
            args = (kwargs.pop("size"),)
        if out is None:
            plainly = (native or again) and not running.levels and not is_meta(None)
            if plainly:
                made = NotImplemented if native is None else native(args, kwargs)
                if made is NotImplemented and again:
                    made = _core.made_again(known, args, kwargs)
                if made is not NotImplemented:
                    return made
            meta = is_meta(kwargs.get("device"))
            made = function(*args, **kwargs)
            if plainly and again:
                _core.keep_made(known, args, kwargs, made)
            if meta and not made.is_shape_only:
                made = without_data(made)
            return inside(made) if running.levels else made
        if typed and kwargs.get("dtype") is None:
            kwargs["dtype"] = out.dtype
        return write_out(named, out, function(*args, **kwargs))
    return create


def like_native(function, value):
    """A creation function in the shape of a tensor: natively where that can be done."""
    @functools.wraps(function)
    def create(input, **kwargs):
        if not running.levels and not is_meta(None):
            made = _core.filled_like(input, kwargs, value)
            if made is not NotImplemented:
                return made
        return function(input, **kwargs)
    return create


@into_out(native=lambda size, options: _core.filled(size, options, None))
def empty(*size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False,
          memory_format=None):
    """A tensor of uninitialised memory."""
    if layout not in (None, LAYOUTS["strided"]):
        return without_elements(sizes_of(size), dtype, layout, requires_grad)
    return in_format(new(sizes_of(size), dtype, device, requires_grad), memory_format)


def without_elements(size, dtype, layout, requires_grad):
    """A sparse tensor of zeros."""
    from flambeau.tensor.sparse_door import sparse_coo_tensor
    return sparse_coo_tensor(size, dtype=dtype).to_sparse(layout=layout).requires_grad_(requires_grad)


def in_format(made, memory_format, like=None):
    """A new tensor in the order in memory that is asked for; without one, or to preserve one, in that of `like`."""
    name = view.format_name(memory_format)
    strides = None
    if name in view.CHANNELS_LAST:
        strides = view.channels_last_strides(made.shape, name)
    elif like is not None and name != "contiguous_format" and type(like) in (Tensor, type(made)):
        strides = view.kept_strides(like)
    if strides is None or made.is_shape_only or type(made) is not Tensor:
        return made
    found = write(_core.empty_strided(tuple(made.shape), strides, made.dtype), made.detach())
    found._reset_version()
    return found.requires_grad_(True) if made.requires_grad else found


def empty_strided(size, stride, *, dtype=None, device=None, requires_grad=False, layout=None,
                  pin_memory=False):
    """Uninitialised memory with given strides (elements)."""
    dtype = get_default_dtype() if dtype is None else dtype
    if is_meta(device):
        return _core.shape_only(tuple(size), dtype).requires_grad_(requires_grad)
    return _core.empty_strided(tuple(size), tuple(stride), dtype).requires_grad_(requires_grad)


@into_out(native=lambda size, options: _core.filled(size, options, 0))
def zeros(*size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    """A tensor of zeros."""
    if layout not in (None, LAYOUTS["strided"]):
        return without_elements(sizes_of(size), dtype, layout, requires_grad)
    return filled(sizes_of(size), 0, dtype, device, requires_grad)


@into_out(native=lambda size, options: _core.filled(size, options, 1))
def ones(*size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    """A tensor of ones."""
    return filled(sizes_of(size), 1, dtype, device, requires_grad)


@into_out(native=_core.filled_full)
def full(size, fill_value, *, dtype=None, device=None, requires_grad=False, out=None, layout=None,
         pin_memory=False):
    """A tensor of one value; its dtype is the value's."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    dtype = dtypes.scalar_dtype(fill_value) if dtype is None else dtype
    return filled(sizes_of((size,)), check_held("full", fill_value, dtype), dtype, device, requires_grad)


def _like(x, dtype, device):
    return x.dtype if dtype is None else dtype, x.device if device is None else device


@functools.partial(like_native, value=None)
def empty_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None,
               pin_memory=False):
    """Uninitialised memory in the shape of `input`."""
    made = new(tuple(input.shape), *_like(input, dtype, device), requires_grad)
    return inside(in_format(made, memory_format, input))


def _filled_like(input, value, dtype, device, requires_grad, memory_format):
    if not hasattr(type(input), "_facts"):
        dtype, device = _like(input, dtype, device)
        made = filled(tuple(input.shape), check_held("full_like", value, dtype), dtype, device, requires_grad)
        return inside(in_format(made, memory_format, input))
    from flambeau.ops.elementwise import full_like as filled_in     # sparse and nested: in the same arrangement
    made = filled_in(input.detach(), value)
    return (made if dtype is None else made.to(dtype)).requires_grad_(requires_grad)


@functools.partial(like_native, value=0)
def zeros_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None,
               pin_memory=False):
    """Zeros in the shape of `input`."""
    return _filled_like(input, 0, dtype, device, requires_grad, memory_format)


@functools.partial(like_native, value=1)
def ones_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None,
              pin_memory=False):
    """Ones in the shape of `input`."""
    return _filled_like(input, 1, dtype, device, requires_grad, memory_format)


def full_like_native(function):
    """The same for a value that is given."""
    @functools.wraps(function)
    def create(input, fill_value, **kwargs):
        if not running.levels and not is_meta(None):
            made = _core.filled_like(input, kwargs, fill_value)
            if made is not NotImplemented:
                return made
        return function(input, fill_value, **kwargs)
    return create


@full_like_native
def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False, memory_format=None,
              layout=None,
              pin_memory=False):
    """One value in the shape of `input`."""
    return _filled_like(input, fill_value, dtype, device, requires_grad, memory_format)


on_default_change(lambda: _core.set_default_code(get_default_dtype().code))


# ---------------------------------------------------------------------------------- from Python and NumPy
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`: a number, nested sequences, a NumPy array or a tensor.

    >>> tensor([[1, 2], [3, 4]]).shape
    flambeau.Size([2, 2])
    """
    if not running.levels and not is_meta(device):
        made = _core.from_numbers(data, {"dtype": dtype, "requires_grad": requires_grad})
        if made is not NotImplemented:
            return made
    if is_meta(device):
        with CPU:
            made = tensor(data, dtype=dtype, requires_grad=requires_grad)
        return without_data(made)
    if isinstance(data, Tensor):
        out = clone(data.detach())
        out = out if dtype is None else cast(out, dtype)
    elif isinstance(data, (bool, int, float)) and type(data).__module__ != "numpy":
        dtype = dtypes.scalar_dtype(data) if dtype is None else dtype
        out = filled((), check_held("tensor", data, dtype) if dtype.is_integer else data, dtype, None, False)
    elif type(data).__module__ == "numpy":
        out = clone(from_numpy(_as_array(data)))
        out = out if dtype is None else cast(out, dtype)
    else:
        out = _from_nested(data, dtype)
    return out.requires_grad_(True) if requires_grad else inside(out)


def _as_array(data):
    import numpy
    return numpy.asarray(data, order="C")


def _from_nested(data, dtype):
    """Through one NumPy array; numbers decide the dtype as PyTorch does."""
    import numpy
    data = _plain(data)
    try:
        array = numpy.array(data)
    except ValueError:
        array = None
    if array is None or array.dtype.kind not in "biufc":
        fail("tensor", "the data are not a regular array of numbers", repr(data)[:80],
             "nested sequences of one length a level", kind=ValueError)
    if dtype is None:
        dtype = {"b": bool_, "i": int64, "u": int64, "f": get_default_dtype()}.get(array.dtype.kind)
        if array.size == 0:
            dtype = get_default_dtype()
        if dtype is None:
            dtype = dtypes.complex128 if get_default_dtype() is float64 else dtypes.complex64
        if _typed(data) is not None:
            dtype = _typed(data)
    if dtype.is_integer and array.size and array.dtype.kind != "c":
        for number in (array.min(), array.max()):
            check_held("tensor", number.item(), dtype)
    if dtype.name == "bfloat16":
        return cast(from_numpy(numpy.array(array, dtype="float32", order="C")), dtype)
    return clone(from_numpy(numpy.array(array.astype(dtype.numpy), order="C", ndmin=array.ndim)))


def _plain(data):
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_plain(d) if isinstance(d, (Tensor, list, tuple)) else d for d in data]
    return list(data) if hasattr(data, "__iter__") and not hasattr(data, "dtype") else data


def _typed(data):
    """The dtype of the first NumPy scalar or array in a nested list, None if there is none."""
    while isinstance(data, list) and data:
        data = data[0]
    return dtypes.from_numpy(data.dtype) if type(data).__module__ == "numpy" else None


def from_numpy(array):
    """A tensor that shares memory with a NumPy array."""
    import numpy
    if not isinstance(array, numpy.ndarray):
        fail("from_numpy", "expected an array", type(array).__name__, "numpy.ndarray", kind=ArgumentError)
    try:
        found = _core.over_plain_array(array)
    except (ValueError, BufferError):           # of a dtype without a buffer
        found = NotImplemented
    if found is not NotImplemented:
        return found
    if any(s < 0 for s in array.strides):
        fail("from_numpy", "the array has negative strides", array.strides, "strides of 0 or more",
             hint="pass array.copy()", kind=ValueError)
    if not array.dtype.isnative or any(s % array.itemsize for s in array.strides):
        fail("from_numpy", "the array's bytes are not laid out as elements", array.dtype,
             hint="pass array.astype(array.dtype.newbyteorder('='))", kind=ValueError)
    try:
        dtype = dtypes.from_numpy(array.dtype)
    except TypeError as error:
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}: {error}") from None
    if array.size == 0:
        return _core.from_memory(array.ctypes.data, 0, array, array.shape, contiguous_strides(array.shape), 0, dtype)
    return _core.over_array(array, dtype)


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, without a copy where it is a tensor or a NumPy array of that dtype."""
    if isinstance(data, Tensor):
        if device is not None and is_meta(device) != data.is_shape_only:
            return data.to(device, dtype)
        return data if dtype is None or data.dtype is dtype else cast(data, dtype)
    if is_meta(device):
        return tensor(data, dtype=dtype, device=device)
    if type(data).__module__ == "numpy" and hasattr(data, "strides") and getattr(data, "ndim", 0):
        shared = from_numpy(data)
        return shared if dtype is None or shared.dtype is dtype else cast(shared, dtype)
    return tensor(data, dtype=dtype)


# ---------------------------------------------------------------------------------- ranges
@into_out(native=_core.whole_range, again=True)
def arange(*bounds, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False,
           start=None,
           end=None, step=None):
    """start, start + step, ... below end."""
    import numpy
    if len(bounds) == 1:
        bounds = (0, bounds[0]) if end is None else (bounds[0], end)
    first, last, by = (*bounds, 1)[:3] if bounds else (0, end, 1)
    first, last, by = (first if start is None else start, last if end is None else end,
                       by if step is None else step)
    first, last, by = (v.item() if isinstance(v, Tensor) else v for v in (first, last, by))
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        dtype = int64 if all(isinstance(v, int) for v in (first, last, by)) else get_default_dtype()
    if dtype.is_integer:
        first, last, by = (int(v) for v in (first, last, by))
        if by == 0:
            raise RuntimeError("step must be nonzero")
    count = max(0, math.ceil((last - first) / by))
    values = first + numpy.arange(count, dtype="float64" if dtype.kind == "f" else "int64") * by
    made = cast(from_numpy(values), dtype)
    return made.requires_grad_(True) if requires_grad else made


@into_out(again=True)
def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False, out=None, layout=None,
             pin_memory=False):
    """`steps` evenly spaced numbers from start to end, both included."""
    import numpy
    if isinstance(steps, float):
        fail("linspace", "the number of steps is not an integer", steps, kind=ArgumentError)
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    if dtype is None:
        dtype = dtypes.scalar_dtype(start + end + 0.5)
    if dtype.is_integer:
        start, end = int(start), int(end)
    even = _even_floats if dtype is dtypes.float32 and steps > 1 else numpy.linspace
    values = even(start, end, int(steps))
    made = cast(from_numpy(values), dtype)
    return made.requires_grad_(True) if requires_grad else made


def _even_floats(start, end, steps):
    """The numbers of a float32 `linspace`, rounded as PyTorch rounds them: a float32 step, taken from the nearer end."""
    import numpy
    start, end = numpy.float32(start), numpy.float32(end)
    step, index = float((end - start) / numpy.float32(steps - 1)), numpy.arange(steps)
    return numpy.where(index < steps // 2, float(start) + step * index, float(end) - step * (steps - 1 - index))


@into_out(again=True)
def eye(n, m=None, *, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    """Ones on the main diagonal of an (n, m) matrix of zeros."""
    n, m = sizes_of((n, n if m is None else m))
    made = filled((n, m), 0, dtype, None, False)
    if made.numel() and not made.is_shape_only:
        write(_core.view_of(made, (min(n, m),), (m + 1,), 0), 1)
        made._reset_version()
    return made.requires_grad_(True) if requires_grad else made


# ---------------------------------------------------------------------------------- random
def _drawn(op, fill, shape, dtype, device, requires_grad, generator, *attributes):
    """Draws by `op` from the counter, or by `fill` from PyTorch's stream."""
    def draw(shape):
        made = new(shape, dtype, device)
        if not made.numel() or made.is_shape_only:
            return made
        if chosen.pytorch:
            fill(made, generator, *attributes)
            made._reset_version()
            return made
        return op(made, next_key(generator), *attributes)
    made = drawn(shape, draw) if running.levels else draw(shape)
    return made.requires_grad_(True) if requires_grad else made


def _drawn_like(function, fill, input, dtype, device, requires_grad, memory_format, generator):
    """In the order of the input's memory, in which PyTorch's stream is drawn."""
    if stream.can_fill(input) and not is_meta(device):
        made = fill(empty_like(input, dtype=dtype, memory_format=memory_format), generator)
        made._reset_version()
        return made.requires_grad_(True) if requires_grad else made
    made = function(tuple(input.shape), dtype=dtype or input.dtype, generator=generator,
                    device=input.device if device is None else device, requires_grad=requires_grad)
    return in_format(made, memory_format, input)


def plainly_drawn(fill, op):
    """Decorator of `rand` and `randn`: sizes alone take the short way, by `fill` or `op` as in `_drawn`."""
    def decorate(general):
        @functools.wraps(general)
        def create(*size, **named):
            if named or running.levels or is_meta(None):
                return general(*size, **named)
            made = _core.filled(size, named, None)
            if made is NotImplemented:
                return general(*size)
            if not chosen.pytorch:
                return op(made, default_generator.key()) if made.numel() else made
            fill(made)
            made._reset_version()
            return made
        return create
    return decorate


def integers_plainly_drawn(general):
    """The same for `randint` with sizes and bounds alone."""
    @functools.wraps(general)
    def create(*given, **named):
        count = len(given)
        if named or not 2 <= count <= 3 or running.levels or is_meta(None):
            return general(*given, **named)
        low, high = given[:2] if count == 3 else (0, given[0])
        made = NotImplemented
        if type(low) is int and type(high) is int and low < high and isinstance(given[-1], (tuple, list)):
            made = _core.filled(given[-1:], _INT64, None)
        if made is NotImplemented:
            return general(*given)
        if not chosen.pytorch:
            return draws.integer_like(made, default_generator.key(), low, high) if made.numel() else made
        stream.integers(made, None, low, high)
        made._reset_version()
        return made
    return create


_INT64 = {"dtype": int64}


@plainly_drawn(stream.uniform, draws.uniform_like)
@into_out
def rand(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None, layout=None,
         pin_memory=False):
    """Uniform random numbers in [0, 1)."""
    return _drawn(draws.uniform_like, stream.uniform, sizes_of(size), dtype, device, requires_grad, generator)


@plainly_drawn(stream.normal, draws.normal_like)
@into_out
def randn(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None, layout=None,
          pin_memory=False):
    """Standard normal random numbers."""
    return _drawn(draws.normal_like, stream.normal, sizes_of(size), dtype, device, requires_grad, generator)


@integers_plainly_drawn
@into_out
def randint(*args, generator=None, dtype=int64, device=None, requires_grad=False, low=None, high=None,
            size=None,
            out=None, layout=None, pin_memory=False):
    """Random integers: randint(high, size) in [0, high), randint(low, high, size) in [low, high)."""
    args = list(args)
    if size is None:
        size = args.pop()
    if high is None:
        high = args.pop()
    low = args.pop() if args else 0 if low is None else low
    if high <= low:
        fail("random_", f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _drawn(draws.integer_like, stream.integers, sizes_of((size,)), dtype, device, requires_grad,
                  generator, int(low), int(high))


def like_plainly_drawn(fill, op):
    """Decorator of `rand_like` and `randn_like`: the shape alone takes the short way, by `fill` or `op` as in `_drawn`."""
    def decorate(general):
        @functools.wraps(general)
        def create(input, **named):
            if named or running.levels or is_meta(None):
                return general(input, **named)
            made = _core.filled_like(input, named, None)
            if made is NotImplemented or input.dtype.kind != "f" or not made.numel():
                return general(input)
            if not chosen.pytorch:
                return op(made, default_generator.key())
            fill(made)
            made._reset_version()
            return made
        return create
    return decorate


@like_plainly_drawn(stream.uniform, draws.uniform_like)
def rand_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, generator=None):
    """Uniform random numbers in the shape of `input`."""
    return _drawn_like(rand, stream.uniform, input, dtype, device, requires_grad, memory_format, generator)


@like_plainly_drawn(stream.normal, draws.normal_like)
def randn_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, generator=None):
    """Standard normal random numbers in the shape of `input`."""
    return _drawn_like(randn, stream.normal, input, dtype, device, requires_grad, memory_format, generator)


@into_out
def randperm(n, *, generator=None, dtype=int64, device=None, requires_grad=False, out=None, layout=None,
             pin_memory=False):
    """The integers below n in random order."""
    if is_meta(device):
        return new((n,), dtype, device)
    if chosen.pytorch:
        made = stream.permutation(new((int(n),), dtype, None), generator)
        made._reset_version()
        return made.requires_grad_(True) if requires_grad else made
    import numpy
    keys = rand(n, dtype=float64, generator=generator)
    order = numpy.argsort(keys.numpy(), kind="stable") if n else numpy.zeros(0, "int64")
    return cast(from_numpy(order), dtype)


@into_out
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability `input`, else 0, element by element; given `p`, it is the probability everywhere."""
    if p is not None:
        return empty_like(input, memory_format="contiguous_format").bernoulli_(p, generator=generator)
    if input.dtype.kind != "f":
        fail("bernoulli", "probabilities must be floating point", input.dtype, kind=DTypeError)
    stream.check_probabilities("bernoulli", input)
    if stream.can_fill(input):
        made = stream.below(new(tuple(input.shape), input.dtype, None), input, generator)
    else:
        wide = input.dtype if chosen.pytorch and input.dtype is float64 else float32
        made = cast(rand(tuple(input.shape), dtype=wide, generator=generator) < input, input.dtype)
    return made + input * 0 if input.requires_grad else made            # the gradient is 0
