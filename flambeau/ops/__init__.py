"""Operators: each is declared once, as a class of a kind. `ops.REGISTRY` holds them by name."""

from flambeau.ops import (activation, alignment, arithmetic, attention, bounds, calculus, compare, complex_kinds, convolution,
                          create, distance, eigenpairs,
                          einstein_sum, elementwise, extreme, fourier, grid, image, index, join, linalg,
                          linalg_functions, linalg_lu, linalg_symmetric, loss, mathematics, matmul, normalize, norms, optimize,
                          optimize_more, padding, places, pooling, powers, products, random, recurrent, reduce, refusals,
                          regression, reinterpret, resample, rounding, running, scan, scatter, segments, shape, sort, sparse_rows, special, special_bessel,
                          special_host, special_polynomials, spectrogram, statistics, structure, triangles,
                          view, window, windows)
from flambeau.ops.index import embedding
from flambeau.ops.loss import cross_entropy
from flambeau.ops.matmul import bmm
from flambeau.ops.spec import REGISTRY
from flambeau.ops.convolution import conv2d
from flambeau.ops.pooling import max_pool2d

_MODULES = (recurrent, arithmetic, bounds, einstein_sum, linalg, linalg_functions, linalg_symmetric, norms, products, triangles,
            special, special_bessel, special_host, special_polynomials, windows, fourier, spectrogram,
            padding, pooling, convolution, image, elementwise, mathematics, compare, activation, reduce,
            view, matmul, index, window, create, random, normalize, join, loss, regression, alignment, rounding, optimize, scan,
            sort, statistics, shape, scatter, places, structure, reinterpret, calculus, extreme, attention)


def __getattr__(name):
    """An op's function by its name: ops.sin, ops.sum, ..."""
    for module in _MODULES:
        value = vars(module).get(name)
        if value is not None and (name in REGISTRY or getattr(value, "__module__", None) == module.__name__
                                  or type(value).__name__ == "builtin_function_or_method"):
            globals()[name] = value         # the next access is a plain one
            return value
    raise AttributeError(f"module 'flambeau.ops' has no op {name!r}")


__all__ = ["REGISTRY", "bmm", "conv2d", "cross_entropy", "embedding", "max_pool2d"]
