"""einsum: sums of products by an equation of axis labels, through permutes, reshapes and matrix products."""

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import mul, where
from flambeau.ops.matmul import matmul
from flambeau.ops.reduce import sum as total
from flambeau.ops.spec import public
from flambeau.ops.view import expand, permute, reshape
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor


@public(method=False)
def einsum(equation, *operands):
    """The sum of products that the equation states: einsum("bij,bjk->bik", x, y); "..." stands for broadcast
    axes.

    Also einsum(x, [0, 1], y, [1, 2], [0, 2]).
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    key = None
    if len(operands) == 2 and _core.takes_native(operands):
        key = equation, operands[0].shape, operands[1].shape
        if key in _PAIRS:
            return _PAIRS[key](*operands)
    inputs, output = _parse(equation, operands)
    if key is not None and _is_plain_pair(inputs, output, operands):
        if len(_PAIRS) >= MOST_PAIRS:
            _PAIRS.clear()
        _PAIRS[key] = Pair(*inputs, dict(zip(inputs[0], key[1])) | dict(zip(inputs[1], key[2])), output, output)
        return _PAIRS[key](*operands)
    operands = [_without_repeats(t, labels) for t, labels in zip(operands, inputs)]
    operands = _same_sizes(operands)
    current, labels = operands[0]
    for i in range(1, len(operands)):
        later = set(output).union(*[l for _, l in operands[i + 1:]])
        current, labels = _contract(current, labels, *operands[i], later)
    gone = tuple(i for i, l in enumerate(labels) if l not in output)
    if gone:
        current = total(current, gone, dtype=current.dtype)
        labels = [l for l in labels if l in output]
    return permute(current, tuple(labels.index(l) for l in output)) if labels != output else current


def _from_lists(arguments):
    """The equation of (tensor, list, tensor, list, ..., output list)."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def text(labels):
        return "".join("..." if l is Ellipsis else letters[l] for l in labels)

    operands = arguments[:len(arguments) // 2 * 2:2]
    equation = ",".join(text(l) for l in arguments[1::2])
    if len(arguments) % 2:
        equation += "->" + text(arguments[-1])
    return equation, operands


def _parse(equation, operands):
    """(labels of each operand, labels of the result); a broadcast axis is labelled by its place from the
    right.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        fail("einsum", "the number of operands differs from the equation", len(operands), len(terms))
    inputs, widest = [], 0
    for term, operand in zip(terms, operands):
        if not isinstance(operand, Tensor):
            fail("einsum", "an operand is not a tensor", type(operand).__name__, kind=TypeError)
        named = len(term.replace("...", ""))
        spare = operand.ndim - named
        if spare < 0 or (spare and "..." not in term):
            fail("einsum", f"the operand for {term!r} has another number of dims", tuple(operand.shape),
                 kind=ShapeError)
        widest = max(widest, spare)
        inputs.append(_labels(term, spare))
    if arrow:
        output = _labels(right, widest if "..." in right else 0)
    else:
        letters = left.replace(",", "").replace("...", "")
        output = _labels("...", widest) + sorted({l for l in letters if letters.count(l) == 1})
    known = {l for labels in inputs for l in labels}
    for label in output:
        if label not in known or output.count(label) > 1:
            fail("einsum", f"output subscript {label!r} is in no operand or is given twice", equation)
    return inputs, output


def _labels(term, spare):
    """The labels of one term; the axes of "..." are numbered from the right."""
    before, dots, after = term.partition("...")
    for letter in before + after:
        if not letter.isalpha():
            fail("einsum", f"invalid subscript {letter!r}", term, "letters")
    return list(before) + (list(range(spare - 1, -1, -1)) if dots else []) + list(after)


def _without_repeats(x, labels):
    """(x, labels) with the diagonal taken where a label occurs twice."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                fail("einsum", f"subscript {label!r} is repeated with different sizes", tuple(x.shape),
                     kind=ShapeError)
            places = [iota(tuple(x.shape[a] if a == axis else 1 for a in range(x.ndim)), axis)
                      for axis in (first, second)]
            x = total(where(places[0] == places[1], x, 0), second, dtype=x.dtype)
            del labels[second]
    return x, labels


def _same_sizes(operands):
    """Axes of size 1 expanded to the size that their label has elsewhere."""
    sizes = {}
    for x, labels in operands:
        for label, size in zip(labels, x.shape):
            if sizes.setdefault(label, size) != size:
                if 1 not in (size, sizes[label]):
                    fail("einsum", f"subscript {label!r} has two sizes", [sizes[label], size],
                         kind=ShapeError)
                sizes[label] = size if sizes[label] == 1 else sizes[label]
    result = []
    for x, labels in operands:
        shape = tuple(sizes[l] for l in labels)
        result.append((x if shape == tuple(x.shape) else expand(x, shape), labels))
    return result


def _contract(x, labels_x, y, labels_y, later):
    """(product of two operands, its labels), summed over the labels that nobody needs later."""
    x, labels_x = _sum_out(x, labels_x, later | set(labels_y))
    y, labels_y = _sum_out(y, labels_y, later | set(labels_x))
    pair = Pair(labels_x, labels_y, dict(zip(labels_x, x.shape)) | dict(zip(labels_y, y.shape)), later)
    return pair(x, y), pair.labels


_PAIRS = {}         # (equation, sizes, sizes) -> the Pair that does it all
MOST_PAIRS = 512


def _is_plain_pair(inputs, output, operands):
    """True where no label is repeated in an operand, broadcast, or in one operand alone and not in the result."""
    sizes = [dict(zip(labels, x.shape)) for labels, x in zip(inputs, operands)]
    if any(len(s) != len(labels) for s, labels in zip(sizes, inputs)):
        return False
    shared = sizes[0].keys() & sizes[1].keys()
    return all(sizes[0][l] == sizes[1][l] for l in shared) and sizes[0].keys() ^ sizes[1].keys() <= set(output)


class Pair:
    """The product of two operands, summed over the labels they share that are not in `later`.

    `sizes` by label. The result has the axes `labels`: those of `order` if that is given.
    """

    def __init__(self, labels_x, labels_y, sizes, later, order=None):
        shared = [l for l in labels_x if l in labels_y]
        batch, self.summed = [l for l in shared if l in later], [l for l in shared if l not in later]
        only_x, only_y = [l for l in labels_x if l not in shared], [l for l in labels_y if l not in shared]
        self.labels = batch + only_x + only_y
        self.orders = [_order(labels_x, batch + only_x + self.summed), _order(labels_y, batch + self.summed + only_y)]
        self.shapes = self._shapes(batch, only_x, only_y, lambda labels: [sizes[l] for l in labels])
        self.shape = tuple(sizes[l] for l in self.labels)
        self.last = None if order is None else _order(self.labels, order)
        self.labels = self.labels if order is None else list(order)

    def _shapes(self, batch, only_x, only_y, sizes):
        """What both operands are reshaped to; a vector where the other operand is a matrix."""
        if not self.summed:
            return (*sizes(batch + only_x), *(1,) * len(only_y)), (*sizes(batch), *(1,) * len(only_x), *sizes(only_y))
        lead, summed = ((product(sizes(batch)),) if batch else ()), product(sizes(self.summed))
        x, y = (*lead, product(sizes(only_x)), summed), (*lead, summed, product(sizes(only_y)))
        return (x, y[:-1]) if not batch and only_x and not only_y else (x, y)

    def __call__(self, x, y):
        x, y = (_arranged(*each) for each in zip((x, y), self.orders, self.shapes))
        made = _arranged(matmul(x, y) if self.summed else mul(x, y), None, self.shape)
        return made if self.last is None else permute(made, self.last)


def product(sizes):
    """The number of elements of some axes."""
    number = 1
    for size in sizes:
        number = number * size
    return number


def _order(labels, wanted):
    """The axes of `labels` in the order that is wanted; None where it is theirs."""
    return None if list(labels) == list(wanted) else tuple(labels.index(l) for l in wanted)


def _arranged(x, order, shape):
    """x permuted and reshaped, as far as that changes anything."""
    x = x if order is None else permute(x, order)
    return x if tuple(x.shape) == tuple(shape) else reshape(x, tuple(shape))


def _sum_out(x, labels, needed):
    gone = tuple(i for i, l in enumerate(labels) if l not in needed)
    if not gone:
        return x, labels
    return total(x, gone, dtype=x.dtype), [l for l in labels if l in needed]
