"""Function transforms: derivatives and batches of functions, composable to any depth (see `flambeau.transform`)."""

from flambeau.nn.utils.stateless import functional_call, replace_all_batch_norm_modules_, stack_module_state
from flambeau.transform import (debug_unwrap, functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize,
                                rearrange, value_and_grad, vjp, vmap)

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp", "vmap"]
