"""Adam's relatives: Adamax, NAdam, RAdam."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import ones, zeros_like
from flambeau.types import dtype


class _AdamKin(Optimizer):
    """What they share: checks, the average of the gradient, and the loop over parameters."""

    second = "exp_avg_sq"           # name of the second state

    def __init__(self, params, options):
        check_flags(options["lr"], options["foreach"], None, options["differentiable"])
        check_option("learning rate", options["lr"])
        check_option("epsilon value", options["eps"])
        for index, beta in enumerate(options["betas"]):
            check_option(f"beta parameter at index {index}", beta, high=1.0)
        check_option("weight_decay value", options["weight_decay"])
        if "momentum_decay" in options:
            check_option("momentum_decay value", options["momentum_decay"])
        super().__init__(params, options)

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        beta1, beta2 = (float(as_number(beta)) for beta in group["betas"])
        for parameter in with_gradients(group):
            state = self.state[parameter]
            if not state:
                self._start(state, parameter)
            state["step"] += 1
            self._step_one(updates, parameter, state, group, as_number(state["step"]), beta1, beta2)

    def _start(self, state, parameter):
        state["step"] = step_counter()
        state["exp_avg"] = zeros_like(parameter)
        state[self.second] = zeros_like(parameter)

    def _step_one(self, updates, parameter, state, group, step, beta1, beta2):
        raise NotImplementedError


def _decay(group):
    """The operand `decay`: the factor of the parameter if decoupled, else the weight added to the gradient."""
    if group.get("decoupled_weight_decay"):
        return float(1 - as_number(group["lr"]) * group["weight_decay"])
    return float(group["weight_decay"])


class Adamax(_AdamKin):
    """Adam with the largest gradient so far (decayed) in place of the root mean square.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        betas: decay of the average of the gradient and of its largest magnitude.
        eps: added to the magnitude.
        weight_decay: this times the parameter is added to the gradient.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    second = "exp_inf"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
                 maximize=False, differentiable=False, capturable=False):
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _step_one(self, updates, parameter, state, group, step, beta1, beta2):
        updates.add("adamax_update", parameter, (state["exp_avg"], state["exp_inf"]), _decay(group), beta1,
                     1.0 - beta1,
                     beta2, float(group["eps"]), -as_number(group["lr"]) / (1 - beta1 ** step),
                     maximize=group["maximize"])


class NAdam(_AdamKin):
    """Adam that looks ahead as Nesterov's momentum does.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        betas: decay of the averages of the gradient and of its square.
        eps: added to the root of the latter.
        weight_decay: this times the parameter is added to the gradient.
        momentum_decay: how fast the momentum grows to its final value.
        decoupled_weight_decay: shrink the parameter instead, as AdamW does.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable})

    def _start(self, state, parameter):
        state["step"] = step_counter()
        state["mu_product"] = ones((), dtype=dtype.float32)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _step_one(self, updates, parameter, state, group, step, beta1, beta2):
        lr = as_number(group["lr"])
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        state["mu_product"] *= now
        product = as_number(state["mu_product"])
        updates.add("nadam_update", parameter, (state["exp_avg"], state["exp_avg_sq"]), _decay(group), beta1,
                     1.0 - beta1,
                     beta2, 1.0 - beta2, (1 - beta2 ** step) ** 0.5, float(group["eps"]),
                     -lr * (1 - now) / (1 - product),
                     -lr * following / (1 - product * following), decoupled=group["decoupled_weight_decay"],
                     maximize=group["maximize"])


class RAdam(_AdamKin):
    """Adam that waits with dividing until the variance of its average of squares is known.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        betas: decay of the averages of the gradient and of its square.
        eps: added to the root of the latter.
        weight_decay: this times the parameter is added to the gradient.
        decoupled_weight_decay: shrink the parameter instead, as AdamW does.
        maximize: step along the gradient.
        foreach, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 decoupled_weight_decay=False,
                 *, foreach=None, maximize=False, capturable=False, differentiable=False):
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable})

    def _step_one(self, updates, parameter, state, group, step, beta1, beta2):
        size = -as_number(group["lr"]) / (1 - beta1 ** step)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2 ** step / (1 - beta2 ** step)
        rectified = length > 5.0
        if rectified:
            size *= ((1 - beta2 ** step) * (length - 4) * (length - 2) * longest
                     / ((longest - 4) * (longest - 2) * length)) ** 0.5
        updates.add("radam_update", parameter, (state["exp_avg"], state["exp_avg_sq"]), _decay(group), beta1,
                     1.0 - beta1,
                     beta2, 1.0 - beta2, float(group["eps"]), size, rectified=rectified,
                     decoupled=group["decoupled_weight_decay"], maximize=group["maximize"])
