"""GradScaler: losses are multiplied before the backward pass so that small gradients survive in a short
dtype; gradients are divided by the same number before the step, and a step whose gradients hold an infinity
or NaN is left out."""

import warnings
from enum import Enum

from flambeau.base.errors import fail
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import no_grad
from flambeau.tensor.create import full
from flambeau.types.device import PRESENT, Device
from flambeau.types.dtype import float16, float32, int32


class OptState(Enum):
    """How far an optimizer is in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, leaves out steps with gradients that are not finite, and adapts the
    scale.

    Args:
        device: 'cpu'. For a device that is not here the scaler is switched off, with a warning.
        init_scale: the scale at the start.
        growth_factor: by which the scale grows after `growth_interval` good steps in a row.
        backoff_factor: by which it shrinks after a step that was left out.
        enabled: False: losses, gradients and steps stay as they are.

    >>> weight = fl.nn.Parameter(fl.ones(1))
    >>> optimizer, scaler = fl.optim.SGD([weight], lr=1.0), fl.amp.GradScaler("cpu")
    >>> scaler.scale((weight * 3).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.item(), scaler.get_scale()
    (-2.0, 65536.0)
    """

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        self._device, self._enabled = Device(device).type, enabled
        if enabled and self._device not in PRESENT:
            warnings.warn(
                f"GradScaler of {self._device!r} is enabled, but {self._device.upper()} is not available. "
                "Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1.0:
            fail("GradScaler", "The growth factor must be > 1.0.", growth_factor, kind=AssertionError)
        if not backoff_factor < 1.0:
            fail("GradScaler", "The backoff factor must be < 1.0.", backoff_factor, kind=AssertionError)
        self._init_scale, self._scale = init_scale, None        # the tensors are made by the first scale()
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker, self._growth_tracker = growth_interval, 0, None
        self._per_optimizer_states = {}

    # ------------------------------------------------------------------ one iteration
    def scale(self, outputs):
        """`outputs`, a tensor or nested lists and tuples of them, times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=float32)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=int32)
        return self._scaled(outputs)

    def _scaled(self, value):
        if isinstance(value, Tensor):
            return value * self._scale
        if not hasattr(value, "__iter__"):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        made = map(self._scaled, value)
        return type(value)(made) if isinstance(value, (list, tuple)) else made

    def unscale_(self, optimizer):
        """Divide the gradients of `optimizer` by the scale, once before its step: to clip them, or to look at
        them.

        Raises:
            RuntimeError: if it was done already since the last update(), or the step was.
            ValueError: for gradients in float16.
        """
        if not self._enabled:
            return
        state = self._state_of(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._check_scale("unscale_")
        inverse = float(full((), 1.0 / self._scale.item(), dtype=float32))
        state["found_inf"] = self._unscale_grads_(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(self, optimizer, inverse, allow_fp16=False):
        """Multiply all gradients by `inverse`; True if one of them was not finite, None if there is none."""
        found = None
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if grad.is_sparse:
                        grad = parameter.grad = grad.coalesce()
                        found = bool(found) or not bool(grad.values().isfinite().all())
                        parameter.grad = grad * inverse
                        continue
                    found = bool(found) or not bool(grad.isfinite().all())
                    grad.mul_(inverse)
        return found

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step(*args, **kwargs)` on unscaled gradients, unless one of them is not finite; returns
        what that does.

        Raises:
            RuntimeError: with a closure, or if the step was done since the last update().
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if state["found_inf"] is None:
            fail("GradScaler.step", "No inf checks were recorded for this optimizer.", kind=AssertionError,
                 hint="none of its parameters has a gradient: call scaler.scale(loss).backward() first")
        made = None if state["found_inf"] else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return made

    def update(self, new_scale=None):
        """End the iteration: adapt the scale, or set it to `new_scale` (a float, or a float32 tensor of one
        element).

        The scale shrinks by `backoff_factor` if a step was left out, and grows by `growth_factor` after
        `growth_interval` iterations without that.
        """
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [state["found_inf"] for state in self._per_optimizer_states.values()
                     if state["found_inf"] is not None]
            if not found:
                fail("GradScaler.update", "No inf checks were recorded prior to update.", kind=AssertionError,
                     hint="call scaler.step(optimizer), or scaler.unscale_(optimizer), before scaler.update()")
            self._adapt(any(found))
        self._per_optimizer_states.clear()

    def _adapt(self, left_out):
        if left_out:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
            return
        successes = self._growth_tracker.item() + 1
        if successes == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown.isfinite():
                self._scale.copy_(grown)
            successes = 0
        self._growth_tracker.fill_(successes)

    def _set_scale(self, new_scale):
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        if not (isinstance(new_scale, Tensor) and new_scale.dtype is float32 and new_scale.numel() == 1
                and not new_scale.requires_grad):
            fail("GradScaler.update",
                 "new_scale should be a float or a 1-element float32 tensor with requires_grad=False.",
                 kind=AssertionError)
        self._scale.copy_(new_scale.reshape(()))

    def _state_of(self, optimizer):
        return self._per_optimizer_states.setdefault(id(optimizer), {"stage": OptState.READY,
                                                                     "found_inf": None})

    def _check_scale(self, name):
        if self._scale is None:
            fail(f"GradScaler.{name}", "there is no scale yet", kind=AssertionError,
                 hint="call scaler.scale(loss).backward() first")

    # ------------------------------------------------------------------ settings
    def is_enabled(self):
        """Whether losses are scaled."""
        return self._enabled

    def get_scale(self):
        """The scale as a float, 1.0 if switched off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """By which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """By which the scale grows from now on."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """By which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """By which the scale shrinks from now on."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """After how many good steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """After how many good steps in a row the scale grows from now on."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    # ------------------------------------------------------------------ files
    def state_dict(self):
        """The scale and the settings; empty if switched off. Call it after update()."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        """Go on from what `state_dict()` gave; nothing if switched off. RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
            self._growth_tracker.fill_(state_dict["_growth_tracker"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                fail("GradScaler",
                     "a GradScaler may only be pickled at the beginning of an iteration, or at the end after "
                     "scaler.update()", kind=AssertionError)
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
