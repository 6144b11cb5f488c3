"""When a result counts as PyTorch's.

The tolerances of torch.testing; where they are missed, PyTorch in double precision says what is right, and we may be off
by them plus a multiple of PyTorch's own error.
"""

import numpy
import torch

from translate import DTYPES, array, leaves, same_number

from flambeau import torch as facade

TOLERANCES = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
              torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}
SLACK = 8           # times PyTorch's own error
FEW_ROUNDINGS = 1e-4


def doubled(x):
    """Arguments in double precision."""
    if isinstance(x, torch.Tensor):
        if not (x.is_floating_point() or x.is_complex()):
            return x
        wide = x.detach().to(torch.complex128 if x.is_complex() else torch.float64)
        return wide.requires_grad_(x.requires_grad)
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return type(x)(map(doubled, x)) if not hasattr(x, "_fields") else type(x)(*map(doubled, x))
    if isinstance(x, dict):
        return {key: doubled(each) for key, each in x.items()}
    return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(x, x) if isinstance(x, torch.dtype) else x


def close(ours, theirs, dtype, exact=None):
    """True if arrays agree; `exact` is a function that gives PyTorch's array in double precision, or None."""
    rtol, atol = TOLERANCES.get(dtype, (0, 0))
    with numpy.errstate(all="ignore"):
        if numpy.allclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True):
            return True
        if exact is None or (right := exact()) is None or right.shape != ours.shape:
            return False
        finite = numpy.isfinite(right) & numpy.isfinite(theirs)
        if not (numpy.isfinite(ours) | ~finite).all():
            return False
        error = numpy.abs(theirs - right)[finite].max(initial=0.0)
        size = numpy.abs(right)[finite].max(initial=0.0)
        allowed = atol + rtol * numpy.abs(right) + max(SLACK * error, FEW_ROUNDINGS * size if size else 0)
        return bool((numpy.abs(ours - right)[finite] <= allowed[finite]).all())


def differences(ours, theirs, exact=None, shapes_only=False, magnitudes=False, ties=False):
    """None if two results agree, else what differs first. exact: a function giving the result in double precision;
    ties: indices among equal elements may differ."""
    left, right = leaves(ours, facade.Tensor), leaves(theirs, torch.Tensor)
    if len(left) != len(right):
        return f"{len(left)} results, PyTorch has {len(right)}"
    wide, size_of = [], lambda z: numpy.abs(z) if magnitudes and z is not None else z

    def precise(number):
        if not wide:
            try:
                wide.append(leaves(exact(), torch.Tensor))
            except Exception:                   # a sample that PyTorch takes in single precision only
                wide.append(None)
        return None if wide[0] is None else array(wide[0][number])

    for number, (a, b) in enumerate(zip(left, right)):
        if not isinstance(b, torch.Tensor):
            if not same_number(b, a) and not shapes_only:
                return f"result {number} is {a!r}, PyTorch's {b!r}"
            continue
        if not isinstance(a, facade.Tensor):
            return f"result {number} is a {type(a).__name__}, PyTorch's a Tensor"
        if tuple(a.shape) != tuple(b.shape) or a.dtype is not DTYPES.get(b.dtype):
            return f"result {number} is {a.dtype} {tuple(a.shape)}, PyTorch's {b.dtype} {tuple(b.shape)}"
        if shapes_only or ties and not (b.is_floating_point() or b.is_complex()) and number:
            continue
        x, y = array(a), array(b)
        x, y = (numpy.abs(x), numpy.abs(y)) if magnitudes else (x, y)
        judge = None if exact is None else lambda number=number: size_of(precise(number))
        if not close(x, y, b.dtype, judge):
            with numpy.errstate(all="ignore"):
                gap = numpy.nanmax(numpy.abs(x.astype(complex) - y.astype(complex)), initial=0.0)
            return f"result {number} differs by up to {gap:.3g}"
    return None
