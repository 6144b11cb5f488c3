"""Schedules that go up and down, and those made of others, against numbers worked out by hand."""

import math
import pickle

import pytest

import flambeau as fl
from flambeau import nn, optim
from flambeau.optim import lr_scheduler


def rates(make, epochs, reload_at=None, lr=1.0, momentum=0.9):
    """The learning rate before the first epoch and after each of the others."""
    optimizer = optim.SGD([nn.Parameter(fl.ones(1))], lr=lr, momentum=momentum)
    schedule = make(optimizer)
    seen = [optimizer.param_groups[0]["lr"]]
    for epoch in range(epochs):
        if epoch == reload_at:
            saved, rate = schedule.state_dict(), optimizer.param_groups[0]["lr"]
            schedule = make(optimizer)
            schedule.load_state_dict(saved)
            optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        schedule.step()
        seen.append(optimizer.param_groups[0]["lr"])
    assert schedule.get_last_lr() == [seen[-1]]
    return seen


CASES = {
    "ConstantLR": (lambda o: lr_scheduler.ConstantLR(o, 0.25, 3), [0.25, 0.25, 0.25, 1, 1]),
    "PolynomialLR": (lambda o: lr_scheduler.PolynomialLR(o, 4, 2.0), [1, 9 / 16, 1 / 4, 1 / 16, 0, 0]),
    "WarmRestarts": (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
                     [1, 0.5, 1, (2 + 2 ** 0.5) / 4, 0.5,
                                                                                 (2 - 2 ** 0.5) / 4, 1]),
    "triangular": (lambda o: lr_scheduler.CyclicLR(o, 0, 1, 2, 4), [0, 0.5, 1, 0.75, 0.5, 0.25, 0, 0.5]),
    "triangular2": (lambda o: lr_scheduler.CyclicLR(o, 0, 1, 1, mode="triangular2"), [0, 1, 0, 0.5, 0, 0.25]),
    "exp_range": (lambda o: lr_scheduler.CyclicLR(o, 0, 1, 1, mode="exp_range", gamma=0.5),
                  [0, 0.5, 0, 0.125, 0]),
    "OneCycleLR": (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 6, pct_start=0.5, anneal_strategy="linear",
                                                     div_factor=5.0,
                                                     final_div_factor=2.0), [0.2, 0.6, 1, 0.7, 0.4, 0.1]),
    "SequentialLR": (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.1, 10),
                                                             lr_scheduler.ExponentialLR(o, 0.5)], [2]),
                     [0.1, 0.1, 1, 0.5, 0.25]),
    "ChainedScheduler": (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.5, 2),
                                                                  lr_scheduler.ExponentialLR(o, 0.5)]),
                         [0.5, 0.25, 0.25, 0.125]),
    "SWALR": (lambda o: lr_scheduler.SWALR(o, 0.2, 4, "linear"), [1, 0.8, 0.6, 0.4, 0.2, 0.2]),
}


@pytest.mark.parametrize("name", CASES)
def test_rates(name):
    make, wanted = CASES[name]
    assert rates(make, len(wanted) - 1) == pytest.approx(wanted)
    assert rates(make, len(wanted) - 1, reload_at=2) == pytest.approx(wanted)


def test_one_cycle_along_cosines_and_its_momentum():
    optimizer = optim.SGD([nn.Parameter(fl.ones(1))], lr=1.0, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=0.5)
    assert optimizer.param_groups[0]["momentum"] == 0.95
    for _ in range(2):
        optimizer.step()
        schedule.step()
    share = 2 / 4.5
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1 + (0.04 - 1) / 2
                                                            * (1 + math.cos(math.pi * share)))
    with pytest.raises(ValueError, match="Tried to step 12 times"):
        for _ in range(10):
            schedule.step()


def test_cycles_move_beta1_of_adam():
    optimizer = optim.Adam([nn.Parameter(fl.ones(1))])
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, step_size_up=2)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["betas"] == (pytest.approx(0.85), 0.999)


@pytest.mark.parametrize("make, message", [
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0), "define either total_steps OR"),
    (lambda o: lr_scheduler.CyclicLR(o, 0, 1, mode="square"), "mode is invalid"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), "positive integer T_0"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o)], [1]), "one more than the number"),
    (lambda o: lr_scheduler.ChainedScheduler([]), "at least one scheduler"),
    (lambda o: lr_scheduler.ConstantLR(o, factor=2.0), "between 0 and 1"),
])
def test_arguments_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make(optim.SGD([nn.Parameter(fl.ones(1))], lr=0.1, momentum=0.9))


def test_a_state_can_be_pickled():
    optimizer = optim.SGD([nn.Parameter(fl.ones(1))], lr=0.1, momentum=0.9)
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, scale_fn=lambda x: 1.0)
    assert pickle.loads(pickle.dumps(schedule.state_dict()))["max_lrs"] == [0.2]


def test_a_cosine_made_anew_at_its_end_starts_again():
    optimizer = optim.SGD([nn.Parameter(fl.ones(1))], lr=1.0)
    seen = []
    for _ in range(2):
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        for _ in range(2):
            seen.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
    assert seen == pytest.approx([1, 0.5, 1, 0.5])
