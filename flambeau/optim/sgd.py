"""Stochastic gradient descent with momentum."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.rows import refuse_decay, sgd_rows
from flambeau.optim.updating import with_gradients
from flambeau.tensor import zeros_like


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

    def _update(self, group, updates):
        lr, momentum = as_number(group["lr"]), group["momentum"]
        decay = float(as_number(group["weight_decay"]))
        for parameter in with_gradients(group):
            if parameter.grad.is_sparse:
                if decay:
                    refuse_decay("SGD")
                updates.add_call(sgd_rows, parameter, self.state[parameter] if momentum else {}, momentum,
                                 1.0 - group["dampening"], lr, group["nesterov"], group["maximize"])
                continue
            if momentum == 0:
                updates.add("sgd_update", parameter, (), decay, -float(lr), maximize=group["maximize"])
                continue
            state = self.state[parameter]
            fresh = 1.0 - group["dampening"]
            if state.get("momentum_buffer") is None:        # the first direction is the gradient itself
                state["momentum_buffer"], fresh = zeros_like(parameter), 1.0
            updates.add("momentum_update", parameter, (state["momentum_buffer"],), decay, float(momentum), fresh,
                        -float(lr), nesterov=group["nesterov"], maximize=group["maximize"])
