"""ASGD and Rprop."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import full_like, tensor, zeros_like
from flambeau.types import dtype


class ASGD(Optimizer):
    """Stochastic gradient descent that also keeps the average of the parameters, in the state `ax`.

    Args:
        params: parameters or groups of them.
        lr: size of the first step.
        lambd: decay; the step number t has the size `lr / (1 + lambd * lr * t) ** alpha`.
        alpha: power of the decay.
        t0: number of the step at which averaging starts.
        weight_decay: this times the parameter is added to the gradient.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
                 maximize=False, differentiable=False, capturable=False):
        check_flags(lr, foreach, None, differentiable)
        check_option("learning rate", lr)
        check_option("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        lr, lambd = as_number(group["lr"]), group["lambd"]
        for parameter in with_gradients(group):
            state = self.state[parameter]
            if not state:
                state.update(step=step_counter(), eta=tensor(float(lr), dtype=dtype.float32),
                             mu=tensor(1.0, dtype=dtype.float32), ax=zeros_like(parameter))
            state["step"] += 1
            step, eta, share = (as_number(state[name]) for name in ("step", "eta", "mu"))
            updates.add("asgd_update", parameter, (state["ax"],), float(group["weight_decay"]),
                         1.0 - lambd * eta, -eta,
                         share, 1.0 - share, maximize=group["maximize"])
            state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
            state["mu"].fill_(1 / max(1, step - group["t0"]))


class Rprop(Optimizer):
    """Steps by the sign of the gradient; each element's step grows while the sign stays and shrinks when it turns.

    For gradients of the whole data, not of batches.

    Args:
        params: parameters or groups of them.
        lr: size of the first step.
        etas: factors of the step when the sign turns and when it stays.
        step_sizes: the smallest and the largest step.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False,
                 foreach=None,
                 maximize=False, differentiable=False):
        check_flags(lr, foreach, None, differentiable)
        check_option("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        numbers = [float(number) for number in (*group["etas"], *group["step_sizes"])]
        for parameter in with_gradients(group):
            state = self.state[parameter]
            if not state:
                lr = float(as_number(group["lr"]))
                state.update(step=step_counter(), prev=zeros_like(parameter),
                             step_size=full_like(parameter,
                                                 complex(lr, lr) if parameter.is_complex() else lr))
            state["step"] += 1
            updates.add("rprop_update", parameter, (state["prev"], state["step_size"]), *numbers,
                         maximize=group["maximize"])
