"""torch.optim.optimizer"""

from collections.abc import Iterable as _Iterable
from typing import Any as _Any, Union as _Union

from flambeau.tensor import Tensor as _Tensor
from flambeau.torch import _mirror

ParamsT = params_t = _Union[_Iterable[_Tensor], _Iterable[dict[str, _Any]], _Iterable[tuple[str, _Tensor]]]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.optim.optimizer", "flambeau.optim")
