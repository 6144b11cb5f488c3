"""torch.return_types: the types of named results, `max`, `sort`, ..."""

from flambeau.ops.spec import REGISTRY as _REGISTRY

_DIRECTIONS = ("max", "min")


def __getattr__(name):
    from flambeau.tensor import ones as _ones
    if name.startswith("_"):
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    operation = _REGISTRY.get(name)
    if operation is not None and operation.outputs:
        return type(operation.pack([None] * len(operation.outputs)))
    if name in _DIRECTIONS:
        return type(getattr(_ones(1, 1), name)(0))
    raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
