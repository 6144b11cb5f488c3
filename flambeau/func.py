"""Function transforms: derivatives and batches of functions, composable to any depth (see `flambeau.transform`)."""

from flambeau.nn.utils.stateless import functional_call, stack_module_state
from flambeau.transform import (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp,
                                vmap)

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "stack_module_state", "value_and_grad", "vjp", "vmap"]
