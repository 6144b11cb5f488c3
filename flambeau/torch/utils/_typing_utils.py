"""torch.utils._typing_utils"""


def not_none(obj):
    """obj, which is not None; TypeError if it is."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj
