"""Adam: steps scaled by running averages of the gradient and of its square."""

from flambeau.ops.optimize import update
from flambeau.optim.optimizer import Optimizer, as_number, check_flags, check_option, fits
from flambeau.tensor import Tensor, tensor, zeros_like
from flambeau.types import dtype


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

    def _update(self, group):
        params = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self._state_of(parameter, group["amsgrad"]) for parameter in params]
        for state in states:
            state["step"] += 1
        adam_step_(
            params, [parameter.grad for parameter in params],
            [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else None,
            [as_number(state["step"]) for state in states],
            lr=as_number(group["lr"]), betas=group["betas"], eps=group["eps"],
            weight_decay=group["weight_decay"], decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"])

    def _state_of(self, parameter, amsgrad):
        state = self.state[parameter]
        if not state:
            state["step"] = tensor(0.0, dtype=dtype.float32)
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


def adam_step_(params, grads, averages, squares, largest, steps, *, lr, betas, eps, weight_decay, decoupled,
               maximize):
    """One step of all parameters in place.

    Args:
        params, grads: the parameters and their gradients.
        averages, squares: running averages of gradient and squared gradient.
        largest: the largest `squares` so far (amsgrad), or None.
        steps: number of each parameter's step, from 1, as Python numbers.
    """
    beta1, beta2 = betas
    for number, (parameter, gradient) in enumerate(zip(params, grads)):
        average, square, step = averages[number], squares[number], steps[number]
        if largest is None and fits(parameter, gradient, average, square):
            update("adam_update", (parameter, average, square), parameter.detach(), gradient, average, square,
                   1 - lr * weight_decay if decoupled else float(weight_decay), float(beta1), 1.0 - beta1,
                   float(beta2),
                   1.0 - beta2, (1 - beta2 ** step) ** 0.5, float(eps), -lr / (1 - beta1 ** step), decoupled,
                   maximize)
            continue
        if maximize:
            gradient = -gradient
        if weight_decay != 0 and decoupled:
            parameter.mul_(1 - lr * weight_decay)
        elif weight_decay != 0:
            gradient = gradient.add(parameter, alpha=weight_decay)
        average.mul_(beta1).add_(gradient, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if largest is not None:
            square = largest[number].copy_(largest[number].maximum(square))
        root = square.sqrt().div_((1 - beta2 ** step) ** 0.5).add_(eps)
        parameter.addcdiv_(average, root, value=-lr / (1 - beta1 ** step))
