"""torch.nn.functional, with the names that old code takes from here."""

from typing import Optional

from flambeau.overrides import (handle_torch_function, has_torch_function, has_torch_function_unary,
                                has_torch_function_variadic)
from flambeau.tensor import Tensor
from flambeau.torch import _mirror
from flambeau.torch.nn import _reduction as _Reduction      # noqa: N812 - PyTorch's name
from flambeau.torch.nn.modules.utils import _pair, _quadruple, _single, _triple

_IMPORTED = (Optional, Tensor, handle_torch_function, has_torch_function, has_torch_function_unary,
             has_torch_function_variadic, _Reduction, _pair, _quadruple, _single, _triple)

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.functional")
