"""What keeps a pickle from taking more time or stack than its size suggests.

A tuple of ten bytes may hold another one twice, which holds another one twice, and so on: as data that is
small, but to hash it takes 2 ** depth steps, and the recursion of a hash has no limit. `Weights` knows of
each tuple how many steps its hash would take. `check_depth` refuses what is nested deeper than any pickler
writes.
"""

_HEAVIEST = 1 << 16  # steps of one hash
_DEEPEST = 200  # tuples in tuples, in a key
_SMALL = 1 << 60  # numbers below have hashes of their own
_ALIKE = 20_000  # keys of one hash that differ: looking one up takes as many steps
_NESTED = 5000  # containers in containers, in the whole


class Weights:
    """How many steps hashing the tuples and frozensets of one pickle takes, and how deep they are."""

    def __init__(self):
        self._first, self._alike = {}, {}  # hash -> the first key that had it; how many others had it
        self._known = {}  # id -> (steps, depth, the object, so that its id stays its own)

    def note(self, made):
        """Remember a new tuple or frozenset."""
        known, steps, depth = self._known, 1, 0
        for each in made:
            inner = known.get(id(each)) if isinstance(each, (tuple, frozenset)) else None
            steps += inner[0] if inner else 1
            if inner and inner[1] > depth:
                depth = inner[1]
        self._known[id(made)] = min(steps, 1 << 40), depth + 1, made

    def check(self, key):
        """ValueError if hashing `key` would take too many steps."""
        if isinstance(key, (tuple, frozenset)):
            steps, depth, _ = self._known.get(id(key), (1, 0, None))
            if depth > _DEEPEST or steps > max(_HEAVIEST, 4 * len(key)):
                raise ValueError(
                    f"a key of nested tuples that takes {steps} steps to hash ({depth} deep) is refused"
                )

    def note_hash(self, key):
        """ValueError if too many keys of one hash were seen. Text has hashes that no file can foresee."""
        if isinstance(key, (tuple, frozenset)) or type(key) in (int, float) and not -_SMALL < key < _SMALL:
            code = hash(key)
            first = self._first.setdefault(code, key)
            if first is not key and first != key:
                self._alike[code] = self._alike.get(code, 0) + 1
                if self._alike[code] > _ALIKE:
                    raise ValueError(f"more than {_ALIKE} keys that have one hash are refused")


def check_depth(value):
    """ValueError if lists, tuples, dicts and sets of `value` are nested deeper than a pickler can write."""
    seen, waiting = set(), [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if not isinstance(each, (list, tuple, dict, set, frozenset)) or id(each) in seen:
            continue
        if depth > _NESTED:
            raise ValueError(f"data nested more than {_NESTED} deep is refused")
        seen.add(id(each))
        inner = dict.values(each) if isinstance(each, dict) else each
        waiting.extend(
            (part, depth + 1) for part in inner if isinstance(part, (list, tuple, dict, set, frozenset))
        )
