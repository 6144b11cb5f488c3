"""The functions that plain pickles of PyTorch's tensors call: `pickle.load` finds them under PyTorch's names.

`pickle` itself, unlike `load`, runs what a file says; these functions are for programs that read their own
pickles. They check their arguments as `load` does.
"""

import io

from flambeau.tensor.pickle_machine import Machine
from flambeau.tensor.torch_known import Builder, find_known
from flambeau.tensor.torch_load import Loader, Options, UnpicklingError
from flambeau.tensor.torch_rules import Rules


def _function(name):
    def rebuild(*args):
        builder = find_known(name)
        rules = Rules(Loader(None, None, Options(weights_only=False)), False, {})
        args = tuple(getattr(each, "builder", each) for each in args)
        try:
            return builder.build(rules, args, Machine(io.BytesIO(), rules))
        except ValueError as error:
            raise UnpicklingError(str(error)) from None

    rebuild.__name__ = rebuild.__qualname__ = name.rpartition(".")[2]
    rebuild.__doc__ = f"What a pickle means by {name}."
    rebuild.builder = Builder(name, lambda rules, args, machine: find_known(name).build(rules, args, machine))
    return rebuild


UTILS = (
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_sparse_tensor",
    "_rebuild_nested_tensor",
)
globals().update({name: _function(f"torch._utils.{name}") for name in UTILS})
_rebuild_from_type_v2 = _function("torch._tensor._rebuild_from_type_v2")
_load_from_bytes = _function("torch.storage._load_from_bytes")
_get_layout = _function("torch.serialization._get_layout")
__all__ = list(UTILS) + ["_get_layout", "_load_from_bytes", "_rebuild_from_type_v2"]
