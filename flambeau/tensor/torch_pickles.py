"""The functions that plain pickles of PyTorch's tensors call: `pickle.load` finds them under PyTorch's names.

`pickle` itself, unlike `load`, runs what a file says; these functions are for programs that read their own
pickles. They check their arguments as `load` does.
"""

import io

from flambeau.tensor import pickle_machine, torch_known, torch_load, torch_rules


def _function(name):
    def rebuild(*args):
        builder = torch_known.find_known(name)
        rules = torch_rules.Rules(
            torch_load.Loader(None, None, torch_load.Options(weights_only=False)), False, {}
        )
        args = tuple(getattr(each, "builder", each) for each in args)
        try:
            return builder.build(rules, args, pickle_machine.Machine(io.BytesIO(), rules))
        except ValueError as error:
            raise torch_load.UnpicklingError(str(error)) from None

    rebuild.__name__ = rebuild.__qualname__ = name.rpartition(".")[2]
    rebuild.__doc__ = f"What a pickle means by {name}."
    rebuild.builder = torch_known.Builder(
        name, lambda rules, args, machine: torch_known.find_known(name).build(rules, args, machine)
    )
    return rebuild


_UTILS = (
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_sparse_tensor",
    "_rebuild_nested_tensor",
)
globals().update({name: _function(f"torch._utils.{name}") for name in _UTILS})
_rebuild_from_type_v2 = _function("torch._tensor._rebuild_from_type_v2")
_load_from_bytes = _function("torch.storage._load_from_bytes")
_get_layout = _function("torch.serialization._get_layout")
__all__ = list(_UTILS) + ["_get_layout", "_load_from_bytes", "_rebuild_from_type_v2"]
