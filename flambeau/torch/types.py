"""torch.types: names for annotations."""

from typing import Union

from flambeau.tensor import Tensor
from flambeau.types.device import Device as _Device
from flambeau.types.dtype import DType as _dtype

Number = Union[int, float, bool]
Device = Union[_Device, str, int, None]
TensorOrTensors = Union[Tensor, tuple[Tensor, ...]]
