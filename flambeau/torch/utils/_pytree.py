"""torch.utils._pytree: nested containers taken apart and put together, in PyTorch's words.

The containers are those of `flambeau.base.tree`: what is registered here is one there too. Other than
there, None is
a leaf, and a structure (`TreeSpec`) lists its children.
"""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flambeau.base import tree as _tree
from flambeau.tensor import Size as _Size

PyTree = Any
Context = Any
NodeDef = namedtuple(
    "NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"], defaults=[None]
)


class _Nodes(Mapping):
    """{container type: NodeDef} of whatever is registered."""

    keyed = {}  # type -> flatten_with_keys_fn

    def _kinds(self):
        return [kind for kind in _tree._REGISTRY if kind is not type(None)]

    def __getitem__(self, kind):
        if kind is namedtuple:
            return NodeDef(
                kind, lambda node: (list(node), type(node)), lambda children, cls: cls._make(children)
            )
        if kind is type(None):
            raise KeyError(kind)
        flatten, unflatten = _tree._REGISTRY[kind]
        return NodeDef(kind, lambda node: _listed(*flatten(node)), unflatten, self.keyed.get(kind))

    def __iter__(self):
        return iter([namedtuple, *self._kinds()])

    def __len__(self):
        return 1 + len(self._kinds())


def _listed(children, context):
    return list(children), list(context) if isinstance(context, tuple) else context


SUPPORTED_NODES = _Nodes()


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Make `cls` a container: `flatten_fn(node) -> (children, context)`, `unflatten_fn(children, context)
    -> node`."""
    if cls in _tree._REGISTRY:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _tree.register(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        SUPPORTED_NODES.keyed[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node
if _Size not in _tree._REGISTRY:
    register_pytree_node(_Size, lambda size: (list(size), None), lambda children, _: _Size(children))


def _is_namedtuple_instance(tree):
    return _tree._is_named_tuple(type(tree))


is_namedtuple_instance = _is_namedtuple_instance


def _get_node_type(tree):
    return namedtuple if _is_namedtuple_instance(tree) and type(tree) not in _tree._REGISTRY else type(tree)


def _is_leaf(tree, is_leaf=None):
    return is_leaf is not None and is_leaf(tree) or _get_node_type(tree) not in SUPPORTED_NODES


tree_is_leaf = _is_leaf


# ------------------------------------------------------------------------------ structures
@dataclass(eq=True)
class TreeSpec:
    """What is left of a tree without its leaves: the container's type, its context, the children's
    structures."""

    type: Any
    context: Any
    children_specs: list
    num_nodes: int = field(init=False, compare=False)
    num_leaves: int = field(init=False, compare=False)
    num_children: int = field(init=False, compare=False)

    def __post_init__(self):
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)
        self.num_leaves = sum(child.num_leaves for child in self.children_specs)
        self.num_children = len(self.children_specs)

    def is_leaf(self):
        return False

    def children(self):
        return self.children_specs

    def child(self, index):
        return self.children_specs[index]

    def unflatten(self, leaves):
        """The tree with these leaves, in order."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a "
                f"pytree that holds {self.num_leaves} items ({self})."
            )
        return self._fill(iter(leaves))

    def _fill(self, leaves):
        children = [child._fill(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree):
        """The subtrees of `tree` where this structure has leaves; ValueError where it has no such
        container."""
        if _get_node_type(tree) is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if context != self.context:
            if not isinstance(tree, dict) or set(tree) != set(_keys(self.context)):
                raise ValueError(
                    f"Node context mismatch for node type {self.type!r}: {context!r}, {self.context!r}."
                )
            children = [tree[key] for key in _keys(self.context)]
        return [
            leaf for spec, child in zip(self.children_specs, children) for leaf in spec.flatten_up_to(child)
        ]

    def __hash__(self):
        context = tuple(self.context) if isinstance(self.context, list) else self.context
        return hash(
            (self.type, context if not isinstance(context, dict) else None, tuple(self.children_specs))
        )

    def __repr__(self, indent=0):
        children = (",\n" + " " * (indent + 2)).join(
            child.__repr__(indent + 2) for child in self.children_specs
        )
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"


def _keys(context):
    """The keys in a dict's context; a defaultdict has its factory before them."""
    return context[1] if len(context) == 2 and isinstance(context[1], (tuple, list)) else context


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])

    def __post_init__(self):
        self.num_nodes, self.num_leaves, self.num_children = 1, 1, 0

    def is_leaf(self):
        return True

    def _fill(self, leaves):
        return next(leaves)

    def flatten_up_to(self, tree):
        return [tree]

    def __hash__(self):
        return hash(LeafSpec)

    def __repr__(self, indent=0):
        return "*"


_LEAF = LeafSpec()


# ------------------------------------------------------------------------------ trees
def tree_flatten(tree, is_leaf=None):
    """(leaves in order, structure)."""
    leaves = []
    return leaves, _flatten(tree, is_leaf, leaves)


def _flatten(tree, is_leaf, leaves):
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves, treespec):
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item "
            f"of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """The leaves, one after the other."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with each leaf x replaced by func(x, y, ...), y from the same place of the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call func on each leaf; returns the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*row)
    return tree


def map_only(type_or_types_or_pred, /):
    """Decorator: a function of leaves that leaves others than of these types (or for which a test is true)
    alone."""
    fits = _test(type_or_types_or_pred)

    def decorate(func):
        return lambda leaf: func(leaf) if fits(leaf) else leaf

    return decorate


def _test(kinds):
    if isinstance(kinds, (type, tuple)):
        return lambda leaf: isinstance(leaf, kinds)
    return kinds if callable(kinds) else lambda leaf: isinstance(leaf, kinds)


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`tree_map` of the leaves of these types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`tree_map_` of the leaves of these types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """True if pred holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """True if pred holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """True if pred holds for every leaf of these types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """True if pred holds for some leaf of these types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a tree that stops early, each repeated for the leaves below it; None if it does not
    fit."""
    if treespec.is_leaf():
        return [tree]
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if kind is not treespec.type or len(children) != treespec.num_children or context != treespec.context:
        return None
    found = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        found.extend(flat)
    return found


# ------------------------------------------------------------------------------ paths
@dataclass(frozen=True)
class MappingKey:
    """The place of a child: `[key]` of a dict."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, parent):
        return parent[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """The place of a child: `[idx]` of a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, parent):
        return parent[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """The place of a child: `.name`."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, parent):
        return getattr(parent, self.name)


def _with_keys(tree):
    """[(key, child)] of a container."""
    kind = _get_node_type(tree)
    if kind in SUPPORTED_NODES.keyed:
        return SUPPORTED_NODES.keyed[kind](tree)[0]
    if isinstance(tree, Mapping):
        return [(MappingKey(key), value) for key, value in tree.items()]
    if kind is namedtuple:
        return [(GetAttrKey(name), value) for name, value in zip(tree._fields, tree)]
    return [(SequenceKey(i), child) for i, child in enumerate(SUPPORTED_NODES[kind].flatten_fn(tree)[0])]


def tree_iter_with_path(tree, is_leaf=None, path=()):
    """(path, leaf) of each leaf, one after the other."""
    if _is_leaf(tree, is_leaf):
        yield path, tree
    else:
        for key, child in _with_keys(tree):
            yield from tree_iter_with_path(child, is_leaf, (*path, key))


def tree_leaves_with_path(tree, is_leaf=None):
    """[(path, leaf)]."""
    return list(tree_iter_with_path(tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf)], structure)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """`tree_map` with func(path, x, y, ...)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(func(path, leaf, *more) for (path, leaf), *more in zip(found, *others))


def keystr(path):
    """A path as text, `['a'][0].x`."""
    return "".join(map(str, path))


def key_get(obj, path):
    """What stands at a path."""
    for key in path:
        obj = key.get(obj)
    return obj
