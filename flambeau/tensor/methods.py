"""Methods of Tensor: attached to the native record, most of them straight from the registry of ops."""

import functools
import math

from flambeau.base.errors import fail
from flambeau.ops import matmul, random, view
from flambeau.ops.elementwise import cast, copy
from flambeau.ops.held import check_held, holds
from flambeau.ops.scatter import writing_into
from flambeau.ops.spec import INPLACE, METHODS, QUICK, REGISTRY, WRITERS
from flambeau.ops.strided import as_strided
from flambeau.ops.wrapped import is_wrapped
from flambeau.ops.write import assign, check_write, inplace, write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import autograd, create, stream
from flambeau.tensor.hooks import add_hook
from flambeau.tensor.indexing import nonzero
from flambeau.tensor.rng import next_key
from flambeau.types import dtype as dtypes
from flambeau.types.device import CPU, META, is_meta
from flambeau.types.dtype import DType, bool_

def attach_ops():
    """x.op(...) for every op whose first parameter is the tensor, and x.op_(...) for the elementwise ones."""
    for name, operation in REGISTRY.items():
        if operation.internal or name.startswith("_") or not operation.operands or operation.operands[0] not in ("input", "condition"):
            continue
        for spelled in (name, *operation.alias_names):
            _core.attach_attribute(spelled, _core.instance_method(operation.native.function()))
        if operation.kind in ("elementwise", "composite") and operation.inplace:
            for spelled in (name, *operation.alias_names):
                _core.attach_attribute(spelled + "_", _inplace_method(operation))


def _inplace_method(operation):
    def method(self, *args, **kwargs):
        if kwargs or len(args) + 1 != operation.native.arity:
            return inplace(operation, (self, *args), kwargs)
        return _core.inplace_call(operation.native, self, *args)

    method.__name__ = operation.name + "_"
    method.__doc__ = f"In-place form of {operation.name}."
    return method


def _is_window_of(tensor, other):
    """Whether both are the same elements in the same places of one storage."""
    return tensor.storage_ is other.storage_ is not None and tensor.data_ptr() == other.data_ptr() \
        and (tensor.dtype, tensor.shape, tensor.stride()) == (other.dtype, other.shape, other.stride())


def _writing(name, function):
    """The in-place method of a plain function."""
    quick = QUICK.get(name)

    def method(self, *args, **kwargs):
        if quick is not None and quick(self, *args, **kwargs):
            return self
        check_write(name, self)
        given = (self, *args, *kwargs.values())
        if not _core.writes_directly(given):
            recorded = _core.grad_mode() and any(isinstance(g, Tensor) and g.requires_grad for g in given)
            before = copy(self) if recorded else self           # the tape may keep it
            return assign(REGISTRY["copy"], self, function(before, *args, **kwargs))
        version = self._version
        with writing_into(self):
            result = function(self, *args, **kwargs)
        if not _is_window_of(self, result):
            return assign(REGISTRY["copy"], self, result)
        if self._version == version:        # the values are there already
            self._note_write(name)
        else:
            self.storage_.name_write(name)
        return self

    method.__name__ = name
    method.__doc__ = f"In-place form of {function.__name__}."
    return method


# ---------------------------------------------------------------------------------- conversion
def to(self, *args, **kwargs):
    """The tensor in another dtype or on another device: to(dtype), to(device[, dtype]), to(other)."""
    if len(args) == 1 and not kwargs and (args[0] is CPU or args[0] == "cpu") and not self.is_shape_only:
        return self
    dtype, device, duplicate = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("copy", False)
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, bool):
            pass
        elif a is not None:
            device = a
    if device is not None and is_meta(device) != self.is_shape_only:
        return _moved(self, dtype or self.dtype)
    if kwargs.get("memory_format") is not None:
        return _in_format(self, dtype or self.dtype, duplicate, kwargs["memory_format"])
    if dtype is None or dtype is self.dtype:
        return copy(self) if duplicate else self
    return cast(self, dtype)


def _moved(self, dtype):
    """To the meta device; what is there has no elements to bring back."""
    if self.is_shape_only:
        fail("to", "Cannot copy out of meta tensor; no data!", tuple(self.shape), kind=NotImplementedError,
             hint="to_empty(device=...) of a module makes memory for it; load_state_dict(..., assign=True) brings values")
    return _core.shape_only(tuple(self.shape), dtype)


def to_cpu(self, memory_format=None):
    """The tensor on the CPU, where it is; NotImplementedError for a meta tensor."""
    return to(self, CPU) if memory_format is None else to(self, CPU, memory_format=memory_format)


def _in_format(self, dtype, duplicate, memory_format):
    """`to` with an order in memory; preserve_format is the order that a cast gives by itself."""
    cast_to = self if dtype is self.dtype else cast(self, dtype)
    if view.format_name(memory_format) == "preserve_format":
        return copy(self) if duplicate and cast_to is self else cast_to
    return (view.clone if duplicate and cast_to is self else view.contiguous)(cast_to, memory_format)


def numpy_array(self, *, force=False):
    """A NumPy array that shares memory with the tensor."""
    found = _core.array_over(self)
    if found is not NotImplemented:
        return found
    import numpy
    if self.requires_grad and not force:
        fail("numpy", "Can't call numpy() on Tensor that requires grad", hint="use tensor.detach().numpy()")
    if self.is_shape_only:
        fail("numpy", "a meta tensor has no data", tuple(self.shape))
    source = self.detach() if self.requires_grad else self
    if source.dtype.name == "bfloat16":
        fail("numpy", "NumPy has no bfloat16", source.dtype, hint="use tensor.float().numpy()",
             kind=TypeError)
    if not source.numel():
        return numpy.empty(tuple(source.shape), source.dtype.numpy)
    _core.set_arrays(numpy.ndarray, [None if d.name == "bfloat16" else d.numpy for d in dtypes.ALL])
    found = _core.array_over(source)
    return numpy.asarray(Exposed(source)) if found is NotImplemented else found


class Exposed:
    """NumPy's array interface over a tensor; keeps the tensor alive."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = _core.array_interface(tensor, _typestr(tensor.dtype))


@functools.cache
def _typestr(dtype):
    """NumPy's name of the layout of an element."""
    return dtype.numpy.str


def array(self, dtype=None, copy=None):
    """NumPy's conversion protocol."""
    made = numpy_array(self)
    return made if dtype is None else made.astype(dtype, copy=False)


def tolist(self):
    """Nested lists of Python numbers; a number for a 0-d tensor."""
    if self.ndim == 0:
        return self.item()
    numbers = _core.to_list(self)
    if numbers is not NotImplemented:
        return numbers
    source = self.detach()
    return (cast(source, dtypes.float32) if source.dtype.name == "bfloat16" else source).numpy().tolist()


def read_item(t):
    """The number of a one-element tensor of a dtype that the native path does not read."""
    if t.dtype.kind == "f":
        return cast(t, dtypes.float32).item()
    if t.dtype.kind == "u":
        return cast(t, dtypes.int64).item() % (1 << (8 * t.dtype.itemsize))         # uint64 wraps around in int64
    return t.detach().numpy().item()


def put_number(value, code, address):
    """Write a Python number at an integer or half dtype into 8 bytes."""
    import ctypes
    dtype = dtypes.ALL[code]
    if dtype.kind == "f":
        import numpy
        data = numpy.asarray(value, "float16").tobytes()
    else:
        data = int(value).to_bytes(8, "little", signed=True)
    ctypes.memmove(address, data, len(data))


def truth(t):
    """bool(t) for what has no single element."""
    if t.is_shape_only:
        fail("bool", "a meta tensor has no data")
    if t.numel() == 0:
        fail("bool", "Boolean value of Tensor with no values is ambiguous", tuple(t.shape), "one element",
             hint="use t.numel() > 0")
    fail("bool", "Boolean value of Tensor with more than one value is ambiguous", tuple(t.shape),
         "one element",
         hint="use t.any() or t.all()")


def no_data(t, what):
    fail(what, "a meta tensor has sizes but no data", tuple(t.shape), hint="create it on the CPU")


# ---------------------------------------------------------------------------------- in-place
def copy_(self, source, non_blocking=False):
    """Take over the values of `source` (broadcast, cast)."""
    if not isinstance(source, Tensor):
        source = create.as_tensor(source)
    recorded = _core.grad_mode() and (self.requires_grad or source.requires_grad)
    if not recorded:
        return write(self, source)
    result = source if tuple(source.shape) == tuple(self.shape) else view.expand(source, tuple(self.shape))
    return assign(REGISTRY["copy"], self, copy(cast(result, self.dtype)))


def fill_(self, value):
    """Set every element to `value`."""
    if _core.fill(self, value):
        return self
    value = check_held("fill_", value.item() if isinstance(value, Tensor) else value, self.dtype)
    check_write("fill_", self)
    if self.requires_grad and _core.grad_mode():
        return assign(REGISTRY["copy"], self, create.full_like(self, value))
    return write(self, value)


def zero_(self):
    """Set every element to 0."""
    return fill_(self, 0)


def uniform_(self, a=0.0, b=1.0, *, generator=None):
    """Fill with uniform random numbers in [a, b)."""
    if not a <= b:
        fail("uniform_", "the range is empty", f"from {a} to {b}", "from <= to")
    check_write("uniform_", self)
    if stream.can_fill(self):
        return stream.uniform(self, generator, a, b)
    return write(self, create.rand_like(self, generator=generator) * (b - a) + a)


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal random numbers."""
    if not std >= 0:
        fail("normal_", f"normal expects std >= 0.0, but found std {std:g}")
    check_write("normal_", self)
    if stream.can_fill(self):
        return stream.normal(self, generator, mean, std)
    return write(self, create.randn_like(self, generator=generator) * std + mean)


def bernoulli_(self, p=0.5, *, generator=None):
    """Fill with 1 where a uniform number is below p, else 0."""
    stream.check_probabilities("bernoulli_", p)
    check_write("bernoulli_", self)
    if stream.can_fill(self):
        if isinstance(p, Tensor):
            return stream.below(self, p, generator)
        return stream.kept(self, generator, p)
    return write(self, create.rand(tuple(self.shape), generator=generator) < p)


def random_(self, low=None, high=..., *, generator=None):
    """Fill with random integers: random_(high) in [0, high), random_(low, high) in [low, high), where `high` None is
    the largest that the dtype holds; random_() takes all from 0."""
    if high is ...:
        low, high = 0, low
    if low is not None and high is not None and low >= high:
        fail("random_", f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    check_write("random_", self)
    if stream.can_fill(self):
        if high is None:
            return stream.whole_range(self, generator, int(low or 0))
        return stream.integers(self, generator, int(low or 0), int(high))
    if high is None:
        high = {"f": 1 << 24}.get(self.dtype.kind, (1 << (8 * self.dtype.itemsize - 1)) - 1)
    like = create.empty(tuple(self.shape), dtype=dtypes.int64)
    return write(self, random.integer_like(like, next_key(generator), int(low or 0), int(high)))


def new_full(self, size, fill_value, **options):
    """A tensor of one value, in this tensor's dtype and on its device if `options` name no other."""
    options = _of(self, options)
    if isinstance(fill_value, float) and options["dtype"] is not None:
        check_held("new_full", fill_value, options["dtype"], halves=False)
        fill_value = fill_value if holds(options["dtype"], fill_value) else math.copysign(math.inf, fill_value)
    return create.full(size, fill_value, **options)


def masked_fill(self, mask, value):
    """`value`, cast to the tensor's dtype, where mask is true."""
    if isinstance(value, Tensor):
        value = cast(value, self.dtype)
    else:
        value = check_held("masked_fill", value, self.dtype)
        value = value if self.dtype.kind in "fc" else bool(value) if self.dtype is bool_ else int(value)
    return REGISTRY["where"].function(mask, value, self)


def masked_fill_(self, mask, value):
    if _core.put_where(self, mask, value):
        return self
    return assign(REGISTRY["where"], self, masked_fill(self, mask, value))


# ---------------------------------------------------------------------------------- hooks, protocols
def register_hook(self, function):
    """Call function(grad) when this tensor's gradient is known; what it returns replaces it."""
    if not self.requires_grad:
        fail("register_hook", "cannot register a hook on a tensor that doesn't require gradient")
    if self.is_leaf:
        table = self._extra_dict().setdefault("_hooks", [])
        entry = [0, function]
        table.append(entry)
        return HookHandle(lambda: table.remove(entry) if entry in table else None)
    node = self.grad_fn
    entry = node._add_hook(self.output_number, function)
    return HookHandle(lambda: node._remove_hook(entry))


def register_post_accumulate_grad_hook(self, function):
    """Call function(tensor) after its .grad has grown."""
    if not self.is_leaf:
        fail("register_post_accumulate_grad_hook", "only leaf tensors accumulate gradients")
    table = self._extra_dict().setdefault("_accumulated_hooks", [])
    entry = [0, function]
    table.append(entry)
    return HookHandle(lambda: table.remove(entry) if entry in table else None)


class HookHandle:
    """Removes a hook."""

    def __init__(self, remove):
        self.remove = remove

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def iterate(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    found = _core.axis_parts(self, 0, None)
    return iter([self[i] for i in range(self.shape[0])] if found is NotImplemented else found)


def contains(self, value):
    return bool((self == value).any())


def format_tensor(self, spec):
    """A 0-d tensor formats as its number does; of more elements there is only `str`."""
    if self.ndim == 0 and not self.is_shape_only and not is_wrapped(self):
        return format(self.item(), spec)
    return object.__format__(self, spec)


def detach_(self):
    """Drop the history; the tensor becomes a leaf."""
    self._forget()
    return self


def properties():
    """Read-only attributes."""
    return {
        "T": property(lambda self: view.permute(self, tuple(range(self.ndim - 1, -1, -1)))),
        "mT": property(lambda self: view.transpose(self, -1, -2)),
        "device": property(lambda self: META if self.is_shape_only else CPU),
        "is_cuda": property(lambda self: False), "is_sparse": property(lambda self: False),
        "is_meta": property(lambda self: self.is_shape_only), "layout": property(lambda self: "strided"),
    }


def _casting(dtype):
    def method(self, memory_format=None):
        return to(self, dtype) if memory_format is None else to(self, dtype, memory_format=memory_format)
    method.__doc__ = f"The tensor in {dtype.name}."
    return method


def casts():
    """x.float(), x.long(), ..."""
    names = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
             "long": "int64",
             "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool"}
    return {name: _casting(dtypes.by_name(d)) for name, d in names.items()}


def _of(self, options):
    """The options of a tensor made by a method: dtype and device are its tensor's where they are not given."""
    return {"dtype": self.dtype, "device": self.device} | {k: v for k, v in options.items() if v is not None}


def plain_methods():
    """Methods that are functions of this package."""
    return {
        "to": to, "numpy": numpy_array, "__array__": array, "tolist": tolist, "copy_": copy_, "fill_": fill_,
        "zero_": zero_, "uniform_": uniform_, "normal_": normal_, "bernoulli_": bernoulli_,
        "random_": random_,
        "masked_fill": masked_fill, "masked_fill_": masked_fill_, "register_hook": register_hook,
        "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook, "__format__": format_tensor, "detach_": detach_,
        "backward": autograd.tensor_backward, "nonzero": nonzero, "clone": view.clone,
        "contiguous": view.contiguous,
        "t": view.t, "flatten": view.flatten,
        "narrow": view.narrow,
        "bmm": matmul.bmm, "cpu": to_cpu, "type_as": lambda self, other: to(self, other.dtype),
        "view_as": lambda self, other: view.view(self, tuple(other.shape)),
        "reshape_as": lambda self, other: view.reshape(self, tuple(other.shape)),
        "expand_as": lambda self, other: view.expand(self, tuple(other.shape)),
        "new_zeros": lambda self, *size, **kw: create.zeros(*size, **_of(self, kw)),
        "new_ones": lambda self, *size, **kw: create.ones(*size, **_of(self, kw)),
        "new_empty": lambda self, *size, **kw: create.empty(*size, **_of(self, kw)),
        "new_tensor": lambda self, data, **kw: create.tensor(data, **_of(self, kw)),
        "new_full": new_full,
        "is_floating_point": lambda self: self.dtype.is_floating_point,
        "is_complex": lambda self: self.dtype.is_complex, "is_signed": lambda self: self.dtype.is_signed,
        "get_device": lambda self: -1, "pin_memory": lambda self: self, "is_pinned": lambda self: False,
        "__rdiv__": lambda self, other: REGISTRY["div"].function(other, self),
        "unflatten": unflatten, "unbind": unbind, "type": type_name, "as_strided": as_strided,
        "where": lambda self, condition, other: REGISTRY["where"].function(condition, self, other),
    }


def type_name(self, dtype=None):
    """'torch.FloatTensor' and the like; with a dtype the tensor in it."""
    if isinstance(dtype, DType):
        return to(self, dtype)
    names = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
             "uint8": "Byte",
             "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool"}
    return f"torch.{names.get(self.dtype.name, self.dtype.name)}Tensor"


def unflatten(self, dim, sizes):
    """Axis `dim` split into `sizes`."""
    dim = dim + self.ndim if dim < 0 else dim
    return view.reshape(self, (*self.shape[:dim], *sizes, *self.shape[dim + 1:]))


def unbind(self, dim=0):
    """The slices along an axis."""
    found = _core.axis_parts(self, dim, None)
    if found is not NotImplemented:
        return found
    dim = dim + self.ndim if dim < 0 else dim
    return tuple(self[(slice(None),) * dim + (i,)] for i in range(self.shape[dim]))


def attach():
    """Give the record its public surface."""
    from flambeau.tensor import copying, printing
    attach_ops()
    for table in (plain_methods(), casts(), properties()):
        for name, value in table.items():
            if getattr(value, "__name__", "") in ("<lambda>", "method", "numpy_array", "to_cpu", "type_name"):
                value.__name__ = name
            _core.attach_attribute(name, value)
    for name, function in METHODS.items():
        _core.attach_attribute(name, function)
    for name, function in INPLACE.items():
        _core.attach_attribute(name, _writing(name, function))
    for name, function in WRITERS.items():
        _core.attach_attribute(name, function)
    _core.attach_attribute("__deepcopy__", copying.deep_copy)
    _core.attach_attribute("__copy__", copying.shallow_copy)
    _core.attach_attribute("__reduce_ex__", copying.reduce_tensor)
    _core.set_hook("repr", printing.tensor_text)
    for name, function in (("bool", truth), ("no_data", no_data), ("read_item", read_item),
                           ("put_number", put_number), ("is_contiguous", view.is_contiguous_as),
                           ("iter", iterate), ("contains", contains)):
        _core.set_hook(name, function)


__all__ = ["attach", "add_hook", "bool_"]
