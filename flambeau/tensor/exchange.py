"""What connects tensors with the world outside: NumPy, DLPack, storages, old constructors, questions and switches.

`NAMES` are public names of `flambeau`; the methods are attached to Tensor here.
"""

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import attributes, dlpack, draws, legacy, more_creation, numpy_protocol, questions, sparse_door, storage
from flambeau.types.info import LAYOUTS

NAMES = {**more_creation.NAMES, **sparse_door.NAMES, **draws.NAMES, **questions.NAMES, **legacy.TYPES,
         "from_dlpack": dlpack.from_dlpack, "to_dlpack": dlpack.to_dlpack,
         "UntypedStorage": storage.UntypedStorage, "TypedStorage": storage.TypedStorage,
         "Storage": storage.TYPES["FloatStorage"], **storage.TYPES}

# Methods that are functions too in PyTorch, writing into their first argument.
INPLACE = """abs_ acos_ acosh_ addmv_ alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_
atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ dropout_ erf_ erfc_ exp2_
exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_
negative_ rad2deg_ reciprocal_ relu_ resize_as_ round_ rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_
tanh_ threshold_ trunc_ xlogy_ zero_""".split()

_QUESTIONS = {name: questions.NAMES[name] for name in ("is_nonzero", "is_same_size")}


def names():
    """Public names of `flambeau` -> objects."""
    inplace = {name: getattr(Tensor, name) for name in INPLACE if hasattr(Tensor, name)}
    return {**NAMES, **inplace, "detach": Tensor.detach}


def _of_shared(name):
    """A method of `shared`, which is imported when it is first called."""
    def method(self):
        from flambeau.tensor import shared
        return shared.METHODS[name](self)
    method.__name__ = name
    method.__doc__ = {"share_memory_": "Move the elements into memory that other processes can share.",
                      "is_shared": "True if other processes can see the elements."}[name]
    return method


def attach():
    """Give Tensor the methods of this group."""
    for name, value in {**storage.METHODS, **dlpack.METHODS, **legacy.METHODS, **draws.METHODS, **sparse_door.METHODS, **attributes.METHODS,
                        **attributes.PROPERTIES, **_QUESTIONS}.items():
        if getattr(value, "__name__", None) == "<lambda>":
            value.__name__ = name
        _core.attach_attribute(name, value)
    numpy_protocol.attach()
    for name in ("share_memory_", "is_shared"):
        _core.attach_attribute(name, _of_shared(name))
    _core.attach_attribute("layout", property(lambda self: LAYOUTS["strided"]))
