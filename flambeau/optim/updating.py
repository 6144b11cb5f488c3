"""The updates of one step: collected from all groups, then run by one fused kernel over all parameters."""

from flambeau import ops
from flambeau.ops.optimize import update_many
from flambeau.ops.spec import REGISTRY
from flambeau.optim.rows import refuse_sparse
from flambeau.runtime import _core
from flambeau.tensor import tensor
from flambeau.types import dtype


def with_gradients(group):
    """The parameters of a group that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def step_counter():
    """The count of steps in a parameter's state: a 0-d float32 tensor, as PyTorch keeps it."""
    return tensor(0.0, dtype=dtype.float32)


class Updates:
    """What a step will do to its parameters; nothing is written before `run`."""

    def __init__(self):
        self.rows = {}          # (op, dtype, has axes, states, options) -> rows that one kernel takes
        self.single = []
        self.calls = []

    def add(self, name, parameter, states, *numbers, **options):
        """Plan the update op `name` of `parameter` and its `states` (tensors; None is left out)."""
        gradient = parameter.grad
        kept = tuple(state for state in states if state is not None)
        if parameter.dtype.kind == "f" and _core.alike(parameter, (gradient, *kept)):
            key = name, parameter.dtype, parameter.ndim > 0, len(kept), tuple(options.items())
            row = (parameter, gradient, *states, *numbers), (parameter, *kept)
            self.rows.setdefault(key, []).append(row)
        elif gradient.is_sparse:
            refuse_sparse(name)
        else:
            self.single.append((name, parameter, states, numbers, options))

    def add_call(self, function, *args):
        """Plan function(*args): an update that is no op."""
        self.calls.append((function, args))

    def run(self):
        """Carry out everything that was added."""
        for (name, *_, options), rows in self.rows.items():
            update_many(name, rows, dict(options))
        for name, parameter, states, numbers, options in self.single:
            _update_by_ops(name, parameter, states, numbers, options)
        for function, args in self.calls:
            function(*args)


def _update_by_ops(name, parameter, states, numbers, options):
    """The same formula op by op: for complex, strided or mixed operands."""
    gradient = parameter.grad
    if parameter.is_complex():
        real = ops.view_as_real
        parameter, gradient = real(parameter.detach()), real(gradient)
        states = [None if state is None else real(state) for state in states]
    kept = [state for state in states if state is not None]
    values = REGISTRY[name].bind_arguments((parameter.detach(), gradient, *states, *numbers), options)
    results = REGISTRY[name].compute(**values)
    for target, value in zip((parameter, *kept), results if isinstance(results, tuple) else (results,)):
        target.copy_(value)
