"""Schedules made of others: one after the other, or all at once."""

from bisect import bisect_right

from flambeau.optim.schedule import LRScheduler, check_optimizer, group_values, set_group_value


class _Combined(LRScheduler):
    """What they share: the state of the schedules inside."""

    def state_dict(self):
        """All attributes but the optimizer, with the state of each schedule."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer",
                                                                                   "_schedulers")}
        return {**state, "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict):
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"]):
            schedule.load_state_dict(state)


def _check_same_optimizer(kind, schedulers, optimizer):
    if len(schedulers) < 1:
        raise ValueError(f"{kind} expects at least one scheduler to be chained, but got no scheduler.")
    for number, schedule in enumerate(schedulers):
        if not hasattr(schedule, "optimizer"):
            raise TypeError(f"{kind} at index {number} should have `optimizer` as its attribute.")
        if schedule.optimizer is not optimizer:
            raise ValueError(f"{kind} expects all schedulers to belong to the same optimizer, but got scheduler "
                             f"{type(schedule).__name__} at index {number} with another one.")


class SequentialLR(_Combined):
    """One schedule after the other: `schedulers[i + 1]` takes over at epoch `milestones[i]`."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        check_optimizer(optimizer)
        _check_same_optimizer("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the number "
                             f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                             f"milestones to be equal to {len(milestones)}")
        self.optimizer = optimizer
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:        # back to the start, as if the schedules had not been made
            if "initial_lr" in group:
                set_group_value(group, "lr", group["initial_lr"])
        for schedule in schedulers:
            schedule.last_epoch -= 1
        self._start(schedulers[0])

    def _start(self, schedule):
        schedule._step_count = 0
        schedule._is_initial = True
        schedule.step()
        schedule._is_initial = False
        self._last_lr = schedule.get_last_lr()

    def step(self):
        """Go to the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            schedule.step(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_Combined):
    """All schedules at once: each changes the rate that the one before it left."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_same_optimizer("ChainedScheduler", schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = group_values(optimizer, "lr")

    def step(self):
        """Step every schedule."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = group_values(self.optimizer, "lr")
