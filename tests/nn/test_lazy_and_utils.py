"""Lazy layers, backward hooks, and the helpers of nn.utils."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import utils


def test_lazy_layers_take_their_size_from_the_first_input():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert isinstance(net[0].weight, nn.UninitializedParameter)
    assert net(fl.randn(3, 2, 5, 5)).shape == (3, 2)
    assert type(net[0]) is nn.Conv2d and net[0].weight.shape == (4, 2, 3,
                                                                 3) and type(net[0].weight) is nn.Parameter
    assert type(net[1]) is nn.BatchNorm2d and net[1].running_mean.shape == (4,)
    assert net[3].in_features == 36 and not net[3]._forward_pre_hooks


def test_lazy_layers_load():
    layer = nn.LazyLinear(2)
    layer.load_state_dict({"weight": fl.ones(2, 3), "bias": fl.zeros(2)})
    assert layer(fl.ones(1, 3)).tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("kind", [fl.optim.SGD, fl.optim.Adam])
def test_an_optimizer_made_before_the_first_call_trains_a_lazy_layer(kind):
    layer = nn.LazyLinear(2)
    weight, optimizer = layer.weight, kind(layer.parameters(), lr=0.5)
    layer(fl.ones(1, 3)).sum().backward()
    assert layer.weight is weight is optimizer.param_groups[0]["params"][0] and type(weight) is nn.Parameter
    before = weight.detach().clone()
    optimizer.step()
    assert np.allclose((before - weight).tolist(), 0.5)


def test_lazy_layers_can_be_copied_and_pickled():
    net = nn.Sequential(nn.LazyConv1d(3, 2), nn.LazyBatchNorm1d())
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(made[0].weight, nn.UninitializedParameter)
        assert made(fl.randn(2, 4, 5)).shape == (2, 3, 4) and made[1].running_mean.shape == (3,)
    shared = nn.UninitializedParameter(False, dtype=fl.float64)
    one, two = copy.deepcopy([shared, shared])
    assert one is two and one.dtype == fl.float64 and not one.requires_grad
    one.materialize((2, 3))
    assert type(one) is nn.Parameter and one.shape == (2, 3) and one.dtype == fl.float64


def test_backward_hooks():
    net, seen = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), []
    handle = net[2].register_full_backward_hook(lambda module, inputs,
                                                outputs: seen.append((inputs, outputs)))
    net[1].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0,))
    net(fl.ones(5, 3)).sum().backward()
    (inputs, outputs), = seen
    assert inputs[0].shape == (5, 4) and outputs[0].tolist() == [[1.0, 1.0]] * 5
    assert net[0].weight.grad.abs().sum().item() == 0 and net[2].weight.grad.abs().sum().item() > 0
    handle.remove()
    net(fl.ones(5, 3)).sum().backward()
    assert len(seen) == 1


def test_backward_pre_hook_replaces_the_gradient_of_the_output():
    layer = nn.Linear(2, 1, bias=False)
    layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 3,))
    layer(fl.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[3.0, 3.0]]


def test_buffers_by_assignment():
    module = nn.Module()
    module.kept, module.passing = nn.Buffer(fl.ones(2)), nn.Buffer(fl.ones(1), persistent=False)
    assert list(module.state_dict()) == ["kept"] and len(list(module.buffers())) == 2


def test_clipping():
    weights = [nn.Parameter(fl.zeros(2)), nn.Parameter(fl.zeros(1))]
    weights[0].grad, weights[1].grad = fl.tensor([3.0, 0.0]), fl.tensor([4.0])
    assert utils.clip_grad_norm_(weights, 1.0).item() == 5.0
    np.testing.assert_allclose(weights[1].grad.numpy(), [0.8], rtol=1e-5)
    assert utils.get_total_norm([w.grad for w in weights], float("inf")
                                ).item() == pytest.approx(0.8, rel=1e-5)
    utils.clip_grad_value_(weights, 0.5)
    np.testing.assert_allclose(weights[0].grad.numpy(), [0.5, 0.0])
    weights[0].grad = fl.tensor([float("nan"), 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    utils.vector_to_parameters(fl.arange(9.0), net.parameters())
    assert vector.shape == (9,) and net.bias.tolist() == [6.0, 7.0, 8.0]


def test_functional_call_and_fusion():
    net = nn.Linear(2, 1)
    got = utils.stateless.functional_call(net, {"weight": fl.ones(1, 2), "bias": fl.zeros(1)}, fl.ones(1, 2))
    assert got.item() == 2.0 and net.weight.requires_grad
    conv, norm, x = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), fl.randn(4, 2, 4, 4)
    norm(conv(x))
    conv.eval(), norm.eval()
    fused = utils.fuse_conv_bn_eval(conv, norm)
    np.testing.assert_allclose(fused(x).detach().numpy(), norm(conv(x)).detach().numpy(), rtol=1e-4,
                               atol=1e-5)


def test_weight_norm():
    layer, x = nn.Linear(3, 2), fl.randn(4, 3)
    before = layer(x)
    utils.weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(layer(x).detach().numpy(), before.detach().numpy(), rtol=1e-5, atol=1e-6)
    utils.remove_weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_skip_init_makes_real_members():
    assert utils.skip_init(nn.Linear, 3, 2).weight.device.type == "cpu"


@pytest.mark.parametrize("fill", [nn.init.orthogonal_, nn.init.dirac_])
def test_structured_starting_values(fill):
    if fill is nn.init.orthogonal_:
        w = fill(fl.empty(3, 5))
        np.testing.assert_allclose((w @ w.t()).numpy(), np.eye(3), atol=1e-5)
    else:
        x = fl.randn(1, 2, 6)
        assert fl.conv1d(x, fill(fl.empty(2, 2, 3)), padding=1).tolist() == x.tolist()
