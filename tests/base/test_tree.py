"""Pytrees: every container goes there and back, and what does not match is refused."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from flambeau.base import tree

Point = namedtuple("Point", "x y")
TREES = [1, None, [], (), {}, [1, (2, {"a": 3, "b": [None, 4]})], Point(1, [2, 3]), OrderedDict(b=1, a=2),
         defaultdict(list, k=1), deque([1, 2], maxlen=5), {"z": 1, "a": (2,)}]


@pytest.mark.parametrize("value", TREES)
def test_there_and_back(value):
    leaves, structure = tree.flatten(value)
    again = tree.unflatten(leaves, structure)
    assert again == value and type(again) is type(value)
    assert tree.flatten(again) == (leaves, structure)
    assert structure.count == len(leaves)
    assert hash(structure) == hash(tree.flatten(again)[1])


def test_order_is_the_containers_own():
    assert tree.leaves({"z": 1, "a": [2, 3], "n": None}) == [1, 2, 3]
    assert tree.unflatten([1, 2], tree.flatten(deque([0, 0], maxlen=5))[1]).maxlen == 5


def test_what_is_not_registered_is_a_leaf():
    class Sizes(tuple):
        pass
    sizes = Sizes((1, 2))
    assert tree.leaves([sizes, "text", {1}]) == [sizes, "text", {1}]
    assert tree.leaves([[1, 2], 3], is_leaf=lambda x: x == [1, 2]) == [[1, 2], 3]
    assert tree.is_container(Point(1, 2)) and not tree.is_container(sizes)


def test_map():
    assert tree.map(lambda a, b: a * b, {"x": Point(1, 2)}, {"x": Point(3, 4)}) == {"x": Point(3, 8)}
    for other in ([1], [1, (2,)], [1, 2, 3], (1, 2)):
        with pytest.raises(ValueError, match="differ in structure"):
            tree.map(max, [1, 2], other)
    with pytest.raises(ValueError, match="wrong number of leaves: got 1, wanted 2"):
        tree.unflatten([1], tree.flatten([1, 2])[1])


def test_register():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b
    tree.register(Pair, lambda pair: ((pair.a, pair.b), "context"), lambda children, context: Pair(*children))
    doubled = tree.map(lambda x: 2 * x, [Pair(1, (2, 3))])
    assert (doubled[0].a, doubled[0].b) == (2, (4, 6))
    with pytest.raises(ValueError, match="registered once"):
        tree.register(Pair, None, None)


def test_structure_is_readable():
    structure = tree.flatten({"w": [1, None], "p": Point(1, 2)})[1]
    assert repr(structure) == "dict('w': list(*, None), 'p': Point(*, *))"
