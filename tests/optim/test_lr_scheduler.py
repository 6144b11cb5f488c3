"""Schedules against their closed formulas, over epochs, two groups and a reload."""

import math
import warnings

import pytest

import flambeau as fl
from flambeau import nn, optim
from flambeau.optim import lr_scheduler

SCHEDULES = {
    "StepLR": ({"step_size": 3, "gamma": 0.5}, lambda base, t: base * 0.5 ** (t // 3)),
    "MultiStepLR": ({"milestones": [2, 5, 5]}, lambda base, t: base * 0.1 ** ((t >= 2) + 2 * (t >= 5))),
    "ExponentialLR": ({"gamma": 0.9}, lambda base, t: base * 0.9 ** t),
    "LinearLR": ({"start_factor": 0.5, "total_iters": 4}, lambda base, t: base * (0.5 + 0.5 * min(t, 4) / 4)),
    "CosineAnnealingLR": ({"T_max": 6, "eta_min": 0.01},
                          lambda base, t: 0.01 + (base - 0.01) * (1 + math.cos(math.pi * t / 6)) / 2),
    "LambdaLR": ({"lr_lambda": lambda t: 1 / (t + 1)}, lambda base, t: base / (t + 1)),
    "MultiplicativeLR": ({"lr_lambda": lambda t: 0.8}, lambda base, t: base * 0.8 ** t),
}


def make_optimizer():
    one, two = nn.Parameter(fl.ones(1)), nn.Parameter(fl.ones(1))
    return optim.SGD([{"params": [one]}, {"params": [two], "lr": 0.5}], lr=0.1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_formula(name):
    options, formula = SCHEDULES[name]
    optimizer = make_optimizer()
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    for epoch in range(15):
        assert schedule.get_last_lr() == pytest.approx([formula(0.1, epoch), formula(0.5, epoch)])
        assert [group["lr"] for group in optimizer.param_groups] == schedule.get_last_lr()
        optimizer.step()
        schedule.step()
        if epoch == 6:
            saved, state = schedule.state_dict(), optimizer.state_dict()
            optimizer = make_optimizer()
            schedule = getattr(lr_scheduler, name)(optimizer, **options)
            optimizer.load_state_dict(state)
            schedule.load_state_dict(saved)


def test_reduce_on_plateau():
    optimizer = make_optimizer()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=[0.04, 0])
    rates = []
    for loss in [3, 2, 2.5, 2.5, 2.5, 2.5, 2.5, 1]:
        schedule.step(fl.tensor(float(loss)))
        rates.append(schedule.get_last_lr()[0])
    assert rates == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.04, 0.04]
    best = lr_scheduler.ReduceLROnPlateau(make_optimizer(), mode="max", threshold_mode="abs", threshold=1.0)
    best.step(1.0)
    best.step(1.5)
    assert best.best == 1.0 and best.num_bad_epochs == 1


def test_order_of_the_steps():
    optimizer = make_optimizer()
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer = make_optimizer()
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_a_tensor_rate_is_filled():
    rate = fl.tensor(0.5)
    optimizer = optim.SGD([nn.Parameter(fl.ones(1))], lr=rate)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == pytest.approx(0.05)


def test_errors():
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.StepLR(3, 2)
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        lr_scheduler.LambdaLR(make_optimizer(), [abs])
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(make_optimizer(), 2, last_epoch=3)
    with pytest.raises(ValueError, match="Factor should be < 1.0"):
        lr_scheduler.ReduceLROnPlateau(make_optimizer(), factor=1.0)
