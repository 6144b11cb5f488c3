"""Rewrite rules on graphs: `Rule(pattern, replacement, why)`, applied until none matches any more.

Patterns and replacements are written like the right side of a node:

    Rule("neg(neg(x))", "x", why="two negations cancel")
    Rule("mul(x, 1)", "x", why="a factor of one")
    Rule("permute(permute(x; dims=$a); dims=$b)", compose, why="one permutation does both", when=...)

    pattern := NAME                      captures any operand; the same name twice asks for the same operand
             | "_"                       any operand
             | "$" NAME                  captures a Literal (in an attribute: captures its value)
             | CONST [":" dtype]         a Literal of that value (1 matches 1.0; 0.0 does not match -0.0)
             | op "(" pattern,* [";" NAME "=" attribute,* ["..."]] ")"
                                         a node with just these attributes; "..." allows others
A replacement is such a text over the captured names (a literal without a dtype has the result's) or a
function `(match, build) -> Value | Literal | tuple of them | None`, where None declines (see `Build`).

A rule is applied only where the new value has exactly the replaced value's dtype and shape, so
"add(x, 0) -> x" needs no word on broadcasting and promotion. Patterns look from a value down to what it is
made of; as graphs are pure, a value inside a match may have other users too (it stays if it has;
`eliminate_dead_code` drops it if not).
"""

import math
from dataclasses import dataclass

from flambeau.base.errors import fail
from flambeau.ir.graph import Effect, Graph, Literal, Node, Program, Value
from flambeau.ir.graph_text import show_attribute, show_call, show_node, show_operand
from flambeau.ir.rewrite_pattern import Call, Capture, Constant, parse_pattern


@dataclass(frozen=True, eq=False)
class Rule:
    """Replace what `pattern` matches by `replacement`, because `why`, if `when(match)` (None: always)."""

    pattern: object         # text or a parsed pattern (see rewrite_pattern)
    replacement: object     # text, parsed pattern or function
    why: str
    when: object = None

    def __post_init__(self):
        if isinstance(self.pattern, str):
            object.__setattr__(self, "pattern", parse_pattern(self.pattern))
        if isinstance(self.replacement, str):
            object.__setattr__(self, "replacement", parse_pattern(self.replacement))
        if not isinstance(self.pattern, Call):
            raise ValueError(f"a rule's pattern must name an op, as in 'neg(neg(x))'; got {self.pattern}")
        if not callable(self.replacement):
            unknown = self.replacement.names() - (self.pattern.names() - {"_"})
            if unknown:
                raise ValueError(f"the replacement of {self.pattern} uses {', '.join(sorted(unknown))}, "
                                 "which the pattern does not capture")


@dataclass(frozen=True, eq=False)
class Match:
    """A place where a pattern fits: `node`, the captures by name, and the producer of each value."""

    node: Node
    captured: dict
    producers: dict         # value name -> Node

    def __getitem__(self, name):
        return self.captured[name]

    def producer(self, operand):
        """The node that defines `operand`; None for graph inputs and literals."""
        return self.producers.get(operand.name) if isinstance(operand, Value) else None

    def attrs(self):
        return dict(self.node.attrs)


@dataclass(frozen=True, eq=False)
class Applied:
    """One applied rule: what stood there, what stands there now, why, and the user's source line."""

    rule: Rule
    before: str
    after: str
    source: tuple | None

    @property
    def why(self):
        return self.rule.why

    def __str__(self):
        place = f"  # {self.source[0]}:{self.source[1]}" if self.source else ""
        return f"{self.before}  ->  {self.after}   because: {self.why}{place}"


def apply_rules(form, rules, registry=None, limit=10_000):
    """Apply `rules` to a Graph or Program until none matches: (new form, list of Applied).

    rules: tried in order at each node, inputs before users.
    registry: op name -> object with `.infer`; needed where a replacement nests calls or is a function, and
        used to check the types of every replacement.
    limit: rules applied at most; RuntimeError beyond it shows the last ones (rules that undo each other).
    Names that effects use are renamed with the values; dead nodes are left to `eliminate_dead_code`.

    >>> graph, report = apply_rules(graph, [Rule("neg(neg(x))", "x", why="they cancel")])   # doctest: +SKIP
    """
    report = []
    while True:
        before = len(report)
        form = _Pass(form, rules, registry, limit, report).run()
        if len(report) == before:
            return form, report


class _Pass:
    """One walk over the nodes in order; `new` holds the rewritten nodes, `now` what old values became."""

    def __init__(self, form, rules, registry, limit, report):
        self.form, self.registry, self.limit, self.report = form, registry, limit, report
        self.graph = form.graph if isinstance(form, Program) else form
        self.now, self.new, self.producers = {}, [], {}
        self.by_op = {}
        for rule in rules:
            self.by_op.setdefault(rule.pattern.op, []).append(rule)
        self.taken = {value.name for value in self.graph.inputs}
        self.taken.update(value.name for node in self.graph.nodes for value in node.outputs)
        self.pinned, self.named = _names_in_effects(form)

    def run(self):
        for node in self.graph.nodes:
            self.place(self.current(node))
        return _rebuild(self.form, tuple(self.new), {name: self.resolve(x) for name, x in self.now.items()})

    def resolve(self, operand):
        """What `operand` has become."""
        while _name(operand) in self.now:
            operand = self.now[_name(operand)]
        return operand

    def current(self, node):
        """`node` over what its inputs have become."""
        if not any(_name(x) in self.now for x in node.inputs):
            return node
        return Node(node.op, tuple(map(self.resolve, node.inputs)), node.attrs, node.outputs, node.source)

    def place(self, node):
        """Append `node`, or what the rules make of it."""
        waiting = [node]
        while waiting:
            node = waiting.pop(0)
            changed = self.rewrite(node)
            if changed is None:
                self.new.append(node)
                self.producers.update((value.name, node) for value in node.outputs)
            else:
                waiting = [self.current(item) for item in changed + waiting]

    def rewrite(self, node):
        """The nodes that replace `node` by the first rule that applies, or None."""
        for rule in self.by_op.get(node.op, ()):
            captured = {}
            if not match_node(rule.pattern, node, self.producers, captured):
                continue
            match = Match(node, captured, self.producers)
            if rule.when is not None and not rule.when(match):
                continue
            build = Build(self, node)
            made = rule.replacement(match, build) if callable(rule.replacement) else \
                build.from_pattern(rule.replacement, captured)
            if made is None:
                continue
            made = made if isinstance(made, tuple) else (made,)
            if self.fits(node, made, build):
                return self.commit(rule, node, made, build)
        return None

    def fits(self, node, made, build):
        """Whether `made` may stand for the outputs of `node`: same types, and effects find their values."""
        if len(made) != len(node.outputs):
            return False
        fresh = {value.name for new in build.nodes for value in new.outputs}
        for old, new in zip(node.outputs, made):
            shape = () if isinstance(new, Literal) else tuple(new.shape)
            if new.dtype is not old.dtype or shape != tuple(old.shape):
                return False
            if old.name in self.named and isinstance(new, Literal):
                return False
            if old.name in self.pinned and _name(new) not in fresh:
                return False
        return True

    def commit(self, rule, node, made, build):
        """Let the new values take the old names where they are new, and note the step in the report."""
        fresh = {value.name for new in build.nodes for value in new.outputs}
        names = {}
        for old, new in zip(node.outputs, made):
            if _name(new) in fresh:
                names.setdefault(new.name, old)
        nodes = [Node(n.op, tuple(names.get(_name(x), x) for x in n.inputs), n.attrs,
                      tuple(names.get(v.name, v) for v in n.outputs), n.source) for n in build.nodes]
        after = [names.get(_name(x), x) for x in made]
        for old, new in zip(node.outputs, after):
            if new is not old:
                self.now[old.name] = new
        shown = "; ".join(map(show_node, nodes)) or ", ".join(map(show_operand, after))
        self.report.append(Applied(rule, show_node(node).split("  #")[0], shown.split("  #")[0], node.source))
        if len(self.report) > self.limit:
            last = "\n  ".join(map(str, self.report[-4:]))
            fail("rewrite", f"no end after {self.limit} applied rules; the last ones were\n  {last}",
                 hint="two rules may undo each other, or a rule may match its own replacement")
        return nodes


class Build:
    """Makes the nodes of a replacement; `build("add", x, y, alpha=2)` returns the new value(s)."""

    def __init__(self, place, node):
        self.place, self.root, self.nodes = place, node, []

    def __call__(self, op, *inputs, types=None, **attrs):
        """A new node with the given attrs; `types` is a list of (dtype, shape), inferred when left out."""
        types = types or self._infer(op, inputs, attrs)
        outputs = tuple(Value(self._fresh(), dtype, tuple(shape)) for dtype, shape in types)
        self.nodes.append(Node(op, tuple(inputs), tuple(attrs.items()), outputs, self.root.source))
        return outputs[0] if len(outputs) == 1 else outputs

    def literal(self, value, dtype):
        return Literal(value, dtype)

    def from_pattern(self, pattern, captured, root=True):
        """The operand that a replacement written as text stands for."""
        if isinstance(pattern, Capture):
            return captured[pattern.name]
        if isinstance(pattern, Constant):
            return Literal(pattern.value, pattern.dtype or self.root.outputs[0].dtype)
        inputs = [self.from_pattern(item, captured, root=False) for item in pattern.args]
        attrs = {name: captured[value.name] if isinstance(value, Capture) else value
                 for name, value in pattern.attrs}
        types = None
        if root and self.place.registry is None:
            types = [(value.dtype, value.shape) for value in self.root.outputs]
        return self(pattern.op, *inputs, types=types, **attrs)

    def _infer(self, op, inputs, attrs):
        if self.place.registry is None:
            fail("rewrite", f"the type of the new {op} is not known",
                 hint="pass registry= to apply_rules, or types= to build", kind=ValueError)
        return self.place.registry[op].infer(list(inputs), attrs)

    def _fresh(self):
        count = len(self.place.taken)
        while f"t{count}" in self.place.taken:
            count += 1
        self.place.taken.add(f"t{count}")
        return f"t{count}"


# --------------------------------------------------------------------------------------- matching
def match_node(pattern, node, producers, captured):
    """Whether the Call `pattern` fits `node`; fills `captured`."""
    if pattern.op != node.op or len(pattern.args) != len(node.inputs):
        return False
    attrs = dict(node.attrs)
    if len(attrs) != len(pattern.attrs) and not pattern.others:
        return False
    for name, wanted in pattern.attrs:
        if name not in attrs or not _match_attribute(wanted, attrs[name], captured):
            return False
    return all(_match(item, operand, producers, captured) for item, operand in zip(pattern.args, node.inputs))


def _match(pattern, operand, producers, captured):
    if isinstance(pattern, Capture):
        if pattern.name == "_":
            return True
        if pattern.literal and not isinstance(operand, Literal):
            return False
        return same_operand(captured.setdefault(pattern.name, operand), operand)
    if isinstance(pattern, Constant):
        return isinstance(operand, Literal) and pattern.dtype in (None, operand.dtype) \
            and _same_number(pattern.value, operand.value)
    node = producers.get(operand.name) if isinstance(operand, Value) else None
    return node is not None and len(node.outputs) == 1 and match_node(pattern, node, producers, captured)


def _match_attribute(wanted, value, captured):
    if isinstance(wanted, Capture):
        return wanted.name == "_" or _same_attribute(captured.setdefault(wanted.name, value), value)
    return _same_attribute(wanted, value)


def _same_attribute(a, b):
    return show_attribute(a) == show_attribute(b)       # by text: 1, 1.0 and True differ, NaN is NaN


def same_operand(a, b):
    """Whether two operands are the same value, or literals of the same dtype and value."""
    if isinstance(a, Literal) or isinstance(b, Literal):
        return isinstance(a, Literal) and isinstance(b, Literal) and show_operand(a) == show_operand(b)
    return a.name == b.name


def _same_number(wanted, value):
    """1 is 1.0 but 0.0 is not -0.0; NaN is NaN; True is only True."""
    if isinstance(wanted, bool) != isinstance(value, bool):
        return False
    if isinstance(wanted, float) and isinstance(value, float) and math.isnan(wanted):
        return math.isnan(value)
    if not wanted == value:
        return False
    return wanted != 0 or not isinstance(value, float) or math.copysign(1, wanted) == math.copysign(1, value)


# -------------------------------------------------------------------------------- whole-graph steps
def eliminate_dead_code(form):
    """Drop the nodes that no output and no effect needs; inputs stay."""
    graph = form.graph if isinstance(form, Program) else form
    live = {_name(operand) for operand in graph.outputs} | _names_in_effects(form)[1]
    kept = []
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.outputs):
            kept.append(node)
            live.update(_name(operand) for operand in node.inputs)
    return _rebuild(form, tuple(reversed(kept)), {})


def eliminate_common_subexpressions(form):
    """Compute equal calls once: the same op on the same operands with the same attributes and result types.

    Graphs are pure, random ops too (their generator's state is an operand), so equal calls give equal values.
    """
    graph = form.graph if isinstance(form, Program) else form
    pinned = _names_in_effects(form)[0]
    now, kept, first = {}, [], {}
    for node in graph.nodes:
        inputs = tuple(now.get(_name(operand), operand) for operand in node.inputs)
        node = Node(node.op, inputs, node.attrs, node.outputs, node.source)
        key = show_call(node), tuple((value.dtype, tuple(value.shape)) for value in node.outputs)
        if key in first and not any(value.name in pinned for value in node.outputs):
            now.update(zip((value.name for value in node.outputs), first[key]))
        else:
            first.setdefault(key, node.outputs)
            kept.append(node)
    return _rebuild(form, tuple(kept), now)


def _names_in_effects(form):
    """(names that must stay as they are, names whose value must stay): an alias fixes its output and base."""
    effects = form.effects if isinstance(form, Program) else ()
    pinned = {name for effect in effects if effect.kind == "alias"
              for name in (effect.target, *effect.operands)}
    return pinned, pinned | {name for effect in effects for name in effect.operands}


def _rebuild(form, nodes, now):
    """`form` with other nodes, where each value named in `now` is replaced by what it has become."""
    if isinstance(form, Program):
        effects = tuple(Effect(e.kind, e.target, tuple(_name(now[n]) if n in now else n for n in e.operands),
                               e.strides, e.offset, e.source) for e in form.effects)
        return Program(_rebuild(form.graph, nodes, now), effects)
    outputs = tuple(now.get(_name(operand), operand) for operand in form.outputs)
    return Graph(form.name, form.inputs, nodes, outputs)


def _name(operand):
    """The name of a value; None for a literal."""
    return operand.name if isinstance(operand, Value) else None
