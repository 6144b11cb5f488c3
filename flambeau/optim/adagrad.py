"""Adagrad and Adadelta: steps scaled by sums or averages of squares."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.rows import adagrad_rows, refuse_decay
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import full_like, zeros_like


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        lr_decay: the step number t has the size `lr / (1 + (t - 1) * lr_decay)`.
        weight_decay: this times the parameter is added to the gradient.
        initial_accumulator_value: what the sums start with.
        eps: added to the root.
        maximize: step along the gradient.
        foreach, fused: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        check_flags(lr, foreach, fused, differentiable)
        for name, value in (("learning rate", lr), ("lr_decay value", lr_decay),
                            ("weight_decay value", weight_decay),
                            ("initial_accumulator_value value", initial_accumulator_value),
                            ("epsilon value", eps)):
            check_option(name, value)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused})
        for group in self.param_groups:
            for parameter in group["params"]:
                self._state_of(parameter, group)

    def share_memory(self):
        """Move the state into memory that other processes can share."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        for parameter in with_gradients(group):
            state = self._state_of(parameter, group)
            state["step"] += 1
            size = as_number(group["lr"]) / (1 + (as_number(state["step"]) - 1) * group["lr_decay"])
            if parameter.grad.is_sparse:
                if group["weight_decay"]:
                    refuse_decay("Adagrad")
                updates.add_call(adagrad_rows, parameter, state["sum"], float(group["eps"]), float(size),
                                 group["maximize"])
                continue
            updates.add("adagrad_update", parameter, (state["sum"],), float(group["weight_decay"]),
                         float(group["eps"]),
                         -float(size), maximize=group["maximize"])

    def _state_of(self, parameter, group):
        state = self.state[parameter]
        if not state:
            start = group["initial_accumulator_value"]
            state["step"] = step_counter()
            state["sum"] = full_like(parameter, complex(start, start) if parameter.is_complex() else start)
        return state


class Adadelta(Optimizer):
    """Steps in the size of the average step so far over the average gradient.

    Args:
        params: parameters or groups of them.
        lr: factor of the step.
        rho: decay of both averages.
        eps: added below the roots.
        weight_decay: this times the parameter is added to the gradient.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        check_flags(lr, foreach, None, differentiable)
        check_option("learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_option("epsilon value", eps)
        check_option("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        rho = float(group["rho"])
        for parameter in with_gradients(group):
            state = self.state[parameter]
            if not state:
                state.update(step=step_counter(), square_avg=zeros_like(parameter),
                             acc_delta=zeros_like(parameter))
            state["step"] += 1
            updates.add("adadelta_update", parameter, (state["square_avg"], state["acc_delta"]),
                         float(group["weight_decay"]), rho, 1.0 - rho, float(group["eps"]),
                         -float(as_number(group["lr"])), maximize=group["maximize"])
