"""`assert_close`: tensors, numbers and containers of them are equal up to a tolerance that the dtype gives."""

from collections.abc import Mapping, Sequence

from flambeau.tensor import Tensor, as_tensor
from flambeau.types.dtype import promote

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
               "float64": (1e-7, 1e-7),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False,
                 check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """AssertionError unless |actual - expected| <= atol + rtol * |expected|, element by element.

    Args:
        actual, expected: tensors, NumPy arrays, numbers, or sequences and mappings of these.
        rtol, atol: both or neither; by default those of the wider dtype.
        equal_nan: NaN equals NaN.
        check_dtype, check_stride: also demand equal dtypes and strides.
        msg: the message of the error, or a function that makes it of the usual one.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                         f"{'rtol' if rtol is None else 'atol'}.")
    options = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype,
               "check_stride": check_stride}
    problem = _difference(actual, expected, "", options)
    if problem is not None:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older form of `assert_close`: dtypes may differ."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)


def _difference(actual, expected, path, options):
    """The message that tells the first difference, or None."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return f"The keys of the mappings do not match:\nMissing keys in the actual mapping: " \
                   f"{sorted(set(expected) - set(actual))}\nAdditional keys in the actual mapping: " \
                   f"{sorted(set(actual) - set(expected))}{_at(path)}"
        pairs = [(key, actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{_at(path)}"
        pairs = [(number, *pair) for number, pair in enumerate(zip(actual, expected))]
    else:
        return _compare(actual, expected, path, options)
    for key, one, other in pairs:
        problem = _difference(one, other, f"{path}[{key!r}]", options)
        if problem is not None:
            return problem
    return None


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, str)


def _at(path):
    return f"\n\nThe failure occurred for item {path}" if path else ""


def _compare_parts(actual, expected, path, options):
    """The same for sparse and nested tensors, part by part."""
    layouts = [getattr(value, "layout", None) for value in (actual, expected)]
    if layouts[0] is not layouts[1] or type(actual) is not type(expected):
        return f"The values for attribute 'layout' do not match: {layouts[0]} != {layouts[1]}.{_at(path)}"
    if actual.is_nested:
        return _difference(list(actual.unbind()), list(expected.unbind()), path, options)
    if tuple(actual.shape) != tuple(expected.shape):
        return f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.{_at(path)}"
    parts = [(value.coalesce() if value.is_sparse else value)._parts() for value in (actual, expected)]
    return _difference(*map(list, parts), path, options)


def _compare(actual, expected, path, options):
    """The message that tells how two tensors or numbers differ, or None."""
    if actual is None and expected is None:
        return None
    if any(hasattr(type(value), "_parts") for value in (actual, expected)):
        return _compare_parts(actual, expected, path, options)
    numbers = not any(isinstance(value, Tensor) or hasattr(value, "__array__")
                      for value in (actual, expected))
    if numbers is False and not all(isinstance(v, Tensor) or hasattr(v, "__array__")
                                    for v in (actual, expected)):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    one, other = _tensor(actual), _tensor(expected)
    if tuple(one.shape) != tuple(other.shape):
        return f"The values for attribute 'shape' do not match: {one.shape} != {other.shape}.{_at(path)}"
    if options["check_dtype"] and not numbers and one.dtype is not other.dtype:
        return f"The values for attribute 'dtype' do not match: {one.dtype} != {other.dtype}.{_at(path)}"
    if options["check_stride"] and one.stride() != other.stride():
        return f"The values for attribute 'stride()' do not match: {one.stride()} != {other.stride()}.{_at(path)}"
    rtol, atol = options["rtol"], options["atol"]
    if rtol is None:
        rtol, atol = _TOLERANCES.get(promote(one.dtype, other.dtype).name, (0.0, 0.0))
        if numbers and {type(actual), type(expected)} & {float, complex}:
            rtol, atol = _TOLERANCES["float64"]
    return _elements(_array(one), _array(other), rtol, atol, options["equal_nan"], numbers, path)


def _tensor(value):
    try:
        return value.detach() if isinstance(value, Tensor) else as_tensor(value)
    except (TypeError, ValueError):
        raise TypeError("No comparison pair was able to handle inputs of type "
                        f"{type(value)} and {type(value)}.") from None


def _array(tensor):
    """A NumPy array wide enough that differences are exact enough: float64, complex128 or Python integers."""
    import numpy

    if tensor.dtype.kind in "iub":
        return numpy.asarray(numpy.array(tensor.tolist(), object) * 1, object)
    array = (tensor.float() if tensor.dtype.name == "bfloat16" else tensor).numpy()
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def _elements(actual, expected, rtol, atol, equal_nan, numbers, path):
    """The message for elements that are not close, or None."""
    import numpy

    with numpy.errstate(all="ignore"):
        gap = numpy.abs(actual - expected)
        close = (actual == expected) | ((gap <= atol + rtol * numpy.abs(expected)) & _finite(gap))
        if equal_nan:
            close = close | ((actual != actual) & (expected != expected))
        close = numpy.asarray(close, bool)
        if close.all():
            return None
        share = numpy.where(close, 0, numpy.asarray(gap, "float64") / numpy.asarray(numpy.abs(expected),
                                                                                    "float64"))
    gap = numpy.where(close, 0, gap)
    exact = rtol == atol == 0
    if numbers:
        return (f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {numpy.asarray(expected).item()} but got {numpy.asarray(actual).item()}.\n"
                f"Absolute difference: {numpy.asarray(gap).item()}{_allowed(atol, exact)}\n"
                f"Relative difference: {share.item()}{_allowed(rtol, exact)}{_at(path)}")
    wrong = close.size - int(close.sum())
    return (f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n"
            f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})\n"
            f"Greatest absolute difference: {_greatest(gap)}{_allowed(atol, exact)}\n"
            f"Greatest relative difference: {_greatest(share)}{_allowed(rtol, exact)}{_at(path)}")


def _finite(values):
    import numpy
    return numpy.isfinite(numpy.asarray(values, "float64"))


def _allowed(tolerance, exact):
    return "" if exact else f" (up to {tolerance} allowed)"


def _greatest(values):
    import numpy
    ranks = numpy.asarray(values, "float64")
    place = int(numpy.argmax(numpy.where(ranks != ranks, numpy.inf, ranks)))
    value = values.reshape(-1)[place]
    index = tuple(int(i) for i in numpy.unravel_index(place, values.shape))
    return f"{value}" + (f" at index {index}" if values.ndim else "")
