"""Function transforms: gradients, directional derivatives, batches. They compose to any depth.

Sources: reverse and forward accumulation as in Griewank and Walther, "Evaluating Derivatives" (2008), chapters 3 and 7;
names and arguments are those of `torch.func`.
"""

import functools

from flambeau.base import tree
from flambeau.base.errors import fail
from flambeau.ops.elementwise import full_like
from flambeau.ops.view import reshape
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.transform.forward import ForwardLevel
from flambeau.transform.levels import below
from flambeau.transform.reverse import ReverseLevel, check_scalar

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp"]


class _Recording:
    """Gradient mode on inside a transform, whatever it is outside."""

    def __enter__(self):
        self.before = _core.set_grad_mode(True)

    def __exit__(self, *error):
        _core.set_grad_mode(self.before)


def _chosen(argnums, args, name):
    """(the places of the chosen arguments, whether it is one)."""
    single = isinstance(argnums, int)
    places = (argnums,) if single else tuple(argnums)
    for place in places:
        if not -len(args) <= place < len(args):
            fail(name, "argnums names no argument", place, f"-{len(args)} to {len(args) - 1}", kind=RuntimeError)
    return tuple(p % len(args) for p in places), single


def _inputs(level, value, name):
    """The tensors of an argument as inputs of the level."""
    def lift(leaf):
        if not isinstance(leaf, Tensor):
            fail(name, "an argument to differentiate by holds something that is not a tensor", type(leaf).__name__,
                 "tensors in dicts, lists and tuples", kind=ValueError)
        if leaf.dtype.kind not in "fc":
            fail(name, "only tensors of floating point dtype have gradients", leaf.dtype, hint="x.float()")
        return level.input(leaf)
    return tree.map(lift, value)


def _starts(value):
    """The nodes of input tensors, as they are before the function may write to them."""
    return [leaf.node for leaf in tree.leaves(value)]


def _or_zeros(gradients, starts):
    return [full_like(start.results[0], 0) if g is None else g for g, start in zip(gradients, starts)]


# ---------------------------------------------------------------------------------- reverse
def value_and_grad(func, argnums=0, has_aux=False):
    """A function that returns (value, gradient) of `func`, or ((value, aux), gradient) with `has_aux`.

    `func` returns a floating point tensor without axes. The order is that of JAX; `grad_and_value` gives PyTorch's.
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        gradients, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return value, gradients
    return transformed


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of `func`; with `has_aux`, (gradient, (value, aux)).

    >>> slope, value = fl.func.grad_and_value(lambda x: (x ** 3).sum())(fl.tensor([1.0, 2.0]))
    >>> slope, value
    (tensor([ 3., 12.]), tensor(9.))
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        places, single = _chosen(argnums, args, "grad")
        with ReverseLevel() as level, _Recording():
            given = list(args)
            for place in places:
                given[place] = _inputs(level, args[place], "grad")
            starts = _starts([given[place] for place in places])
            output = func(*given, **kwargs)
            aux = None
            if has_aux:
                if not isinstance(output, tuple) or len(output) != 2:
                    fail("grad", "with has_aux the function must return (output, aux)", type(output).__name__)
                output, aux = output
            check_scalar("grad", output)
            found = level.gradients([output], [full_like(below(level, output), 1)], starts)
            filled = iter(_or_zeros(found, starts))
            gradients = tuple(tree.map(lambda leaf: next(filled), args[place]) for place in places)
            value = below(level, output)
            aux = tree.map(lambda leaf: below(level, leaf), aux)
        gradients = gradients[0] if single else gradients
        return gradients, (value, aux) if has_aux else value
    return transformed


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of `func` with respect to its arguments `argnums`.

    Args:
        func: returns a floating point tensor without axes; with `has_aux` a pair (tensor, anything).
        argnums: place, or tuple of places, of the arguments (tensors, or dicts, lists and tuples of them).
        has_aux: return (gradient, aux).

    >>> fl.func.grad(fl.sin)(fl.tensor(0.0))
    tensor(1.)
    >>> fl.func.grad(fl.func.grad(lambda x: x ** 3))(fl.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients
    return transformed


def vjp(func, *primals, has_aux=False):
    """(output, function): the function maps gradients of the output to a tuple of gradients of the arguments.

    With `has_aux` it is (output, function, aux). The function may be called often, also inside `vmap`.

    >>> output, pull = fl.func.vjp(lambda x: x * x, fl.tensor([1.0, 2.0]))
    >>> pull(fl.tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    with ReverseLevel() as level, _Recording():
        given = tuple(_inputs(level, primal, "vjp") for primal in primals)
        starts = _starts(given)
        output = func(*given)
        aux = None
        if has_aux:
            if not isinstance(output, tuple) or len(output) != 2:
                fail("vjp", "with has_aux the function must return (output, aux)", type(output).__name__)
            output, aux = output
        outputs, structure = tree.flatten(output)
        for leaf in outputs:
            if not isinstance(leaf, Tensor):
                fail("vjp", "the function must return tensors", type(leaf).__name__, kind=RuntimeError)
        values = tree.unflatten([below(level, leaf) for leaf in outputs], structure)
        aux = tree.map(lambda leaf: below(level, leaf), aux)

    def pull(*cotangents, retain_graph=True, create_graph=None):
        if structure.kind is not None and len(cotangents) == structure.count and structure.count != 1:
            cotangents = (tree.unflatten(tree.leaves(cotangents), structure),)
        seeds, shape = tree.flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if shape != structure:
            fail("vjp", "the gradients do not have the structure of the output", shape, structure)
        for seed, leaf in zip(seeds, outputs):
            if tuple(seed.shape) != tuple(leaf.shape):
                fail("vjp", "a gradient does not have the shape of its output", tuple(seed.shape), tuple(leaf.shape))
        with _Recording():
            filled = iter(_or_zeros(level.gradients(outputs, seeds, starts), starts))
        return tuple(tree.map(lambda leaf: next(filled), primal) for primal in primals)

    return (values, pull, aux) if has_aux else (values, pull)


# ---------------------------------------------------------------------------------- forward
def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(output, its derivative in the direction of `tangents`); with `has_aux` (output, derivative, aux).

    Args:
        func: a function of tensors, or dicts, lists and tuples of them.
        primals: tuple of its arguments. tangents: tuple of the same structure and shapes.
        strict: raise if the output does not depend on the arguments.

    >>> fl.func.jvp(fl.sin, (fl.tensor(0.0),), (fl.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        fail("jvp", "primals and tangents must be tuples", (type(primals).__name__, type(tangents).__name__),
             kind=RuntimeError)
    leaves, structure = tree.flatten(primals)
    directions, shape = tree.flatten(tangents)
    if shape != structure:
        fail("jvp", "the tangents do not have the structure of the primals", shape, structure)
    for leaf, direction in zip(leaves, directions):
        if not isinstance(leaf, Tensor) or not isinstance(direction, Tensor):
            fail("jvp", "primals and tangents must hold tensors only", (type(leaf).__name__, type(direction).__name__))
        if leaf.dtype.kind not in "fc":
            fail("jvp", "only tensors of floating point dtype have tangents", leaf.dtype, hint="x.float()")
        if tuple(leaf.shape) != tuple(direction.shape):
            fail("jvp", "a tangent does not have the shape of its primal", tuple(direction.shape), tuple(leaf.shape))
    with ForwardLevel() as level, _Recording():
        given = tree.unflatten([level.dual(p, t) for p, t in zip(leaves, directions)], structure)
        output = func(*given)
        aux = None
        if has_aux:
            output, aux = output
        outputs, structure = tree.flatten(output)
        for leaf in outputs:
            if not isinstance(leaf, Tensor):
                fail("jvp", "the function must return tensors", type(leaf).__name__, kind=RuntimeError)
        found = [level.tangent_of(leaf) for leaf in outputs]
        if strict and any(t is None for t in found):
            fail("jvp", "an output does not depend on the arguments", hint="strict=False takes its derivative as 0")
        values = [below(level, leaf) for leaf in outputs]
        found = [full_like(v, 0) if t is None else t for t, v in zip(found, values)]
        aux = tree.map(lambda leaf: below(level, leaf), aux)
    result = tree.unflatten(values, structure), tree.unflatten(found, structure)
    return (*result, aux) if has_aux else result


def linearize(func, *primals):
    """(output, function): the function maps tangents of the arguments to the tangent of the output at this point."""
    output, pull = vjp(func, *primals)

    def push(*tangents):
        # the gradient of the arguments is linear in that of the output: its transpose maps tangents
        zeros = tree.map(lambda leaf: full_like(leaf, 0), output)
        _, transposed = vjp(lambda cotangent: pull(cotangent), zeros)
        return transposed(tangents)[0]

    return output, push


# ---------------------------------------------------------------------------------- Jacobians
def _basis(leaf):
    """The unit vectors of a tensor's space: (count, *shape)."""
    from flambeau.tensor.create import eye
    return reshape(eye(leaf.numel(), dtype=leaf.dtype), (leaf.numel(), *leaf.shape))


def _unit_vectors(leaves):
    """For each leaf the part of the unit vectors of all leaves together: (total, *shape)."""
    from flambeau.ops.join import cat
    from flambeau.tensor.create import zeros
    total, at, parts = sum(leaf.numel() for leaf in leaves), 0, []
    for leaf in leaves:
        count = leaf.numel()
        rows = [zeros((before, *leaf.shape), dtype=leaf.dtype) for before in (at, total - at - count)]
        parts.append(cat([rows[0], _basis(leaf), rows[1]]) if total > count else _basis(leaf))
        at += count
    return parts


def _split_rows(tensor, leaves):
    """The rows of (total, ...) that belong to each leaf, in its shape: (*leaf.shape, ...)."""
    at, parts = 0, []
    for leaf in leaves:
        count = leaf.numel()
        parts.append(reshape(tensor[at:at + count], (*leaf.shape, *tensor.shape[1:])))
        at += count
    return parts


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of `func`, by reverse mode: one row of it for each output element.

    The shape is that of the output followed by that of the argument. chunk_size: rows worked out at a time.

    >>> fl.func.jacrev(fl.sin)(fl.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        from flambeau.transform.batch import vmap
        places, single = _chosen(argnums, args, "jacrev")

        def chosen(*values):
            given = list(args)
            for place, value in zip(places, values):
                given[place] = value
            return func(*given, **kwargs)

        got = vjp(chosen, *[args[p] for p in places], has_aux=has_aux)
        output, pull = got[0], got[1]
        outputs, structure = tree.flatten(output)
        seeds = _unit_vectors(outputs)
        rows = vmap(lambda *parts: pull(tree.unflatten(parts, structure)), chunk_size=chunk_size)(*seeds)
        rows = rows[0] if single else rows
        columns, inner = tree.flatten(rows)
        parts = [_split_rows(column, outputs) for column in columns]
        made = [tree.unflatten([part[i] for part in parts], inner) for i in range(len(outputs))]
        jacobian = tree.unflatten(made, structure)
        return (jacobian, got[2]) if has_aux else jacobian
    return transformed


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error", chunk_size=None):
    """A function that returns the Jacobian of `func`, by forward mode: one column for each element of the argument.

    Shapes as of `jacrev`; the better choice where the output has more elements than the argument.
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        from flambeau.transform.batch import vmap
        places, single = _chosen(argnums, args, "jacfwd")
        primals = tuple(args[p] for p in places)
        leaves, structure = tree.flatten(primals)

        def push(*directions):
            def chosen(*values):
                given = list(args)
                for place, value in zip(places, values):
                    given[place] = value
                return func(*given, **kwargs)
            got = jvp(chosen, primals, tree.unflatten(directions, structure), has_aux=has_aux)
            return (got[1], got[2]) if has_aux else (got[1], None)

        batched = vmap(push, out_dims=(-1, None) if not has_aux else (-1, 0), randomness=randomness, chunk_size=chunk_size)
        tangents, aux = batched(*_unit_vectors(leaves))

        def columns(tangent):
            at, parts = 0, []
            for leaf in leaves:
                part = tangent[..., at:at + leaf.numel()]
                parts.append(reshape(part, (*tangent.shape[:-1], *leaf.shape)))
                at += leaf.numel()
            filled = tree.unflatten(parts, structure)
            return filled[0] if single else filled

        jacobian = tree.map(columns, tangents)
        if has_aux:
            aux = tree.map(lambda leaf: leaf[0] if isinstance(leaf, Tensor) else leaf, aux)
        return (jacobian, aux) if has_aux else jacobian
    return transformed


def hessian(func, argnums=0):
    """A function that returns the matrix of second derivatives of `func`: forward mode over reverse mode.

    >>> fl.func.hessian(lambda x: (x ** 3).sum())(fl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
