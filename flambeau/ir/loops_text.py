"""The printed form of Loops: `show` writes a kernel, `parse` reads it back exactly (grammar: `ir.loops`).

    kernel double(x: r f32*, out: w f32*; n: i64) extent n {
      for i in begin..end step 1 vector {  # model.py:12
        v1: f32 = x[i]: f32
        out[i] <- add(v1, v1): f32
      }
    }

Beyond the grammar: a kernel's notes stand first in its body as `note "key" "text"`, a NaN but the usual
one is written with its bits, `nan(0x7ff8000000000001)`, and parentheses may enclose any expression (a stored
Load needs them before the store's own `where`). A comment that is not `# file:line` is skipped.
"""

import json
import re
import struct

from flambeau.base.errors import message
from flambeau.ir import loops as L
from flambeau.types.dtype import ALL, int64

# ------------------------------------------------------------------------------------------------- printing
_USUAL_NAN = 0x7FF8000000000000


def show(kernel):
    """The kernel as text that `parse` reads back."""
    buffers = ", ".join(f"{b.name}: {b.access} {b.dtype.short}*" for b in kernel.buffers)
    params = ", ".join(f"{p}: i64" for p in kernel.params)
    lines = [f"kernel {kernel.name}({buffers}; {params}) extent {show_expr(kernel.extent)} {{"]
    lines += [f"  note {json.dumps(key)} {json.dumps(text)}" for key, text in kernel.notes]
    for stmt in kernel.body:
        lines += ["  " + line for line in _lines(stmt)]
    return "\n".join(lines) + "\n}\n"


def show_stmt(stmt):
    """One statement, with its blocks, as text."""
    return "\n".join(_lines(stmt))


def show_type(dtype, lanes):
    """f32 or, with lanes, f32x8."""
    return dtype.short if lanes == 1 else f"{dtype.short}x{lanes}"


def show_expr(e):
    """An expression as text."""
    kind = show_type(e.dtype, e.lanes)
    if isinstance(e, L.Const):
        return f"{_show_number(e.value)}:{kind}"
    if isinstance(e, L.Var):
        return e.name
    if isinstance(e, L.Load):
        mask = "" if e.mask is None else f" where {show_expr(e.mask)} else {show_expr(e.other)}"
        return f"{e.buffer}[{show_expr(e.index)}]: {kind}{mask}"
    arguments = ", ".join(map(show_expr, e.args))
    head = e.op if isinstance(e, L.Apply) else f"splice {e.name}"
    return f"{head}({arguments}): {kind}"


def _show_number(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    value = float(value)
    if value != value:
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return "nan" if bits == _USUAL_NAN else f"nan({bits:#x})"
    return repr(value)


def _lines(stmt):
    """The lines of a statement; its source follows the first one."""
    head, rest = _head(stmt), []
    if isinstance(stmt, L.For):
        rest = _block(stmt.body) + ["}"]
    elif isinstance(stmt, L.If):
        rest = _block(stmt.then) + (["} else {"] + _block(stmt.orelse) if stmt.orelse else []) + ["}"]
    if stmt.source is not None:
        head += f"  # {stmt.source[0]}:{stmt.source[1]}"
    return [head] + rest


def _block(body):
    return ["  " + line for stmt in body for line in _lines(stmt)]


def _head(stmt):
    if isinstance(stmt, L.Let):
        return f"{stmt.name}: {show_type(stmt.value.dtype, stmt.value.lanes)} = {show_expr(stmt.value)}"
    if isinstance(stmt, L.Declare):
        return f"var {stmt.name}: {show_type(stmt.value.dtype, stmt.value.lanes)} = {show_expr(stmt.value)}"
    if isinstance(stmt, L.Assign):
        return f"{stmt.name} := {show_expr(stmt.value)}"
    if isinstance(stmt, L.Store):
        return _store_head(stmt)
    if isinstance(stmt, L.Local):
        return f"local {stmt.name}: {stmt.dtype.short}[{stmt.size}]"
    if isinstance(stmt, L.For):
        kind = "" if stmt.kind == "serial" else f" {stmt.kind}"
        span = f"{show_expr(stmt.start)}..{show_expr(stmt.stop)}"
        return f"for {stmt.index} in {span} step {stmt.step}{kind} {{"
    if isinstance(stmt, L.If):
        return f"if {show_expr(stmt.condition)} {{"
    if isinstance(stmt, L.Prefetch):
        return f"prefetch {stmt.buffer}[{show_expr(stmt.index)}]{' write' if stmt.write else ''}"
    return f"splice {stmt.name}({', '.join(map(show_expr, stmt.args))})"


def _store_head(stmt):
    value, mask = show_expr(stmt.value), ""
    if stmt.mask is not None:
        mask = f" where {show_expr(stmt.mask)}"
        value = f"({value})" if isinstance(stmt.value, L.Load) else value
    return f"{stmt.buffer}[{show_expr(stmt.index)}] <- {value}{mask}"


# -------------------------------------------------------------------------------------------------- parsing
_TOKEN = re.compile(r"""
    (?P<space>[ \t\r]+) | (?P<newline>\n) | (?P<comment>\#[^\n]*) | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<float>-inf\b | -?\d+\.\d+(?:e[+-]?\d+)? | -?\d+e[+-]?\d+) | (?P<int>0x[0-9a-f]+ | -?\d+)
  | (?P<name>[A-Za-z_]\w*(?:\.\w+)*) | (?P<symbol><- | := | \.\. | [(){}\[\]:;,=*])""", re.VERBOSE)
_SOURCE = re.compile(r"#\s*(.+):(\d+)\s*$")
_TYPE = re.compile("(" + "|".join(sorted((d.short for d in ALL), key=len, reverse=True)) + r")(?:x(\d+))?$")
_DTYPES = {d.short: d for d in ALL}
RESERVED = frozenset("var local for if splice note else true false nan inf".split())    # never a value's name


def parse(text):
    """The kernel that `text` prints. Raises ValueError with the line where it goes wrong."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.source()
    if parser.kind != "end":
        parser.refuse("the end of the text")
    return kernel


def _tokens(text):
    """(kind, text, line) triples; comments that stand alone or hold no source are left out."""
    line, position, fresh = 1, 0, True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(message("parse", f"line {line} of the kernel", got=repr(text[position]),
                                     want="a name, a number or punctuation"))
        kind, word, position = match.lastgroup, match.group(), match.end()
        if kind == "newline":
            line, fresh = line + 1, True
        elif kind != "space":
            if kind != "comment" or (not fresh and _SOURCE.match(word)):
                yield kind, word, line
            fresh = False
    yield "end", "the end", line


class _Parser:
    """Recursive descent, one method a rule. `kind` and `word` are those of the next token."""

    def __init__(self, text):
        self.tokens, self.position = list(_tokens(text)), 0
        self.scopes = [{}]          # name -> (dtype, lanes)

    @property
    def kind(self):
        return self.tokens[self.position][0]

    @property
    def word(self):
        return self.tokens[self.position][1]

    def refuse(self, want):
        kind, word, line = self.tokens[self.position]
        raise ValueError(message("parse", f"line {line} of the kernel", got=word, want=want))

    def take(self, word):
        """Step over `word` if it comes next."""
        if self.word == word and self.kind != "string":
            self.position += 1
            return True
        return False

    def expect(self, *words):
        for word in words:
            if not self.take(word):
                self.refuse(repr(word))

    def token(self, kind, want):
        if self.kind != kind:
            self.refuse(want)
        self.position += 1
        return self.tokens[self.position - 1][1]

    def name(self):
        return self.token("name", "a name")

    def listed(self, rule, closing):
        """rule,* up to `closing`, which is stepped over."""
        items = []
        while not self.take(closing):
            if items:
                self.expect(",")
            items.append(rule())
        return tuple(items)

    # ---- kernel
    def kernel(self):
        self.expect("kernel")
        name = self.name()
        self.expect("(")
        buffers, params = self.listed(self.buffer, ";"), self.listed(self.param, ")")
        for known in ("begin", "end") + params:
            self.scopes[0][known] = int64, 1
        self.expect("extent")
        extent = self.expr()
        self.expect("{")
        notes = []
        while self.take("note"):
            notes.append(tuple(json.loads(self.token("string", "a string")) for _ in range(2)))
        return L.Kernel(name, buffers, params, extent, self.block(), tuple(notes))

    def buffer(self):
        name = self.name()
        self.expect(":")
        access = self.name()
        if access not in ("r", "w", "rw"):
            self.position -= 1
            self.refuse("the access r, w or rw")
        dtype = self.dtype()
        self.expect("*")
        return L.Buffer(name, dtype, access)

    def param(self):
        name = self.name()
        self.expect(":", "i64")
        return name

    def type(self):
        match = _TYPE.match(self.word)
        if match is None:
            self.refuse("a type such as f32 or f32x8")
        self.position += 1
        return _DTYPES[match[1]], int(match[2] or 1)

    def dtype(self):
        dtype, lanes = self.type()
        if lanes != 1:
            self.position -= 1
            self.refuse("a dtype without lanes")
        return dtype

    # ---- statements
    def block(self, bound=None):
        """Statements up to "}", in a scope of their own with the loop index `bound`."""
        self.scopes.append({bound: (int64, 1)} if bound else {})
        body = []
        while not self.take("}"):
            if self.source() is None:           # else a comment of its own, after a brace
                body.append(self.stmt())
        self.scopes.pop()
        return tuple(body)

    def source(self):
        if self.kind != "comment":
            return None
        file, line = _SOURCE.match(self.token("comment", "a source")).groups()
        return file, int(line)

    def stmt(self):
        rules = {"var": self.declare, "local": self.local, "for": self.loop, "if": self.branch, "prefetch": self.prefetch}
        for keyword, rule in rules.items():
            if self.take(keyword):
                return rule()
        if self.take("splice"):
            return L.SpliceStore(self.name(), self.arguments(), self.source())
        name = self.name()
        if self.take("["):
            return self.store(name)
        if self.take(":="):
            return L.Assign(name, self.expr(), self.source())
        return L.Let(name, self.bound_value(name), self.source())

    def declare(self):
        name = self.name()
        return L.Declare(name, self.bound_value(name), self.source())

    def bound_value(self, name):
        """":" type "=" expr; binds `name`."""
        self.expect(":")
        place, stated = self.position, self.type()
        self.expect("=")
        value = self.expr()
        if stated != (value.dtype, value.lanes):
            self.position = place
            self.refuse(f"the type of the value, {show_type(value.dtype, value.lanes)}")
        self.scopes[-1][name] = stated
        return value

    def local(self):
        name = self.name()
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        size = int(self.token("int", "a size"))
        self.expect("]")
        return L.Local(name, dtype, size, self.source())

    def loop(self):
        index = self.name()
        self.expect("in")
        start = self.expr()
        self.expect("..")
        stop = self.expr()
        self.expect("step")
        step = int(self.token("int", "a step"))
        kind = next((k for k in ("unroll", "vector", "serial") if self.take(k)), "serial")
        self.expect("{")
        source = self.source()
        return L.For(index, start, stop, step, kind, self.block(index), source)

    def branch(self):
        condition = self.expr()
        self.expect("{")
        source = self.source()
        then, orelse = self.block(), ()
        if self.take("else"):
            self.expect("{")
            orelse = self.block()
        return L.If(condition, then, orelse, source)

    def store(self, buffer):
        index = self.expr()
        self.expect("]", "<-")
        value = self.expr()
        mask = self.expr() if self.take("where") else None
        return L.Store(buffer, index, value, mask, self.source())

    def prefetch(self):
        buffer = self.name()
        self.expect("[")
        index = self.expr()
        self.expect("]")
        return L.Prefetch(buffer, index, bool(self.take("write")), self.source())

    # ---- expressions
    def arguments(self):
        self.expect("(")
        return self.listed(self.expr, ")")

    def typed(self):
        self.expect(":")
        return self.type()

    def expr(self):
        if self.take("("):
            inner = self.expr()
            self.expect(")")
            return inner
        if self.take("splice"):
            name, args = self.name(), self.arguments()
            return L.SpliceLoad(*self.typed(), name, args)
        if self.kind in ("int", "float") or self.word in ("true", "false", "nan", "inf"):
            value = self.number()
            return L.Const(*self.typed(), value)
        name = self.name()
        if self.word == "(":
            args = self.arguments()
            return L.Apply(*self.typed(), name, args)
        return self.load(name) if self.take("[") else self.variable(name)

    def number(self):
        kind, word, _ = self.tokens[self.position]
        self.position += 1
        if kind == "int":
            return int(word, 0)
        if word == "nan" and self.take("("):
            bits = int(self.token("int", "the bits of a NaN"), 0)
            self.expect(")")
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        return word == "true" if word in ("true", "false") else float(word)

    def load(self, buffer):
        index, mask, other = self.expr(), None, None
        self.expect("]")
        dtype, lanes = self.typed()
        if self.take("where"):
            mask = self.expr()
            self.expect("else")
            other = self.expr()
        return L.Load(dtype, lanes, buffer, index, mask, other)

    def variable(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return L.Var(*scope[name], name)
        self.position -= 1
        self.refuse("a name that is bound here")
