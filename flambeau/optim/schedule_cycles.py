"""Schedules that go up and down: cosines, triangles, one cycle."""

import math
import types

from flambeau.optim.schedule import LRScheduler, check_optimizer, group_values, set_group_value


def cosine_between(start, end, share):
    """From `start` to `end` along half a cosine; `share` goes from 0 to 1."""
    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))


def line_between(start, end, share):
    """From `start` to `end` along a line."""
    return start + (end - start) * share


def _for_groups(name, value, groups):
    """One value for each group, from one or from a list."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(f"expected {len(groups)} values for {name}, got {len(value)}")
    return list(value)


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine of `T_max` epochs, and back.

    Made anew where another one has come to its end, it starts at the initial rate again.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self._is_initial:
            return [base if rate == self.eta_min else rate
                    for base, rate in zip(self.base_lrs, group_values(self.optimizer, "lr"))]
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [group["lr"] + (base - self.eta_min) * rise for base, group in zip(self.base_lrs, groups)]
        factor = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [factor * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _height(self, epoch):
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self):
        return [self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2
                for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine, again and again.

    Args:
        optimizer: whose groups are changed.
        T_0: epochs to the first restart.
        T_mult: each period is this much longer than the one before.
        eta_min: the smallest rate.
        last_epoch: the last epoch done, to resume; -1 to start.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [cosine_between(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def step(self, epoch=None):
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._find_period(epoch)
        self.last_epoch = math.floor(epoch)
        self._step_count += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            set_group_value(group, "lr", rate)
        self._last_lr = group_values(self.optimizer, "lr")

    def _find_period(self, epoch):
        if self.T_mult == 1:
            self.T_cur, self.T_i = epoch % self.T_0, self.T_0
            return
        start, length = 0, self.T_0
        while epoch >= start + length:
            start, length = start + length, length * self.T_mult
        self.T_cur, self.T_i = epoch - start, length


class _MomentumLR(LRScheduler):
    """What CyclicLR and OneCycleLR share: they move the momentum (or beta 1) against the rate."""

    def _find_momentum(self, optimizer):
        defaults = optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults

    def _momentum_of(self, group):
        return group["betas"][0] if self.use_beta1 else group["momentum"]

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_MomentumLR):
    """Smith, "Cyclical learning rates" (WACV 2017): up and down between two rates, once a batch.

    Args:
        optimizer: whose groups are changed.
        base_lr, max_lr: the two rates, or lists with those of each group.
        step_size_up, step_size_down: steps of the way up and down.
        mode: 'triangular', 'triangular2' (each cycle half as high) or 'exp_range' (times gamma ** step).
        gamma: for 'exp_range'.
        scale_fn, scale_mode: a function of the 'cycle' or of 'iterations' in place of `mode`.
        cycle_momentum: move the momentum from max_momentum to base_momentum and back.
        last_epoch: the last step done, to resume; -1 to start.
    """

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
                 gamma=1.0,
                 scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9,
                 last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, rate in zip(groups, _for_groups("base_lr", base_lr, groups)):
                set_group_value(group, "lr", rate)
        self.max_lrs = _for_groups("max_lr", max_lr, groups)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum(optimizer)
            self.base_momentums = _for_groups("base_momentum", base_momentum, groups)
            self.max_momentums = _for_groups("max_momentum", max_momentum, groups)
            for group, largest in zip(groups, self.max_momentums):
                self._set_momentum(group, largest)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = _for_groups("base_lr", base_lr, groups)

    def scale_fn(self, x):
        """The height of a cycle (or, by `scale_mode`, at a step) as a share of the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return {"triangular": 1.0, "triangular2": 1 / (2.0 ** (x - 1)),
                "exp_range": self.gamma ** x}[self.mode]

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        height = place / self.step_ratio if place <= self.step_ratio else (place - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * height)
        return [base + (top - base) * height for base, top in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        """All attributes but the optimizer; of `scale_fn` only the state of a callable object."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        is_object = custom is not None and not isinstance(custom, types.FunctionType)
        return {**state, "_scale_fn_custom": custom.__dict__.copy() if is_object else None}

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(_MomentumLR):
    """Smith and Topin, "Super-convergence" (2018): up to `max_lr` and far down again, once over the whole training.

    Args:
        optimizer: whose groups are changed.
        max_lr: the highest rate, or a list with that of each group.
        total_steps: steps of the cycle; or give epochs and steps_per_epoch.
        pct_start: share of the steps on the way up.
        anneal_strategy: 'cos' or 'linear'.
        cycle_momentum: move the momentum from max_momentum to base_momentum and back.
        div_factor: the first rate is max_lr / div_factor.
        final_div_factor: the last rate is the first / final_div_factor.
        three_phase: down as steeply as up, then to the last rate.
        last_epoch: the last step done, to resume; -1 to start.
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95,
                 div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _whole_number_of_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, top in zip(groups, _for_groups("max_lr", max_lr, groups)):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum(optimizer)
            if last_epoch == -1:
                for group, high, low in zip(groups, _for_groups("max_momentum", max_momentum, groups),
                                            _for_groups("base_momentum", base_momentum, groups)):
                    self._set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _phases(self, share, three):
        """(last step, rate at the start, at the end, momentum at the start, at the end) of each phase, by option names."""
        total = float(self.total_steps)
        up = (share * total - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three:
            phases = (up, (2 * share * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                      (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            phases = (up, (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, phase)) for phase in phases]

    def get_lr(self):
        if self.last_epoch > self.total_steps:
            raise ValueError(f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                             f"{self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                share = (self.last_epoch - start) / (phase["end_step"] - start)
                break
            start = phase["end_step"]
        between = cosine_between if self._anneal_func_type == "cos" else line_between
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                self._set_momentum(group, between(group[phase["start_momentum"]],
                                                  group[phase["end_momentum"]], share))
        return rates


def _whole_number_of_steps(total, epochs, steps_per_epoch):
    if total is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    named = {"total_steps": total} if total is not None else {"epochs": epochs,
                                                              "steps_per_epoch": steps_per_epoch}
    for name, value in named.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return total if total is not None else epochs * steps_per_epoch


class SWALR(LRScheduler):
    """To `swa_lr` over `anneal_epochs` epochs and then constant, for averaging the parameters (AveragedModel).

    Args:
        optimizer: whose groups are changed.
        swa_lr: the final rate, or a list with that of each group.
        anneal_epochs: length of the way there.
        anneal_strategy: 'cos' or 'linear'.
        last_epoch: the last epoch done, to resume; -1 to start.
    """

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        check_optimizer(optimizer)
        for group, rate in zip(optimizer.param_groups, _for_groups("swa_lr", swa_lr, optimizer.param_groups)):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch):
        share = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * share)) / 2 if self._strategy == "cos" else share

    def get_lr(self):
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1
                                                                                                    - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
