"""DataParallel where there is one device: the module itself, under the name `module`."""

from flambeau.nn.module import Module


class DataParallel(Module):
    """Calls `module`; with several devices it would split the batch among them.

    Args:
        module: the model.
        device_ids, output_device, dim: accepted; there is one device.
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
    """Refused: training in several processes is not available yet."""

    def __init__(self, module, *args, **kwargs):
        raise NotImplementedError("[DistributedDataParallel] training in several processes is not available yet\n"
                                  "  hint: train in one process; its kernels use all processors")
