"""PyTorch's own module and optimizer test data: outputs, state dicts, gradients, steps."""

import contextlib
import copy
import warnings

import known
import numpy
import pytest
import torch
from judge import differences, doubled
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from translate import Untranslatable, array, leaves, value

from flambeau import torch as facade

warnings.filterwarnings("ignore")
SAMPLES = 5
STEPS = 5


def module_name(info):
    return info.name.removeprefix("nn.")


MODULES = {module_name(info): info for info in module_db if not info.name.startswith(("nn.quant", "nn.modules", "nn.Lazy"))}     # lazy ones: tests/nn


def samples_of(info, training):
    torch.manual_seed(0)
    numpy.random.seed(0)
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    return found[::max(1, -(-len(found) // SAMPLES))]


def built(info, sample):
    """The same module on both sides, with PyTorch's weights; samples that PyTorch refuses give None."""
    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
    theirs = info.module_cls(*args, **kwargs)
    ours = getattr(facade.nn, info.module_cls.__name__)(*value(args), **value(kwargs))
    state = {name: value(tensor) for name, tensor in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state), "the names of the state differ"
    ours.load_state_dict(state)
    return theirs, ours


def module_difference(info, sample, training):
    theirs, ours = built(info, sample)
    theirs.train(training)
    ours.train(training)
    wide = copy.deepcopy(theirs).double()
    args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
    our_args, our_kwargs = value(args), value(kwargs)
    state = torch.get_rng_state()
    try:
        right = theirs(*args, **kwargs)
    except RuntimeError:                        # PyTorch refuses this sample
        return None
    drawn = not torch.equal(state, torch.get_rng_state())
    got = ours(*our_args, **our_kwargs)
    found = differences(got, right, lambda: wide(*doubled(args), **doubled(kwargs)), drawn)
    if found is not None or drawn:
        return found
    for name, tensor in theirs.state_dict().items():
        if differences(ours.state_dict()[name], tensor, lambda name=name: wide.state_dict()[name]) is not None:
            return f"{name} differs after the call"
    return gradient_difference((theirs, right, (args, kwargs)), (ours, got, (our_args, our_kwargs)))


def gradient_difference(theirs, ours):
    outputs = [[leaf for leaf in leaves(result, kind) if isinstance(leaf, kind) and leaf.requires_grad]
               for (_, result, _), kind in ((theirs, torch.Tensor), (ours, facade.Tensor))]
    if not outputs[0]:
        return None
    rng = numpy.random.default_rng(0)
    weights = [rng.uniform(0.5, 1.5, tuple(o.shape)).astype("float32") for o in outputs[0]]
    torch.autograd.backward(outputs[0], [torch.as_tensor(w) for w in weights])
    facade.autograd.backward(outputs[1], [facade.from_numpy(numpy.array(w)) for w in weights])
    pairs = [(f"the gradient of {name}", ours[0].get_parameter(name), parameter)
             for name, parameter in theirs[0].named_parameters()]
    inputs = zip(leaves(ours[2], facade.Tensor), leaves(theirs[2], torch.Tensor))
    pairs += [(f"the gradient of input {i}", a, b) for i, (a, b) in enumerate(inputs) if isinstance(b, torch.Tensor)]
    for what, a, b in pairs:
        if b.grad is None:
            continue
        if a.grad is None:
            return f"{what} is missing"
        x, y = array(a.grad), array(b.grad)
        size = numpy.abs(y[numpy.isfinite(y)]).max(initial=0.0)
        if not numpy.allclose(x, y, rtol=1e-4, atol=1e-5 + 2e-5 * size, equal_nan=True):
            return f"{what} differs by up to {numpy.abs(x - y).max():.3g}"
    return None


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, training):
    info, found = MODULES[name], None
    for sample in samples_of(info, training):
        try:
            found = module_difference(info, sample, training)
        except Untranslatable:
            continue
        if found is not None:
            break
    reason = known.MODULES.get(name)
    assert (found is None) == (reason is None), found or f"{name} agrees now: take it off the list"


# ---------------------------------------------------------------------------------- optimizers
def network(t):
    net = t.nn.Sequential(t.nn.Linear(6, 5), t.nn.Tanh(), t.nn.Linear(5, 3))
    return net


def gradients():
    rng = numpy.random.default_rng(1)
    return [[rng.normal(size=shape).astype("float32") for shape in ((5, 6), (5,), (3, 5), (3,))] for _ in range(STEPS)]


def walk(t, make, options, start, steps, as_tensor, state=None):
    """(the parameters after some steps with given gradients, the optimizer)."""
    net = network(t)
    with t.no_grad():
        for parameter, values in zip(net.parameters(), start):
            parameter.copy_(as_tensor(values))
    optimizer = make(net.parameters(), **options)
    if state is not None:
        optimizer.load_state_dict(state)
    for given in steps:
        for parameter, values in zip(net.parameters(), given):
            parameter.grad = as_tensor(values)
        optimizer.step(lambda: t.tensor(1.0)) if optimizer.__class__.__name__ == "LBFGS" else optimizer.step()
    return [p.detach().numpy().copy() for p in net.parameters()], optimizer


def settings():
    for info in optim_db:
        name = info.optim_cls.__name__
        with contextlib.suppress(Exception):
            for i, given in enumerate(info.optim_inputs_func(device="cpu")):
                plain = {k: v for k, v in given.kwargs.items() if k not in ("foreach", "fused", "capturable", "differentiable")}
                if not any(given.kwargs.get(k) for k in ("capturable", "differentiable", "fused")):
                    yield pytest.param(info, plain, id=f"{name}-{i}")


@pytest.mark.parametrize("info, options", settings())
def test_optimizer(info, options):
    name = info.optim_cls.__name__
    if name in ("SparseAdam", "Muon") or name in known.OPTIMIZERS:
        pytest.skip(known.OPTIMIZERS.get(name, "takes gradients or shapes of its own: tests/optim"))
    rng = numpy.random.default_rng(0)
    start = [rng.normal(size=shape).astype("float32") for shape in ((5, 6), (5,), (3, 5), (3,))]
    steps = gradients()
    theirs, _ = walk(torch, info.optim_cls, options, start, steps, torch.as_tensor)
    options = value(options)
    make = getattr(facade.optim, name)

    def ours(values):
        return facade.from_numpy(numpy.array(values))
    whole, _ = walk(facade, make, options, start, steps, ours)
    half, optimizer = walk(facade, make, options, start, steps[:3], ours)
    resumed, _ = walk(facade, make, options, half, steps[3:], ours, optimizer.state_dict())
    for a, b, c in zip(theirs, whole, resumed):
        assert numpy.allclose(a, b, rtol=2e-5, atol=1e-6), f"differs by up to {numpy.abs(a - b).max():.3g}"
        assert (b == c).all(), "a state dict does not resume exactly"
