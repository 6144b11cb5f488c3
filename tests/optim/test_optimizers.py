"""Optimizers against their formulas in NumPy, and their groups and states."""

import copy
import io
import pickle

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn, optim


def run(make, steps=5):
    """Values after `steps` steps of a parameter with the gradients g_t = [t, -1, 0.5 * t]."""
    parameter = nn.Parameter(fl.tensor([1.0, 2.0, -3.0]))
    optimizer = make([parameter])
    for step in range(1, steps + 1):
        parameter.grad = fl.tensor([float(step), -1.0, 0.5 * step])
        optimizer.step()
    return np.array(parameter.detach().tolist())


def gradients(steps=5):
    return [np.array([step, -1.0, 0.5 * step]) for step in range(1, steps + 1)]


@pytest.mark.parametrize("options", [
    {}, {"lr": 0.1, "momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"momentum": 0.5, "dampening": 0.3, "maximize": True}, {"weight_decay": 0.5},
])
def test_sgd(options):
    lr, momentum = options.get("lr", 1e-3), options.get("momentum", 0)
    x, buffer = np.array([1.0, 2.0, -3.0]), None
    for g in gradients():
        g = (-g if options.get("maximize") else g) + options.get("weight_decay", 0) * x
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - options.get("dampening", 0)) * g
            g = g + momentum * buffer if options.get("nesterov") else buffer
        x = x - lr * g
    np.testing.assert_allclose(run(lambda params: optim.SGD(params, **options)), x, rtol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("options", [
    {}, {"lr": 0.1, "weight_decay": 0.2}, {"lr": 0.1, "amsgrad": True, "maximize": True},
    {"lr": 0.1, "betas": (0.5, 0.8), "eps": 1e-3, "foreach": True},
])
def test_adam(name, options):
    lr, (b1, b2), eps = options.get("lr", 1e-3), options.get("betas", (0.9, 0.999)), options.get("eps", 1e-8)
    decay = options.get("weight_decay", 0.01 if name == "AdamW" else 0)
    x, m, v, largest = np.array([1.0, 2.0, -3.0]), 0, 0, 0
    for step, g in enumerate(gradients(), 1):
        g = -g if options.get("maximize") else g
        if name == "AdamW":
            x = x * (1 - lr * decay)
        else:
            g = g + decay * x
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        largest = np.maximum(largest, v)
        root = np.sqrt((largest if options.get("amsgrad") else v) / (1 - b2 ** step)) + eps
        x = x - lr * m / (1 - b1 ** step) / root
    np.testing.assert_allclose(run(lambda params: getattr(optim, name)(params, **options)), x, rtol=1e-4)


def test_training_descends():
    fl.manual_seed(0)
    model = nn.Linear(3, 1)
    x = fl.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 2.0]])
    y = fl.tensor([[1.0], [2.0], [3.0]])
    optimizer = optim.AdamW(model.parameters(), lr=0.05)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss
    losses = [optimizer.step(closure).item() for _ in range(100)]
    assert losses[-1] < 0.05 * losses[0]


def two_groups(**options):
    one, two = nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(2))
    return one, two, optim.SGD([{"params": [one], "lr": 0.5}, {"params": two}], **options)


def test_groups():
    one, two, optimizer = two_groups(lr=0.1)
    for parameter in (one, two):
        parameter.grad = fl.ones(2)
    optimizer.step()
    assert one.tolist() == [0.5, 0.5] and two.tolist() == pytest.approx([0.9, 0.9])
    third = nn.Parameter(fl.ones(1))
    optimizer.add_param_group({"params": third, "momentum": 0.9})
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1, 0.1]
    optimizer.step()                                            # `third` has no gradient: left alone
    assert third.tolist() == [1]


def test_zero_grad():
    one, two, optimizer = two_groups()
    one.grad = fl.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert one.grad.tolist() == [0, 0] and two.grad is None
    optimizer.zero_grad()
    assert one.grad is None


def test_state_dict_layout():
    one, two, optimizer = two_groups(lr=0.1, momentum=0.9)
    two.grad = fl.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert list(state["state"]) == [1] and list(state["state"][1]) == ["momentum_buffer"]
    adam = optim.AdamW([one])
    one.grad = fl.ones(2)
    adam.step()
    entry = adam.state_dict()["state"][0]
    assert list(entry) == ["step", "exp_avg", "exp_avg_sq"] and entry["step"].item() == 1


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_resume_from_a_file(name):
    """Three steps, save, load into a new optimizer, three more: the same as six."""
    def make(params):
        return getattr(optim, name)(params, lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))

    def steps(parameter, optimizer, numbers):
        for number in numbers:
            parameter.grad = fl.tensor([float(number), 1.0])
            optimizer.step()
    straight, broken = nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(2))
    steps(straight, make([straight]), range(6))
    first = make([broken])
    steps(broken, first, range(3))
    file = io.BytesIO()
    fl.save(first.state_dict(), file)
    file.seek(0)
    second = make([broken])
    second.load_state_dict(fl.load(file))
    steps(broken, second, range(3, 6))
    assert broken.tolist() == straight.tolist()


def test_state_takes_the_dtype_of_the_parameter():
    one, double = nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(2, dtype=fl.float64))
    first, second = optim.Adam([one]), optim.Adam([double])
    one.grad = fl.ones(2)
    first.step()
    second.load_state_dict(first.state_dict())
    state = second.state[double]
    assert state["exp_avg"].dtype is fl.float64 and state["step"].dtype is fl.float32


def test_copies():
    parameter = nn.Parameter(fl.ones(2))
    optimizer = optim.AdamW([parameter], lr=0.3)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert other.param_groups[0]["lr"] == 0.3 and other.param_groups[0]["params"][0] is not parameter


def test_named_parameters_and_repr():
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    assert repr(optim.SGD(model.parameters(), lr=0.1)) == """SGD (
Parameter Group 0
    dampening: 0
    differentiable: False
    foreach: None
    fused: None
    lr: 0.1
    maximize: False
    momentum: 0
    nesterov: False
    weight_decay: 0
)"""


def test_step_hooks():
    parameter, log = nn.Parameter(fl.ones(1)), []
    optimizer = optim.SGD([parameter])
    optimizer.register_step_pre_hook(lambda *args: log.append("before"))
    handle = optimizer.register_step_post_hook(lambda *args: log.append("after"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert log == ["before", "after", "before"]


def parameter():
    return nn.Parameter(fl.ones(2))


SHARED = nn.Parameter(fl.ones(2))


@pytest.mark.parametrize("act, kind, text", [
    (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda: optim.SGD(parameter()), TypeError, "should be an iterable of Tensors or dicts"),
    (lambda: optim.SGD([3]), TypeError, "one of the params is int"),
    (lambda: optim.SGD([SHARED * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: optim.SGD([{"params": {SHARED}}]), TypeError, "ordered collections"),
    (lambda: optim.SGD([{"params": SHARED}, {"params": SHARED}]), ValueError,
     "more than one parameter group"),
    (lambda: optim.SGD([("a", SHARED), parameter()]), ValueError, "with/without names"),
    (lambda: optim.SGD([SHARED], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: optim.SGD([SHARED], nesterov=True), ValueError, "Nesterov momentum requires"),
    (lambda: optim.Adam([SHARED], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
    (lambda: optim.AdamW([SHARED], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda: optim.SGD([SHARED]).load_state_dict({"state": {}, "param_groups": []}), ValueError,
     "different number of parameter groups"),
    (lambda: optim.SGD([SHARED]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
     ValueError, "doesn't match the size of optimizer's group"),
    (lambda: optim.Optimizer([SHARED], {}).step(), NotImplementedError, ""),
])
def test_errors(act, kind, text):
    with pytest.raises(kind) as caught:
        act()
    assert text in str(caught.value)


def test_an_optimizer_of_the_user():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with fl.no_grad():
                for group in self.param_groups:
                    for each in group["params"]:
                        each.sub_(each.grad.sign() * group["lr"])
    weight = parameter()
    weight.grad = fl.tensor([3.0, -2.0])
    Sign([weight], lr=0.5).step()
    assert weight.tolist() == [0.5, 1.5]


def test_a_list_that_is_a_module_is_taken_as_its_parameters():
    kept = nn.ParameterList([nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(3))])
    for optimizer in (optim.SGD(kept, lr=0.5), optim.SGD([{"params": kept}], lr=0.5)):
        assert [p.shape for p in optimizer.param_groups[0]["params"]] == [(2,), (3,)]
    kept[1].sum().backward()
    optimizer.step()
    assert kept[0].tolist() == [1.0, 1.0] and kept[1].tolist() == [0.5] * 3
    for module in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), nn.ParameterDict({"a": kept[0]})):
        with pytest.raises(TypeError, match="pass model.parameters()"):
            optim.SGD(module, lr=0.5)
