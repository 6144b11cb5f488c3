"""torch._C: the few names of PyTorch's compiled part that libraries ask for."""

from flambeau.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
)
from flambeau.linalg import LinAlgError
from flambeau.ops.overrides import THREAD as _THREAD
from flambeau.runtime._core import Size
from flambeau.tensor import Generator, Tensor, is_grad_enabled, set_grad_enabled as _set_grad
from flambeau.tensor.legacy import VariableType as _LegacyVariableBase
from flambeau.torch import _mirror
from flambeau.torch.nn import functional as _nn
from flambeau.types.device import Device as device
from flambeau.types.dtype import DType as dtype

TensorBase = _TensorBase = Tensor
_LinAlgError = LinAlgError
_TensorMeta = type(Tensor)


def _get_default_device():
    """The name of the device that new tensors are on."""
    import flambeau

    return str(getattr(flambeau, "get_default_device", lambda: "cpu")())


def _log_api_usage_once(*event):
    """Nothing is logged."""


def _get_tracing_state():
    """None: nothing is traced."""


def _is_tracing():
    return False


def _is_torch_function_enabled():
    return _THREAD.types_ask and _THREAD.modes_ask


def _is_torch_function_all_disabled():
    return not _is_torch_function_enabled()


def _set_grad_enabled(mode):
    _set_grad(mode)


def _cuda_isCurrentStreamCapturing():  # noqa: N802 - PyTorch's name
    return False


def _get_privateuse1_backend_name():
    return "privateuseone"


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch._scripts")

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "TensorBase",
    "_TensorMeta",
    "_LegacyVariableBase",
    "_disabled_torch_function_impl",
    "_nn",
    "device",
    "dtype",
    "is_grad_enabled",
]
