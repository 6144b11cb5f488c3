"""Function transforms against PyTorch's: the same program on both, values, structures and kinds of errors."""

import numpy
import pytest
import torch
from judge import differences
from translate import value

from flambeau import torch as facade


def inputs(seed=0):
    """The tensors that programs start from: named, the same for both."""
    rng = numpy.random.default_rng(seed)
    return {"x": torch.tensor(rng.uniform(-1, 1, 3)), "y": torch.tensor(rng.uniform(-1, 1, 3)),
            "m": torch.tensor(rng.uniform(-1, 1, (4, 3))), "w": torch.tensor(rng.uniform(-1, 1, (2, 3))),
            "c": torch.tensor(rng.uniform(-1, 1, (2, 4, 3))), "s": torch.tensor(rng.uniform(0.5, 1)),
            "i": torch.tensor([2, 0, 1]), "f": torch.tensor(rng.uniform(-1, 1, (4, 3)).astype("float32"))}


class Given:
    """What a program gets: `T` (the module called torch) and the tensors as attributes."""

    def __init__(self, module, tensors):
        self.T, self.F = module, module.func
        self.__dict__.update(tensors)


# Each program: a name and a function of a Given.
PROGRAMS = {
    # ---------------------------------------------------------------- grad
    "grad": lambda g: g.F.grad(lambda x: (x ** 3).sum())(g.x),
    "grad of a number tensor": lambda g: g.F.grad(g.T.sin)(g.s),
    "grad argnums": lambda g: g.F.grad(lambda a, b: (a * b * b).sum(), argnums=1)(g.x, g.y),
    "grad argnums negative": lambda g: g.F.grad(lambda a, b: (a * b * b).sum(), argnums=-1)(g.x, g.y),
    "grad argnums tuple": lambda g: g.F.grad(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(g.x, g.y),
    "grad argnums tuple of one": lambda g: g.F.grad(lambda a, b: (a * b * b).sum(), argnums=(1,))(g.x, g.y),
    "grad has_aux": lambda g: g.F.grad(lambda a: ((a ** 2).sum(), {"k": a * 2, "n": [a]}), has_aux=True)(g.x),
    "grad dict": lambda g: g.F.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": g.x, "b": [g.y, g.x]}),
    "grad list keeps its kind": lambda g: g.F.grad(lambda p: (p[0] * p[1]).sum())([g.x, g.y]),
    "grad of something unused": lambda g: g.F.grad(lambda a, b: a.sum(), argnums=(0, 1))(g.x, g.y),
    "grad_and_value": lambda g: g.F.grad_and_value(lambda a: (a ** 2).sum())(g.x),
    "grad_and_value aux": lambda g: g.F.grad_and_value(lambda a: ((a ** 2).sum(), a), has_aux=True)(g.x),
    "grad keyword arguments": lambda g: g.F.grad(lambda a, scale=1.0: (a * scale).sum())(g.x, scale=3.0),
    "grad of constant": lambda g: g.F.grad(lambda a: g.T.tensor(1.0))(g.x),
    "grad twice": lambda g: g.F.grad(lambda a: g.F.grad(lambda b: b ** 4)(a))(g.s),
    "grad three times": lambda g: g.F.grad(g.F.grad(g.F.grad(lambda b: b ** 4)))(g.s),
    "grad outer value inside": lambda g: g.F.grad(lambda a: g.F.grad(lambda b: a * b * b)(a) * a)(g.s),
    "grad with detach": lambda g: g.F.grad(lambda a: (a * a.detach()).sum())(g.x),
    "grad with no_grad inside": lambda g: g.F.grad(_no_grad_inside(g))(g.x),
    "grad under no_grad": lambda g: _under(g.T.no_grad, lambda: g.F.grad(lambda a: (a ** 2).sum())(g.x)),
    "grad of where": lambda g: g.F.grad(lambda a: g.T.where(a > 0, a ** 2, -a).sum())(g.x),
    "grad with a branch": lambda g: g.F.grad(lambda a: a.sum() if a[0] > 0 else (a ** 2).sum())(g.x),
    "grad through the tape": lambda g: _through_the_tape(g),
    # ---------------------------------------------------------------- vjp
    "vjp": lambda g: _pulled(g.F.vjp(g.T.sin, g.x), g.y),
    "vjp two arguments": lambda g: _pulled(g.F.vjp(lambda a, b: a * b, g.x, g.y), g.x),
    "vjp dict out": lambda g: _pulled(g.F.vjp(lambda a: {"p": a * 2, "q": a.sum()}, g.x), {"p": g.y, "q": g.s}),
    "vjp tuple out": lambda g: _pulled(g.F.vjp(lambda a: (a * 2, a.sum()), g.x), (g.y, g.s)),
    "vjp list out": lambda g: _pulled(g.F.vjp(lambda a: [a * 2, a.sum()], g.x), [g.y, g.s]),
    "vjp aux": lambda g: g.F.vjp(lambda a: (a * 2, {"u": a}), g.x, has_aux=True)[2],
    "vjp dict in": lambda g: _pulled(g.F.vjp(lambda p: p["a"] * p["b"], {"a": g.x, "b": g.y}), g.x),
    "vjp twice": lambda g: [g.F.vjp(g.T.sin, g.x)[1](v) for v in (g.x, g.y)],
    "vmap of a vjp function": lambda g: g.F.vmap(g.F.vjp(g.T.sin, g.x)[1])(g.m),
    # ---------------------------------------------------------------- jvp
    "jvp": lambda g: g.F.jvp(g.T.sin, (g.x,), (g.y,)),
    "jvp two": lambda g: g.F.jvp(lambda a, b: a * b.exp(), (g.x, g.y), (g.y, g.x)),
    "jvp aux": lambda g: g.F.jvp(lambda a: (a * 2, a + 1), (g.x,), (g.y,), has_aux=True),
    "jvp tree": lambda g: g.F.jvp(lambda p: {"r": p[0] * p[1]}, ([g.x, g.y],), ([g.y, g.x],)),
    "jvp constant": lambda g: g.F.jvp(lambda a: g.y * 2, (g.x,), (g.y,)),
    "jvp of matmul": lambda g: g.F.jvp(lambda a, b: a @ b.T, (g.m, g.w), (g.m * 2, g.w * 3)),
    "jvp of softmax": lambda g: g.F.jvp(lambda a: a.softmax(-1), (g.m,), (g.m * 2,)),
    "jvp of jvp": lambda g: g.F.jvp(lambda a: g.F.jvp(g.T.sin, (a,), (g.y,))[1], (g.x,), (g.y,)),
    "jvp of vjp": lambda g: g.F.jvp(lambda a: g.F.vjp(g.T.sin, a)[1](g.y)[0], (g.x,), (g.y,)),
    "jvp of grad": lambda g: g.F.jvp(g.F.grad(lambda a: (a ** 3).sum()), (g.x,), (g.y,)),
    "grad of jvp": lambda g: g.F.grad(lambda a: g.F.jvp(g.T.sin, (a,), (g.y,))[1].sum())(g.x),
    "vjp of jvp": lambda g: _pulled(g.F.vjp(lambda a: g.F.jvp(g.T.sin, (a,), (g.y,))[1], g.x), g.y),
    "jvp strict": lambda g: g.F.jvp(lambda a: a * 2, (g.x,), (g.y,), strict=True),
    # ---------------------------------------------------------------- vmap
    "vmap": lambda g: g.F.vmap(g.T.dot)(g.m, g.m),
    "vmap None": lambda g: g.F.vmap(g.T.dot, in_dims=(0, None))(g.m, g.x),
    "vmap in_dims 1": lambda g: g.F.vmap(lambda a: a.sum(), in_dims=1)(g.m),
    "vmap in_dims -1": lambda g: g.F.vmap(lambda a: a * 2, in_dims=-1)(g.m),
    "vmap out_dims 1": lambda g: g.F.vmap(lambda a: a * 2, out_dims=1)(g.m),
    "vmap out_dims -1": lambda g: g.F.vmap(lambda a: a * 2, out_dims=-1)(g.c),
    "vmap out_dims tuple": lambda g: g.F.vmap(lambda a: (a * 2, a.sum()), out_dims=(1, 0))(g.m),
    "vmap out_dims None": lambda g: g.F.vmap(lambda a: (a, g.x * 2), out_dims=(0, None))(g.m),
    "vmap in_dims nested": lambda g: g.F.vmap(lambda d, z: d["a"] * d["b"] + z, in_dims=({"a": 0, "b": None}, 1))(
        {"a": g.m, "b": g.x}, g.m.T),
    "vmap in_dims list": lambda g: g.F.vmap(lambda p: p[0] * p[1], in_dims=([0, None],))([g.m, g.x]),
    "vmap dict out": lambda g: g.F.vmap(lambda a: {"k": a * 2, "l": [a.sum()]})(g.m),
    "vmap constant out": lambda g: g.F.vmap(lambda a: g.x * 2)(g.m),
    "vmap kwargs": lambda g: g.F.vmap(lambda a, b=None: a * b)(g.m, b=g.m),
    "vmap of vmap": lambda g: g.F.vmap(g.F.vmap(g.T.dot))(g.c, g.c),
    "vmap of vmap mixed": lambda g: g.F.vmap(g.F.vmap(g.T.dot, in_dims=(0, None)), in_dims=(1, None))(g.c, g.x),
    "vmap chunk_size": lambda g: g.F.vmap(lambda a: a.sum(), chunk_size=3)(g.m),
    "vmap chunk_size 1": lambda g: g.F.vmap(lambda a: (a, a.sum()), chunk_size=1, out_dims=(1, 0))(g.m),
    "vmap of grad": lambda g: g.F.vmap(g.F.grad(lambda a: (a ** 3).sum()))(g.m),
    "vmap of grad shared": lambda g: g.F.vmap(g.F.grad(lambda p, a: (p * a).sum() ** 2), in_dims=(None, 0))(g.x, g.m),
    "vmap of jvp": lambda g: g.F.vmap(lambda a, t: g.F.jvp(g.T.sin, (a,), (t,)))(g.m, g.m),
    "grad of vmap": lambda g: g.F.grad(lambda a: g.F.vmap(g.T.dot, (0, None))(g.m, a).sin().sum())(g.x),
    "jvp of vmap": lambda g: g.F.jvp(lambda a: g.F.vmap(g.T.dot, (0, None))(g.m, a), (g.x,), (g.y,)),
    "vmap indexing": lambda g: g.F.vmap(lambda a: a[1:] * a[0])(g.m),
    "vmap indexing by tensor": lambda g: g.F.vmap(lambda a: a[g.i])(g.m),
    "vmap gather": lambda g: g.F.vmap(lambda a: a.gather(0, g.i))(g.m),
    "vmap index batched": lambda g: g.F.vmap(lambda j: g.x[j])(g.i),
    "vmap where": lambda g: g.F.vmap(lambda a: g.T.where(a > 0, a, 0 * a))(g.m),
    "vmap view": lambda g: g.F.vmap(lambda a: a.view(1, 3).expand(2, 3).reshape(-1))(g.m),
    "vmap type promotion": lambda g: g.F.vmap(lambda a: a.sum() * g.f[0])(g.m),
    "vmap float32 by 0-d float64": lambda g: g.F.vmap(lambda a, b: a * b)(g.f, g.m[:, 0]),
    "vmap bool reduce": lambda g: g.F.vmap(lambda a: (a > 0).any())(g.m),
    "vmap argmax": lambda g: g.F.vmap(lambda a: a.argmax())(g.m),
    "vmap sort": lambda g: tuple(g.F.vmap(lambda a: tuple(a.sort()))(g.m)),
    "vmap in place on batched": lambda g: g.F.vmap(lambda a: a.clone().mul_(2))(g.m),
    "vmap new_zeros": lambda g: g.F.vmap(lambda a: a.new_zeros(2, 3) + a)(g.m),
    "vmap zeros_like in place": lambda g: g.F.vmap(_zeros_like_in_place(g))(g.m),
    "vmap shape": lambda g: g.F.vmap(lambda a: a * (a.ndim + a.shape[0] + a.size(0) + len(a) + a.numel()))(g.m),
    "vmap stack of rows": lambda g: g.F.vmap(lambda a: g.T.stack(list(a)))(g.m),
    "vmap unbind": lambda g: g.F.vmap(lambda a: a.unbind())(g.m),
    "vmap split": lambda g: g.F.vmap(lambda a: a.split(2)[0])(g.m),
    "vmap einsum": lambda g: g.F.vmap(lambda a: g.T.einsum("i,i->", a, g.x))(g.m),
    "vmap conv": lambda g: g.F.vmap(lambda a, k: g.T.nn.functional.conv1d(a[None], k[None, None, :2]))(g.c[:, :1], g.w),
    "vmap linear": lambda g: g.F.vmap(lambda k: g.T.nn.functional.linear(g.m, k))(g.c[:, :2]),
    "vmap cross entropy": lambda g: g.F.vmap(lambda a, t: g.T.nn.functional.cross_entropy(a[None], t[None]))(g.m[:3], g.i),
    # ---------------------------------------------------------------- Jacobians
    "jacrev": lambda g: g.F.jacrev(g.T.sin)(g.x),
    "jacfwd": lambda g: g.F.jacfwd(g.T.sin)(g.x),
    "jacrev argnums": lambda g: g.F.jacrev(lambda a, b: a * b, argnums=(0, 1))(g.x, g.y),
    "jacfwd argnums": lambda g: g.F.jacfwd(lambda a, b: a * b, argnums=(0, 1))(g.x, g.y),
    "jacrev argnums 1": lambda g: g.F.jacrev(lambda a, b: a @ b, argnums=1)(g.m, g.y),
    "jacrev aux": lambda g: g.F.jacrev(lambda a: (a ** 2, a + 1), has_aux=True)(g.x),
    "jacfwd aux": lambda g: g.F.jacfwd(lambda a: (a ** 2, a + 1), has_aux=True)(g.x),
    "jacrev chunk": lambda g: g.F.jacrev(lambda a: a ** 2, chunk_size=2)(g.x),
    "jacrev dict out": lambda g: g.F.jacrev(lambda a: {"k": a * 2, "l": a.sum()})(g.x),
    "jacfwd dict out": lambda g: g.F.jacfwd(lambda a: {"k": a * 2, "l": a.sum()})(g.x),
    "jacrev dict in": lambda g: g.F.jacrev(lambda p: p["a"] * p["b"])({"a": g.x, "b": g.y}),
    "jacfwd dict in": lambda g: g.F.jacfwd(lambda p: p["a"] * p["b"])({"a": g.x, "b": g.y}),
    "jacrev tuple out tuple in": lambda g: g.F.jacrev(lambda a, b: (a * b, b.sum()), argnums=(0, 1))(g.x, g.y),
    "jacfwd tuple out tuple in": lambda g: g.F.jacfwd(lambda a, b: (a * b, b.sum()), argnums=(0, 1))(g.x, g.y),
    "jacrev of a matrix": lambda g: g.F.jacrev(lambda a: a.sum(0))(g.m),
    "jacfwd of a matrix": lambda g: g.F.jacfwd(lambda a: a.sum(0))(g.m),
    "jacrev of a number": lambda g: g.F.jacrev(g.T.sin)(g.s),
    "jacfwd of a number": lambda g: g.F.jacfwd(g.T.sin)(g.s),
    "hessian": lambda g: g.F.hessian(lambda a: (a ** 3).sum() + a.prod())(g.x),
    "hessian argnums": lambda g: g.F.hessian(lambda a, b: (a ** 2 * b).sum(), argnums=(0, 1))(g.x, g.y),
    "hessian dict": lambda g: g.F.hessian(lambda p: (p["a"] ** 2 * p["b"]).sum())({"a": g.x, "b": g.y}),
    "jacrev of jacfwd": lambda g: g.F.jacrev(g.F.jacfwd(lambda a: (a ** 3).sum()))(g.x),
    "jacfwd of jacfwd": lambda g: g.F.jacfwd(g.F.jacfwd(lambda a: (a ** 3).sum()))(g.x),
    "jacrev of jacrev": lambda g: g.F.jacrev(g.F.jacrev(lambda a: (a ** 3).sum()))(g.x),
    "vmap of jacrev": lambda g: g.F.vmap(g.F.jacrev(lambda a: a ** 2))(g.m),
    "vmap of jacfwd": lambda g: g.F.vmap(g.F.jacfwd(lambda a: a ** 2))(g.m),
    "vmap of hessian": lambda g: g.F.vmap(g.F.hessian(lambda a: a.prod()))(g.m),
    "third derivatives": lambda g: g.F.jacrev(g.F.jacfwd(g.F.jacrev(lambda a: a.prod())))(g.x),
    "grad of hessian trace": lambda g: g.F.grad(lambda a: g.F.hessian(lambda b: (b ** 4).sum())(a).diagonal().sum())(g.x),
    "vmap vmap grad": lambda g: g.F.vmap(g.F.vmap(g.F.grad(lambda a: a.sin().sum())))(g.c),
    "grad vmap grad": lambda g: g.F.grad(lambda a: g.F.vmap(g.F.grad(lambda r: (r ** 3).sum()))(a).sum())(g.m),
    "linearize": lambda g: _linearized(g, lambda a: a.sin() * a),
    "linearize tuple": lambda g: g.F.linearize(lambda a, b: (a * b, a.sum()), g.x, g.y)[1](g.y, g.x),
    # ---------------------------------------------------------------- modules and others
    "functional_call": lambda g: g.F.functional_call(g.T.nn.Linear(3, 2, bias=False, dtype=g.T.float64), {"weight": g.w}, g.m),
    "functional_call grad": lambda g: g.F.grad(lambda p: g.F.functional_call(
        g.T.nn.Linear(3, 2, bias=False, dtype=g.T.float64), p, (g.m,)).sum())({"weight": g.w}),
    "functionalize": lambda g: g.F.functionalize(lambda a: a.clone().view(-1).add_(1))(g.m),
    "vmap is at the top": lambda g: g.T.vmap(g.T.dot)(g.m, g.m),
    "rearrange": lambda g: g.F.rearrange(g.c, "a b c -> c (a b)"),
    "rearrange split": lambda g: g.F.rearrange(g.c, "a (h w) ... -> h a ... w", h=2),
    "rearrange list": lambda g: g.F.rearrange([g.m, g.m], "k a b -> a (k b) 1"),
    "replace batch norms": lambda g: [g.F.replace_all_batch_norm_modules_(g.T.nn.Sequential(
        g.T.nn.BatchNorm1d(3)))[0].running_mean, None],
    "debug_unwrap": lambda g: g.F.debug_unwrap(g.x),
}


def _under(context, function):
    with context():
        return function()


def _no_grad_inside(g):
    def function(a):
        with g.T.no_grad():
            factor = a * 2
        return (a * factor).sum()
    return function


def _zeros_like_in_place(g):
    def function(a):
        made = g.T.zeros_like(a)
        made[0] = a[1]
        made += a
        return made
    return function


def _pulled(pair, *cotangents):
    return pair[0], pair[1](*cotangents)


def _through_the_tape(g):
    x = g.x.clone().requires_grad_()
    g.F.grad(lambda a: (a ** 3).sum())(x).sum().backward()
    return x.grad


def _linearized(g, function):
    output, push = g.F.linearize(function, g.x)
    return output, push(g.y), push(g.x)


def run(program, module):
    given = inputs()
    tensors = given if module is torch else {name: value(t) for name, t in given.items()}
    return program(Given(module, tensors))


def same_structure(a, b):
    if isinstance(b, (tuple, list)):
        return isinstance(a, (list if isinstance(b, list) else tuple)) and len(a) == len(b) and all(map(same_structure, a, b))
    if isinstance(b, dict):
        return isinstance(a, dict) and list(a) == list(b) and all(same_structure(a[k], b[k]) for k in b)
    return not isinstance(a, (tuple, list, dict))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    theirs, ours = run(PROGRAMS[name], torch), run(PROGRAMS[name], facade)
    assert same_structure(ours, theirs), f"{ours} against {theirs}"
    assert differences(ours, theirs) is None, differences(ours, theirs)


ERRORS = {
    "grad of a vector": lambda g: g.F.grad(g.T.sin)(g.x),
    "grad of a number": lambda g: g.F.grad(lambda a: a * 2)(1.5),
    "grad of a non-tensor result": lambda g: g.F.grad(lambda a: 1.0)(g.x),
    "grad argnums beyond": lambda g: g.F.grad(lambda a: a.sum(), argnums=1)(g.x),
    "grad of integers": lambda g: g.F.grad(lambda a: a.sum())(g.i),
    "grad aux missing": lambda g: g.F.grad(lambda a: a.sum(), has_aux=True)(g.x),
    "vjp non-tensor": lambda g: g.F.vjp(lambda a: 3, g.x),
    "vjp wrong structure": lambda g: g.F.vjp(lambda a: (a, a), g.x)[1](g.x),
    "vjp wrong shape": lambda g: g.F.vjp(lambda a: a, g.x)[1](g.m),
    "jvp primals not a tuple": lambda g: g.F.jvp(g.T.sin, g.x, g.x),
    "jvp wrong structure": lambda g: g.F.jvp(g.T.sin, (g.x,), (g.x, g.x)),
    "jvp wrong shape": lambda g: g.F.jvp(g.T.sin, (g.x,), (g.m,)),
    "jvp number": lambda g: g.F.jvp(g.T.sin, (1.0,), (2.0,)),
    "jvp strict constant": lambda g: g.F.jvp(lambda a: g.y, (g.x,), (g.x,), strict=True),
    "jvp non-tensor": lambda g: g.F.jvp(lambda a: 3, (g.x,), (g.x,)),
    "vmap sizes differ": lambda g: g.F.vmap(g.T.mul)(g.x, g.m),
    "vmap no batch": lambda g: g.F.vmap(g.T.sin, in_dims=None)(g.x),
    "vmap of a number": lambda g: g.F.vmap(lambda a: a)(1.0),
    "vmap of 0-d": lambda g: g.F.vmap(g.T.sin)(g.s),
    "vmap in_dims length": lambda g: g.F.vmap(g.T.dot, in_dims=(0,))(g.m, g.m),
    "vmap in_dims beyond": lambda g: g.F.vmap(g.T.sin, in_dims=2)(g.m),
    "vmap in_dims kind": lambda g: g.F.vmap(g.T.sin, in_dims="0")(g.m),
    "vmap in_dims nested wrong": lambda g: g.F.vmap(g.T.sin, in_dims=({"a": 0},))(g.m),
    "vmap out_dims beyond": lambda g: g.F.vmap(g.T.sin, out_dims=5)(g.m),
    "vmap out_dims None": lambda g: g.F.vmap(g.T.sin, out_dims=None)(g.m),
    "vmap out_dims length": lambda g: g.F.vmap(g.T.sin, out_dims=(0, 0))(g.m),
    "vmap returns a number": lambda g: g.F.vmap(lambda a: 1.0)(g.m),
    "vmap no arguments": lambda g: g.F.vmap(lambda: g.x)(),
    "vmap item": lambda g: g.F.vmap(lambda a: a.sum().item())(g.m),
    "vmap branch": lambda g: g.F.vmap(lambda a: a if a.sum() > 0 else -a)(g.m),
    "vmap random": lambda g: g.F.vmap(lambda a: a + g.T.rand(3))(g.m),
    "vmap dropout": lambda g: g.F.vmap(lambda a: g.T.nn.functional.dropout(a))(g.m),
    "vmap randomness": lambda g: g.F.vmap(g.T.sin, randomness="some")(g.m),
    "vmap chunk_size 0": lambda g: g.F.vmap(g.T.sin, chunk_size=0)(g.m),
    "vmap nonzero": lambda g: g.F.vmap(lambda a: a.nonzero())(g.m),
    "vmap write into an outer tensor": lambda g: g.F.vmap(lambda a: g.x.add_(a))(g.m),
    "jacrev non-tensor": lambda g: g.F.jacrev(lambda a: 3)(g.x),
    "jacfwd non-tensor": lambda g: g.F.jacfwd(lambda a: 3)(g.x),
    "jacrev of integers": lambda g: g.F.jacrev(lambda a: a * 2)(g.i),
    "jacrev chunk_size 0": lambda g: g.F.jacrev(g.T.sin, chunk_size=0)(g.x),
}


# ------------------------------------------------------------------------------ autograd.functional, forward_ad, autograd.grad
def _functional(g):
    return g.T.autograd.functional


def _dual(g, function):
    forward_ad = g.T.autograd.forward_ad
    with forward_ad.dual_level():
        result = function(forward_ad, forward_ad.make_dual(g.x, g.y))
        return tuple(forward_ad.unpack_dual(result))


def _created(g, function):
    x = g.x.clone().requires_grad_()
    found = function(x)
    leaves = found if isinstance(found, tuple) else (found,)
    total = sum(leaf.sum() for each in leaves for leaf in (each if isinstance(each, tuple) else (each,)))
    return found, g.T.autograd.grad(total, x)


def _module_dual(g):
    forward_ad, layer = g.T.autograd.forward_ad, g.T.nn.Linear(3, 2, bias=False, dtype=g.T.float64)
    with forward_ad.dual_level():
        del layer.weight
        layer.weight = forward_ad.make_dual(g.w, g.w * 2)
        return tuple(forward_ad.unpack_dual(layer(g.m)))


def _batched_grads(g):
    x = g.x.clone().requires_grad_()
    y = x ** 2
    return g.T.autograd.grad(y, x, g.T.eye(3, dtype=g.T.float64), is_grads_batched=True, create_graph=True)


TAPE = {
    "jacobian": lambda g: _functional(g).jacobian(lambda a: a ** 2, g.x),
    "jacobian of two": lambda g: _functional(g).jacobian(lambda a, b: (a * b, a.sum()), (g.x, g.y)),
    "jacobian tuple of one": lambda g: _functional(g).jacobian(lambda a: a * 2, (g.x,)),
    "jacobian vectorize": lambda g: _functional(g).jacobian(lambda a, b: (a * b, a.sum()), (g.x, g.y), vectorize=True),
    # lists in PyTorch, against its documentation
    "jacobian forward": lambda g: tuple(map(tuple, _functional(g).jacobian(
        lambda a, b: (a * b, a.sum()), (g.x, g.y), vectorize=True, strategy="forward-mode"))),
    "jacobian matrix": lambda g: _functional(g).jacobian(lambda a: a.exp().sum(1), g.m),
    "jacobian create_graph": lambda g: _created(g, lambda x: _functional(g).jacobian(lambda a: a ** 3, x, create_graph=True)),
    "jacobian strict": lambda g: _functional(g).jacobian(lambda a: a ** 2, g.x, strict=True),
    "hessian": lambda g: _functional(g).hessian(lambda a: (a ** 3).sum(), g.x),
    "hessian of two": lambda g: _functional(g).hessian(lambda a, b: (a ** 2 * b).sum(), (g.x, g.y)),
    "hessian vectorize": lambda g: _functional(g).hessian(lambda a: a.prod(), g.x, vectorize=True),
    "hessian forward": lambda g: _functional(g).hessian(lambda a: a.prod(), g.x, vectorize=True,
                                                        outer_jacobian_strategy="forward-mode"),
    "hessian create_graph": lambda g: _created(g, lambda x: _functional(g).hessian(lambda a: (a ** 4).sum(), x,
                                                                                   create_graph=True)),
    "vjp": lambda g: _functional(g).vjp(lambda a: a ** 2, g.x, g.y),
    "vjp of a number": lambda g: _functional(g).vjp(lambda a: (a ** 2).sum(), g.x),
    "vjp of two": lambda g: _functional(g).vjp(lambda a, b: (a * b, a + b), (g.x, g.y), (g.y, g.x)),
    "vjp create_graph": lambda g: _created(g, lambda x: _functional(g).vjp(lambda a: a ** 3, x, g.y, create_graph=True)),
    "jvp": lambda g: _functional(g).jvp(lambda a: a ** 2, g.x, g.y),
    "jvp of two": lambda g: _functional(g).jvp(lambda a, b: (a * b, a + b), (g.x, g.y), (g.y, g.x)),
    "jvp create_graph": lambda g: _created(g, lambda x: _functional(g).jvp(lambda a: a ** 3, x, g.y, create_graph=True)),
    "hvp": lambda g: _functional(g).hvp(lambda a: (a ** 3).sum(), g.x, g.y),
    "hvp of two": lambda g: _functional(g).hvp(lambda a, b: (a ** 2 * b).sum(), (g.x, g.y), (g.y, g.x)),
    "vhp": lambda g: _functional(g).vhp(lambda a: a.prod(), g.x, g.y),
    "vhp create_graph": lambda g: _created(g, lambda x: _functional(g).vhp(lambda a: (a ** 4).sum(), x, g.y,
                                                                           create_graph=True)),
    "dual": lambda g: _dual(g, lambda f, d: d.sin() * d),
    "dual through views": lambda g: _dual(g, lambda f, d: d[1:] * d[:-1]),
    "dual and in place": lambda g: _dual(g, lambda f, d: d.clone().mul_(d)),
    "dual without": lambda g: _dual(g, lambda f, d: g.x * 2),
    "dual in a module": _module_dual,
    "grads batched": _batched_grads,
}


@pytest.mark.parametrize("name", TAPE)
def test_tape_function(name):
    theirs, ours = run(TAPE[name], torch), run(TAPE[name], facade)
    assert same_structure(ours, theirs), f"{ours} against {theirs}"
    assert differences(ours, theirs) is None, differences(ours, theirs)


ERRORS.update({
    "jacobian strict independent": lambda g: _functional(g).jacobian(lambda a: g.y * 2, g.x, strict=True),
    "jacobian strict one of two": lambda g: _functional(g).jacobian(lambda a, b: a * 2, (g.x, g.y), strict=True),
    "jacobian strict create_graph": lambda g: _functional(g).jacobian(lambda a: a * 2, g.x, strict=True, create_graph=True),
    "jacobian of a number": lambda g: _functional(g).jacobian(lambda a: a * 2, 1.0),
    "jacobian gives a number": lambda g: _functional(g).jacobian(lambda a: 1.0, g.x),
    "jacobian forward create_graph": lambda g: _functional(g).jacobian(lambda a: a, g.x, vectorize=True, create_graph=True,
                                                                       strategy="forward-mode"),
    "jacobian forward not vectorized": lambda g: _functional(g).jacobian(lambda a: a, g.x, strategy="forward-mode"),
    "hessian of a vector": lambda g: _functional(g).hessian(lambda a: a * 2, g.x),
    "vjp without v": lambda g: _functional(g).vjp(lambda a: a * 2, g.x),
    "vjp wrong shape of v": lambda g: _functional(g).vjp(lambda a: a * 2, g.x, g.m),
    "jvp strict independent": lambda g: _functional(g).jvp(lambda a: g.y * 2, g.x, g.y, strict=True),
    "hvp of a vector": lambda g: _functional(g).hvp(lambda a: a * 2, g.x, g.y),
    "make_dual outside": lambda g: g.T.autograd.forward_ad.make_dual(g.x, g.y),
    "make_dual of integers": lambda g: _dual(g, lambda f, d: f.make_dual(g.i, g.i)),
    "make_dual shapes": lambda g: _dual(g, lambda f, d: f.make_dual(g.x, g.m)),
    "nested dual levels": lambda g: _dual(g, lambda f, d: _under(f.dual_level, lambda: d)),
})


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    kinds = []
    for module in (torch, facade):
        with pytest.raises(Exception) as caught:
            run(ERRORS[name], module)
        kinds.append(caught.value)
    theirs, ours = kinds
    builtin = next(k for k in type(theirs).__mro__ if k.__module__ == "builtins")
    assert isinstance(ours, builtin), f"{ours!r}, PyTorch raises {theirs!r}"
