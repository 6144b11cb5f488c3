"""Pruning: entries of a parameter masked out before each call, by size or at random, one by one or by
channels.

A pruned module has the parameter `weight_orig`, the buffer `weight_mask`, and `weight`, their product, which
a forward pre-hook makes anew; `remove` makes that product the parameter. Pruning again takes from what is
left.

    prune.l1_unstructured(layer, "weight", amount=0.3)
"""

import numbers

from flambeau.ops.join import cat
from flambeau.tensor import no_grad, ones_like, rand


class BasePruningMethod:
    """A way to choose what is pruned; a subclass states `PRUNING_TYPE` ("unstructured", "structured" or
    "global") and `compute_mask(t, default_mask)`, which sets entries of a copy of the mask to 0 by the
    importance scores `t`.
    """

    PRUNING_TYPE = "unstructured"

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t, default_mask):
        """The mask, from scores and the mask so far, all of one shape."""
        raise NotImplementedError(f"{type(self).__name__} says in compute_mask() what is kept")

    def apply_mask(self, module):
        """The product of the parameter and its mask."""
        name = self._tensor_name
        return getattr(module, name + "_mask").to(getattr(module, name + "_orig").dtype) * getattr(
            module, name + "_orig")

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune the parameter `name` of a module; arguments are those of the class. Returns the method."""
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(value.shape):
            raise AssertionError(f"importance_scores have the shape {tuple(scores.shape)}, but the parameter "
                                 f"{name} of {type(module).__name__} has {tuple(value.shape)}")
        method = cls(*args, **kwargs)
        method._tensor_name = name
        old = _hook_of(module, name)
        with no_grad():
            if old is None:
                mask = method.compute_mask(scores.detach(), ones_like(value.detach()))
                module.register_parameter(name + "_orig", module._parameters.pop(name))
            else:
                identity, first = old
                del module._forward_pre_hooks[identity]
                container = first if isinstance(first, PruningContainer) else PruningContainer(first)
                container.add_pruning_method(method)
                mask = container.compute_mask(scores.detach(), getattr(module, name + "_mask").clone())
                method = container
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """`t` with what is pruned set to 0."""
        scores = t if importance_scores is None else importance_scores
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module):
        """Make the masked parameter an ordinary one again, with its zeros."""
        name = self._tensor_name
        if _hook_of(module, name) is None:
            raise AssertionError(f"Module {type(module).__name__} has to be pruned before "
                                 "pruning can be removed")
        kept = self.apply_mask(module).detach()
        original = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        original.data = kept
        setattr(module, name, original)


def _hook_of(module, name):
    """(identity, pruning method) of the hook that prunes `name`, or None."""
    for identity, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return identity, hook
    return None


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, each applied to what the ones before left."""

    def __init__(self, *methods):
        self._pruning_methods = ()
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Append a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(f"the method prunes {method._tensor_name}, the container {self._tensor_name}")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]

    def compute_mask(self, t, default_mask):
        """The last method's mask of the entries, or channels, that are left."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask)
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
            mask = default_mask.clone()
            mask[left] = method.compute_mask(t[left], default_mask[left])
            return mask
        if method.PRUNING_TYPE != "structured":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        dim = method.dim % t.ndim
        others = tuple(axis for axis in range(t.ndim) if axis != dim)
        left = (default_mask.sum(others) != 0).nonzero().reshape(-1)
        part = method.compute_mask(t.index_select(dim, left), default_mask.index_select(dim, left))
        return default_mask.index_copy(dim, left, part)


class Identity(BasePruningMethod):
    """Prunes nothing, but brings mask and hook."""

    def compute_mask(self, t, default_mask):
        return default_mask


class _ByAmount(BasePruningMethod):
    """A method that prunes `amount` units: a number of them, or a share."""

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount


class RandomUnstructured(_ByAmount):
    """Prunes entries at random."""

    def compute_mask(self, t, default_mask):
        return _without_smallest(rand(*t.shape), default_mask, self.amount)


class L1Unstructured(_ByAmount):
    """Prunes the entries of smallest absolute value."""

    def compute_mask(self, t, default_mask):
        return _without_smallest(t.abs(), default_mask, self.amount)


class RandomStructured(_ByAmount):
    """Prunes channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def scores(self, t):
        """One number for each channel."""
        return rand(t.shape[self.dim])

    def compute_mask(self, t, default_mask):
        if t.ndim <= 1:
            raise ValueError(f"Structured pruning needs channels: more than one axis, got {t.ndim}")
        scores = self.scores(t)
        kept = _without_smallest(scores, ones_like(scores), self.amount).to(default_mask.dtype)
        shape = [1] * t.ndim
        shape[self.dim] = -1
        return default_mask * kept.reshape(shape)


class LnStructured(RandomStructured):
    """Prunes the channels along `dim` of smallest norm of order `n`."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t):
        rows = t.transpose(0, self.dim).reshape(t.shape[self.dim], -1)
        return rows.norm(self.n, -1)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(default_mask.dtype)


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and amount > 1):
        raise ValueError(f"amount={amount} should be a share from 0 to 1, or a number of units >= 0")


def _without_smallest(scores, mask, amount):
    """A copy of the mask with 0 where the smallest scores are."""
    size = scores.numel()
    if isinstance(amount, numbers.Integral) and amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    count = amount if isinstance(amount, numbers.Integral) else round(amount * size)
    if count == 0:
        return mask.clone()
    places = scores.reshape(-1).topk(count, largest=False)[1]
    return mask.reshape(-1).index_fill(0, places, 0).reshape(mask.shape)


# ------------------------------------------------------------------------------ as functions
def identity(module, name):
    """Bring mask and hook, prune nothing; returns the module, as all of these do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune `amount` entries (a number or a share) at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the `amount` entries of smallest absolute value, or smallest score.

    >>> from flambeau import nn
    >>> layer = nn.Linear(4, 1)
    >>> l1_unstructured(layer, "weight", amount=0.5).weight_mask.sum()
    tensor(2.)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune `amount` channels along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the `amount` channels along `dim` of smallest norm of order `n`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prune where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune several parameters together: [(module, name), ...]; the amount counts for all of them."""
    parameters = list(parameters)
    given = importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError("Only \"unstructured\" PRUNING_TYPE is supported for global pruning")
    scores = [given.get((module, name), getattr(module, name)).detach() for module, name in parameters]
    masks = [getattr(module, name + "_mask", ones_like(s)) for (module, name), s in zip(parameters, scores)]
    container = PruningContainer()
    container._tensor_name = "all"
    method = pruning_method(**kwargs)
    method._tensor_name = "all"
    container.add_pruning_method(method)
    flat = container.compute_mask(cat([s.reshape(-1) for s in scores]), cat([m.reshape(-1) for m in masks]))
    start = 0
    for (module, name), score in zip(parameters, scores):
        custom_from_mask(module, name, flat.narrow(0, start, score.numel()).reshape(score.shape))
        start += score.numel()


def remove(module, name):
    """Make the pruned parameter an ordinary one; ValueError where it is not pruned."""
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be "
                         "removed")
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module):
    """True if a parameter of the module, or of one inside it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for inner in module.modules()
               for hook in inner._forward_pre_hooks.values())
