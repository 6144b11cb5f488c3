"""SparseAdam: Adam that moves only what a sparse gradient specifies."""

from flambeau.optim.optimizer import Optimizer, as_number, check_option
from flambeau.optim.rows import Specified
from flambeau.optim.updating import with_gradients
from flambeau.tensor import zeros_like


class SparseAdam(Optimizer):
    """Adam for sparse gradients, as of `nn.Embedding(sparse=True)`: averages and parameters change only at the places
    that the gradient specifies, and cost as much as these.

    Args:
        params: dense, real parameters or groups of them.
        lr: size of the step.
        betas: decay of the averages of gradients and of their squares.
        eps: added to the root of the average square.
        maximize: step along the gradient.

    Raises:
        RuntimeError: at a step with a dense gradient.

    >>> table = fl.nn.Embedding(10, 3, sparse=True)
    >>> optimizer = fl.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(fl.tensor([1, 2])).sum().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if not as_number(lr) > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            check_option(f"beta parameter at index {index}", beta, 0.0, 1.0)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [i for group in self.param_groups for i, p in enumerate(group["params"]) if p.is_sparse]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        mixed = [i for group in self.param_groups for i, p in enumerate(group["params"]) if p.is_complex()]
        if mixed:
            raise ValueError(f"Complex params at indices {mixed}: SparseAdam does not support complex parameters")

    def step(self, closure=None):
        return self._update_groups(closure, self._update)

    def _update(self, group, updates):
        for parameter in with_gradients(group):
            if not parameter.grad.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            state = self.state[parameter]
            if not state:
                state.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
            state["step"] += 1
            updates.add_call(_move, parameter, state, group)


def _move(parameter, state, group):
    at = Specified(parameter.grad, group["maximize"])
    if at.empty:
        return
    (beta1, beta2), step = group["betas"], state["step"]
    average, square = at.read(state["exp_avg"]), at.read(state["exp_avg_sq"])
    average = average + (at.values - average) * (1 - beta1)
    square = square + (at.values * at.values - square) * (1 - beta2)
    at.write(state["exp_avg"], average)
    at.write(state["exp_avg_sq"], square)
    size = as_number(group["lr"]) * (1 - beta2 ** step) ** 0.5 / (1 - beta1 ** step)
    at.write(parameter, at.read(parameter) - average / (square.sqrt() + group["eps"]) * size)
