"""Masked tensors: elements, each with a bool that says whether it is specified.

Like sparse tensors they are `Wrapped` values of one constant level (`masked_rules.py` runs the ops). `inner` holds the
elements and `kept` the bools; of a sparse one those at the places of `form`. Gradients are masked tensors too: the tape
knows `inner`, a walk starts from a masked gradient, and the rules of ops take it from there.
"""

import warnings

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.elementwise import where
from flambeau.ops.wrapped import is_wrapped
from flambeau.ops.write import check_write
from flambeau.runtime._core import Tensor
from flambeau.tensor.function import Function
from flambeau.tensor.parts import PartedTensor
from flambeau.types.dtype import bool_, float16, float32, float64, int8, int16, int32, int64
from flambeau.types.info import LAYOUTS

_FORMS = tuple(LAYOUTS[name] for name in ("strided", "sparse_coo", "sparse_csr"))
_DTYPES = (float16, float32, float64, bool_, int8, int16, int32, int64)


class MaskedLevel:
    """The level of all masked tensors, below those of function transforms."""

    name, depth = "a masked tensor", 0

    def process(self, operation, values):
        from flambeau.tensor.masked_rules import process
        return process(operation, values)

    def assign(self, operation, target, result):
        """`target` takes the elements of `result`, cast to its dtype, and keeps its mask."""
        if not isinstance(result, MaskedTensor) or tuple(result.shape) != tuple(target.shape):
            fail(operation.name + "_", "the result is not like the masked tensor written to",
                 hint="use the out-of-place form", kind=NotImplementedError)
        from flambeau.tensor.masked_rules import check_match
        check_match(operation, result, target)
        check_write(operation.name + "_", target.inner)
        inner = result.inner if result.dtype is target.dtype else ops.cast(result.inner, target.dtype)
        return target._take(target._like(inner))

    def detached(self, tensor):
        return tensor._like(tensor.inner.detach())

    def read(self, tensor, what):
        if what == "item":
            if tensor.numel() != 1:
                fail("item", f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
            if bool(tensor.kept.all()):
                return tensor.inner
            fail("item", "the element is masked out", kind=ValueError, hint="use .to_tensor(value).item()")
        fail(what, "not available for a masked tensor", hint="call .to_tensor(value) or .get_data() first",
             kind=NotImplementedError)

    def custom_function(self, function, args, kwargs):
        fail(function.__name__, "a Function of your own does not take masked tensors",
             hint="call it on .get_data() and make a masked tensor of the result", kind=NotImplementedError)


LEVEL = MaskedLevel()


class GetData(Function):
    """The elements without their mask; a gradient gets the mask again."""

    @staticmethod
    def forward(ctx, inner, kept):
        ctx.kept = kept
        return inner.detach()

    @staticmethod
    def backward(ctx, grad):
        return (grad if is_wrapped(grad) else where(ctx.kept, grad, 0)), None


class MaskedTensor(PartedTensor):
    """A tensor in which some elements are not specified; ops leave them out.

    Args:
        data: the elements, dense, COO or CSR, of floats, integers or bools. They are copied.
        mask: bools of the same shape and layout, True where an element is specified.
        requires_grad: True to follow what is computed from it.

    Raises:
        TypeError: of what is no tensor, of differing layouts and of dtypes and layouts that are not supported.
        ValueError: if shapes or the places of sparse elements differ.

    >>> x = fl.masked.masked_tensor(fl.tensor([1.0, 2.0, 3.0]), fl.tensor([True, False, True]))
    >>> x
    MaskedTensor(
      [  1.0000,       --,   3.0000]
    )
    >>> x.mean()
    MaskedTensor(  2.0000, True)
    """

    form = None
    derived = False         # True while a walk back carries it

    def __new__(cls, data=None, mask=None, requires_grad=False):
        return super().__new__(cls)

    def __init__(self, data, mask, requires_grad=False):
        made = _checked(data.detach() if isinstance(data, Tensor) else data, mask)
        if data.requires_grad:
            warnings.warn("masked_tensor takes the elements of data without its history; as_masked_tensor keeps it, and "
                          "data.detach().clone() says that it is not wanted", UserWarning, stacklevel=3)
        self.__dict__.update(made.__dict__)
        self.inner.requires_grad_(bool(requires_grad))

    @classmethod
    def of(cls, inner, kept, form=None):
        """The elements and their bools as they are, at the places of the sparse tensor `form`."""
        made = Tensor.__new__(cls)
        sizes = tuple(inner.shape if form is None else form.shape)
        made.__dict__.update(level=LEVEL, inner=inner, kept=kept, form=form, sizes=sizes)
        return made

    def _like(self, values):
        if isinstance(values, MaskedTensor):                # a gradient that has come as a masked one
            return MaskedTensor.of(values.inner, values.kept, self.form)
        return MaskedTensor.of(values, self.kept, self.form)

    def _parts(self):
        return self.inner, self.kept, self.form

    def _facts(self):
        return {}

    def values_of(self, other):
        """A gradient as the tape takes it: the elements of `inner`, with their mask."""
        if isinstance(other, MaskedTensor):
            if (other.form is None) == (self.form is None):
                return MaskedTensor.of(other.inner, other.kept)._carried()
            other = other.to_tensor(0).to_dense()
        return MaskedTensor.of(other if self.form is None else self.form.values_of(other), self.kept)._carried()

    def _carried(self):
        self.__dict__["derived"] = True
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Add to .grad of every leaf that the elements depend on; the gradients are masked tensors."""
        from flambeau.tensor.masked_rules import walk_back
        walk_back(self, gradient, retain_graph, create_graph, inputs)

    # ------------------------------------------------------------------ what it holds
    def get_data(self):
        """The elements, also those that the mask leaves out."""
        return self._formed(GetData.apply(self.inner, self.kept))

    def get_mask(self):
        """True where an element is specified."""
        return self._formed(self.kept)

    def _formed(self, values):
        return values if self.form is None else self.form._like(values)

    _masked_data = property(lambda self: self._formed(self.inner))
    _masked_mask = property(get_mask)

    def to_tensor(self, value):
        """A plain tensor with `value` where nothing is specified.

        >>> fl.masked.masked_tensor(fl.tensor([1, 2]), fl.tensor([True, False])).to_tensor(0)
        tensor([1, 0])
        """
        return self._formed(where(self.kept, GetData.apply(self.inner, self.kept), value))

    # ------------------------------------------------------------------ layouts
    layout = property(lambda self: _FORMS[0] if self.form is None else self.form.layout)
    is_sparse = property(lambda self: self.form is not None)
    is_nested = False

    def is_sparse_coo(self):
        """True if the elements are by coordinates."""
        return self.layout is _FORMS[1]

    def is_sparse_csr(self):
        """True if the elements are in compressed rows."""
        return self.layout is _FORMS[2]

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The same masked tensor with dense elements; what is at no place is masked out."""
        if self.form is None:
            return self
        made = MaskedTensor.of(self._formed(self.inner).to_dense(), self.get_mask().to_dense())
        return made if dtype is None else ops.cast(made, dtype)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        """The same masked tensor by coordinates (or in `layout`); what is masked out has no place."""
        wanted = layout or _FORMS[1]
        if wanted is self.layout:
            return self
        if wanted is _FORMS[0]:
            return self.to_dense()
        if wanted not in _FORMS:
            fail("to_sparse", "not available for a masked tensor", wanted, "sparse_coo or sparse_csr",
                 kind=NotImplementedError)
        if wanted is _FORMS[2] and self.ndim != 2:
            fail("to_sparse_csr", "Only 2D tensors can be converted to the SparseCsr layout", tuple(self.shape),
                 kind=ValueError)
        dense = self.to_dense()
        mask = dense.kept.to_sparse(layout=wanted)
        return MaskedTensor.of(mask._pick(dense.inner), mask.inner, mask)

    def to_sparse_coo(self):
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim=None):
        return self.to_sparse(layout=_FORMS[2])

    def is_contiguous(self, memory_format=None):
        if self.form is not None:
            fail("is_contiguous", "MaskedTensors with sparse data do not have is_contiguous", kind=ValueError)
        return self.inner.is_contiguous()

    def contiguous(self, memory_format=None):
        """The same tensor with elements in row-major order."""
        if self.is_contiguous():
            return self
        return MaskedTensor.of(self.inner.contiguous(), self.kept.contiguous())

    def stride(self, dim=None):
        if self.form is not None:
            return super().stride(dim)
        return self.inner.stride() if dim is None else self.inner.stride(dim)

    def __setitem__(self, index, value):
        fail("setitem", "not available for a masked tensor", kind=NotImplementedError,
             hint="call .to_tensor(value) or .get_data(), write there and make a masked tensor of it")

    saved_as = "masked"

    def saved_parts(self):
        fail("save", "a masked tensor has no form in files", kind=NotImplementedError,
             hint="save .get_data() and .get_mask(), and make it of them again")

    def __repr__(self):
        detached = self.detach().to_dense()
        if self.ndim == 0:
            return f"MaskedTensor({_shown([detached.inner.item()], [detached.kept.item()], 0)[0]}, {detached.kept.item()})"
        return "MaskedTensor(\n" + _indented(_listed(detached.inner.tolist(), detached.kept.tolist(), self.ndim)) + "\n)"

    __str__ = __repr__

    def __format__(self, spec):
        return format(repr(self), spec)


# ---------------------------------------------------------------------------------- making
def _checked(data, mask):
    """A copy of data and mask as a masked tensor, or the error that says why they do not fit."""
    for name, value in (("data", data), ("mask", mask)):
        if not isinstance(value, Tensor) or isinstance(value, MaskedTensor):
            fail("masked_tensor", f"{name} must be a Tensor", type(value).__name__, kind=TypeError)
    if data.layout is not mask.layout:
        fail("masked_tensor", "data and mask must have the same layout.", data.layout, mask.layout, kind=TypeError)
    if data.layout not in _FORMS:
        fail("masked_tensor", f"data layout of {data.layout} is not supported.", kind=TypeError)
    if mask.dtype is not bool_:
        fail("masked_tensor", "mask must have dtype bool.", mask.dtype, kind=TypeError)
    if data.dtype not in _DTYPES:
        fail("masked_tensor", f"{data.dtype} is not supported in MaskedTensor.", kind=TypeError)
    if data.ndim != mask.ndim:
        fail("masked_tensor", "data.dim() must equal mask.dim()", data.ndim, mask.ndim, kind=ValueError)
    if tuple(data.shape) != tuple(mask.shape):
        fail("masked_tensor", "data.size() must equal mask.size()", tuple(data.shape), tuple(mask.shape), kind=ValueError)
    mask = mask.detach()
    if data.layout is _FORMS[0]:
        return MaskedTensor.of(data.clone(), mask.clone())
    return _sparse(data, mask)


def _sparse(data, mask):
    """Data at the places of the mask, where these are fewer; else both must have the same places."""
    if data.layout is _FORMS[1]:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        return MaskedTensor.of(mask._pick(data.to_dense()).clone(), mask.inner.clone(), mask)
    if not data._same_places(mask):
        what = "COO tensors but do not have the same indices." if data.layout is _FORMS[1] else \
            "CSR tensors but do not share either crow or col indices."
        fail("masked_tensor", f"data and mask are both sparse {what}", kind=ValueError)
    return MaskedTensor.of(data.inner.clone(), mask.inner.clone(), mask)


def masked_tensor(data, mask, requires_grad=False):
    """A masked tensor of a copy of `data`, without its history: see `MaskedTensor`.

    >>> fl.masked.masked_tensor(fl.arange(3), fl.tensor([True, True, False]))
    MaskedTensor(
      [0, 1,       --]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A masked tensor of `data`; gradients go on to what data was computed from.

    >>> x = fl.ones(2, requires_grad=True)
    >>> fl.masked.as_masked_tensor(x * 3, fl.tensor([True, False])).sum().backward()
    >>> x.grad
    MaskedTensor(
      [  3.0000,       --]
    )
    """
    return _checked(data, mask)


def is_masked_tensor(obj):
    """True of a MaskedTensor.

    >>> fl.masked.is_masked_tensor(fl.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


# ---------------------------------------------------------------------------------- text
def _shown(values, kept, least):
    texts = [f"{v:8.4f}" if isinstance(v, float) else str(v) for v in values]
    width = max([least if not k else len(t) for t, k in zip(texts, kept)], default=0)
    return [t if k else "--".rjust(width if least else 0) for t, k in zip(texts, kept)]


def _listed(values, kept, rank):
    """Nested lists as text, what is masked out as `--`."""
    if rank == 1:
        return "[" + ", ".join(_shown(values, kept, 8)) + "]"
    return "[\n" + ",\n".join(_indented(_listed(v, k, rank - 1)) for v, k in zip(values, kept)) + "\n]"


def _indented(text):
    return "\n".join("  " + line for line in text.split("\n"))
