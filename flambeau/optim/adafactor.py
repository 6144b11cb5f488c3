"""Adafactor and Muon: optimizers whose step depends on a whole matrix at once."""

import math

from flambeau.optim.optimizer import Optimizer, as_number, check_flags
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import Tensor, zeros_like
from flambeau.types import dtype

_SMALLEST = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52}


def _check(name, value, low=0.0):
    if not value >= low:
        raise ValueError(f"{name} should be >= {low:g} but is: {value}")


class Adafactor(Optimizer):
    """Shazeer and Stern, "Adafactor" (ICML 2018): the average of squares of a matrix is kept as one row and one column.

    Args:
        params: parameters or groups of them.
        lr: the largest relative step.
        beta2_decay: power of the step's number in the decay of the averages, at most 0.
        eps: floors of the squares and of the parameter's root mean square.
        d: steps of a larger root mean square are scaled down to it.
        weight_decay: the parameter shrinks by the share `lr * weight_decay`.
        maximize: step along the gradient.
        foreach: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
                 foreach=None, maximize=False):
        check_flags(lr, foreach, None, False)
        _check("Learning rate", lr)
        if not beta2_decay <= 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _check("epsilon1", eps[0])
        _check("epsilon2", eps[1])
        _check("Clipping threshold d", d, 1.0)
        _check("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        for parameter in with_gradients(group):
            if parameter.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            state = self.state[parameter]
            if not state:
                self._start(state, parameter)
            state["step"] += 1
            self._step_one(parameter, state, group)

    def _start(self, state, parameter):
        state["step"] = step_counter()
        if parameter.ndim > 1:
            state["row_var"] = zeros_like(parameter[..., :1]).contiguous()
            state["col_var"] = zeros_like(parameter[..., :1, :]).contiguous()
        else:
            state["variance"] = zeros_like(parameter)

    def _step_one(self, parameter, state, group):
        gradient = -parameter.grad if group["maximize"] else parameter.grad
        lr, step = as_number(group["lr"]), as_number(state["step"])
        floor = _SMALLEST[parameter.dtype.name] if group["eps"][0] is None else group["eps"][0]
        size = max(group["eps"][1], _root_mean_square(parameter)) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            parameter.mul_(1 - lr * group["weight_decay"])
        variance = _variance(state, gradient, step ** group["beta2_decay"], floor)
        direction = gradient / variance.clamp(min=floor * floor).sqrt()
        excess = max(1.0, _root_mean_square(direction) / group["d"])
        parameter.add_(direction, alpha=-size / excess)


def _root_mean_square(value):
    return math.sqrt(float((value * value).mean()))


def _variance(state, gradient, rest, floor):
    """The running average of squared gradients after this one, of the gradient's shape."""
    square = gradient * gradient
    if gradient.ndim == 1 or gradient.ndim == 0:
        return state["variance"].add_((square - state["variance"]) * rest)
    row, column = state["row_var"], state["col_var"]
    row.add_((square.mean(-1, keepdim=True) - row) * rest)
    column.add_((square.mean(-2, keepdim=True) - column) * rest)
    return row * column / row.mean(-2, keepdim=True).clamp(min=floor)


class Muon(Optimizer):
    """Jordan et al., "Muon" (2024): the momentum of a matrix, made nearly orthogonal, is its step.

    Args:
        params: parameters of two dimensions, or groups of them.
        lr: size of the step.
        weight_decay: the parameter shrinks by the share `lr * weight_decay`.
        momentum: decay of the average of the gradient.
        nesterov: look ahead by one momentum step.
        ns_coefficients, eps, ns_steps: of the Newton-Schulz iteration, which runs in bfloat16.
        adjust_lr_fn: 'original' or 'match_rms_adamw'.
    """

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _check("Learning rate", lr)
        _check("momentum", momentum)
        _check("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError("Muon only supports 2D parameters whereas we found a parameter with size: "
                                     f"{parameter.size()}")

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        lr, momentum = as_number(group["lr"]), group["momentum"]
        for parameter in with_gradients(group):
            gradient, state = parameter.grad, self.state[parameter]
            if not state:
                state["momentum_buffer"] = zeros_like(gradient)
            average = state["momentum_buffer"]
            average.add_((gradient - average) * (1 - momentum))
            direction = gradient + (average - gradient) * momentum if group["nesterov"] else average
            direction = _orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
            parameter.mul_(1 - lr * group["weight_decay"])
            parameter.add_(direction.to(parameter.dtype),
                           alpha=-lr * _size_factor(group["adjust_lr_fn"], parameter))


def _orthogonal(matrix, coefficients, steps, eps):
    """A matrix near the orthogonal one closest to `matrix`, by `steps` Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    result = _rounded(matrix)
    tall = result.shape[0] > result.shape[1]
    result = result.T if tall else result
    result = _rounded(result / _rounded((result * result).sum().sqrt()).clamp(min=eps))
    for _ in range(steps):
        gram = _rounded(result @ result.T)
        gram = _rounded(gram * b + (gram @ gram) * c)
        result = _rounded(result * a + gram @ result)
    return result.T if tall else result


def _rounded(value):
    """To bfloat16 and back to float32: products of such matrices are summed up in float32."""
    return value.to(dtype.bfloat16).float()


def _size_factor(rule, parameter):
    rows, columns = parameter.shape
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
