"""Nested tensors: a batch of tensors of different sizes, its values in one plain tensor.

Like sparse tensors they are `Wrapped` values of one constant level (`nested_rules.py` runs the ops). Sizes that differ
from item to item are symbols (`types/dim.py`), so that the checks of ops take them as they are.

`JaggedTensor` has one axis whose size differs: `inner` is the nested shape without the batch axis, all items one behind
the other along the ragged axis. `NestedTensor` has items of any sizes, flat one behind the other.
"""

import weakref

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS
from flambeau.ops.view import narrow
from flambeau.ops.write import check_write
from flambeau.runtime import _core
from flambeau.tensor.constants import arange, tensor
from flambeau.tensor.parts import PartedTensor
from flambeau.types.dim import Dim, symbol
from flambeau.types.info import LAYOUTS


class NestedLevel:
    """The level of all nested tensors, below those of function transforms."""

    name, depth = "a nested tensor", 0

    def process(self, operation, values):
        from flambeau.tensor.nested_rules import process
        return process(operation, values)

    def assign(self, operation, target, result):
        """`target` takes the values of `result`, cast to its dtype, in place."""
        if tuple(result.shape) != tuple(target.shape):
            fail(operation.name + "_", "the result does not have the shape of the tensor written to",
                 tuple(result.shape), tuple(target.shape))
        check_write(operation.name + "_", target.inner)
        inner = target.values_of(result)
        inner = inner if inner.dtype is target.dtype else ops.cast(inner, target.dtype)
        if _core.grad_mode() and (inner.requires_grad or target.requires_grad):
            return target._take(target._like(inner))
        target.inner.copy_(inner)
        return target

    def detached(self, tensor):
        return tensor._like(tensor.inner.detach())

    def read(self, tensor, what):
        fail(what, "not available for a nested tensor", hint="call .to_padded_tensor(0) or .unbind() first",
             kind=NotImplementedError)


LEVEL = NestedLevel()


# ---------------------------------------------------------------------------------- sizes that differ
class Raggedness:
    """How long the items are along their ragged axis: offsets of their starts, and lengths where there are gaps."""

    alive, count = weakref.WeakValueDictionary(), 0

    def __init__(self, offsets, lengths, starts, sizes):
        self.offsets, self.lengths, self.starts, self.sizes = offsets, lengths, starts, sizes
        Raggedness.count += 1
        self.size = symbol(f"j{Raggedness.count}")

    @classmethod
    def of(cls, offsets, lengths=None):
        """The one of these offsets: equal ones share it, so that their tensors fit together."""
        bounds = offsets.tolist()
        sizes = [b - a for a, b in zip(bounds, bounds[1:])] if lengths is None else lengths.tolist()
        key = tuple(bounds), None if lengths is None else tuple(sizes)
        found = cls.alive.get(key)
        if found is None:
            found = cls.alive[key] = cls(offsets, lengths, bounds[:-1], sizes)
        return found

    @classmethod
    def of_sizes(cls, sizes):
        bounds = [0]
        for size in sizes:
            bounds.append(bounds[-1] + size)
        return cls.of(tensor(bounds))

    def item_of_each(self):
        """(total): the number of the item that each place along the packed axis belongs to (no gaps)."""
        return FUNCTIONS["repeat_interleave"](arange(len(self.sizes)), tensor(self.sizes))

    def place_in_padded(self, longest):
        """(total): item * longest + place within the item."""
        total = sum(self.sizes)
        starts = tensor([b * longest - s for b, s in enumerate(_starts(self.sizes))])
        return arange(total) + ops.index_select(starts, 0, self.item_of_each())


def _starts(sizes):
    found, at = [], 0
    for size in sizes:
        found.append(at)
        at += size
    return found


# ---------------------------------------------------------------------------------- the tensors
class NestedBase(PartedTensor):
    """What both kinds share."""

    is_nested = property(lambda self: True)

    def values(self):
        """The values of all items in one plain tensor."""
        return self.inner

    def numel(self):
        return sum(item.numel() for item in self.unbind())

    def __len__(self):
        return int(self.shape[0])

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, index):
        first, *rest = index if isinstance(index, tuple) else (index,)
        if not isinstance(first, int) or isinstance(first, bool):
            return super().__getitem__(index)
        item = self.unbind()[first]         # its sizes are numbers, by which the rest is read
        return item[tuple(rest)] if rest else item

    def to_padded_tensor(self, padding, output_size=None):
        from flambeau.tensor.nested_make import to_padded_tensor
        return to_padded_tensor(self, padding, output_size)

    def unbind(self, dim=0):
        """The items, views of the values."""
        if dim not in (0, -self.ndim):
            fail("unbind", "a nested tensor can be taken apart along dim 0 only", dim)
        return self._items()

    def contiguous(self, memory_format=None):
        return self

    def stride(self, dim=None):
        fail("stride", "a nested tensor has no strides of its own", hint="use .values() or .unbind()")

    saved_as = "nested"

    def saved_parts(self):
        plain = self.detach()
        return (self.layout.name, plain._parts(), self._facts(), self.requires_grad)


class JaggedTensor(NestedBase):
    """One ragged axis. `axis` is its number in the nested shape, 1 or more; in `inner` it is axis - 1."""

    layout = property(lambda self: LAYOUTS["jagged"])

    @classmethod
    def of(cls, values, offsets, lengths=None, axis=1):
        return cls.on(values, Raggedness.of(offsets, lengths), axis)

    @classmethod
    def on(cls, values, ragged, axis=1):
        before, after = tuple(values.shape[:axis - 1]), tuple(values.shape[axis:])
        return cls.make(LEVEL, values, ragged=ragged, axis=axis,
                        sizes=(len(ragged.sizes), *before, ragged.size, *after))

    def _like(self, values, axis=None):
        return JaggedTensor.on(values, self.ragged, self.axis if axis is None else axis)

    def _parts(self):
        return self.inner, self.ragged.offsets, self.ragged.lengths

    def _facts(self):
        return {"axis": self.axis}

    def values_of(self, other):
        if isinstance(other, JaggedTensor) and other.ragged is self.ragged and other.axis == self.axis:
            return other.inner
        if getattr(type(other), "is_nested", False) and len(other) == len(self):
            return ops.cat(other.unbind(), self.axis - 1)
        fail("grad", "a gradient of another shape", tuple(other.shape), tuple(self.shape))

    def offsets(self):
        """(batch + 1): where each item starts along the ragged axis of `values()`, and where the last one ends."""
        return self.ragged.offsets

    def lengths(self):
        """(batch): the items' lengths where there are gaps between them, else None."""
        return self.ragged.lengths

    _ragged_idx = property(lambda self: self.axis)
    _max_seqlen = property(lambda self: max(self.ragged.sizes, default=0))
    _min_seqlen = property(lambda self: min(self.ragged.sizes, default=0))

    def is_contiguous(self, memory_format=None):
        return self.ragged.lengths is None and self.axis == 1

    def _items(self):
        return tuple(narrow(self.inner, self.axis - 1, start, size)
                     for start, size in zip(self.ragged.starts, self.ragged.sizes))

    def packed(self):
        """The same tensor without gaps between its items."""
        if self.ragged.lengths is None:
            return self
        return JaggedTensor.on(ops.cat(self._items(), self.axis - 1), Raggedness.of_sizes(self.ragged.sizes), self.axis)

    def contiguous(self, memory_format=None):
        return self.packed()

    def __repr__(self):
        parts = [f"size={self._size_text()}", f"offsets={self.ragged.offsets!r}"]
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"NestedTensor({', '.join(parts)}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def _size_text(self):
        return "(" + ", ".join(map(str, self.sizes)) + ("," if len(self.sizes) == 1 else "") + ")"


class NestedTensor(NestedBase):
    """Items of any sizes (of one rank): `inner` (elements of all), `item_sizes` the shape of each."""

    layout = property(lambda self: LAYOUTS["strided"])

    @classmethod
    def of(cls, values, item_sizes):
        item_sizes = tuple(tuple(s) for s in item_sizes)
        axes = [_common(axis) for axis in zip(*item_sizes)]
        sizes = tuple(a.size if isinstance(a, Raggedness) else a for a in axes)
        return cls.make(LEVEL, values, item_sizes=item_sizes, axes=axes, sizes=(len(item_sizes), *sizes))

    def _like(self, values):
        return NestedTensor.of(values, self.item_sizes)

    def _parts(self):
        return (self.inner,)

    def _facts(self):
        return {"item_sizes": self.item_sizes}

    def values_of(self, other):
        if isinstance(other, NestedTensor) and other.item_sizes == self.item_sizes:
            return other.inner
        if getattr(type(other), "is_nested", False) and len(other) == len(self):
            return ops.cat([ops.reshape(item, (-1,)) for item in other.unbind()], 0)
        fail("grad", "a gradient of another shape", tuple(other.shape), tuple(self.shape))

    def size(self, dim=None):
        if dim is None:
            return self.shape
        size = self.shape[dim]
        if isinstance(size, Dim):
            fail("size", f"Given dimension {dim} is irregular and does not have a size")
        return size

    def _items(self):
        found, at = [], 0
        for size in self.item_sizes:
            count = 1
            for n in size:
                count *= n
            found.append(ops.reshape(narrow(self.inner, 0, at, count), size))
            at += count
        return tuple(found)

    def __repr__(self):
        items = ",\n".join(_indented(repr(item.detach().requires_grad_(self.requires_grad))) for item in self.unbind())
        tail = ""
        if self.grad_fn is not None:
            tail = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            tail = ", requires_grad=True"
        return f"nested_tensor([\n{items}\n]{tail})"

    __str__ = __repr__


def _common(sizes):
    """The size of an axis: the items' own where it is one, else how they differ."""
    if len(set(sizes)) == 1:
        return sizes[0]
    return Raggedness.of_sizes(sizes)


def _indented(text):
    return "\n".join("  " + line for line in text.split("\n"))
