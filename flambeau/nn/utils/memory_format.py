"""The order in memory of convolutions' weights."""


def convert_conv2d_weight_memory_format(module, memory_format):
    """Bring the weights of all Conv2d and ConvTranspose2d in `module` into a memory format; returns the
    module.

    >>> from flambeau import nn
    >>> layer = convert_conv2d_weight_memory_format(nn.Conv2d(2, 3, 3), fl.channels_last)
    >>> layer.weight.stride()
    (18, 1, 6, 2)
    """
    from flambeau.nn.conv import Conv2d, ConvTranspose2d
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """The same for Conv3d and ConvTranspose3d."""
    from flambeau.nn.conv import Conv3d, ConvTranspose3d
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module, kinds, memory_format):
    """Channels last: the axis 1 has the smallest strides; in all other formats the last has."""
    last = str(memory_format).rpartition(".")[2].startswith("channels_last")
    for inner in module.modules():
        if isinstance(inner, kinds):
            weight = inner.weight.detach()
            inner.weight.data = (weight.movedim(1, -1).contiguous().movedim(-1, 1) if last
                                 else weight.contiguous())
    return module
