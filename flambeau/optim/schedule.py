"""The base of learning rate schedules, and how they read and write the options of a group."""

import warnings

from flambeau.optim.optimizer import Optimizer, as_number
from flambeau.tensor import Tensor


def group_values(optimizer, key):
    """The option `key` of every group; tensors as copies."""
    values = (group[key] for group in optimizer.param_groups)
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def set_group_value(group, key, value):
    """Set the option of a group; a tensor is filled."""
    if isinstance(group[key], Tensor):
        group[key].fill_(as_number(value))
    else:
        group[key] = value


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base of the schedules: a subclass defines `get_lr`, the rates of all groups at `last_epoch`.

    Args:
        optimizer: whose groups are changed.
        last_epoch: the last epoch done, to resume; -1 to start.
    """

    _is_initial = False
    _get_lr_called_within_step = False

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                               "scheduler with last_epoch >= 0; load the optimizer's state first")
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self):
        """The learning rate of every group for the epoch `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} says in get_lr() the rate of every group")

    def get_last_lr(self):
        """The learning rates set last."""
        return self._last_lr

    def step(self, epoch=None):
        """Go to the next epoch; call it after the optimizer's `step`."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call "
                          "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
                          "Failure to do this will result in skipping the first value of the schedule.",
                          stacklevel=2)
        self._step_count += 1
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = epoch is not None and hasattr(self, "_get_closed_form_lr")
            rates = self._get_closed_form_lr() if closed else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", rate)
        self._last_lr = group_values(self.optimizer, "lr")

    def state_dict(self):
        """All attributes but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def _scaled(self, factor):
        """The present rates times a number."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The older name of LRScheduler."""
