"""torch.utils.weak: dicts whose keys are objects by identity, which they do not keep alive."""

import weakref
from collections.abc import MutableMapping

from flambeau.torch import _mirror


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to those of the same object only."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, its = self(), other() if isinstance(other, weakref.ref) else other
        return mine is its if mine is not None and its is not None else self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dict with keys by identity; an entry goes when its key does."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        owner = weakref.ref(self)

        def gone(reference):
            if owner() is not None:
                owner().data.pop(reference, None)

        self._gone = gone
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._gone)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # there are no weak references to such a thing
            return False

    def __iter__(self):
        return iter([key for key in (reference() for reference in list(self.data)) if key is not None])

    def __len__(self):
        return len(list(iter(self)))

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorRefKey = WeakIdRef
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: calling it gives the tensor, or None."""

    def __init__(self, tensor):
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()


__getattr__, __dir__ = _mirror.mirror(__name__)
