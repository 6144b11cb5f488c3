"""Making nested tensors, and plain ones of them."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS
from flambeau.runtime._core import Tensor
from flambeau.tensor.constants import arange, constant, full, tensor, zeros
from flambeau.tensor.nested_rules import jagged_of, nested_of
from flambeau.tensor.nested_values import JaggedTensor, NestedBase, NestedTensor, Raggedness
from flambeau.types.device import placed
from flambeau.types.shape import numel as product


def _form(name, layout):
    form = "strided" if layout is None else getattr(layout, "name", layout)
    if form not in ("strided", "jagged"):
        fail(name, f"Specified layout is unsupported for nested tensors: {layout}", want="strided or jagged")
    return form


@placed
def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor with a copy of the data of `tensor_list`, a leaf.

    Args:
        tensor_list: tensors, or what `tensor` takes, of one rank.
        layout: `strided` (items of any sizes), or `jagged`: one axis may differ; ops run on all items at once.

    >>> fl.nested.nested_tensor([fl.ones(2, 3), fl.ones(1, 3)], layout=fl.jagged).to_padded_tensor(0).shape
    flambeau.Size([2, 2, 3])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists of tensors or lists of values are accepted: nested_tensor() got "
                        f"{type(tensor_list).__name__}")
    items = [t.detach() if isinstance(t, Tensor) else tensor(t) for t in tensor_list]
    made = as_nested_tensor(items, dtype=dtype, layout=layout)
    made = made._like(ops.copy(made.inner.detach()))
    return made.requires_grad_(True) if requires_grad else made


@placed
def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of a list of tensors, of the slices of a tensor, or of a nested tensor; gradients go back."""
    form = _form("as_nested_tensor", layout)
    if isinstance(ts, NestedBase) and (layout is None or ts.layout.name == form):
        return ts if dtype is None else ts.to(dtype)
    if isinstance(ts, Tensor):
        ts = list(ts.unbind(0))
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors")
    items = [t if dtype is None or t.dtype is dtype else t.to(dtype) for t in ts]
    if len({t.ndim for t in items}) > 1:
        fail("nested_tensor", "all items must have the same number of dimensions", sorted({t.ndim for t in items}))
    if len({t.dtype for t in items}) > 1:
        from flambeau.types.dtype import promote
        common = items[0].dtype
        for t in items:
            common = promote(common, t.dtype)
        items = [t.to(common) for t in items]
    if form == "strided":
        return nested_of(items)
    if not items:
        fail("nested_tensor", "Cannot construct a nested tensor of layout jagged from an empty list")
    return jagged_of(items)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over `values`, no copy.

    Args:
        values: the items one behind the other along axis `jagged_dim` - 1 (default 0).
        offsets: (batch + 1) where each starts. lengths: (batch) how long each is; without offsets they follow closely.
    """
    name = "nested_tensor_from_jagged"
    axis = 1 if jagged_dim is None else jagged_dim
    if offsets is None and lengths is None:
        fail(name, "At least one of offsets or lengths is required")
    if not 1 <= axis <= values.ndim:
        fail(name, "jagged_dim lies outside the nested shape", axis, f"1 to {values.ndim}")
    offsets, lengths = (given if given is None else constant(given, name) for given in (offsets, lengths))
    if offsets is None:
        bounds = ops.cat((zeros(1, dtype=lengths.dtype), ops.cumsum(lengths, 0)), 0)
        offsets, lengths = bounds, None
    ragged = Raggedness.of(offsets, lengths)
    ends = [start + size for start, size in zip(ragged.starts, ragged.sizes)]
    if offsets.ndim != 1 or any(n < 0 for n in (*ragged.sizes, *ragged.starts)) \
            or max(ends, default=0) > values.shape[axis - 1] or (lengths is not None and len(ends) != offsets.shape[0] - 1):
        fail(name, "offsets and lengths do not fit the values", [offsets.tolist(), ragged.sizes],
             f"at most {values.shape[axis - 1]}")
    if lengths is None and (ragged.starts[:1] != [0] or ends[-1] != values.shape[axis - 1]):
        fail(name, "offsets must start at 0 and end at the length of the values", offsets.tolist(),
             f"0 to {values.shape[axis - 1]}")
    return JaggedTensor.on(values, ragged, axis)


def to_padded_tensor(input, padding, output_size=None):
    """A plain tensor (batch, *largest sizes) with `padding` where items end; `output_size` may ask for more."""
    if not isinstance(input, NestedBase):
        fail("to_padded_tensor", "expected a nested tensor", getattr(input, "layout", type(input).__name__))
    if isinstance(input, JaggedTensor) and input.ndim > 1:
        made = _padded(input.packed(), padding)
    else:
        made = _padded_items(input, padding)
    if output_size is None:
        return made
    if len(output_size) != made.ndim or any(w < n for w, n in zip(output_size, made.shape)):
        fail("to_padded_tensor", "Value in output_size is less than NestedTensor padded size. Truncation is not supported.",
             tuple(output_size), tuple(made.shape))
    return _grown(made, tuple(output_size), padding)


def _padded(jagged, padding):
    """All items at once: each place of the packed axis goes to its place in (batch * longest)."""
    batch, longest, axis = len(jagged.ragged.sizes), jagged._max_seqlen, jagged.axis - 1
    places = jagged.ragged.place_in_padded(longest)
    packed = jagged.inner
    rest = (*packed.shape[:axis], *packed.shape[axis + 1:])
    flat = ops.permute(packed, (axis, *[a for a in range(packed.ndim) if a != axis]))
    empty = full((batch * longest, *rest), padding, dtype=packed.dtype)
    filled = ops.reshape(FUNCTIONS["index_copy"](empty, 0, places, flat), (batch, longest, *rest))
    return ops.permute(filled, (0, *[a + 2 for a in range(axis)], 1, *[a + 2 for a in range(axis, len(rest))]))


def _padded_items(nested, padding):
    items = nested.unbind()
    if not items:
        return zeros(0)
    sizes = tuple(max(sizes) for sizes in zip(*[i.shape for i in items]))
    return ops.stack([_grown(item, sizes, padding) for item in items])


def _grown(item, sizes, padding):
    pads = [n for own, want in zip(reversed(item.shape), reversed(sizes)) for n in (0, want - own)]
    return FUNCTIONS["constant_pad_nd"](item, tuple(pads), padding) if any(pads) else item


def narrow(tensor, dim, start, length, layout=None):
    """The stretch of `length` elements from `start` along `dim`, which may differ from item to item (dim 1, jagged).

    Args:
        tensor: (batch, size, ...). start, length: integers, or (batch) integers for the jagged layout.
    """
    if _form("narrow", layout) == "strided":
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            fail("narrow", "start and length must be integers for the strided layout NT impl")
        return as_nested_tensor([each.narrow(dim - 1, start, length) for each in tensor.unbind()])
    if dim != 1 or tensor.ndim < 2:
        fail("narrow", "only dim=1 supported for the jagged layout", dim)
    batch, size = tensor.shape[0], tensor.shape[1]
    start, length = _per_item(start, batch), _per_item(length, batch)
    if bool((start < 0).any()) or bool((length < 0).any()) or bool((start + length > size).any()):
        fail("narrow", "start + length lies outside the axis", [start.tolist(), length.tolist()], size)
    values = ops.reshape(tensor, (batch * size, *tensor.shape[2:]))
    base = arange(batch) * size + start
    offsets = ops.cat((base, (base + length)[-1:]), 0)
    return nested_tensor_from_jagged(values, offsets, length)


def _per_item(value, batch):
    return value if isinstance(value, Tensor) else tensor([int(value)] * batch)


def masked_select(tensor, mask):
    """The elements of a 2-d tensor (batch, n) where `mask` is true, a jagged tensor of the rows."""
    if tensor.ndim != 2 or mask.ndim > 2:
        fail("masked_select", "expected a tensor of two dims", tensor.ndim)
    mask = ops.expand(mask, tuple(tensor.shape))
    lengths = ops.sum(mask, 1)
    return nested_tensor_from_jagged(FUNCTIONS["masked_select"](tensor, mask), lengths=lengths)


def from_saved(form, parts, facts, requires_grad):
    """A nested tensor from what `saved_parts` gave; checked, as a file may say anything."""
    if form == "jagged":
        made = nested_tensor_from_jagged(*parts, jagged_dim=facts["axis"])
    else:
        sizes = facts["item_sizes"]
        count = sum(product(s) for s in sizes)
        if any(n < 0 for s in sizes for n in s) or tuple(parts[0].shape) != (count,):
            fail("load", "the items do not fit the values", sizes, tuple(parts[0].shape))
        made = NestedTensor.of(parts[0], sizes)
    return made.requires_grad_(True) if requires_grad else made
