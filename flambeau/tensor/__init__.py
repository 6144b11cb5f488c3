"""Tensors as people use them: the native record with its methods, creation, indexing, gradients, files."""

from flambeau.base.choices import names
from flambeau.runtime import _core
from flambeau.runtime._core import Size, Tensor
from flambeau.types import dtype as _dtypes
from flambeau.types.device import CPU

_core.name_tensor_type(names.module)
_core.configure(_dtypes.ALL, CPU, {"prefix": lambda: _dtypes.repr_prefix()})

import flambeau.compiler  # noqa: E402, F401 - installs the compiler for the ops
from flambeau import ops  # noqa: E402

_core.set_operators({name: op.native for name, op in ops.REGISTRY.items()})

from flambeau.tensor import methods  # noqa: E402
from flambeau.tensor.autograd import (enable_grad, grad, inference_mode, is_grad_enabled, no_grad,  # noqa: E402
                                      set_grad_enabled)
from flambeau.tensor.create import (arange, as_tensor, bernoulli, empty, empty_like, empty_strided, eye,  # noqa: E402
                                    from_numpy, full, full_like, linspace, ones, ones_like, rand, rand_like, randint,
                                    randn, randn_like, randperm, tensor, zeros, zeros_like)
from flambeau.tensor.indexing import nonzero  # noqa: E402
from flambeau.ops.join import cat, concat, stack  # noqa: E402
from flambeau.tensor.rng import (Generator, default_generator, get_rng_state, initial_seed, manual_seed,  # noqa: E402
                                 seed, set_rng_state)

methods.attach()

from flambeau.tensor import exchange, subclass  # noqa: E402

exchange.attach()
subclass.attach()

from flambeau.tensor.parameter import Parameter  # noqa: E402
from flambeau.tensor.printing import set_printoptions  # noqa: E402
from flambeau.tensor.save import load, save  # noqa: E402


def _report_failure(wanted):
    """What the error of a failed allocation says of the live tensors."""
    from flambeau.tensor import alive
    return alive.report_failure(wanted)


_core.memory_set_report(_report_failure)

__all__ = ["Generator", "Parameter", "Size", "Tensor", "arange", "as_tensor", "bernoulli", "cat", "concat",
           "default_generator", "empty", "empty_like", "empty_strided", "enable_grad", "eye", "from_numpy", "full",
           "full_like", "get_rng_state", "grad", "inference_mode", "initial_seed", "is_grad_enabled", "linspace", "load",
           "manual_seed", "no_grad", "nonzero", "ones", "ones_like", "rand", "rand_like", "randint", "randn",
           "randn_like", "randperm", "save", "seed", "set_grad_enabled", "set_printoptions", "set_rng_state", "stack",
           "tensor", "zeros", "zeros_like"]
