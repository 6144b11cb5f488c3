"""The recorded graph as a table: ops, shapes, what each keeps for the backward pass, the line that made
it."""

import html
from dataclasses import dataclass

from flambeau.base.errors import fail
from flambeau.base.source import show_source, source_line
from flambeau.base.text import human_bytes, human_count, table
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor

__all__ = ["Explanation", "Leaf", "Row", "explain"]

SHOWN = 60              # rows of a printed table
_HEADER = ("#", "op", "output", "dtype", "inputs", "saved", "made at")


@dataclass(frozen=True)
class Leaf:
    """A tensor where gradients end: its number in the graph, its name (or ''), the tensor."""

    number: int
    name: str
    tensor: object
    parameter: bool         # a parameter of the model, or of some module

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def label(self):
        return self.name or f"leaf {self.number}"


@dataclass(frozen=True)
class Row:
    """One recorded op.

    number: place in the order of the forward pass. kind: of the op ('elementwise', 'contraction', ...).
    outputs: (shape, dtype) of each. inputs: rows' numbers and leaves, None where no gradient goes. saved:
    bytes that this op is the first to keep. source: (file, line) or None.
    """

    number: int
    op: str
    kind: str
    outputs: tuple
    inputs: tuple
    saved: int
    source: tuple
    node: object

    @property
    def shape(self):
        return self.outputs[0][0] if self.outputs and self.outputs[0] else ()

    @property
    def dtype(self):
        return self.outputs[0][1] if self.outputs and self.outputs[0] else None

    @property
    def line(self):
        """'train.py:12', or ''."""
        return show_source(self.source)


def explain(tensors, model=None):
    """The graph behind a tensor (or several): a report with `rows`, `leaves`, `saved_bytes`, to print or to
    show in a notebook.

    Args:
        tensors: what `backward` would start from.
        model: a module; leaves that are its parameters are named by their paths in it.

    Raises:
        RuntimeError: if a tensor has no recorded history.

    >>> x = fl.ones(2, 3, requires_grad=True)
    >>> report = fl.autograd.explain((x.exp() * x).sum())
    >>> [row.op for row in report.rows], len(report.leaves), report.saved_bytes
    (['exp', 'mul', 'sum'], 1, 24)
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for root in roots:
        if not isinstance(root, Tensor) or root.grad_fn is None:
            given = tuple(root.shape) if isinstance(root, Tensor) else root
            fail("explain", "the tensor has no recorded history", given,
                 hint="it is a leaf, it was detached, or no_grad() was active in the forward pass")
    return Explanation(*_collect(roots, model))


def graph_order(roots):
    """The nodes behind the tensors, each after those that its inputs come from."""
    order, seen = [], set()
    stack = [(root.grad_fn, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(after, False) for after, _ in reversed(node.next_functions)
                      if isinstance(after, _core.Node) and after not in seen]
    return order


def _collect(roots, model):
    nodes = graph_order(roots)
    numbers = {node: i for i, node in enumerate(nodes)}
    names = {} if model is None else {id(p): name for name, p in model.named_parameters()}
    leaves, rows, kept = {}, [], set()

    def leaf_of(tensor):
        if id(tensor) not in leaves:
            name = names.get(id(tensor)) or _variable(tensor)
            parameter = id(tensor) in names or type(tensor).__name__ == "Parameter"
            leaves[id(tensor)] = Leaf(len(leaves), name, tensor, parameter)
        return leaves[id(tensor)]

    edges = [tuple(None if after is None else numbers[after] if isinstance(after, _core.Node)
                   else leaf_of(after.variable) for after, _ in node.next_functions) for node in nodes]
    own = {leaf.tensor.storage_.address for leaf in leaves.values() if leaf.tensor.storage_ is not None}
    for node, inputs in zip(nodes, edges):
        fresh = {at: size for at, size in saved_by(node).items() if at not in kept and at not in own}
        kept.update(fresh)
        rows.append(Row(numbers[node], node.operation.name, getattr(node.operation.python, "kind",
                                                                    "function"),
                        tuple(node.output_forms()), inputs, sum(fresh.values()), node.recorded_at, node))
    return rows, list(leaves.values()), [numbers[root.grad_fn] for root in roots]


def saved_by(node):
    """{address: bytes} of the memory that a node keeps, a user's Function included."""
    found = node.saved_bytes()
    context = (node.attributes or {}).get("ctx")
    for tensor in getattr(context, "_saved", ()):
        if isinstance(tensor, Tensor) and tensor.storage_ is not None:
            found[tensor.storage_.address] = tensor.storage_.nbytes_()
    return found


def _variable(tensor):
    from flambeau.tensor.autograd import variable_name
    return variable_name(tensor) or ""


def shape_text(shape):
    return "×".join("…" if size is ... else str(size) for size in shape) or "number"


class Explanation:
    """What `explain` found. `str()` is a table; a notebook shows it as one."""

    def __init__(self, rows, leaves, roots):
        self.rows, self.leaves, self.roots = rows, leaves, roots

    @property
    def saved_bytes(self):
        """Memory that the graph alone keeps alive, in bytes: not that of the leaves."""
        return sum(row.saved for row in self.rows)

    @property
    def leaf_bytes(self):
        return sum(leaf.tensor.nbytes for leaf in self.leaves)

    def largest(self, count=5):
        """The rows that keep most memory, the largest first."""
        return sorted((row for row in self.rows if row.saved), key=lambda row: -row.saved)[:count]

    def by_line(self):
        """[((file, line) or None, bytes, ops)] of the lines that keep memory, the largest first."""
        found = {}
        for row in self.rows:
            size, count = found.get(row.source, (0, 0))
            found[row.source] = size + row.saved, count + 1
        return sorted(((at, size, count) for at, (size, count) in found.items() if size), key=lambda entry:
                      -entry[1])

    def _cells(self, row):
        inputs = ["-" if i is None else i.label if isinstance(i, Leaf) else f"#{i}" for i in row.inputs]
        shapes = ", ".join(shape_text(form[0]) for form in row.outputs if form is not None)
        return (f"#{row.number}", row.op, shapes, str(row.dtype).rpartition(".")[2], ", ".join(inputs),
                human_bytes(row.saved) if row.saved else "", row.line)

    def summary(self):
        """The lines below the table, as a list."""
        lines = [f"{human_count(len(self.rows))} ops; the graph keeps {human_bytes(self.saved_bytes)} for "
                 f"the backward pass, besides {human_bytes(self.leaf_bytes)} of {len(self.leaves)} leaves"]
        if any(row.saved for row in self.rows):
            lines.append("most is kept by:")
            for row in self.largest():
                text = source_line(*row.source) if row.source else ""
                share = f"{row.saved / self.saved_bytes:.0%}"
                lines.append(f"  {human_bytes(row.saved)} ({share})  #{row.number} {row.op}"
                             + (f"  {row.line}: {text}" if row.source else ""))
        elif self.rows:
            lines.append("nothing is kept: backward ran and freed it, or the ops need none of their values")
        return lines

    def __str__(self):
        cells = [self._cells(row) for row in self.rows]
        if len(cells) > SHOWN:
            half = SHOWN // 2
            cells[half:-half] = [("...", f"{len(cells) - 2 * half} more in .rows")]
        leaves = [(leaf.label, shape_text(leaf.shape), str(leaf.tensor.dtype).rpartition(".")[2],
                   human_bytes(leaf.tensor.nbytes)) for leaf in self.leaves]
        return "\n".join([table(cells, _HEADER), "",
                          table(leaves[:SHOWN], ("leaf", "shape", "dtype", "bytes"), "lllr"),
                          *([f"... {len(leaves) - SHOWN} more in .leaves"] if len(leaves) > SHOWN else []),
                          "", *self.summary()])

    __repr__ = __str__

    def _repr_html_(self):
        def line(cells, tag):
            return "<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(str(c))}</{tag}>"
                                    for c in cells) + "</tr>"
        most = max((row.saved for row in self.rows), default=0)
        body = []
        for row in self.rows:
            share = int(100 * row.saved / most) if most else 0
            shade = f"linear-gradient(90deg,#fde2c4 {share}%,transparent {share}%)"
            body.append(line(self._cells(row), "td").replace("<tr>", f"<tr style='background:{shade}'>", 1))
        words = "".join(f"<div style='white-space:pre'>{html.escape(text)}</div>" for text in self.summary())
        return f"<table>{line(_HEADER, 'th')}{''.join(body)}</table>{words}"
