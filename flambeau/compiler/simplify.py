"""The stage `simplify`: rewrite rules on graphs, each with its reason. A rule changes no bit of any result."""

from flambeau.ir.graph import Value
from flambeau.ir.rewrite import Rule, apply_rules

RULES = (
    Rule("cast(x; dtype=$d)", "x", "a cast to the dtype that a value has does nothing"),
    Rule("mul(x, 1)", "x", "a factor of 1 changes no bit"),
    Rule("neg(neg(x))", "x", "two changes of sign undo each other"),
)
_OPS = frozenset(rule.pattern.op for rule in RULES)


def simplify(graph):
    """The graph after every rule that applies.

    An output that was computed stays computed: it must not become the memory of an input.
    """
    if not any(node.op in _OPS for node in graph.nodes):
        return graph
    simpler = apply_rules(graph, RULES)[0]
    inputs = {v.name for v in graph.inputs}
    for old, new in zip(graph.outputs, simpler.outputs):
        if isinstance(new, Value) and new.name in inputs and not (isinstance(old, Value) and old.name in inputs):
            return graph
    return simpler
