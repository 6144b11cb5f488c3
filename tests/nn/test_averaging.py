"""Averages of models over training, and running statistics computed anew."""

import flambeau as fl
from flambeau import nn
from flambeau.nn.averaging import AveragedModel, get_ema_avg_fn, update_bn


def test_averaged_models():
    model = nn.Linear(2, 1)
    mean, moving = AveragedModel(model), AveragedModel(model, avg_fn=get_ema_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        with fl.no_grad():
            model.weight.fill_(value)
        mean.update_parameters(model)
        moving.update_parameters(model)
    assert mean.module.weight.tolist() == [[3.0, 3.0]] and mean.n_averaged.item() == 3
    assert moving.module.weight.tolist() == [[3.75, 3.75]]


def test_update_bn_takes_the_mean_over_all_batches():
    model = nn.BatchNorm1d(2)
    batches = [fl.full((4, 2), 1.0), fl.full((4, 2), 5.0)]
    update_bn(batches, model)
    assert model.running_mean.tolist() == [3.0, 3.0] and model.momentum == 0.1
