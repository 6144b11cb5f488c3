"""L-BFGS: quasi-Newton steps from the last few differences of parameters and gradients."""

from flambeau.optim.line_search import strong_wolfe
from flambeau.optim.optimizer import Optimizer, as_number
from flambeau.tensor import Tensor, cat, enable_grad, no_grad, zeros


class LBFGS(Optimizer):
    """Liu and Nocedal, "On the limited memory BFGS method" (1989). All parameters form one group.

    `step` needs a closure that computes the loss and its gradients anew and returns the loss.

    Args:
        params: parameters.
        lr: size of the step, or of the first trial with a line search.
        max_iter: iterations a step.
        max_eval: calls of the closure a step, by default 1.25 times max_iter.
        tolerance_grad: done when no gradient is larger.
        tolerance_change: done when parameters or loss change by less.
        history_size: differences that are kept.
        line_search_fn: None or 'strong_wolfe'.
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def step(self, closure):
        """Iterate until one of the limits is met; returns the loss before the first step."""
        with no_grad():
            return self._iterate(lambda: _with_gradients(closure))

    def _iterate(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, calls = float(first), 1
        state["func_evals"] += 1
        gradient = self._flat_gradient()
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            direction = self._direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            size = as_number(group["lr"])
            if state["n_iter"] == 1:
                size *= min(1.0, 1.0 / float(gradient.abs().sum()))
            slope = _dot(gradient, direction)
            if slope > -group["tolerance_change"]:
                break
            again = iteration < group["max_iter"]
            loss, gradient, size, used = self._advance(group, closure, direction, size, slope, loss, gradient,
                                                       again)
            state["t"] = size
            calls += used
            state["func_evals"] += used
            if self._is_done(group, calls, gradient, direction, size, loss - state["prev_loss"]):
                break
        return first

    def _advance(self, group, closure, direction, size, slope, loss, gradient, again):
        """Step along `direction`: (loss, gradient, size of the step, calls of the closure)."""
        if group["line_search_fn"] is None:
            self._move(size, direction)
            if not again:
                return loss, gradient, size, 0
            return float(closure()), self._flat_gradient(), size, 1
        start = [parameter.clone() for parameter in self._params]

        def at(trial):
            self._move(trial, direction)
            found = float(closure()), self._flat_gradient()
            for parameter, value in zip(self._params, start):
                parameter.copy_(value)
            return found

        loss, gradient, size, used = strong_wolfe(at, size, direction, loss, gradient, slope)
        self._move(size, direction)
        return loss, gradient, size, used

    def _is_done(self, group, calls, gradient, direction, size, change):
        return (calls >= group["max_eval"] or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(size) <= group["tolerance_change"]
                or abs(change) < group["tolerance_change"])

    def _direction(self, state, gradient, history_size):
        """Minus the inverse Hessian, as far as the history tells it, times the gradient."""
        state["n_iter"] += 1
        if state["n_iter"] == 1:
            state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return state["d"]
        changes, steps, weights = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = _dot(change, step)
        if curvature > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, weights):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(change, change)
        direction, shares = -gradient, []
        for change, step, weight in zip(reversed(changes), reversed(steps), reversed(weights)):
            shares.append(_dot(step, direction) * weight)
            direction = direction.add(change, alpha=-shares[-1])
        direction = direction * state["H_diag"]
        for change, step, weight, share in zip(changes, steps, weights, reversed(shares)):
            direction = direction.add(step, alpha=share - _dot(change, direction) * weight)
        state["d"] = direction
        return direction

    def _flat_gradient(self):
        return cat([(zeros(parameter.numel(), dtype=parameter.dtype) if parameter.grad is None
                     else parameter.grad.reshape(-1)) for parameter in self._params])

    def _move(self, size, direction):
        """Add `size` times the flat `direction` to the parameters."""
        start = 0
        for parameter in self._params:
            piece = direction[start:start + parameter.numel()].reshape(tuple(parameter.shape))
            parameter.add_(piece, alpha=size)
            start += parameter.numel()


def _with_gradients(closure):
    with enable_grad():
        return closure()


def _largest(values):
    return float(values.abs().max())


def _dot(a, b):
    return float((a * b).sum())
