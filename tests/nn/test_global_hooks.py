"""Hooks of all modules: before a module's own, native calls again when the last is gone."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import global_hooks as every


@pytest.fixture
def handles():
    made = []
    yield made
    for handle in made:
        handle.remove()
    assert nn.Module.__dict__["__call__"] is every._NATIVE_CALL


def test_forward_hooks_run_first_and_change_values(handles):
    order, layer, net = [], nn.Identity(), nn.Sequential(nn.Identity())
    layer.register_forward_pre_hook(lambda m, args: order.append("own pre"))
    layer.register_forward_hook(lambda m, args, out: order.append("own"))
    handles.append(
        every.register_module_forward_pre_hook(lambda m, args: order.append("pre") or (args[0] + 1,))
    )
    handles.append(every.register_module_forward_hook(lambda m, args, out: order.append("after") or out * 10))
    assert layer(fl.tensor(1.0)).item() == 20 and order == ["pre", "own pre", "after", "own"]
    assert net(fl.tensor(1.0)).item() == (1 + 1 + 1) * 100  # the inner module's hooks run too
    for handle in handles:
        handle.remove()
    assert layer(fl.tensor(1.0)).item() == 1 and order[-2:] == ["own pre", "own"]


def test_keywords_and_errors(handles):
    class Fails(nn.Module):
        def forward(self, x, scale=1):
            raise ValueError("no") if scale > 1 else None

    seen = []
    handles.append(
        every.register_module_forward_hook(
            lambda m, args, kwargs, out: seen.append((kwargs, out)), with_kwargs=True, always_call=True
        )
    )
    with pytest.raises(ValueError):
        Fails()(1, scale=2)
    assert seen == [({"scale": 2}, None)]


def test_backward_hooks(handles):
    seen = []
    handles.append(every.register_module_full_backward_pre_hook(lambda m, grads: (grads[0] * 2,)))
    handles.append(
        every.register_module_full_backward_hook(
            lambda m, inputs, outputs: seen.append((inputs[0].item(), outputs[0].item()))
        )
    )
    x = fl.tensor(3.0, requires_grad=True)
    nn.Identity()(x).backward()
    assert seen == [(2.0, 2.0)] and x.grad.item() == 2
    handles.append(every.register_module_backward_hook(lambda m, inputs, outputs: (inputs[0] * 5,)))
    y = fl.tensor(3.0, requires_grad=True)
    nn.Identity()(y).backward()
    assert y.grad.item() == 10


def test_registration_hooks(handles):
    seen = []
    for kind in ("parameter", "buffer", "module"):
        handles.append(
            getattr(every, f"register_module_{kind}_registration_hook")(
                lambda module, name, value, kind=kind: seen.append((kind, name))
            )
        )
    net = nn.Sequential(nn.BatchNorm1d(2))
    net.child = nn.Identity()
    assert ("module", "0") in seen and ("module", "child") in seen
    assert ("parameter", "weight") in seen and ("buffer", "running_mean") in seen
    handles.append(
        every.register_module_parameter_registration_hook(
            lambda module, name, value: nn.Parameter(value.detach() * 0 + 7)
        )
    )
    net.added = nn.Parameter(fl.ones(2))
    assert (net.added == 7).all()


def test_facade_has_them():
    from flambeau.torch.nn.modules import module

    assert all(hasattr(module, name) for name in every.__all__) and len(every.__all__) == 8
