"""The printed form of Graph and Program, and the parser that reads it back (grammar: see `ir.graph`).

`show` is injective and `parse` its inverse: `show(parse(text)) == text` for every printed text, and a parsed
graph has the same names, types, attributes (floats to the last bit, but for the payload of a NaN) and source
lines as the printed one. So the text may serve as a key, and nodes with equal `show_call` compute the same.

    attribute := None | True | False | INT | FLOAT | "complex(" FLOAT "," FLOAT ")" | STRING | dtype
               | "{" dim "}" | "(" attribute,* ")"           strings as in JSON; a tuple of one: (1,)
    CONST     := True | False | INT | FLOAT | complex | "{" dim "}"

A comment that is not of the form "# file:line" is skipped.
"""

import json
import math
import re

from flambeau.base.errors import fail
from flambeau.ir.graph import Effect, Graph, Literal, Node, Program, Value
from flambeau.types import dtype as dtypes
from flambeau.types.dim import Dim, parse_dim

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
RESERVED = frozenset(("return",))
_FLOAT = r"[-+]?(?:nan|inf|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
_NUMBER = re.compile(_FLOAT + r"(?![A-Za-z0-9_.])")
_COMPLEX = re.compile(rf"complex\({_FLOAT}\s*,\s*{_FLOAT}\)")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_EFFECTS = ("write", "grad", "alias", "random", "host")


# ------------------------------------------------------------------------------------------ show
def show(form):
    """The text of a Graph or Program; `parse` reads it back. Nodes and effects alone are shown too."""
    if isinstance(form, Program):
        return "\n".join([show(form.graph), *map(show_effect, form.effects)])
    if isinstance(form, Graph):
        params = ", ".join(map(show_value, form.inputs))
        returned = ", ".join(map(show_operand, form.outputs))
        lines = [f"graph {_name(form.name)}({params}) {{", *("  " + show_node(node) for node in form.nodes),
                 f"  return {returned}".rstrip(), "}"]
        return "\n".join(lines)
    if isinstance(form, Node):
        return show_node(form)
    if isinstance(form, Effect):
        return show_effect(form)
    raise TypeError(f"show takes a Graph, Program, Node or Effect, got {type(form).__name__}")


def show_node(node):
    """One node as a line, with its source."""
    outputs = ", ".join(map(show_value, node.outputs))
    return f"{outputs} = {show_call(node)}{_show_source(node.source)}"


def show_call(node):
    """The right side of a node: op, operands and attributes. Equal texts compute equal values."""
    operands = ", ".join(map(show_operand, node.inputs))
    attrs = ", ".join(f"{_name(name)}={show_attribute(value)}" for name, value in node.attrs)
    return f"{_name(node.op)}({operands}{'; ' if attrs else ''}{attrs})"


def show_value(value):
    return f"{_name(value.name)}: {show_type(value.dtype, value.shape)}"


def show_type(dtype, shape):
    """f32[s0, 10]; a 0-d tensor is f32[]."""
    return f"{dtype.short}[{', '.join(map(str, shape))}]"


def show_operand(operand):
    if isinstance(operand, Literal):
        return f"{_show_constant(operand.value)}:{operand.dtype.short}"
    if not isinstance(operand, Value):
        raise TypeError(f"an operand must be a Value or a Literal, got {operand!r}")
    return _name(operand.name)


def show_attribute(value):
    if isinstance(value, tuple):
        return "(" + ", ".join(map(show_attribute, value)) + (",)" if len(value) == 1 else ")")
    if value is None:
        return "None"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dtypes.DType):
        return value.short
    return _show_constant(value)


def show_effect(effect):
    """One effect as a line, with its source."""
    target, names = _name(effect.target), [_name(name) for name in effect.operands]
    if effect.kind == "write":
        text = f"write {target} <- {names[0]}"
    elif effect.kind == "grad":
        text = f"grad {target} += {names[0]}"
    elif effect.kind == "alias":
        strides = ", ".join(map(str, effect.strides))
        text = f"alias {target} of {names[0]} strides ({strides}) offset {effect.offset}"
    elif effect.kind == "random":
        text = f"random {target} -> {names[0]}"
    elif effect.kind == "host":
        text = f"host {target}({', '.join(names[:-1])}) after {names[-1]}"
    else:
        raise ValueError(f"no effect of kind {effect.kind!r}; the kinds are {', '.join(_EFFECTS)}")
    return text + _show_source(effect.source)


def _show_constant(value):
    if isinstance(value, Dim):
        return f"{{{value}}}"
    if type(value) is complex:
        return f"complex({_show_float(value.real)}, {_show_float(value.imag)})"
    if type(value) is float:
        return _show_float(value)
    if type(value) in (bool, int):
        return str(value)
    raise TypeError(f"a graph cannot hold {value!r} of type {type(value).__name__}: attributes and literals "
                    "are None, bool, int, float, complex, str, DType, Dim or tuples of these")


def _show_float(value):
    return "-nan" if math.isnan(value) and math.copysign(1, value) < 0 else repr(value)


def _show_source(source):
    if source is None:
        return ""
    file, line = source
    plain = file.isprintable() and file == file.strip() and not file.startswith('"')
    return f"  # {file if plain else json.dumps(file)}:{line}"


def _name(name):
    if not NAME.fullmatch(name) or name in RESERVED:
        raise ValueError(f"{name!r} cannot name a value, op or attribute of a graph: letters, digits, '_' "
                         f"and '.', not beginning with a digit, and none of {', '.join(sorted(RESERVED))}")
    return name


# ----------------------------------------------------------------------------------------- parse
def parse(text):
    """Read a printed graph: a Graph, or a Program if effects follow it. ValueError names line and column."""
    program = parse_program(text)
    return program if program.effects else program.graph


def parse_program(text):
    """Read a printed graph and its effects as a Program, also when there are no effects."""
    reader = Reader(text)
    graph = _GraphParser(reader).graph()
    effects = []
    while not reader.at_end():
        effects.append(_parse_effect(reader))
    return Program(graph, tuple(effects))


class Reader:
    """A cursor over text: each method reads one thing at the cursor or fails with line and column."""

    def __init__(self, text):
        self.text, self.position = text, 0

    def skip(self):
        """Move over blanks and comments (a source comment is read by `source`, right after its statement)."""
        while self.position < len(self.text):
            if self.text[self.position].isspace():
                self.position += 1
            elif self.text[self.position] == "#":
                self.position = self._line_end()
            else:
                return

    def at_end(self):
        self.skip()
        return self.position == len(self.text)

    def accept(self, mark):
        """Read `mark` (punctuation, or a whole word) if it comes next."""
        self.skip()
        end = self.position + len(mark)
        if not self.text.startswith(mark, self.position):
            return False
        if mark[-1].isalnum() and re.match(r"[A-Za-z0-9_.]", self.text[end:end + 1]):
            return False
        self.position = end
        return True

    def expect(self, mark):
        if not self.accept(mark):
            self.fail(f"expected {mark!r}")

    def match(self, pattern):
        """Read what the compiled regular expression matches here, or None."""
        self.skip()
        found = pattern.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def name(self, what="a name"):
        name = self.match(NAME)
        if name is None:
            self.fail(f"expected {what}")
        return name

    def sequence(self, read, close):
        """Read `read()` items separated by commas up to and with `close`; a last comma is allowed."""
        items = []
        while not self.accept(close):
            items.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(items)

    def size(self, stops):
        """Read an int or a symbolic size that ends before one of the characters `stops`."""
        self.skip()
        start, depth = self.position, 0
        while self.position < len(self.text) and (depth or self.text[self.position] not in stops):
            depth += {"(": 1, ")": -1}.get(self.text[self.position], 0)
            self.position += 1
        text = self.text[start:self.position].strip()
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        try:
            return parse_dim(text)
        except Exception as error:
            self.position = start
            self.fail(f"expected a size: {error}")

    def source(self):
        """Read "# file:line" up to the end of this line; None if there is no such comment."""
        found = re.compile(r"[ \t]*#[ \t]*(.*\S)[ \t]*:(\d+)[ \t]*$", re.M).match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        file = found.group(1)
        return (json.loads(file) if file.startswith('"') else file), int(found.group(2))

    def _line_end(self):
        end = self.text.find("\n", self.position)
        return len(self.text) if end < 0 else end

    def fail(self, problem):
        """Raise ValueError that shows the line and points at the cursor."""
        self.position = min(self.position, len(self.text))
        begin = self.text.rfind("\n", 0, self.position) + 1
        line, column = self.text.count("\n", 0, begin) + 1, self.position - begin + 1
        shown = self.text[begin:self._line_end()]
        fail("graph_text", f"line {line}, column {column}: {problem}\n  {shown}\n  {' ' * (column - 1)}^",
             kind=ValueError)


def parse_type(reader):
    """Read dtype[size, ...]: (dtype, shape)."""
    dtype = parse_dtype(reader)
    reader.expect("[")
    return dtype, reader.sequence(lambda: reader.size(",]"), "]")


def parse_dtype(reader):
    start = reader.position
    name = reader.name("a dtype")
    try:
        return dtypes.by_name(name)
    except KeyError:
        reader.position = start
        reader.skip()
        reader.fail(f"no dtype is called {name!r}")


def parse_constant(reader):
    """Read a bool, number or {dim}; returns (found, value)."""
    for word in ("True", "False"):
        if reader.accept(word):
            return True, word == "True"
    if reader.accept("{"):
        value = reader.size("}")
        reader.expect("}")
        return True, value
    found = reader.match(_COMPLEX)
    if found is not None:
        return True, complex(*map(float, found[len("complex("):-1].split(",")))
    number = reader.match(_NUMBER)
    if number is None:
        return False, None
    return True, (int(number) if re.fullmatch(r"[-+]?\d+", number) else float(number))


def parse_attribute(reader):
    """Read an attribute's value."""
    if reader.accept("("):
        return reader.sequence(lambda: parse_attribute(reader), ")")
    if reader.accept("None"):
        return None
    found, value = parse_constant(reader)
    if found:
        return value
    string = reader.match(_STRING)
    return json.loads(string) if string is not None else parse_dtype(reader)


class _GraphParser:
    """Reads one graph; `values` holds the values defined so far by name."""

    def __init__(self, reader):
        self.reader, self.values = reader, {}

    def graph(self):
        reader = self.reader
        reader.expect("graph")
        name = reader.name("the graph's name")
        reader.expect("(")
        inputs = reader.sequence(self.definition, ")")
        self.define(inputs)
        reader.expect("{")
        nodes = []
        while not reader.accept("return"):
            nodes.append(self.node())
        return Graph(name, inputs, tuple(nodes), reader.sequence(self.operand, "}"))

    def definition(self):
        name = self.reader.name("the name of a value")
        self.reader.expect(":")
        return Value(name, *parse_type(self.reader))

    def define(self, values):
        for value in values:
            if value.name in self.values:
                self.reader.fail(f"{value.name} is defined twice")
            self.values[value.name] = value

    def node(self):
        reader = self.reader
        outputs = (self.definition(),)
        while reader.accept(","):
            outputs += (self.definition(),)
        reader.expect("=")
        op = reader.name("the name of an op")
        inputs, attrs = parse_arguments(reader, self.operand, lambda: parse_attribute(reader))
        self.define(outputs)
        return Node(op, inputs, attrs, outputs, reader.source())

    def operand(self):
        reader = self.reader
        reader.skip()
        start = reader.position
        found, value = parse_constant(reader)
        if found and reader.accept(":"):
            return Literal(value, parse_dtype(reader))
        reader.position = start
        name = reader.name("a value or a constant with its dtype, as 1.0:f32")
        if name not in self.values:
            reader.position = start
            reader.fail(f"{name} is used before it is defined")
        return self.values[name]


def parse_arguments(reader, operand, attribute):
    """Read "(operands; name=attribute, ...)": (inputs, attrs)."""
    reader.expect("(")
    inputs = []
    while not reader.accept(";"):
        if reader.accept(")"):
            return tuple(inputs), ()
        inputs.append(operand())
        if not reader.accept(","):
            if reader.accept(";"):
                break
            reader.expect(")")
            return tuple(inputs), ()

    def pair():
        if reader.accept("..."):        # in a pattern: any others
            return "...", None
        name = reader.name("the name of an attribute")
        reader.expect("=")
        return name, attribute()
    return tuple(inputs), reader.sequence(pair, ")")


def _parse_effect(reader):
    kind = reader.name("an effect")
    if kind not in _EFFECTS:
        reader.fail(f"no effect is called {kind!r}; the kinds are {', '.join(_EFFECTS)}")
    target, strides, offset = reader.name(), (), 0
    if kind == "host":
        reader.expect("(")
        operands = reader.sequence(reader.name, ")")
        reader.expect("after")
        operands += (reader.name(),)
    else:
        reader.expect({"write": "<-", "grad": "+=", "alias": "of", "random": "->"}[kind])
        operands = (reader.name(),)
    if kind == "alias":
        reader.expect("strides")
        reader.expect("(")
        strides = reader.sequence(lambda: reader.size(",)"), ")")
        reader.expect("offset")
        offset = reader.size("\n#")
    return Effect(kind, target, operands, strides, offset, reader.source())
