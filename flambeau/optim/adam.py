"""Adam: steps scaled by running averages of the gradient and of its square."""

from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option
from flambeau.optim.updating import step_counter, with_gradients
from flambeau.tensor import Tensor, zeros_like


class Adam(Optimizer):
    """Adam, with weight decay as part of the gradient.

    Args:
        params: parameters or groups of them.
        lr: size of the step.
        betas: decay of the averages of the gradient and of its square.
        eps: added to the root of the latter.
        weight_decay: this times the parameter is added to the gradient.
        amsgrad: divide by the largest average of squares so far.
        maximize: step along the gradient.
        decoupled_weight_decay: shrink the parameter instead, as AdamW does.
        foreach, fused, capturable: accepted; the computation is the same.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False, fused=None,
                 decoupled_weight_decay=False):
        check_flags(lr, foreach, fused, differentiable)
        if foreach and not capturable and isinstance(lr, Tensor):
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_option("learning rate", lr)
        check_option("epsilon value", eps)
        for index, beta in enumerate(betas):
            check_option(f"beta parameter at index {index}", beta, high=1.0)
        check_option("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": tuple(as_number(beta) for beta in betas), "eps": eps,
            "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay})

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        beta1, beta2 = map(float, group["betas"])
        lr, name = as_number(group["lr"]), "amsgrad_update" if group["amsgrad"] else "adam_update"
        decoupled, decay = group["decoupled_weight_decay"], float(group["weight_decay"])
        decay = 1.0 - lr * decay if decoupled else decay
        count = None
        for parameter in with_gradients(group):
            state = self._state_of(parameter, group["amsgrad"])
            state["step"] += 1
            if count != (count := as_number(state["step"])):
                root, size = (1 - beta2 ** count) ** 0.5, -lr / (1 - beta1 ** count)
            states = state["exp_avg"], state["exp_avg_sq"]
            if group["amsgrad"]:
                states += state["max_exp_avg_sq"],
            updates.add(name, parameter, states, decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2, root,
                        float(group["eps"]), size, decoupled=decoupled, maximize=group["maximize"])

    def _state_of(self, parameter, amsgrad):
        state = self.state[parameter]
        if not state:
            state["step"] = step_counter()
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
            if amsgrad:
                state["max_exp_avg_sq"] = zeros_like(parameter)
        return state


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter by the share `lr * weight_decay`; see `Adam`."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)
