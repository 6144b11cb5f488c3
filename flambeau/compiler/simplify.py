"""The stage `simplify`: rewrite rules on graphs, each with its reason."""

from flambeau.ir.rewrite import Rule, apply_rules

RULES = ()


def simplify(graph):
    """The graph after every rule that applies."""
    if not RULES:
        return graph
    return apply_rules(graph, RULES)[0]


__all__ = ["RULES", "Rule", "simplify"]
