"""autocast: a block in which products of matrices run in a short dtype, and what needs its digits in float32.

The block is an interposer (ops/interpose.py): it gets the calls of this thread, casts their operands as the
lists say and calls on. Outside of such blocks nothing is asked. A float32 weight is cast once a block,
however often it is used.
"""

import contextlib
import threading
import warnings

from flambeau.amp.lists import FLOAT32, LOWER, PLAIN, RULES
from flambeau.base.errors import fail
from flambeau.ops import interpose, trace
from flambeau.ops.elementwise import cast
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device

SHORT = (dtypes.bfloat16, dtypes.float16)
DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu", "privateuseone")


class _State(threading.local):
    """Of a thread: the dtype that each device casts to by default, and whether casts of weights are kept."""

    def __init__(self):
        self.dtypes = {device: dtypes.float16 for device in DEVICES} | {
            device: dtypes.bfloat16 for device in ("cpu", "xla", "mtia", "hpu")}
        self.cache = True
        self.depth = 0


_state = _State()


class Casting(interpose.Interposer):
    """What a block of autocast does with a call."""

    sees_functions = lasting = True

    def __init__(self, dtype):
        self.dtype = dtype
        self.kept = {}              # id of a leaf -> (the leaf, its version, whether recorded, the cast one)

    def handle(self, operation, args, kwargs):
        name = getattr(operation, "name", None)
        run = operation if name is None else operation.function
        rule = RULES.get(operation.__name__ if name is None else name)
        if rule is None or rule is PLAIN or "out" in kwargs or trace.current() is not None:
            return run(*args, **kwargs)
        found = list(_floating((args, kwargs)))
        wanted = self.dtype if rule is LOWER else dtypes.float32 if rule is FLOAT32 else _widest(found)
        if all(tensor.dtype is wanted for tensor in found):
            return run(*args, **kwargs)
        keep = rule is LOWER and _state.cache
        args, kwargs = _mapped((args, kwargs), lambda tensor: self.cast(tensor, wanted, keep))
        return run(*args, **kwargs)

    def cast(self, tensor, wanted, keep):
        """`tensor` in the dtype `wanted`; the cast of a float32 leaf is kept for the next call."""
        if tensor.dtype is wanted:
            return tensor
        if not (keep and tensor.requires_grad and tensor.grad_fn is None and tensor.dtype is dtypes.float32):
            return cast(tensor, wanted)
        version, recorded = tensor._version, _core.grad_mode()
        known = self.kept.get(id(tensor))
        if known is None or known[0] is not tensor or known[1:3] != (version, recorded):
            known = self.kept[id(tensor)] = tensor, version, recorded, cast(tensor, wanted)
        return known[3]


def _is_castable(value):
    return isinstance(value, Tensor) and value.dtype.kind == "f" and value.dtype is not dtypes.float64


def _floating(values):
    """The tensors of float16, bfloat16 or float32 in nested arguments."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, (tuple, list, dict)):
            yield from _floating(value)
        elif _is_castable(value):
            yield value


def _widest(tensors):
    found = dtypes.bfloat16
    for tensor in tensors:
        found = tensor.dtype if found is dtypes.bfloat16 else dtypes.promote(found, tensor.dtype)
    return found


def _mapped(value, change):
    """Nested arguments with `change` done to each tensor that may be cast."""
    if _is_castable(value):
        return change(value)
    if isinstance(value, dict):
        return {name: _mapped(each, change) for name, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_mapped(each, change) for each in value)
    return value


# ---------------------------------------------------------------------------------- the state of a thread
def _place():
    """(index, the casting in force) of this thread's interposers, or (None, None)."""
    stack = interpose.stack()
    for place in reversed(range(len(stack))):
        if isinstance(stack[place], Casting):
            return place, stack[place]
    return None, None


def _put(casting):
    """Make `casting` (or none, for None) the one in force; returns what was."""
    stack = interpose.stack()
    place, before = _place()
    if before is not None:
        stack.pop(place)
    if casting is not None:
        stack.insert(len(stack) if place is None else place, casting)
    interpose.set_mode()
    return before


def _known(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return Device(device_type).type


def is_autocast_available(device_type):
    """True for the CPU, and for the devices whose autocast can be named and stays without effect here."""
    return _known(device_type) in DEVICES


def is_autocast_enabled(device_type="cuda"):
    """Whether this is a block of autocast for `device_type`; False for what is not the CPU."""
    return _known(device_type) == "cpu" and _place()[1] is not None


def is_autocast_cpu_enabled():
    """`is_autocast_enabled("cpu")`"""
    return _place()[1] is not None


def get_autocast_dtype(device_type):
    """The dtype that autocast casts to on `device_type`."""
    casting = _place()[1]
    if _known(device_type) == "cpu" and casting is not None:
        return casting.dtype
    if device_type not in DEVICES:
        fail("get_autocast_dtype", "there is no autocast for this device", device_type, ", ".join(DEVICES))
    return _state.dtypes[device_type]


def set_autocast_dtype(device_type, dtype):
    """The dtype that autocast casts to on `device_type` from now on."""
    _state.dtypes[_known(device_type)] = dtype
    if device_type == "cpu" and _place()[1] is not None:
        _put(Casting(dtype))


def set_autocast_enabled(device_type, enabled=None):
    """Switch autocast on or off for this thread; a block (`autocast`) is the safer way. For other devices
    than the CPU nothing changes."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if _known(device_type) == "cpu" and bool(enabled) != is_autocast_cpu_enabled():
        _put(Casting(_state.dtypes["cpu"]) if enabled else None)


def is_autocast_cache_enabled():
    """Whether a weight is cast once a block only."""
    return _state.cache


def set_autocast_cache_enabled(enabled):
    """Whether a weight is cast once a block only."""
    _state.cache = bool(enabled)


def clear_autocast_cache():
    """Forget the casts of weights."""
    casting = _place()[1]
    if casting is not None:
        casting.kept.clear()


def get_autocast_cpu_dtype():
    """`get_autocast_dtype("cpu")`"""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """`get_autocast_dtype("cuda")`"""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype):
    """`set_autocast_dtype("cpu", dtype)`"""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype):
    """`set_autocast_dtype("cuda", dtype)`"""
    set_autocast_dtype("cuda", dtype)


def set_autocast_cpu_enabled(enabled):
    """`set_autocast_enabled("cpu", enabled)`"""
    set_autocast_enabled("cpu", enabled)


def autocast_increment_nesting():
    """Enter a block; the depth."""
    _state.depth += 1
    return _state.depth


def autocast_decrement_nesting():
    """Leave a block; the depth."""
    _state.depth -= 1
    return _state.depth


# ---------------------------------------------------------------------------------- the block
class autocast(contextlib.ContextDecorator):         # noqa: N801 - PyTorch's name
    """A block, or a decorated function, in which products of matrices run in a short dtype and losses in
    float32.

    Which op runs in which dtype: flambeau/amp/lists.py. float64 is never cast. Wrap the forward pass and the
    loss, not the backward pass: gradients come in the dtype of what they belong to, float32 for float32
    weights.

    Args:
        device_type: 'cpu'. For a device that is not here the block does nothing, with a warning.
        dtype: bfloat16 (the default on the CPU) or float16.
        enabled: False: within another block, computation in the dtypes that are given.
        cache_enabled: cast a float32 weight once a block.

    >>> model, x = fl.nn.Linear(3, 2), fl.ones(4, 3)
    >>> with fl.amp.autocast("cpu"):
    ...     y = model(x)
    ...     loss = fl.nn.functional.mse_loss(y, fl.zeros(4, 2))
    >>> y.dtype, loss.dtype
    (flambeau.bfloat16, flambeau.float32)
    >>> loss.backward()
    >>> model.weight.grad.dtype
    flambeau.float32
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _known(device_type)
        if self.device not in DEVICES:
            fail("autocast", "there is no autocast for this device", device_type, ", ".join(DEVICES))
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = _state.cache if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled)
        if not isinstance(self.fast_dtype, dtypes.DType):
            raise ValueError(f"Expected `dtype` of type `torch.dtype`, got: `{type(self.fast_dtype)}`")
        if self._enabled and self.device != "cpu":
            warnings.warn(f"{self.device.upper()} is not available. Disabling autocast.", stacklevel=2)
            self._enabled = False
        elif self._enabled and self.fast_dtype not in SHORT:
            warnings.warn(
                f"In CPU autocast, but the target dtype {self.fast_dtype} is not supported. Disabling "
                "autocast.\nCPU autocast only supports bfloat16 and float16.", stacklevel=2)
            self._enabled = False
        self._before = []

    def __enter__(self):
        changes = self.device == "cpu"
        before = _put(Casting(self.fast_dtype) if self._enabled else None) if changes else None
        if changes and before is not None and self._enabled and before.dtype is self.fast_dtype:
            _place()[1].kept = before.kept          # the outermost block keeps the casts of its weights
        self._before.append((before, _state.cache))
        _state.cache = self._cache_enabled
        return self

    def __exit__(self, *error):
        before, _state.cache = self._before.pop()
        if self.device == "cpu":
            _put(before)
        return False
