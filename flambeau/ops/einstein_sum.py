"""einsum: sums of products by an equation of axis labels, through permutes, reshapes and matrix products."""

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import mul, where
from flambeau.ops.matmul import matmul
from flambeau.ops.reduce import sum as total
from flambeau.ops.spec import public
from flambeau.ops.view import expand, permute, reshape
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
    inputs, output = _parse(equation, operands)
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
    shared = [l for l in labels_x if l in labels_y]
    batch, summed = [l for l in shared if l in later], [l for l in shared if l not in later]
    only_x, only_y = [l for l in labels_x if l not in shared], [l for l in labels_y if l not in shared]
    sizes = dict(zip(labels_x, x.shape)) | dict(zip(labels_y, y.shape))
    x = permute(x, tuple(labels_x.index(l) for l in batch + only_x + summed))
    y = permute(y, tuple(labels_y.index(l) for l in batch + summed + only_y))

    def size(labels):
        product = 1
        for l in labels:
            product = product * sizes[l]
        return product

    shape = tuple(sizes[l] for l in batch + only_x + only_y)
    if not summed:
        x = reshape(x, tuple(sizes[l] for l in batch + only_x) + (1,) * len(only_y))
        y = reshape(y, tuple(sizes[l] for l in batch) + (1,) * len(only_x) + tuple(sizes[l] for l in only_y))
        return mul(x, y), batch + only_x + only_y
    x = reshape(x, (size(batch), size(only_x), size(summed)) if batch else (size(only_x), size(summed)))
    y = reshape(y, (size(batch), size(summed), size(only_y)) if batch else (size(summed), size(only_y)))
    return reshape(matmul(x, y), shape), batch + only_x + only_y


def _sum_out(x, labels, needed):
    gone = tuple(i for i, l in enumerate(labels) if l not in needed)
    if not gone:
        return x, labels
    return total(x, gone, dtype=x.dtype), [l for l in labels if l in needed]
