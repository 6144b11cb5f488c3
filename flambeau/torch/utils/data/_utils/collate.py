"""torch.utils.data._utils.collate"""

import re

from flambeau.data.collate import collate_tensor_fn, default_collate_fn_map
from flambeau.tensor import Tensor
from flambeau.torch import _mirror

np_str_obj_array_pattern = re.compile("[SaUO]")      # the dtypes of arrays that hold no numbers
default_collate_err_msg_format = "a batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"

default_collate_fn_map.setdefault(Tensor, collate_tensor_fn)     # some read it there

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.data.collate")
