"""Pytrees: nested dicts, lists, tuples, named tuples and None, taken apart into leaves and a structure.

>>> leaves, structure = flatten({"w": [1, 2], "b": None})
>>> leaves
[1, 2]
>>> unflatten([10, 20], structure)
{'w': [10, 20], 'b': None}

Whatever is not registered is a leaf; a subclass of a registered type is one too, but for named tuples. None
has no leaves. A dict keeps its own order; two dicts of the same keys in different order have different
structures.
"""

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass

from flambeau.base.errors import fail


@dataclass(frozen=True)
class Structure:
    """What is left of a tree without its leaves. Hashable (if the contexts are), equal if the trees match.

    `kind` is the container's type, `context` what else it needs (a dict's keys); the leaf's kind is None.
    """

    kind: type | None
    context: object
    children: tuple
    count: int          # of leaves

    def __repr__(self):
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        inner = [f"{key!r}: {child!r}" for key, child in zip(self.context, self.children)] \
            if isinstance(self.context, tuple) and len(self.context) == len(self.children) else self.children
        return f"{self.kind.__name__}({', '.join(map(str, inner))})"


LEAF = Structure(None, None, (), 1)
_REGISTRY = {}      # type -> (flatten, unflatten)


def register(kind, flatten, unflatten):
    """Make `kind` a container.

    `flatten(object) -> (children, context)`, the context hashable;
    `unflatten(children, context) -> object`.
    """
    if kind in _REGISTRY:
        fail("tree", "a type can be registered once", got=kind.__qualname__, kind=ValueError)
    _REGISTRY[kind] = (flatten, unflatten)


register(type(None), lambda _: ((), None), lambda children, _: None)
register(list, lambda tree: (tree, None), lambda children, _: list(children))
register(tuple, lambda tree: (tree, None), lambda children, _: tuple(children))
register(dict, lambda tree: (tree.values(), tuple(tree)), lambda children, keys: dict(zip(keys, children)))
register(OrderedDict, lambda tree: (tree.values(), tuple(tree)),
         lambda children, keys: OrderedDict(zip(keys, children)))
register(defaultdict, lambda tree: (tree.values(), (tree.default_factory, tuple(tree))),
         lambda children, context: defaultdict(context[0], zip(context[1], children)))
register(deque, lambda tree: (tree, tree.maxlen), lambda children, maxlen: deque(children, maxlen))


def _is_named_tuple(kind):
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make")


def is_container(tree):
    """True if `tree` is taken apart by `flatten`."""
    return type(tree) in _REGISTRY or _is_named_tuple(type(tree))


def flatten(tree, is_leaf=None):
    """(list of leaves, structure). `is_leaf(subtree)` true stops the descent there."""
    leaves = []
    return leaves, _flatten(tree, is_leaf, leaves)


def _flatten(tree, is_leaf, leaves):
    kind = type(tree)
    if is_leaf is None or not is_leaf(tree):
        entry = _REGISTRY.get(kind)
        if entry is not None or _is_named_tuple(kind):
            children, context = entry[0](tree) if entry else (tree, None)
            before = len(leaves)
            structures = tuple([_flatten(child, is_leaf, leaves) for child in children])
            return Structure(kind, context, structures, len(leaves) - before)
    leaves.append(tree)
    return LEAF


def unflatten(leaves, structure):
    """The tree of `structure` with these leaves, in order; ValueError if their number is wrong."""
    leaves = list(leaves)
    if len(leaves) != structure.count:
        fail("tree", "wrong number of leaves", got=len(leaves), want=structure.count, kind=ValueError)
    return _unflatten(iter(leaves), structure)


def _unflatten(leaves, structure):
    if structure.kind is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in structure.children]
    entry = _REGISTRY.get(structure.kind)
    return entry[1](children, structure.context) if entry else structure.kind._make(children)


def leaves(tree, is_leaf=None):
    """The leaves of `tree` in order."""
    return flatten(tree, is_leaf)[0]


def map(function, tree, *others, is_leaf=None):
    """`tree` with each leaf x replaced by function(x, y, ...), y from the same place of the other trees.

    >>> map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    first, structure = flatten(tree, is_leaf)
    columns = [first]
    for other in others:
        column, shape = flatten(other, is_leaf)
        if shape != structure:
            fail("tree", "the trees differ in structure", got=shape, want=structure, kind=ValueError)
        columns.append(column)
    return unflatten([function(*row) for row in zip(*columns)], structure)
