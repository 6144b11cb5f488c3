"""torch.sparse, with the constructors from before `torch.sparse_coo_tensor`."""

import functools

from flambeau.tensor.sparse_door import sparse_coo_tensor
from flambeau.torch import _mirror
from flambeau.types import dtype

_OLD = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
        "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8"}
globals().update({name: functools.partial(sparse_coo_tensor, dtype=dtype.by_name(kind)) for name, kind in _OLD.items()})

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.sparse")
