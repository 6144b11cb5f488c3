"""Writes in place, views and buffers inside transforms: random programs equal the same programs without writes."""

import random

import numpy
import pytest

import flambeau as fl
from flambeau import func

PROGRAMS = 100
ROWS, COLUMNS = 4, 3


class Written:
    """A program's state as a buffer with views, written in place."""

    def __init__(self, base):
        self.views = [base]

    def view(self, place, step):
        self.views.append(step(self.views[place]))

    def read(self, place):
        return self.views[place]

    def write(self, place, kind, value):
        target = self.views[place]
        if kind == "set":
            target[...] = value
        elif kind == "copy":
            target.copy_(value)
        elif kind == "add":
            target.add_(value)
        elif kind == "mul":
            target *= value
        else:
            target.sin_()


class Pure:
    """The same state as a list of elements: a write replaces elements, a view is a list of places."""

    def __init__(self, base):
        self.elements = list(base.reshape(-1))
        self.views = [numpy.arange(base.numel()).reshape(tuple(base.shape))]

    def view(self, place, step):
        self.views.append(step(self.views[place]))

    def read(self, place):
        at = self.views[place]
        return fl.stack([self.elements[i] for i in at.reshape(-1)]).reshape(at.shape)

    def write(self, place, kind, value):
        before, at = self.read(place), self.views[place]
        after = {"set": lambda: before * 0 + value, "copy": lambda: before * 0 + value, "add": lambda: before + value,
                 "mul": lambda: before * value, "sin": lambda: before.sin()}[kind]()
        for i, element in zip(at.reshape(-1), after.reshape(-1)):
            self.elements[i] = element


def view_step(rng, shape):
    """A random view of something of that shape, for tensors and arrays alike."""
    axis = rng.randrange(len(shape))
    start = rng.randrange(shape[axis])
    lead = (slice(None),) * axis
    kinds = ["slice", "step", "swap"] + (["select"] if len(shape) > 1 else [])
    kind = rng.choice(kinds)
    if kind == "swap" and len(shape) > 1:
        return lambda t: t.swapaxes(0, len(shape) - 1)
    if kind == "select":
        return lambda t: t[(*lead, start)]
    if kind == "step":
        return lambda t: t[(*lead, slice(None, None, 2))]
    return lambda t: t[(*lead, slice(start, None))]


def program(seed):
    """A random function of a state and a matrix x: a list of steps, decided before it runs."""
    rng = random.Random(seed)
    shapes, steps = [(ROWS, COLUMNS)], []
    for _ in range(rng.randint(3, 7)):
        place = rng.randrange(len(shapes))
        if rng.random() < 0.4:
            step = view_step(rng, shapes[place])
            shapes.append(step(numpy.empty(shapes[place])).shape)
            steps.append(("view", place, step))
            continue
        fits = [i for i, s in enumerate(shapes) if s == shapes[place]]
        source = rng.choice(fits)
        value = rng.choice([lambda x, state: x[0, 1], lambda x, state, i=source: state.read(i) * x[1, 1],
                            lambda x, state, i=source: state.read(i).cos() + x[2, 0], lambda x, state: 0.5])
        steps.append(("write", place, rng.choice(["set", "add", "mul", "sin", "copy"]), value))
    start = rng.choice(["clone", "product", "zeros", "zeros_like"])

    def run(kind, x):
        base = {"clone": x.clone, "product": lambda: x * 2, "zeros": lambda: fl.zeros(ROWS, COLUMNS, dtype=fl.float64),
                "zeros_like": lambda: fl.zeros_like(x)}[start]()
        state = kind(base)
        for step in steps:
            if step[0] == "view":
                state.view(step[1], step[2])
            else:
                value = step[3](x, state)
                if step[2] == "copy" and not isinstance(value, fl.Tensor):
                    value = x[0, 0]
                state.write(step[1], step[2], value)
        weights = fl.arange(1.0, 1 + ROWS * COLUMNS, dtype=fl.float64).reshape(ROWS, COLUMNS)
        total = (state.read(0) * weights).sum()
        return total + sum((state.read(i) ** 2).sum() for i in range(1, len(state.views)))

    return run


def by_transforms(run, batch, v):
    """What transforms say about the written program."""
    x, f = batch[0], lambda a: run(Written, a)
    yield "value", f(x)
    yield "grad", func.grad(f)(x)
    yield "jvp", func.jvp(f, (x,), (v,))[1]
    yield "vmap", func.vmap(f)(batch)
    yield "vmap of grad", func.vmap(func.grad(f))(batch)
    yield "grad of vmap", func.grad(lambda b: func.vmap(f)(b).sum())(batch)
    yield "jvp of grad", func.jvp(func.grad(f), (x,), (v,))[1]


def by_tape(run, batch, v):
    """The same from the program without writes, example by example, on the tape."""
    values, grads = [], []
    for row in batch:
        leaf = row.clone().requires_grad_()
        value = run(Pure, leaf) + leaf.sum() * 0
        first, = fl.grad(value, leaf, create_graph=not values, materialize_grads=True)
        if not values:
            second = fl.grad((first * v).sum(), leaf, materialize_grads=True)[0] if first.requires_grad else v * 0
        values.append(value.detach())
        grads.append(first.detach())
    values, grads = fl.stack(values), fl.stack(grads)
    return [values[0], grads[0], (grads[0] * v).sum(), values, grads, grads, second]


@pytest.mark.parametrize("part", range(5))
def test_random_programs(part):
    rng = numpy.random.default_rng(0)
    batch, v = fl.tensor(rng.uniform(-1, 1, (3, ROWS, COLUMNS))), fl.tensor(rng.uniform(-1, 1, (ROWS, COLUMNS)))
    for seed in range(part, PROGRAMS, 5):
        run = program(seed)
        for (name, got), want in zip(by_transforms(run, batch, v), by_tape(run, batch, v)):
            assert fl.allclose(got, want, rtol=1e-9, atol=1e-9), f"program {seed}, {name}: {got} instead of {want}"


def test_buffers_made_inside_take_values():
    def f(x):
        buffer, tail = fl.zeros(3, dtype=fl.float64), fl.empty(2, dtype=fl.float64)
        buffer[0] = x[0] * x[1]
        view = buffer[1:]
        view += x[1:]
        tail.copy_(x[:2])
        return (buffer ** 2).sum() * tail.sum()

    def g(x):
        return ((x[0] * x[1]) ** 2 + x[1] ** 2 + x[2] ** 2) * (x[0] + x[1])

    x = fl.tensor([0.5, -1.0, 2.0], dtype=fl.float64)
    batch = fl.stack([x, x * 2, x + 1])
    for transform in (func.grad, func.hessian, func.jacrev, func.jacfwd):
        assert fl.allclose(transform(f)(x), transform(g)(x))
    assert fl.allclose(func.vmap(f)(batch), func.vmap(g)(batch))
    assert fl.allclose(func.vmap(func.hessian(f))(batch), func.vmap(func.hessian(g))(batch))


def test_writes_under_no_grad_are_not_differentiated():
    def f(x):
        y = x * 3
        with fl.no_grad():
            y[0] = 5.0
            y.mul_(2)
        return (y * y).sum()

    x = fl.tensor([1.0, 2.0])
    leaf = x.clone().requires_grad_()
    f(leaf).backward()
    assert func.grad(f)(x).tolist() == leaf.grad.tolist()


def test_a_tensor_from_outside_refuses_inner_values():
    outside = fl.zeros(3)
    for transform, x in ((func.grad, fl.ones(3)), (func.jacfwd, fl.ones(3)), (func.vmap, fl.ones(2, 3))):
        with pytest.raises(RuntimeError, match="outside"):
            transform(lambda x: outside.add_(x).sum())(x)
    assert outside.tolist() == [0.0] * 3


def test_constants_made_inside_do_not_stay_wrapped():
    kept = []
    func.grad(lambda x: (kept.append(fl.arange(3)), x.sum())[1])(fl.ones(2))
    func.vmap(lambda x: (kept.append(fl.ones(2)), x)[1])(fl.ones(2))
    for constant in kept:
        assert type(constant + 1) is fl.Tensor and (constant + 1).sum().item() > 0
    assert (kept[1] * fl.ones(2, requires_grad=True)).requires_grad


def test_assignment_to_an_index():
    x = fl.tensor([0.5, -1.0, 2.0, 3.0], dtype=fl.float64)
    index, batch = fl.tensor([2, 0]), fl.stack([x, x * 2, x + 1])
    indices = fl.tensor([[2, 0], [1, 3], [0, 1]])

    def f(a, i=index):
        b = a * 2
        b[i] = a[1:3] ** 2
        return (b ** 2).sum()

    def g(a, i=index):
        return (((a * 2).scatter(0, i, a[1:3] ** 2)) ** 2).sum()

    for transform in (func.grad, func.hessian):
        assert fl.allclose(transform(f)(x), transform(g)(x))
    assert fl.allclose(func.jvp(f, (x,), (x + 1,))[1], func.jvp(g, (x,), (x + 1,))[1])
    assert fl.allclose(func.vmap(f)(batch, indices), func.vmap(g)(batch, indices))
    assert fl.allclose(func.vmap(func.grad(f))(batch, indices), func.vmap(func.grad(g))(batch, indices))

    def masked(a):
        b = a.clone()
        b[a > 1] = 0.0
        return (b ** 3).sum()

    assert fl.allclose(func.grad(masked)(x), fl.where(x > 1, 0.0, 3 * x ** 2))
    assert fl.allclose(func.vmap(func.grad(masked))(batch), fl.where(batch > 1, 0.0, 3 * batch ** 2))


def test_as_strided_shows_the_elements_in_row_major_order():
    x = fl.arange(6.0).reshape(2, 3)
    f = lambda a: (a.as_strided((2, 2), (1, 2), 1) ** 2).sum()
    leaf = x.clone().requires_grad_()
    f(leaf).backward()
    assert func.grad(f)(x).tolist() == leaf.grad.tolist()
    assert func.vmap(f)(fl.stack([x, x + 1])).tolist() == [f(x).item(), f(x + 1).item()]
    with pytest.raises(RuntimeError, match="copy"):
        func.grad(lambda a: a.clone().as_strided((2,), (1,)).mul_(2).sum())(x)


def test_shapes_changed_in_place():
    def f(a):
        b = a * 2
        b.unsqueeze_(0)
        b.transpose_(0, 1)
        assert tuple(b.shape) == (3, 1)
        b[1] = 5.0
        return (b ** 2).sum()

    x = fl.tensor([1.0, 2.0, 3.0])
    assert func.grad(f)(x).tolist() == [8.0, 0.0, 24.0]
    assert func.jvp(f, (x,), (fl.ones(3),))[1].item() == 32.0
    assert func.vmap(func.grad(f))(fl.stack([x, x * 2])).tolist() == [[8.0, 0.0, 24.0], [16.0, 0.0, 48.0]]
    filled = func.grad(lambda a: (a * 2).fill_diagonal_(1.0).sum())(fl.ones(2, 2))
    assert filled.tolist() == [[0.0, 2.0], [2.0, 0.0]]
    bits = func.vmap(lambda a: a.view(fl.int32))(fl.ones(2, 3))
    assert bits.dtype is fl.int32 and bits.tolist() == fl.ones(2, 3).view(fl.int32).tolist()
