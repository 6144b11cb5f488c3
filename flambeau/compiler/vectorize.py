"""The stage `vectorize`: a `vector` loop, written for one element, becomes vectors and one masked tail.

    for i in a .. b step 1 vector { v = x[i]; out[i] <- v + v }
becomes
    for i in a .. full step 16 { v:f32x16 = x[i]; out[i] <- v + v }
    if full < b { the same body at i = full, in which lanes beyond b touch no memory }

Each value of the body is one of three: *uniform* (the same for all iterations: stays scalar), *affine* (an
i64 that grows by a uniform step: stays scalar, its lanes are known) or *varying* (a vector). Memory at an
affine index that grows by 1 is read as consecutive elements, at a uniform index once, and elsewhere it is
gathered.
"""

from dataclasses import dataclass, field, replace

from flambeau.ir import loops_walk as walk
from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, int32, int64

VECTOR_BYTES, MIN_LANES, MAX_LANES = 64, 4, 32
_VARYING = object()     # the step of a value that is neither uniform nor affine


def vectorize(kernel):
    """`kernel` without `vector` loops; the same object if it has none.

    ValueError, saying why, on a loop that cannot be one: it holds more than Let and Store, or every iteration
    stores to the same element.
    """
    if not _has_vector_loop(kernel.body):
        return kernel
    names = _Names(kernel)
    return replace(kernel, body=_block(kernel.body, names))


def lanes_of(loop):
    """How many lanes a vector loop gets: 64 bytes of its widest value, 4 to 32."""
    return _Analysis(loop).lanes


def _has_vector_loop(body):
    return any(isinstance(s, L.For) and s.kind == "vector" or any(_has_vector_loop(b) for b in walk.blocks(s))
               for s in body)


def _block(body, names):
    result = []
    for statement in body:
        if isinstance(statement, L.For) and statement.kind == "vector":
            result.extend(_both_ways(statement, names))
        else:
            result.append(walk.map_blocks(statement, lambda inner: _block(inner, names)))
    return tuple(result)


class _Names:
    """Fresh names for the whole kernel."""

    def __init__(self, kernel):
        self.prefix, self.count = walk.unused_prefix(kernel, "w"), 0

    def fresh(self):
        self.count += 1
        return f"{self.prefix}{self.count}"


def _both_ways(loop, names):
    """The statements that replace a vector loop; one that copies with a step gets a branch for the step -1."""
    step = _step_of_copy(loop)
    if step is None:
        return _split(loop, names)
    load, store = loop.body
    index = L.mul(load.value.index.args[0], -1)
    backwards = replace(loop, body=(replace(load, value=replace(load.value, index=index)), store))
    return [L.If(L.apply("eq", step, L.as_index(-1)), tuple(_split(backwards, names)), tuple(_split(loop, names)), loop.source)]


def _step_of_copy(loop):
    """The step in x if the loop is { v = x[i * step]; out[i] <- v }, a name; else None."""
    if len(loop.body) != 2:
        return None
    load, store = loop.body
    if not (isinstance(load, L.Let) and isinstance(load.value, L.Load) and isinstance(store, L.Store)):
        return None
    index, value = load.value.index, store.value
    is_copy = isinstance(value, L.Var) and value.name == load.name and _is_var(store.index, loop.index) and store.mask is None
    if not is_copy or load.value.mask is not None or not (isinstance(index, L.Apply) and index.op == "mul"):
        return None
    place, step = index.args
    return step if _is_var(place, loop.index) and isinstance(step, L.Var) and step.name != loop.index else None


def _is_var(expr, name):
    return isinstance(expr, L.Var) and expr.name == name


def _split(loop, names):
    """The statements that replace a vector loop."""
    analysis = _Analysis(loop)
    lanes, before = analysis.lanes, []

    def let(value):
        if isinstance(value, (L.Var, L.Const)):
            return value
        before.append(L.Let(names.fresh(), value, loop.source))
        return L.Var(value.dtype, value.lanes, before[-1].name)

    if isinstance(loop.start, L.Const) and isinstance(loop.stop, L.Const):
        count = max(0, loop.stop.value - loop.start.value)
        start, stop, full = loop.start, loop.stop, L.as_index(loop.start.value + count // lanes * lanes)
        has_tail = count % lanes != 0
    else:
        start, stop = let(loop.start), let(loop.stop)
        size = L.apply("max", L.apply("sub", stop, start), L.as_index(0))
        full, has_tail = let(L.add(start, L.apply("and", size, L.as_index(-lanes)))), True
    offsets = _LaneOffsets(analysis, let)
    result = []
    if not (isinstance(full, L.Const) and isinstance(start, L.Const) and full.value == start.value):
        body = _Rewriter(analysis, L.Var(int64, 1, loop.index), {}, None, offsets).body(loop.body)
        result.append(L.For(loop.index, start, full, lanes, "serial", body, loop.source))
    if has_tail:
        result.append(_tail(loop, analysis, names, full, stop, offsets))
    return before + result


def _tail(loop, analysis, names, full, stop, offsets):
    left = L.apply("cast", L.apply("sub", stop, full), dtype=int32)
    mask = L.Let(names.fresh(), L.apply("lt", L.Apply(int32, analysis.lanes, "lane", ()), left), loop.source)
    renamed = {name: names.fresh() for name in analysis.steps if name != loop.index}
    mask_value = L.Var(bool_, analysis.lanes, mask.name)
    body = _Rewriter(analysis, full, renamed, mask_value, offsets).body(loop.body)
    return L.If(L.apply("lt", full, stop), (mask, *body), (), loop.source)


@dataclass
class _Analysis:
    """The step of every name of a vector loop: what one iteration adds to it."""

    loop: L.For
    steps: dict = field(default_factory=dict)       # name -> 0, a uniform i64 (int or Expr), or _VARYING
    widest: int = 1                                 # bytes of the widest varying value

    def __post_init__(self):
        if self.loop.step != 1:
            self._refuse(f"its step is {self.loop.step}, wanted 1")
        self.steps[self.loop.index] = 1
        for statement in self.loop.body:
            if isinstance(statement, L.Let):
                self._visit(statement.value)
                self.steps[statement.name] = self.step(statement.value)
            elif isinstance(statement, L.Store):
                for expr in (statement.value, statement.index, *([statement.mask] if statement.mask else [])):
                    self._visit(expr)
                self._see(statement.value)
                if _is_zero(self.step(statement.index)):
                    self._refuse(f"every iteration stores to the same element of {statement.buffer}")
            else:
                self._refuse(f"it contains a {type(statement).__name__}; wanted Let and Store only")

    def _refuse(self, why):
        source = " at %s:%s" % self.loop.source if self.loop.source else ""
        name = self.loop.index
        raise ValueError(f"[vectorize] the loop over {name} cannot be a vector loop: {why}{source}")

    @property
    def lanes(self):
        return min(MAX_LANES, max(MIN_LANES, VECTOR_BYTES // self.widest))

    def step(self, expr):
        """What one iteration adds to `expr`: 0, an int, a uniform Expr, or _VARYING."""
        if isinstance(expr, L.Const):
            return 0
        if isinstance(expr, L.Var):
            return self.steps.get(expr.name, 0)
        if isinstance(expr, L.Apply):
            return self._step_of_apply(expr)
        if not isinstance(expr, L.Load):
            return _VARYING
        parts = [p for p in (expr.index, expr.mask, expr.other) if p is not None]
        return 0 if all(_is_zero(self.step(p)) for p in parts) else _VARYING

    def _step_of_apply(self, expr):
        steps = [self.step(a) for a in expr.args]
        if all(_is_zero(s) for s in steps):
            return 0
        if expr.dtype is not int64 or any(s is _VARYING for s in steps):
            return _VARYING
        if expr.op == "add":
            return _as_step(L.add(*steps))
        if expr.op == "sub":
            return _as_step(L.add(steps[0], L.mul(steps[1], -1)))
        if expr.op == "neg":
            return _as_step(L.mul(steps[0], -1))
        if expr.op == "mul" and _is_zero(steps[1]):
            return _as_step(L.mul(steps[0], expr.args[1]))
        if expr.op == "mul" and _is_zero(steps[0]):
            return _as_step(L.mul(expr.args[0], steps[1]))
        return _VARYING

    def _visit(self, expr):
        """Note the width of every varying value in `expr`."""
        if expr.lanes != 1:
            self._refuse(f"a value has {expr.lanes} lanes already")
        if self.step(expr) is _VARYING:
            self._see(expr)
            walk.map_parts(expr, self._visit)
        return expr

    def _see(self, expr):
        self.widest = max(self.widest, expr.dtype.itemsize)


class _LaneOffsets:
    """Lane number times step; where the step is known before the loop, computed once there."""

    def __init__(self, analysis, let):
        self.lanes, self.inside, self.let, self.known = analysis.lanes, analysis.steps.keys(), let, {}

    def of(self, step, scalar):
        """The offsets of an affine value's lanes; `scalar` rewrites an expression of the body."""
        lane = L.Apply(int64, self.lanes, "lane", ())
        if isinstance(step, int):
            return lane if step == 1 else L.apply("mul", lane, L.as_index(step))
        if any(_mentions(step, name) for name in self.inside):
            return L.apply("mul", lane, scalar(step))
        key = _key(step)
        if key not in self.known:
            self.known[key] = self.let(L.apply("mul", lane, step))
        return self.known[key]


class _Rewriter:
    """Writes the body for the iterations index, index + 1, ..., index + lanes - 1."""

    def __init__(self, analysis, index, renamed, mask, offsets):
        self.analysis, self.lanes, self.index = analysis, analysis.lanes, index
        self.renamed, self.mask, self.offsets = renamed, mask, offsets

    def body(self, statements):
        return tuple(self._statement(s) for s in statements)

    def _statement(self, statement):
        if isinstance(statement, L.Let):
            name = self.renamed.get(statement.name, statement.name)
            is_wide = self.analysis.step(statement.value) is _VARYING
            value = self.wide(statement.value) if is_wide else self.scalar(statement.value)
            return L.Let(name, value, statement.source)
        index, value = self._index(statement.index), self.wide(statement.value)
        return L.Store(statement.buffer, index, value, self._mask(statement.mask), statement.source)

    def _mask(self, mask):
        mask = None if mask is None else self.wide(mask)
        if mask is None or self.mask is None:
            return mask or self.mask
        return L.apply("and", self.mask, mask)

    def _index(self, index):
        """A scalar for consecutive elements, else a vector."""
        step = self.analysis.step(index)
        return self.scalar(index) if _is_one(step) else self.wide(index)

    def scalar(self, expr):
        """`expr`, uniform or affine, at the first of the iterations."""
        if isinstance(expr, L.Var):
            if expr.name == self.analysis.loop.index:
                return self.index
            return L.Var(expr.dtype, expr.lanes, self.renamed.get(expr.name, expr.name))
        return walk.map_parts(expr, self.scalar)

    def wide(self, expr):
        """`expr` as a vector of all the iterations."""
        step = self.analysis.step(expr)
        if _is_zero(step):
            return L.splat(self.scalar(expr), self.lanes)
        if step is not _VARYING:
            return L.apply("add", L.splat(self.scalar(expr), self.lanes), self.offsets.of(step, self.scalar))
        if isinstance(expr, L.Var):
            return L.Var(expr.dtype, self.lanes, self.renamed.get(expr.name, expr.name))
        if isinstance(expr, L.Apply):
            return L.Apply(expr.dtype, self.lanes, expr.op, tuple(self.wide(a) for a in expr.args))
        mask = self._mask(expr.mask)
        other = self.wide(expr.other) if expr.other is not None else None
        if mask is not None and other is None:
            other = L.Const(expr.dtype, self.lanes, False if expr.dtype is bool_ else 0)
        return L.Load(expr.dtype, self.lanes, expr.buffer, self._index(expr.index), mask, other)


def _as_step(value):
    return value.value if isinstance(value, L.Const) else value


def _is_zero(step):
    return isinstance(step, int) and step == 0


def _is_one(step):
    return isinstance(step, int) and step == 1


def _mentions(expr, name):
    found = isinstance(expr, L.Var) and expr.name == name

    def visit(part):
        nonlocal found
        found = found or _mentions(part, name)
        return part

    walk.map_parts(expr, visit)
    return found


def _key(expr):
    """Equal for steps that are the same expression."""
    if isinstance(expr, L.Var):
        return expr.name
    if isinstance(expr, L.Const):
        return expr.value
    parts = []
    walk.map_parts(expr, lambda part: parts.append(_key(part)) or part)
    return (getattr(expr, "op", None) or expr.buffer, *parts)
