"""The level of vmap: a batch seen as one example.

A `Batched` tensor has its batch as the first axis of the tensor below and does not show it. How an op runs on batches
follows from its kind (rules.py): elementwise ops line the batches up, ops over axes move their axes by one,
contractions take the batch along, composites are run op by op. What has no rule runs example by example.
"""

from flambeau.base.errors import fail
from flambeau.ops import plans
from flambeau.ops.elementwise import copy
from flambeau.ops.spec import bind
from flambeau.ops.view import expand, permute, unsqueeze
from flambeau.ops.wrapped import Wrapped
from flambeau.runtime._core import Size, Tensor
from flambeau.transform import forms
from flambeau.transform.levels import Level, below, current

RANDOMNESS = ("error", "different", "same")


class Batched(Wrapped):
    """One example of a batch: `inner` is (batch, *shape)."""

    shape = property(lambda self: Size(tuple(self.inner.shape)[1:]))


class Shared(Wrapped):
    """A tensor made inside that is still the same for all examples; a write of batched values makes it Batched.

    `window`: (base, view op, attributes) of a view, which becomes Batched with its base.
    """

    def separate(self):
        """Become Batched, with memory for each example."""
        window = self.__dict__.pop("window", None)
        if window is None:
            self.__dict__["inner"] = copy(expand(unsqueeze(self.inner, 0), (self.level.size, *self.inner.shape)))
        else:
            base, operation, attrs = window
            if type(base) is Shared:
                base.separate()
            self.__dict__["inner"] = self.level.process(operation, plans.assemble(operation, iter([base]), attrs)).inner
        self.__class__ = Batched

    def refresh(self):
        """Follow the base."""
        window = self.__dict__.get("window")
        if window is not None:
            if type(window[0]) is Shared:
                window[0].refresh()
            if type(window[0]) is Batched:
                self.separate()


class BatchLevel(Level):
    """Runs ops on all examples at once. size: of the batch; randomness: what a draw does, as in `vmap`."""

    name = "vmap"

    def __init__(self, size, randomness="error"):
        super().__init__()
        self.size, self.randomness = size, randomness
        self.has_shared = False         # whether tensors were made inside

    # ------------------------------------------------------------------ values
    def batched(self, value):
        if type(value) is Shared and value.level is self:
            value.refresh()
        return type(value) is Batched and value.level is self

    def wrap(self, inner):
        return Batched.make(self, inner)

    def whole(self, value):
        """The tensor below with the batch in front, for a value that may have none."""
        if self.batched(value):
            return value.inner
        value = below(self, value)
        return expand(unsqueeze(value, 0), (self.size, *value.shape))

    def reinterpreted(self, value, dtype):
        made = value.inner.view(dtype)
        return self.wrap(made) if self.batched(value) else self.fresh(made)

    def is_constant(self, value):
        return not self.batched(value)

    def fresh(self, made):
        self.has_shared = True
        return Shared.make(self, made)

    def draws(self):
        if self.randomness == "error":
            from flambeau.transform.rules import refuse_draw
            refuse_draw("a random function")
        return self.size if self.randomness == "different" else None

    def read(self, tensor, what):
        if not self.batched(tensor):
            return tensor.inner
        fail("vmap", f"{what}() was called on a value that differs from example to example",
             hint="use where(condition, a, b) in place of a Python if, and keep numbers as tensors")

    def detached(self, tensor):
        return self.wrap(tensor.inner.detach()) if self.batched(tensor) else tensor.inner.detach()

    def assign(self, operation, target, result):
        """An in-place write: into the memory of the whole batch."""
        from flambeau.ops.write import assign
        if not self.batched(target) and self.batched(result):
            if type(target) is not Shared or target.level is not self:
                fail(operation.name + "_", "a tensor without a batch cannot take values that differ from example to "
                     "example", tuple(target.shape), hint="use the out-of-place form, or make the tensor inside the function")
            target.separate()
        if tuple(result.shape) != tuple(target.shape):
            result = expand(result, tuple(target.shape))
        whole = self.whole(result) if self.batched(target) else below(self, result)
        assign(operation, target.inner, copy(whole) if whole is target.inner else whole)
        return target

    # ------------------------------------------------------------------ ops
    def custom_function(self, function, args, kwargs):
        from flambeau.transform import custom
        return custom.batch(self, function, args, kwargs)

    def process(self, operation, values):
        from flambeau.transform import rules
        if self.has_shared and any(type(v) is Shared and v.level is self for v in members(values)):
            return self.with_shared(operation, values)
        rule, result = rules.rule_for(operation), NotImplemented
        if rule in rules.TRACEABLE:
            operands, attrs = operation.split(values)
            result = forms.run(self, (operation, tuple(attrs.items())), operation.name,
                               lambda *given: _applied(rule, operation, given, attrs), operands)
        if result is NotImplemented:
            result = rule(self, operation, values)
        if isinstance(result, tuple):
            results = [self.wrap(r) for r in result]
            return operation.pack(results) if operation.outputs is not None else tuple(results)
        return self.wrap(result)

    def with_shared(self, operation, values):
        """A call with tensors that were made inside, which may be the same for all examples."""
        given = {name: self.unshared(value) for name, value in values.items()}
        if any(map(self.batched, members(given))):
            return self.process(operation, given)
        result = bind(operation, (), given)
        if self.ended:
            return result
        results = [self.fresh(r) for r in (result if isinstance(result, tuple) else (result,))]
        if operation.kind == "view":
            results[0].__dict__["window"] = (values["input"], operation, operation.split(values)[1])
        return operation.pack(results) if isinstance(result, tuple) else results[0]

    def unshared(self, value):
        if isinstance(value, tuple):
            return tuple(map(self.unshared, value))
        return value.inner if type(value) is Shared and value.level is self and not self.batched(value) else value

    def one_by_one(self, operation, values):
        """The op on each example, and the results stacked."""
        from flambeau.ops.join import stack
        found = []
        for number in range(self.size):
            found.append(bind(operation, (), {name: self.example(value, number) for name, value in values.items()}))
        if not found:
            fail("vmap", f"{operation.name} cannot tell the shape of its result over an empty batch")
        if isinstance(found[0], tuple):
            return tuple(stack(list(members)) for members in zip(*found))
        if not isinstance(found[0], Tensor):
            fail("vmap", f"{operation.name} does not return tensors", type(found[0]).__name__)
        if any(tuple(f.shape) != tuple(found[0].shape) for f in found):
            fail("vmap", f"the results of {operation.name} differ in shape from example to example",
                 [tuple(f.shape) for f in found][:4], hint="mask with where instead of selecting elements")
        return stack(found)

    def example(self, value, number):
        if self.batched(value):
            return value.inner[number]
        if isinstance(value, tuple):
            return tuple(self.example(v, number) for v in value)
        return value


def members(values):
    """All values of a call, those in tuples too."""
    for value in values.values():
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _applied(rule, operation, operands, attrs):
    """An op by its rule at the current level, as values of the level."""
    level = current()
    result = rule(level, operation, plans.assemble(operation, iter(operands), attrs))
    return tuple(map(level.wrap, result)) if isinstance(result, tuple) else level.wrap(result)


def batch_front(tensor, axis):
    """`tensor` with its axis `axis` in front."""
    rank = tensor.ndim
    axis = axis + rank if axis < 0 else axis
    return tensor if axis == 0 else permute(tensor, (axis, *[a for a in range(rank) if a != axis]))


def batch_at(tensor, axis):
    """`tensor` with its first axis moved to `axis`."""
    rank = tensor.ndim
    axis = axis + rank if axis < 0 else axis
    if axis == 0:
        return tensor
    order = list(range(1, rank))
    order.insert(axis, 0)
    return permute(tensor, tuple(order))
