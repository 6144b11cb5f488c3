"""RMSprop, Adagrad and their kin against their formulas in NumPy; the state in PyTorch's layout; LBFGS on a quadratic."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn, optim

START = np.array([1.0, 2.0, -3.0])
GRADIENTS = [np.array([step, -1.0, 0.5 * (-1) ** step]) for step in range(1, 8)]


def run(name, options, strided=False):
    """(parameter, optimizer) after a step with each of GRADIENTS."""
    values = fl.tensor(START, dtype=fl.float64)
    if strided:
        values = fl.stack([values, values], 1)[:, 0]
    parameter = nn.Parameter(values)
    optimizer = getattr(optim, name)([parameter], **options)
    for gradient in GRADIENTS:
        parameter.grad = fl.tensor(gradient, dtype=fl.float64)
        optimizer.step()
    return parameter, optimizer


def rmsprop(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
    x, square, average, velocity = START, 0, 0, 0
    for g in GRADIENTS:
        g = g + weight_decay * x
        square, average = alpha * square + (1 - alpha) * g * g, alpha * average + (1 - alpha) * g
        velocity = momentum * velocity + g / (np.sqrt(square - centered * average ** 2) + eps)
        x = x - lr * velocity
    return x


def adagrad(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10):
    x, total = START, initial_accumulator_value
    for t, g in enumerate(GRADIENTS):
        g = g + weight_decay * x
        total = total + g * g
        x = x - lr / (1 + t * lr_decay) * g / (np.sqrt(total) + eps)
    return x


def adadelta(lr=1.0, rho=0.9, eps=1e-6):
    x, square, moved = START, 0, 0
    for g in GRADIENTS:
        square = rho * square + (1 - rho) * g * g
        delta = np.sqrt((moved + eps) / (square + eps)) * g
        moved = rho * moved + (1 - rho) * delta ** 2
        x = x - lr * delta
    return x


def adamax(lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
    x, average, largest = START, 0, 0
    for t, g in enumerate(GRADIENTS, 1):
        average = betas[0] * average + (1 - betas[0]) * g
        largest = np.maximum(betas[1] * largest, np.abs(g) + eps)
        x = x - lr / (1 - betas[0] ** t) * average / largest
    return x


def nadam(lr=2e-3, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0, decoupled_weight_decay=False):
    x, average, square, product = START, 0, 0, 1.0
    for t, g in enumerate(GRADIENTS, 1):
        if decoupled_weight_decay:
            x = x * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * x
        now, following = (b1 * (1 - 0.5 * 0.96 ** (0.004 * k)) for k in (t, t + 1))
        product *= now
        average, square = b1 * average + (1 - b1) * g, b2 * square + (1 - b2) * g * g
        scale = np.sqrt(square / (1 - b2 ** t)) + eps
        x = x - lr * (1 - now) / (1 - product) * g / scale - lr * following / (1 - product
                                                                               * following) * average / scale
    return x


def radam(lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    x, average, square, (b1, b2) = START, 0, 0, betas
    longest = 2 / (1 - b2) - 1
    for t, g in enumerate(GRADIENTS, 1):
        average, square = b1 * average + (1 - b1) * g, b2 * square + (1 - b2) * g * g
        length = longest - 2 * t * b2 ** t / (1 - b2 ** t)
        direction = average / (1 - b1 ** t)
        if length > 5:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            direction = direction * np.sqrt(rectified * (1 - b2 ** t)) / (np.sqrt(square) + eps)
        x = x - lr * direction
    return x


def asgd(lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6):
    x, eta = START, lr
    for t, g in enumerate(GRADIENTS, 1):
        x = x * (1 - lambd * eta) - eta * g
        eta = lr / (1 + lambd * lr * t) ** alpha
    return x


def rprop(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    x, previous, size = START, np.zeros(3), np.full(3, lr)
    for g in GRADIENTS:
        size = np.clip(size * np.select([g * previous > 0, g * previous < 0], etas[::-1], 1), *step_sizes)
        g = np.where(g * previous < 0, 0, g)
        x, previous = x - np.sign(g) * size, g
    return x


CASES = [
    ("RMSprop", rmsprop, {}), ("RMSprop", rmsprop, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", adagrad, {}), ("Adagrad", adagrad, {"lr_decay": 0.1, "initial_accumulator_value": 0.5,
                                                    "weight_decay": 0.2}),
    ("Adadelta", adadelta, {}), ("Adamax", adamax, {}), ("NAdam", nadam, {}),
    ("NAdam", nadam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", radam, {"betas": (0.9, 0.6)}),
    ("RAdam", radam, {}), ("ASGD", asgd, {"lr": 0.1, "lambd": 0.1}), ("Rprop", rprop, {}),
]


@pytest.mark.parametrize("strided", [False, True], ids=["fused", "op by op"])
@pytest.mark.parametrize("name, formula, options", CASES, ids=[f"{c[0]}-{len(c[2])}" for c in CASES])
def test_formula(name, formula, options, strided):
    parameter, _ = run(name, options, strided)
    tolerance = 1e-5 if name in ("NAdam",
                                 "ASGD") else 1e-9     # they keep a float32 number in their state, as PyTorch
    np.testing.assert_allclose(parameter.detach().numpy(), formula(**options), rtol=tolerance)


@pytest.mark.parametrize("name, keys", [
    ("RMSprop", ["step", "square_avg"]), ("Adagrad", ["step", "sum"]),
    ("Adadelta", ["step", "square_avg", "acc_delta"]),
    ("Adamax", ["step", "exp_avg", "exp_inf"]), ("NAdam", ["step", "mu_product", "exp_avg", "exp_avg_sq"]),
    ("RAdam", ["step", "exp_avg", "exp_avg_sq"]), ("ASGD", ["step", "eta", "mu", "ax"]),
    ("Rprop", ["step", "prev", "step_size"]),
])
def test_state_is_laid_out_as_pytorch_does(name, keys):
    _, optimizer = run(name, {})
    state = optimizer.state_dict()["state"][0]
    assert list(state) == keys
    assert state["step"].dtype is fl.float32 and state["step"].item() == len(GRADIENTS)


@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD",
                                  "Rprop", "Adafactor"])
def test_maximize_is_the_gradient_turned_round(name):
    results = []
    for sign, maximize in ((1, False), (-1, True)):
        parameter = nn.Parameter(fl.ones(2, 3))
        optimizer = getattr(optim, name)([parameter], maximize=maximize)
        for step in range(3):
            parameter.grad = fl.full((2, 3), sign * (step - 1.5))
            optimizer.step()
        results.append(parameter.detach().tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("name, options, message", [
    ("RMSprop", {"alpha": -1}, "Invalid alpha value"), ("Adadelta", {"rho": 1.5}, "Invalid rho value"),
    ("Rprop", {"etas": (1.1, 1.2)}, "Invalid eta values"),
    ("NAdam", {"betas": (1.0, 0.9)}, "beta parameter at index 0"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1"),
    ("LBFGS", {"lr": -1}, "Invalid learning rate"),
])
def test_options_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(optim, name)([nn.Parameter(fl.ones(2, 2))], **options)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_a_quadratic_in_one_step(search):
    target, weights = fl.tensor([0.5, -2.0, 3.0]), fl.tensor([1.0, 5.0, 0.3])
    parameter = nn.Parameter(fl.zeros(3))
    optimizer = optim.LBFGS([parameter], line_search_fn=search, max_iter=40)

    def closure():
        optimizer.zero_grad()
        loss = (weights * (parameter - target) ** 2).sum()
        loss.backward()
        return loss

    before = optimizer.step(closure)
    assert before.item() == pytest.approx(22.95, rel=1e-5)
    np.testing.assert_allclose(parameter.detach().numpy(), target.numpy(), atol=2e-3)


def test_muon_steps_are_nearly_orthogonal():
    fl.manual_seed(0)
    parameter = nn.Parameter(fl.zeros(4, 6))
    parameter.grad = fl.randn(4, 6)
    optim.Muon([parameter], lr=1.0, weight_decay=0).step()
    sizes = np.linalg.svd(parameter.detach().numpy(), compute_uv=False)
    assert 0.6 < sizes.min() and sizes.max() < 1.3
    with pytest.raises(ValueError, match="only supports 2D"):
        optim.Muon([nn.Parameter(fl.zeros(3))])


def test_adafactor_keeps_a_row_and_a_column():
    parameter = nn.Parameter(fl.ones(4, 6))
    optimizer = optim.Adafactor([parameter])
    parameter.grad = fl.full((4, 6), 0.5)
    optimizer.step()
    state = optimizer.state[parameter]
    assert tuple(state["row_var"].shape) == (4, 1) and tuple(state["col_var"].shape) == (1, 6)
    np.testing.assert_allclose(parameter.detach().numpy(), 0.99,
                               rtol=1e-6)     # equal gradients: the whole relative step


@pytest.mark.parametrize("one, other, option", [("Adam", "SGD", "betas"), ("SGD", "Adam", "momentum"),
                                                ("RMSprop", "Adagrad", "alpha"),
                                                ("LBFGS", "SGD", "history_size")])
def test_the_state_of_another_kind_of_optimizer_is_refused(one, other, option):
    parameter = nn.Parameter(fl.ones(1))
    saved = getattr(optim, one)([parameter]).state_dict()
    target = getattr(optim, other)([parameter], lr=0.25)
    with pytest.raises(ValueError,
                       match=rf"\[{other}\] this is the state of another optimizer: .*\b{option}\b"):
        target.load_state_dict(saved)
    assert target.param_groups[0]["lr"] == 0.25
    optim.AdamW([parameter]).load_state_dict(optim.Adam([parameter]).state_dict())


def test_adagrad_shares_its_state():
    parameter = fl.nn.Parameter(fl.ones(3))
    optimizer = fl.optim.Adagrad([parameter])
    optimizer.share_memory()
    assert optimizer.state[parameter]["sum"].is_shared()
    parameter.grad = fl.ones(3)
    optimizer.step()
    assert optimizer.state[parameter]["sum"].tolist() == [1, 1, 1]
