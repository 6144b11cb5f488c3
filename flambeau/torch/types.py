"""torch.types: names for annotations."""

import builtins
from os import PathLike
from typing import Any, Union

from flambeau.tensor import Size, Tensor
from flambeau.types.device import Device as _device
from flambeau.types.dtype import DType as _dtype

Number = Union[int, float, bool]
Device = Union[_device, str, int, None]
TensorOrTensors = Union[Tensor, tuple[Tensor, ...]]
FileLike = Union[str, PathLike, Any]
Storage = Any
SymInt, SymFloat, SymBool = int, float, bool
IntLikeType, FloatLikeType, BoolLikeType, PySymType = int, float, bool, Union[int, float, bool]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size = Union[Size, list[int], tuple[int, ...]]
_symsize = _size
_dispatchkey = Union[str, Any]
_layout = _qscheme = Any
_TensorOrTensors = TensorOrTensors
