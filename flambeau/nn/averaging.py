"""Averages of a model's parameters over training: `AveragedModel`, averaging functions, `update_bn` (torch.optim.swa_utils)."""

import itertools
from copy import deepcopy

from flambeau.nn.module import Module
from flambeau.nn.normalization import _BatchNorm
from flambeau.tensor import no_grad, tensor
from flambeau.types import dtype


def get_ema_avg_fn(decay=0.999):
    """Averaging function of an exponential moving average: average * decay + value * (1 - decay)."""
    _check_decay(decay)

    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """Averaging function of the plain mean of all values."""
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _over_lists(function):
    def update(averaged, values, number=None):
        for average, value in zip(averaged, values):
            if average.is_floating_point() or average.is_complex():
                average.copy_(function(average, value, number))
            else:
                average.copy_(value)
    return update


def get_ema_multi_avg_fn(decay=0.999):
    """As `get_ema_avg_fn`, for lists of tensors, in place."""
    return _over_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn():
    """As `get_swa_avg_fn`, for lists of tensors, in place."""
    return _over_lists(get_swa_avg_fn())


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of `model`, at `self.module`, whose parameters are averages over the calls of `update_parameters`.

    Args:
        model: the model that is trained.
        device: accepted.
        avg_fn: function (average, value, number of values so far) -> new average; by default the mean.
        multi_avg_fn: the same for lists of tensors, in place.
        use_buffers: average the buffers too, instead of copying them.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", tensor(0, dtype=dtype.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        return [value.detach() for value in (itertools.chain(model.parameters(), model.buffers())
                                             if self.use_buffers else model.parameters())]

    def update_parameters(self, model):
        """Take the present parameters of `model` into the averages."""
        own, values = self._tensors(self.module), self._tensors(model)
        number = self.n_averaged.item()
        with no_grad():
            if number == 0:
                for average, value in zip(own, values):
                    average.copy_(value)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn(own, values, number)
            else:
                _over_lists(self.avg_fn or get_swa_avg_fn())(own, values, number)
            if not self.use_buffers:
                for average, value in zip(self.module.buffers(), model.buffers()):
                    average.detach().copy_(value.detach())
            self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Compute the running statistics of all batch normalisation layers anew, over the batches of `loader`."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    kept = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    was_training = model.training
    model.train()
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for layer, momentum in zip(layers, kept):
        layer.momentum = momentum
    model.train(was_training)
