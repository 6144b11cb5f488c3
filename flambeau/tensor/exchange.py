"""What connects tensors with the world outside: old constructors, storages, DLPack, questions and switches.

`NAMES` are public names of `flambeau`; the methods are attached to Tensor here.
"""

from flambeau.runtime import _core
from flambeau.tensor import dlpack, legacy, questions, storage
from flambeau.types.info import LAYOUTS

NAMES = {**questions.NAMES, **legacy.TYPES, "from_dlpack": dlpack.from_dlpack, "to_dlpack": dlpack.to_dlpack,
         "UntypedStorage": storage.UntypedStorage, "TypedStorage": storage.TypedStorage}


def attach():
    """Give Tensor the methods of this group."""
    for name, value in {**storage.METHODS, **dlpack.METHODS}.items():
        if hasattr(value, "__name__"):
            value.__name__ = name
        _core.attach_attribute(name, value)
    _core.attach_attribute("layout", property(lambda self: LAYOUTS["strided"]))
