"""What the native path takes, what it hands on, and that both give the same; the texts of errors."""

import gc
import sys
import weakref

import numpy
import pytest

import flambeau as fl
from flambeau.nn import Parameter
from flambeau.runtime import _core


class Labelled(fl.Tensor):
    """A subclass that a user might write."""

    def label(self):
        return "mine"


def labelled(values):
    return fl.Tensor._make_subclass(Labelled, fl.tensor(values))


def test_parameters_are_plain_operands():
    w = Parameter(fl.tensor([1.0, 2.0]))
    y = w * 3
    assert type(y) is fl.Tensor and y.requires_grad and not isinstance(y, Parameter)
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with fl.no_grad():
        w += 1
        w.mul_(2)
    assert type(w) is Parameter and w.tolist() == [4.0, 6.0]


def test_subclasses_compute_and_keep_gradients():
    x = labelled([1.0, 2.0])
    assert x[:1].tolist() == [1.0] and x[None].shape == (1, 2) and x[[1, 0]].tolist() == [2.0, 1.0]
    assert x.label() == "mine" and (x + 1).tolist() == [2.0, 3.0] and (1 - x).tolist() == [0.0, -1.0]
    assert x.sin().tolist() == fl.tensor([1.0, 2.0]).sin().tolist() and (x @ x).item() == 5.0
    assert x[1].item() == 2.0
    x.requires_grad_(True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with fl.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 3.0] and isinstance(x, Labelled)


OPERATORS = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
             lambda a, b: a // b, lambda a, b: a % b,
             lambda a, b: a ** b, lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b,
             lambda a, b: a >= b]


@pytest.mark.parametrize("operator", OPERATORS)
def test_numbers_of_every_kind_on_both_sides(operator):
    x = fl.tensor([1.0, 2.0, 5.0])
    for number in (2, 2.0, True, numpy.float64(2), numpy.int64(2), numpy.float32(2), numpy.bool_(True),
                   fl.tensor(2.0), fl.tensor(2)):
        value = number.item() if hasattr(number, "item") else number
        for a, b in ((x, number), (number, x)):
            if isinstance(a, numpy.generic):
                continue                # NumPy's own operators come first; their result is checked below
            got = operator(a, b)
            want = operator(*(numpy.array(x.numpy()) if v is x else value for v in (a, b)))
            assert isinstance(got, fl.Tensor) and got.shape == (3,)
            numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_a_numpy_number_on_the_left():
    x = fl.tensor([1.0, 2.0])
    got = numpy.float64(2) * x
    numpy.testing.assert_allclose(numpy.asarray(got), [2.0, 4.0])


@pytest.mark.parametrize("other", [None, "a", object(), [1, 2]])
def test_foreign_operands(other):
    x = fl.tensor([1.0, 2.0])
    with pytest.raises(TypeError):
        x + other
    with pytest.raises(TypeError):
        other - x
    assert (x == other) is False and (x != other) is True


@pytest.mark.parametrize("call, kind, words", [
    (lambda x: fl.add(x), TypeError, r"\[add\] argument 'other' is missing"),
    (lambda x: fl.sin(), TypeError, "'input' is missing"),
    (lambda x: fl.sin(x, 1, 2, 3), TypeError, "too many positional"),
    (lambda x: fl.add(x, "a"), TypeError, "wrong type: got str"),
    (lambda x: fl.sin(x, colour=1), TypeError, "unknown keyword argument: got 'colour'"),
    (lambda x: x + fl.ones(2), RuntimeError, r"add"),
    (lambda x: x.sum(3), IndexError, r"\[sum\] dimension out of range: got 3, wanted -1 to 0"),
    (lambda x: x.sum((0, 0)), RuntimeError, r"\[sum\]"),
    (lambda x: x.reshape(2, 2), RuntimeError, r"\[reshape\]"),
    (lambda x: x & 1.0, RuntimeError, "bit operations"),
    (lambda x: x.permute(0, 1), RuntimeError, r"\[permute\]"),
])
def test_error_texts(call, kind, words):
    x = fl.ones(3)
    for _ in range(2):
        with pytest.raises(kind, match=words) as caught:
            call(x)
    assert "test_dispatch.py" in str(caught.value) or kind is TypeError and "[" not in str(caught.value)


def test_keyword_and_numpy_names():
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert fl.sum(x, dim=0).tolist() == fl.sum(x, axis=0).tolist() == x.sum(axis=0).tolist() == [4.0, 6.0]
    assert x.sum(dim=1, keepdims=True).shape == (2, 1)
    assert fl.add(input=x, other=1).tolist() == (x + 1).tolist()
    assert fl.add(x, x, alpha=2).tolist() == (3 * x).tolist()
    assert x.add(1, alpha=3).tolist() == (x + 3).tolist()


def test_out_arguments():
    x, out = fl.tensor([1.0, 4.0]), fl.zeros(2)
    place = out.data_ptr()
    assert fl.sqrt(x, out=out) is out and out.tolist() == [1.0, 2.0] and out.data_ptr() == place
    fl.add(x, 1, out=out)
    assert out.tolist() == [2.0, 5.0]
    with pytest.raises(RuntimeError, match="differentiation"):
        fl.sqrt(x.requires_grad_(True), out=out)


def test_both_ways_agree():
    """The same call by operator, method, function and through Python (mode 1) gives the same bits."""
    rng = numpy.random.default_rng(0)
    for shape, other in (((8, 8), (8, 8)), ((3, 1), (1, 5)), ((), (4,)), ((0, 3), (1, 3)), ((2, 3, 4), (4,))):
        x, y = (fl.tensor(rng.uniform(1, 2, s).astype("float32")) for s in (shape, other))
        want = (x * y).numpy().tobytes()
        assert x.mul(y).numpy().tobytes() == fl.mul(x, other=y).numpy().tobytes() == want
        before = _core.set_mode(1)
        try:
            assert (x * y).numpy().tobytes() == want
        finally:
            _core.set_mode(before)


def test_strides_of_operands():
    array = numpy.arange(24.0).reshape(4, 6)
    x = fl.from_numpy(array)
    views = [(x, array), (x.t(), array.T), (x[::2], array[::2]), (x[:, ::3], array[:, ::3]),
             (x[1], array[1]), (x[:, 1], array[:, 1]),
             (x[:, :1], array[:, :1]), (x[None, :, None], array[None, :, None]),
             (x[0].expand(4, 6), numpy.broadcast_to(array[0], (4, 6)))]
    for a, m in views:
        for b, n in views:
            try:
                want = m + 2 * n
            except ValueError:
                with pytest.raises(RuntimeError):
                    a + 2 * b
                continue
            numpy.testing.assert_array_equal((a + 2 * b).numpy(), want)


def test_results_hold_no_references():
    """Operands are counted right: nothing leaks and nothing dies early."""
    x, y = fl.ones(4), fl.ones(4, requires_grad=True)
    for function in (lambda: x + x, lambda: x + 1, lambda: y * x, lambda: x.sum(), lambda: x.reshape(2, 2),
                     lambda: x @ x,
                     lambda: x[1], lambda: x[[1]], lambda: fl.cat([x, x]), lambda: (y * y).sum().backward(),
                     lambda: x.add_(0)):
        function()
        gc.collect()
        before = sys.getrefcount(x), sys.getrefcount(y), fl.memory.stats()["live_blocks"]
        for _ in range(50):
            function()
        gc.collect()
        assert (sys.getrefcount(x), sys.getrefcount(y), fl.memory.stats()["live_blocks"]) == before


def test_a_cycle_through_an_attribute_or_hook_is_collected():
    for make_cycle in (lambda t: setattr(t, "me", t), lambda t: t.register_hook(lambda g, t=t: None)):
        x = fl.ones(3, requires_grad=True)
        make_cycle(x)
        gone = weakref.ref(x)
        del x
        gc.collect()
        assert gone() is None
