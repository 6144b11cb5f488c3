"""RMSprop: steps divided by the running root mean square of the gradient."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import zeros_like


class RMSprop(Optimizer):
    """Steps divided by the running root mean square of the gradient.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        alpha: decay of the average of squares.
        eps: added to its root.
        weight_decay: this times the parameter is added to the gradient.
        momentum: share of the previous direction in the next.
        centered: divide by the standard deviation instead.
        maximize: step along the gradient.
        capturable, foreach: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        check_flags(lr, foreach, None, differentiable)
        for name, value in (("learning rate", lr), ("epsilon value", eps), ("momentum value", momentum),
                            ("weight_decay value", weight_decay), ("alpha value", alpha)):
            check_option(name, value)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        alpha = float(group["alpha"])
        for parameter in with_gradients(group):
            state = self._state_of(parameter, group)
            state["step"] += 1
            updates.add("rmsprop_update", parameter,
                         (state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer")),
                         float(group["weight_decay"]), alpha, 1.0 - alpha, float(group["eps"]),
                         float(group["momentum"]),
                         -float(as_number(group["lr"])), maximize=group["maximize"])

    def _state_of(self, parameter, group):
        state = self.state[parameter]
        if not state:
            state["step"] = step_counter()
            state["square_avg"] = zeros_like(parameter)
            if group["momentum"] > 0:
                state["momentum_buffer"] = zeros_like(parameter)
            if group["centered"]:
                state["grad_avg"] = zeros_like(parameter)
        return state
