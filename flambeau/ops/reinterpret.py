"""The tensor's own record changed: views of its bytes as another dtype, and another shape in place.

`x.unsqueeze_(0)` gives x itself the shape and strides of the view `x.unsqueeze(0)`; on the tape x goes on as
that view.
"""

from flambeau.base.errors import fail
from flambeau.ops import plans
from flambeau.ops import view as views
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import View, contiguous_copy
from flambeau.ops.shape import diagonal, select, swapaxes, swapdims
from flambeau.ops.spec import FUNCTIONS, op, public
from flambeau.ops.strided import as_strided
from flambeau.ops.view import squeeze, transpose, unsqueeze
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime import _core
from flambeau.types.dtype import complex64, complex128, float32, float64
from flambeau.types.layout import contiguous_strides
from flambeau.types.shape import numel


# -------------------------------------------------------------------------------- bytes seen as another dtype
COMPLEX = {complex64: float32, complex128: float64}


def read_as(x, shape, strides, dtype):
    """The memory of x from its first element on as another dtype."""
    if x.is_shape_only:
        return _core.shape_only(tuple(shape), dtype)
    room = len(x.storage_) - x.storage_offset() * x.element_size()
    return _core.from_memory(x.data_ptr(), room, x.detach(), tuple(shape), tuple(strides), 0, dtype)


def _other_dtype(operation, x, shape, strides, dtype):
    """The memory of x as another dtype, on the tape."""
    out = read_as(x, shape, strides, dtype)
    if x.requires_grad and _core.grad_mode():
        plans.record_python(operation, (x,), out, {})
        out.shown_of = x, operation         # whose history changes with a write (write.py)
    return out


class OtherDtype(View):
    """A view whose elements have another dtype."""

    internal = True
    remembered = False


@op
class ComplexAsPairs(OtherDtype):
    """Complex elements as pairs of their parts along a new last axis."""

    name = "_complex_as_pairs"

    def infer(self, inputs, attrs):
        return [(COMPLEX[inputs[0].dtype], (*inputs[0].shape, 2))]

    def eager(self, values):
        x = values["input"]
        return _other_dtype(self, x, (*x.shape, 2), (*(2 * s for s in x.stride()), 1), COMPLEX[x.dtype])

    def derivative(grad, x):
        return _pairs_as_complex(grad)         # noqa: F821


@op
class PairsAsComplex(OtherDtype):
    """Pairs along the last axis as complex elements; a copy where they do not lie in memory as such."""

    name = "_pairs_as_complex"

    def infer(self, inputs, attrs):
        return [(_complex_of(inputs[0].dtype), tuple(inputs[0].shape[:-1]))]

    def eager(self, values):
        x = values["input"]
        if not _lies_as_complex(x.stride()):
            x = contiguous_copy(x)
        return _other_dtype(self, x, tuple(x.shape[:-1]), tuple(s // 2 for s in x.stride()[:-1]),
                            _complex_of(x.dtype))

    def derivative(grad, x):
        return _complex_as_pairs(grad)         # noqa: F821


def _complex_of(part):
    return next((c for c, p in COMPLEX.items() if p is part), None)


def _lies_as_complex(strides):
    return strides[-1] == 1 and not any(s % 2 for s in strides[:-1])


@public(method=False)
def view_as_real(input):
    """A complex tensor as real and imaginary parts along a new last axis of size 2, a view."""
    if input.dtype not in COMPLEX:
        fail("view_as_real", "view_as_real is only supported for complex tensors", input.dtype)
    return _complex_as_pairs(input)         # noqa: F821


@public(method=False)
@visible
def view_as_complex(input):
    """Pairs along the last axis, of size 2 and stride 1, as complex elements, a view."""
    if _complex_of(input.dtype) is None:
        fail("view_as_complex", "view_as_complex is only supported for half, float and double tensors",
             input.dtype)
    if not input.ndim or input.shape[-1] != 2:
        fail("view_as_complex", "Tensor must have a last dimension of size 2", tuple(input.shape))
    if not _lies_as_complex(input.stride()):
        fail("view_as_complex",
             "Tensor must have a last dimension with stride 1, and other strides divisible by 2",
             input.stride())
    return _pairs_as_complex(input)         # noqa: F821


def part_of(name, which):
    """real and imag."""
    def function(input):
        if input.dtype.kind == "c":
            return select(view_as_real(input), -1, which)
        if which:
            fail("imag", "imag is not implemented for tensors with non-complex dtypes.", input.dtype)
        return input

    function.__name__ = name
    function.__doc__ = f"The {'imaginary' if which else name} parts as a view."
    _core.attach_attribute(name, property(function))
    return public(method=False)(function)


_core.attach_attribute("__complex__", lambda self: complex(self.item()))
part_of("real", 0)
part_of("imag", 1)


def view(self, *shape, dtype=None):
    """The same memory in another shape, or with its bytes read as another dtype."""
    dtype = shape[0] if len(shape) == 1 and hasattr(shape[0], "itemsize") else dtype
    if dtype is None:
        return views.view(self, *shape)
    if is_wrapped(self):
        return views.view(self, tuple(self.shape)) if dtype is self.dtype else self.level.reinterpreted(self, dtype)
    if dtype is self.dtype:
        return _core.view_of(self, tuple(self.shape), self.stride(), 0)
    mine, other = self.dtype.itemsize, dtype.itemsize
    sizes, strides = list(self.shape), list(self.stride())
    if mine != other:
        if not sizes or strides[-1] != 1 or (sizes[-1] * mine) % other:
            fail("view", f"self.size(-1) must be divisible by {other / mine} and its stride 1 to view "
                 f"{self.dtype} as {dtype} (different element sizes)", (tuple(sizes), tuple(strides)))
        sizes[-1] = sizes[-1] * mine // other
        strides = [s * mine // other for s in strides[:-1]] + [1]
    return read_as(self, sizes, strides, dtype)


public()(view)


# ---------------------------------------------------------------------------------- another shape in place
def reshaping(name, function):
    """The in-place form of a view: the tensor itself gets the view's shape and strides."""
    def method(self, *args, **kwargs):
        from flambeau.ops.write import check_write
        check_write(name, self)
        if is_wrapped(self):
            return self.become(function, *args, **kwargs)
        made = function(self, *args, **kwargs)
        recorded = made.requires_grad and _core.grad_mode()
        self._assign(made.detach())
        if recorded:
            _core.rebase(self, made)
        return self

    method.__name__ = name
    method.__doc__ = f"{name[:-1]}, in place: the tensor itself takes the shape and strides of the view."
    _core.attach_attribute(name, method)


def _calling(name):
    """The function that calls an in-place method."""
    def function(input, *args, **kwargs):
        return getattr(input, name)(*args, **kwargs)

    function.__name__ = name
    function.__doc__ = f"Tensor.{name} as a function."
    return function


_VIEWS = {"squeeze": squeeze, "unsqueeze": unsqueeze, "transpose": transpose, "t": views.t,
          "swapaxes": swapaxes, "swapdims": swapdims, "as_strided": as_strided}
for _name, _function in _VIEWS.items():
    reshaping(_name + "_", _function)


def resize_(self, *sizes, memory_format=None):
    """Another shape, in place: elements in row-major order are kept, new ones are undefined."""
    sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if self.requires_grad or is_wrapped(self):
        fail("resize_", "cannot resize variables that require grad, or values of function transforms")
    if any(s < 0 for s in sizes):
        fail("resize_", "a size is negative", sizes)
    room = 0 if self.is_shape_only else len(self.storage_) // self.element_size() - self.storage_offset()
    if numel(sizes) > room:
        grown = _core.empty_strided((numel(sizes),), None, self.dtype)
        if room:
            from flambeau.ops.write import write
            write(_core.view_of(grown, (room,), (1,), 0), _core.view_of(self, (room,), (1,), 0).detach())
        self._assign(grown)
    self._assign(_core.view_of(self, sizes, contiguous_strides(sizes), 0))
    return self


_core.attach_attribute("resize_", resize_)
def resize_as_(input, the_template, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    return resize_(input, tuple(the_template.shape))


_core.attach_attribute("resize_as_", resize_as_)
FUNCTIONS["resize_as_"] = resize_as_


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Show the memory of another tensor or storage (all, or a window of `size` and `stride`); None: no elements."""
    if is_wrapped(self):
        fail("set_", "a value of a function transform has no memory of its own", hint="use copy_")
    if source is None:
        self._assign(_core.empty_strided((0,), None, self.dtype))
        return self
    if not isinstance(source, _core.Tensor):                # a storage
        elements = source.elements()
        source = elements if elements.dtype is self.dtype else elements.view(self.dtype)
    if source.dtype is not self.dtype:
        fail("set_", "Could not set tensor of another dtype", source.dtype, self.dtype)
    if size is not None:
        size = tuple(size)
        source = as_strided(source.detach(), size, stride or contiguous_strides(size), storage_offset)
    self._assign(source)
    return self


_core.attach_attribute("set_", set_)


def fill_diagonal_(self, fill_value, wrap=False):
    """A number on the main diagonal, in place; with `wrap` it starts anew below a tall matrix."""
    if self.ndim < 2:
        fail("fill_diagonal_", "dimensions must larger than 1", tuple(self.shape))
    if self.ndim > 2 and len(set(self.shape)) > 1:
        fail("fill_diagonal_", "all dimensions of input must be of equal length", tuple(self.shape))
    if is_wrapped(self):
        if self.ndim > 2 or wrap:
            fail("fill_diagonal_", "inside transforms only for matrices, without wrap", tuple(self.shape),
                 hint="use torch.where with a mask")
        diagonal(self, 0, 0, 1).fill_(fill_value)
        return self
    rows, columns = self.shape[0], self.shape[1]
    step = sum(self.stride())
    as_strided(self, (min(self.shape),), (step,), self.storage_offset()).fill_(fill_value)
    start = columns + 1
    while wrap and self.ndim == 2 and start < rows:
        below = self[start:]
        as_strided(below, (min(below.shape),), (step,), below.storage_offset()).fill_(fill_value)
        start += columns + 1
    return self


_core.attach_attribute("fill_diagonal_", fill_diagonal_)


@public(method=False)
def detach(input):
    """The same memory outside the tape."""
    return input.detach()


for _name in ("as_strided_", "detach_", "index_put_"):
    FUNCTIONS[_name] = _calling(_name)
