"""How many floating-point operations a call takes: a multiplication and an addition count as two."""

from flambeau.runtime._core import Tensor

__all__ = ["of_backward", "of_call"]


def _matmul(args, result):
    return 2 * result.numel() * args[0].shape[-1]


def _linear(args, result):
    return 2 * result.numel() * args[1].shape[-1]


def _convolution(args, result):
    return 2 * result.numel() * (args[1].numel() // args[1].shape[0])


def _transposed_convolution(args, result):
    return 2 * args[0].numel() * (args[1].numel() // args[1].shape[0])


def _attention(args, result):
    query, key = args[:2]
    result = result[0] if isinstance(result, tuple) else result
    return 2 * (query.numel() + result.numel()) * key.shape[-2]


def _recurrent(args, result):
    x, weight_input, weight_hidden = args[:3]
    steps = x.numel() // x.shape[-1]
    return 2 * steps * (weight_input.numel() + weight_hidden.numel())


_FORMULAS = {
    "matmul": _matmul,
    "mm": _matmul,
    "int_mm": _matmul,
    "linear": _linear,
    "linear_row": _linear,
    "linear_rows": _linear,
    "convolution": _convolution,
    "convolution_input_gradient": _transposed_convolution,
    "attention": _attention,
    "recurrent_layer": _recurrent,
}


def of_call(operation, args, result):
    """The count of one call, 0 for an op that is no product of many terms."""
    formula = _FORMULAS.get(operation.name)
    if formula is None or not all(isinstance(each, Tensor) for each in args[:2]):
        return 0
    return formula(args, result)


def of_backward(operation, args, forward):
    """The count of its backward pass: as much again for each factor whose gradient is wanted; attention
    computes its weights once more."""
    wanted = sum(isinstance(each, Tensor) and each.requires_grad for each in args[:2])
    if operation.name == "attention":
        return forward * 5 // 2
    return forward * wanted
