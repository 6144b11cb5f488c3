"""Checks that programs state about themselves, and the choice `cond`: as they are, for nothing is captured here."""

from flambeau.tensor import Tensor

_WORDLESS = "Expected cond to be True, but got False; a message says why: _check(cond, lambda: text)"


def _must_be(kind):
    """The function that raises an error of this kind where `cond` is false."""
    def check(cond, message=None):
        if not isinstance(cond, bool):
            raise TypeError(f"cond must be a bool, but got {type(cond)}")
        if cond:
            return
        if message is not None and not callable(message):
            raise TypeError("message must be a callable")
        raise kind(_WORDLESS if message is None else str(message()))
    check.__doc__ = f"{kind.__name__} with the text that `message()` gives, unless `cond` is True."
    return check


_check, _check_index, _check_type = _must_be(RuntimeError), _must_be(IndexError), _must_be(TypeError)
_check_value, _check_not_implemented = _must_be(ValueError), _must_be(NotImplementedError)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless i is a size: not negative, and at most `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond, message=None):
    """RuntimeError unless every element is true."""
    _check(bool(cond.all().item()), message)


def _assert(condition, message):
    """The statement `assert`, as a function."""
    assert condition, message


def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    """RuntimeError unless the one element of a tensor is true."""
    if not input:
        raise RuntimeError(assert_msg)


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` where `pred`, a bool or a tensor of one element, is true, else `false_fn(*operands)`.

    >>> import flambeau.torch as torch
    >>> cond(torch.ones(3).sum() > 2, torch.sin, torch.cos, (torch.zeros(2),))
    tensor([0., 0.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return (true_fn if pred else false_fn)(*operands)


def sym_int(a):
    """int(a)"""
    return int(a)


def sym_float(a):
    """float(a)"""
    return float(a)


def sym_not(a):
    """not a"""
    return not a


def sym_max(a, b):
    """The larger one; a float where one of them is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a, b):
    """The smaller one; a float where one of them is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args):
    """sum(args)"""
    return sum(args)


def sym_ite(b, t, f):
    """`t` where `b`, else `f`."""
    return t if b else f


__all__ = ["_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
           "_check_tensor_all", "_check_type", "_check_value", "cond", "sym_float", "sym_int", "sym_ite", "sym_max",
           "sym_min", "sym_not", "sym_sum"]
