"""Batch norm in evaluation folded into the weights of the layer before it."""

import copy

from flambeau import ops
from flambeau.nn.parameter import Parameter
from flambeau.tensor import ones_like, zeros_like


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of a convolution that also does the batch norm; `transpose`: of a transposed one."""
    bias = zeros_like(bn_rm) if conv_b is None else conv_b
    weight, shift = ones_like(bn_rm) if bn_w is None else bn_w, zeros_like(bn_rm) if bn_b is None else bn_b
    scale = weight * ops.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    fused = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))
    return (Parameter(fused.detach().to(conv_w.dtype), conv_w.requires_grad),
            Parameter(((bias - bn_rm) * scale + shift).detach().to(conv_w.dtype), bias.requires_grad))


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """(weight, bias) of a linear layer that also does the batch norm."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer, bn, transpose):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    layer = copy.deepcopy(layer)
    layer.weight, layer.bias = fuse_conv_bn_weights(layer.weight, layer.bias, bn.running_mean, bn.running_var,
                                                    bn.eps, bn.weight, bn.bias, transpose)
    return layer


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A convolution that does what `conv` and then `bn` do in evaluation."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that does what `linear` and then `bn` do in evaluation."""
    return _fused(linear, bn, False)
