"""`__torch_function__`, modes and dispatch, beyond what the pages in `behaviours` show."""

import inspect
import subprocess
import sys

import pytest

import flambeau as fl
from flambeau import torch
from flambeau.ops import interpose, overrides
from flambeau.torch.overrides import TorchFunctionMode, resolve_name
from flambeau.torch.utils._python_dispatch import TorchDispatchMode
from flambeau.types.dtype import set_repr_prefix


@pytest.fixture(autouse=True, scope="module")
def own_names_again():
    yield
    set_repr_prefix("flambeau")


class Kept(torch.Tensor):
    """A subclass without anything of its own."""


class Watched(torch.Tensor):
    """A subclass that notes what is called."""

    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func, types))
        return super().__torch_function__(func, types, args, kwargs)


class Names(TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_a_program_without_overrides_has_no_doors():
    program = (
        "import flambeau as fl; from flambeau.ops import overrides; import flambeau.nn.functional as F\n"
        "fl.stack([fl.ones(2), fl.nn.Parameter(fl.ones(2))]); F.dropout(fl.ones(2))\n"
        "print(len(overrides._DOORS))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "0\n"


def test_doors_keep_identity_signature_and_defaults():
    overrides.open_doors()
    assert torch.zeros is fl.zeros and torch.nn.functional.dropout is fl.nn.functional.dropout
    assert list(inspect.signature(torch.nn.functional.dropout).parameters) == [
        "input",
        "p",
        "training",
        "inplace",
    ]
    assert torch.nn.functional.dropout(torch.ones(3), training=False).tolist() == [1, 1, 1]
    assert torch.zeros(2).tolist() == [0, 0] and torch.zeros.__name__ == "zeros"


def test_function_and_types_are_handed_over():
    Watched.seen.clear()
    x = torch.ones(2).as_subclass(Watched)
    torch.add(x, torch.ones(2))
    x.mul(2)
    assert Watched.seen[0] == (torch.add, (Watched,)) and Watched.seen[-1][0] is torch.Tensor.mul
    x[0] = 3
    x.grad = None
    assert [resolve_name(func) for func, _ in Watched.seen[-2:]] == [
        "torch.Tensor.__setitem__",
        "torch.Tensor.grad.__set__",
    ]


def test_gradients_flow_through_subclasses():
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (torch.sin(w.as_subclass(Kept)) * w).sum().backward()
    expected = w.detach().cos() * w.detach() + w.detach().sin()
    assert torch.allclose(w.grad, expected) and type(w.grad) is torch.Tensor
    (first,) = torch.autograd.grad((w.as_subclass(Kept) ** 3).sum(), w, create_graph=True)
    first.sum().backward()
    assert torch.allclose(w.grad, expected + 6 * w.detach())


def test_in_place_forms_and_out_keep_the_object():
    x = torch.zeros(3).as_subclass(Kept)
    assert x.add_(1) is x and x.tolist() == [1, 1, 1]
    x += 1
    x[1:] *= 2
    assert type(x) is Kept and x.tolist() == [2, 4, 4]
    assert torch.add(x, 1, out=torch.empty(3)).tolist() == [3, 5, 5]


def test_attributes_of_instances():
    x = torch.ones(2).as_subclass(Kept)
    x.note = 1
    assert x.note == 1
    del x.note
    assert not hasattr(x, "note")
    with pytest.raises(AttributeError):
        del x.note


def test_numbers_from_the_left():
    x = torch.tensor([1.0, 4.0]).as_subclass(Kept)
    assert (2 - x).tolist() == [1, -2] and (2 / x).tolist() == [2, 0.5] and (2**x).tolist() == [2, 16]
    assert type(2 - x) is type(1 + x) is type(7 // x) is type(-x) is type(x > 1) is Kept


def test_a_mode_is_of_its_thread_and_is_left_after_errors():
    import threading

    mode, found = Names(), []
    with pytest.raises(ZeroDivisionError), mode:
        thread = threading.Thread(target=lambda: found.append(torch.ones(1) + 1))
        thread.start()
        thread.join()
        1 / 0
    assert mode.seen == [] and not interpose.modes() and fl.runtime._core.get_mode() == 0
    assert type(vars(torch.Tensor)["detach"]).__name__ != "MethodDoor"


def test_methods_and_attributes_are_seen_by_modes():
    x = torch.ones(2, 2)
    with Names() as mode:
        x.detach()
        x.view(4)
        x.shape
        x[0]
        x.add_(1)
    assert mode.seen == [
        "torch.Tensor.detach",
        "torch.Tensor.view",
        "torch.Tensor.shape.__get__",
        "torch.Tensor.__getitem__",
        "torch.Tensor.add_",
    ]


def test_a_mode_that_declines_leaves_the_call_to_the_types():
    class Declines(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Answers:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "answer"

    one = torch.ones(1)
    with Declines():
        assert torch.add(Answers(), 1) == "answer"
        with pytest.raises(TypeError, match="torch.sub"):
            torch.sub(one, one)


def test_dispatch_modes_see_ops():
    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Ops():
        y = (torch.ones(2, 3) + 1) @ torch.ones(3, 1)
    assert y.tolist() == [[6], [6]] and seen == ["aten.add.Scalar", "aten.matmul.default"]
    assert (
        torch.ops.aten.add.Tensor is torch.ops.aten.add.Tensor
        and torch.ops.aten.mm.default.name() == "aten::mm"
    )
    assert torch.ops.aten.add.Tensor(torch.ones(1), torch.ones(1)).item() == 2 and not hasattr(
        torch.ops.aten, "no_such"
    )


def test_torch_dispatch_of_a_subclass():
    class Boxed(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_subclass(cls, inner)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name())
            plain = [arg.inner if isinstance(arg, Boxed) else arg for arg in args]
            return Boxed(func(*plain, **(kwargs or {})))

    seen = []
    x = Boxed(torch.ones(2))
    assert type(x * 3) is Boxed and (x * 3).inner.tolist() == [3, 3] and x.shape == (2,)
    assert set(seen) == {"aten::mul.Scalar"}


def test_wrapper_subclasses_are_refused_with_a_way_out():
    with pytest.raises(
        NotImplementedError, match=r"_make_wrapper_subclass\][^\n]*Kept[^\n]*\n.*_make_subclass"
    ):
        torch.Tensor._make_wrapper_subclass(Kept, (2, 3))


def test_node_hooks_see_both_sides_and_replace():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    handle = y.grad_fn.register_hook(lambda inner, outer: (inner[0] * 0 + 7,))
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]
    handle.remove()
    x.grad = None
    z = x * 2
    z.grad_fn.register_prehook(lambda outer: (outer[0] * 5,))
    z.sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_what_is_retained_is_what_hooks_made():
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda gradient: gradient * 2)
    y.sum().backward()
    assert y.grad.tolist() == [2, 2] and x.grad.tolist() == [6, 6]


def test_axis_for_every_dim():
    x = torch.arange(6.0).reshape(2, 3)
    for name in (
        "max",
        "min",
        "argmax",
        "argmin",
        "median",
        "unbind",
        "aminmax",
        "nansum",
        "argsort",
        "diff",
        "count_nonzero",
    ):
        by_dim, by_axis = getattr(torch, name)(x, dim=1), getattr(torch, name)(x, axis=1)
        if isinstance(by_dim, torch.Tensor):
            by_dim, by_axis = [by_dim], [by_axis]
        assert all(torch.equal(a, b) for a, b in zip(by_dim, by_axis)), name
    assert torch.stack([x, x], axis=2).shape == (2, 3, 2) and x.chunk(3, axis=1)[0].shape == (2, 1)
    assert x.max(axis=1, keepdims=True).values.shape == (2, 1)


def test_writes_through_data_are_not_counted():
    x = torch.tensor([3.0], requires_grad=True)
    y = x * x
    x.data.fill_(10)
    x.data[0] = 11
    y.backward()
    assert x.grad.item() == 22
    y = x * x
    with torch.no_grad():
        x.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()
