"""Function transforms behind the one door of the ops; `flambeau.func` is the public place."""

from flambeau.transform.batch import vmap
from flambeau.transform.functional import (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad,
                                           vjp)
from flambeau.transform.tools import debug_unwrap, functionalize, rearrange

__all__ = ["debug_unwrap", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "rearrange", "value_and_grad", "vjp", "vmap"]
