"""The patterns of rewrite rules as frozen objects, and the parser of their text (grammar: `ir.rewrite`)."""

from dataclasses import dataclass

from flambeau.ir.graph import Literal
from flambeau.ir.graph_text import (
    Reader, parse_arguments, parse_attribute, parse_constant, parse_dtype, show_attribute, show_operand)


@dataclass(frozen=True)
class Capture:
    """Any operand, kept under `name` ("_" keeps nothing); `literal`: only a Literal, or an attribute."""

    name: str
    literal: bool = False

    def names(self):
        return {self.name}

    def __str__(self):
        return ("$" if self.literal else "") + self.name


@dataclass(frozen=True)
class Constant:
    """A Literal of this value, and of this dtype if one is given."""

    value: object
    dtype: object = None

    def names(self):
        return set()

    def __str__(self):
        return show_operand(Literal(self.value, self.dtype)) if self.dtype else show_attribute(self.value)


@dataclass(frozen=True)
class Call:
    """A node of this op with these args (patterns) and attrs (name, value or Capture); `others`: or more."""

    op: str
    args: tuple = ()
    attrs: tuple = ()
    others: bool = False

    def names(self):
        """The names that it captures or, in a replacement, uses."""
        inner = [item.names() for item in self.args]
        return set().union(*inner, *({v.name} for _, v in self.attrs if isinstance(v, Capture)))

    def __str__(self):
        attrs = [f"{name}={value if isinstance(value, Capture) else show_attribute(value)}"
                 for name, value in self.attrs] + ["..."] * self.others
        return f"{self.op}({', '.join(map(str, self.args))}{'; ' if attrs else ''}{', '.join(attrs)})"


def parse_pattern(text):
    """Read a pattern or replacement; ValueError names line and column.

    >>> str(parse_pattern("add(mul(x, $a), 0; ...)"))      # doctest: +SKIP
    'add(mul(x, $a), 0; ...)'
    """
    reader = Reader(text)
    pattern = _parse(reader)
    if not reader.at_end():
        reader.fail("expected the pattern's end")
    return pattern


def _parse(reader):
    if reader.accept("$"):
        return Capture(reader.name("a name to capture the literal"), literal=True)
    reader.skip()
    start = reader.position
    found, value = parse_constant(reader)
    if found:
        return Constant(value, parse_dtype(reader) if reader.accept(":") else None)
    reader.position = start
    name = reader.name("an op, a name or a constant")
    if not reader.text.startswith("(", reader.position):
        return Capture(name)
    args, attrs = parse_arguments(reader, lambda: _parse(reader), lambda: _parse_attribute(reader))
    others = ("...", None) in attrs
    return Call(name, args, tuple(pair for pair in attrs if pair[0] != "..."), others)


def _parse_attribute(reader):
    if reader.accept("$"):
        return Capture(reader.name("a name to capture the attribute"), literal=True)
    return parse_attribute(reader)
