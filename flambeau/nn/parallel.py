"""One model in several places, where there is one device: the module itself, called on the whole batch or its
parts.

`scatter`, `replicate`, `parallel_apply` and `gather` are the four steps of DataParallel. Here every place is
the CPU, whose kernels use all processors already, so the parts are computed one after the other.
"""

import copy

from flambeau.base.errors import fail
from flambeau.nn.module import Module
from flambeau.tensor import Tensor, cat, stack

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate",
           "scatter", "scatter_kwargs"]


class DataParallel(Module):
    """Calls `module`; with several devices it would split the batch among them.

    Args:
        module: the model; the keys of `state_dict()` begin with "module.".
        device_ids, output_device, dim: accepted; there is one device.

    >>> import flambeau as fl
    >>> list(DataParallel(fl.nn.Linear(2, 2)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.dim, self.device_ids, self.output_device = dim, [], output_device
        self.module = module

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs): there is one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Refused: training in several processes needs a process group, which is not available yet."""

    def __init__(self, module, *args, **kwargs):
        fail("DistributedDataParallel", "Default process group has not been initialized: training in several "
             "processes is not available yet", hint="train in one process; its kernels use all processors",
             kind=ValueError)


# ---------------------------------------------------------------------------------- the steps
def scatter(inputs, target_gpus, dim=0):
    """One part of `inputs` for each target: tensors split along `dim`, inside tuples, lists and dicts too.

    Other values go to each as they are. There are fewer parts than targets if the tensors are too short.

    >>> import flambeau as fl
    >>> [part.tolist() for part in scatter(fl.arange(5), ["cpu", "cpu"])]
    [[0, 1, 2], [3, 4]]
    """
    count = len(target_gpus)

    def parts_of(value):
        if isinstance(value, Tensor):
            return list(value.chunk(count, dim))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*fields) for fields in zip(*map(parts_of, value))]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(fields) for fields in zip(*map(parts_of, value))]
        if isinstance(value, dict) and value:
            return [type(value)(zip(value, fields)) for fields in zip(*map(parts_of, value.values()))]
        return [value] * count
    return parts_of(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """(parts of the positional arguments, parts of the named ones), as many of the one as of the other."""
    inputs = scatter(inputs, target_gpus, dim) if inputs else []
    kwargs = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(inputs), len(kwargs))
    return (tuple(inputs) + ((),) * (count - len(inputs)),
            tuple(kwargs) + tuple({} for _ in range(count - len(kwargs))))


def gather(outputs, target_device, dim=0):
    """The inverse of `scatter`: tensors joined along `dim` (scalars become a vector)."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat(tuple(outputs), dim) if first.ndim else stack(tuple(outputs))
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim))
                           for key in first)
    fields = [gather(fields, target_device, dim) for fields in zip(*outputs)]
    return type(first)(*fields) if hasattr(first, "_fields") else type(first)(fields)


def replicate(network, devices, detach=False):
    """One copy of the module for each device; all use the same parameters and buffers (detach: off the tape)."""
    members = [*network.parameters(), *network.buffers()]
    return [copy.deepcopy(network, {id(member): member.detach() if detach else member for member in members})
            for _ in devices]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """[module(*input, **kwargs) for each module]."""
    if len(modules) != len(inputs):
        fail("parallel_apply", "one input for each module", f"{len(modules)} modules, {len(inputs)} inputs",
             kind=AssertionError)
    named = kwargs_tup or [{}] * len(modules)
    return [module(*(given if isinstance(given, (tuple, list)) else (given,)), **kwargs)
            for module, given, kwargs in zip(modules, inputs, named)]
