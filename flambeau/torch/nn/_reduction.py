"""torch.nn._reduction: what `size_average` and `reduce` mean, and the numbers of reductions."""

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction):
    """0, 1 or 2 for 'none', 'mean' and 'sum'."""
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average, reduce, emit_warning=True):
    """The reduction that the old arguments ask for."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """Its number."""
    return get_enum(legacy_get_string(size_average, reduce))
