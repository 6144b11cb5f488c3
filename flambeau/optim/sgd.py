"""Stochastic gradient descent with momentum."""

from flambeau.ops.optimize import update
from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option, fits


class SGD(Optimizer):
    """Step against the gradient, or against its running average if `momentum` is not 0.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        momentum: share of the previous direction in the next.
        dampening: the gradient enters the direction with the factor `1 - dampening`.
        weight_decay: this times the parameter is added to the gradient.
        nesterov: look ahead by one momentum step.
        maximize: step along the gradient.
        foreach, fused: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        check_flags(lr, foreach, fused, differentiable)
        check_option("learning rate", lr)
        check_option("momentum value", momentum)
        check_option("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group):
        params = [parameter for parameter in group["params"] if parameter.grad is not None]
        grads = [parameter.grad for parameter in params]
        buffers = [None] * len(params)
        if group["momentum"] != 0:
            buffers = [self.state[parameter].get("momentum_buffer") for parameter in params]
        sgd_step_(params, grads, buffers, lr=as_number(group["lr"]), momentum=group["momentum"],
                  dampening=group["dampening"], weight_decay=as_number(group["weight_decay"]),
                  nesterov=group["nesterov"], maximize=group["maximize"])
        if group["momentum"] != 0:
            for parameter, buffer in zip(params, buffers):
                self.state[parameter]["momentum_buffer"] = buffer


def sgd_step_(params, grads, buffers, *, lr, momentum, dampening, weight_decay, nesterov, maximize):
    """One step of all parameters in place; a momentum buffer that is None is made and put into the list."""
    for number, (parameter, gradient) in enumerate(zip(params, grads)):
        buffer = buffers[number] if momentum != 0 else None
        if momentum == 0 and fits(parameter, gradient):
            update("sgd_update", (parameter,), parameter.detach(), gradient, float(weight_decay), -float(lr),
                   maximize)
            continue
        if buffer is not None and fits(parameter, gradient, buffer):
            update("momentum_update", (parameter, buffer), parameter.detach(), gradient, buffer,
                   float(weight_decay),
                   float(momentum), 1.0 - dampening, -float(lr), nesterov, maximize)
            continue
        if maximize:
            gradient = -gradient
        if weight_decay != 0:
            gradient = gradient.add(parameter, alpha=weight_decay)
        if momentum != 0:
            buffer = buffers[number]
            if buffer is None:
                buffer = buffers[number] = gradient.detach().clone()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - dampening)
            gradient = gradient.add(buffer, alpha=momentum) if nesterov else buffer
        parameter.add_(gradient, alpha=-lr)
