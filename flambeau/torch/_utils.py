"""torch._utils: tensors laid side by side in one, and apart again."""

from flambeau.ops.join import cat as _cat
from flambeau.torch import _mirror


def _flatten_dense_tensors(tensors):
    """One 1-d tensor with the elements of all."""
    tensors = list(tensors)
    return (
        _cat([tensor.contiguous().view(-1) for tensor in tensors])
        if len(tensors) != 1
        else tensors[0].contiguous().view(-1)
    )


def _unflatten_dense_tensors(flat, tensors):
    """Views of `flat` with the shapes of `tensors`, one after the other."""
    found, place = [], 0
    for tensor in tensors:
        found.append(flat.narrow(0, place, tensor.numel()).view(tensor.shape))
        place += tensor.numel()
    return tuple(found)


def _take_tensors(tensors, size_limit):
    """Lists of tensors of one dtype, each of at most about `size_limit` bytes."""
    groups = {}
    for tensor in tensors:
        taken, size = groups.setdefault(tensor.type(), ([], 0))
        if taken and size + tensor.nbytes > size_limit:
            yield taken
            taken, size = [], 0
        taken.append(tensor)
        groups[tensor.type()] = taken, size + tensor.nbytes
    for taken, _ in groups.values():
        if taken:
            yield taken


def _get_device_index(device, optional=False, allow_cpu=False):
    """-1: the CPU has no number."""
    return -1


def _get_all_device_indices():
    """No device has a number."""
    return []


def _get_available_device_type():
    """None: there is no accelerator."""


class ExceptionWrapper:
    """An exception of a worker, to be raised again with its traceback as text."""

    def __init__(self, exc_info=None, where="in background"):
        import sys
        import traceback

        kind, value, trace = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self):
        """Raise an exception of the same type."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(message)
        except TypeError:
            error = RuntimeError(message)
        raise error


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.copying", "flambeau.tensor.torch_pickles")
