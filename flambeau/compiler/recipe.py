"""A plan while it is being made: registers and size arithmetic, buffers, launch steps, outputs."""

from dataclasses import dataclass

from flambeau.compiler import pipeline
from flambeau.ir.loops import Const, Kernel, Var
from flambeau.runtime import _core
from flambeau.types import dtype as dtypes
from flambeau.types.dim import Dim, symbol, symbols
from flambeau.types.layout import contiguous_strides
from flambeau.types.shape import numel

CODES = {d: i for i, d in enumerate(dtypes.ALL)}
ADD, MUL, SUB, FLOORDIV, MAX, MIN = range(6)
_OPERATIONS = {"add": ADD, "mul": MUL, "sub": SUB, "idiv": FLOORDIV, "max": MAX, "min": MIN}
_RESULTS = (int.__add__, int.__mul__, int.__sub__, lambda a, b: a // b if b else 0, max, min)
_NEUTRAL = {ADD: 0, MUL: 1, SUB: 0, FLOORDIV: 1}
NEST, POINTWISE, HOST = range(3)
WORK = 32768            # elements of cheap work that are worth a thread


@dataclass(frozen=True, eq=False)
class Located:
    """A value in memory: `place` numbers inputs, then buffers; sizes, strides and offset in elements."""

    place: int
    dtype: object
    shape: tuple
    strides: tuple
    offset: object = 0

    @property
    def dense(self):
        return tuple(self.strides) == tuple(contiguous_strides(self.shape))

    def part(self, shape, strides, offset):
        """Another window on the same memory."""
        return Located(self.place, self.dtype, tuple(shape), tuple(strides), offset)


class Recipe:
    """Collects what a native Plan is made of."""

    def __init__(self, signature, inputs):
        self.signature = signature
        self.count = len(inputs)
        self.initial, self.loads, self.code, self.checks = [], [], [], []
        self.buffers, self.steps, self.random = [], [], None
        self.registers, self.computed, self.known = {}, {}, {}      # known: registers that hold constants
        self.sources = {name: (i, 0, axis) for name, i, axis in signature.sizes}
        self.inputs = [self._locate_input(i, v, o) for i, (v, o) in enumerate(zip(inputs, signature.operands))]
        for a, b in signature.constraints:
            if (symbols(a) | symbols(b)) <= set(self.sources):
                self.checks.append((self.register(a), self.register(b)))

    def _locate_input(self, i, value, operand):
        for axis, size in enumerate(value.shape):
            if isinstance(size, Dim) and symbols(size) == {str(size)}:
                self.sources.setdefault(str(size), (i, 0, axis))
        if operand.layout is None:
            return Located(i, value.dtype, tuple(value.shape), tuple(contiguous_strides(value.shape)))
        strides = []
        for axis, kind in enumerate(operand.layout):
            if kind == 2:
                self.sources[f"st{i}_{axis}"] = (i, 1, axis)
            strides.append(symbol(f"st{i}_{axis}") if kind == 2 else kind)
        return Located(i, value.dtype, tuple(value.shape), tuple(strides))

    # ------------------------------------------------------------------ sizes
    def register(self, size):
        """The register that holds a size when the plan runs."""
        key = size if isinstance(size, int) else str(size)
        if key not in self.registers:
            self.registers[key] = self._make(size)
        return self.registers[key]

    def _new(self, value=0):
        self.initial.append(value)
        return len(self.initial) - 1

    def _make(self, size):
        if isinstance(size, int):
            register = self._new(size)
            self.known[register] = size
            return register
        if str(size) in self.sources:
            target = self._new()
            self.loads.append((target, *self.sources[str(size)]))
            return target
        if len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1:
            return self._make_atom(size.terms[0][0][0])
        total = None
        for monomial, coefficient in size.terms:
            product = None if coefficient == 1 and monomial else self.register(coefficient)
            for atom in monomial:
                factor = self.register(Dim((((atom,), 1),)))
                product = factor if product is None else self.compute(MUL, product, factor)
            total = product if total is None else self.compute(ADD, total, product)
        return total

    def _make_atom(self, atom):
        if atom.kind == "symbol":
            raise KeyError(f"the size {atom.text} is of none of the operands of {self.signature.name}")
        registers = [self.register(a) for a in atom.args]
        operation = {"floordiv": FLOORDIV, "max": MAX}[atom.kind]
        result = registers[0]
        for r in registers[1:]:
            result = self.compute(operation, result, r)
        return result

    def compute(self, operation, a, b):
        """The register of a result; nothing is computed twice, nor what is known already."""
        key = (operation, a, b)
        if key not in self.computed:
            self.computed[key] = self._compute(*key)
        return self.computed[key]

    def _compute(self, operation, a, b):
        known = self.known.get(a), self.known.get(b)
        if None not in known:
            return self.register(_RESULTS[operation](*known))
        neutral = _NEUTRAL.get(operation)
        if neutral is not None and neutral in known:
            if known[1] == neutral:
                return a
            if operation in (ADD, MUL):
                return b
        target = self._new()
        self.code.append((operation, target, a, b))
        return target

    def expression(self, expr, env, known=None):
        """The register of a Loops index expression; `env` maps param names to registers, `known` shared parts."""
        known = {} if known is None else known
        if id(expr) not in known:
            known[id(expr)] = self._expression(expr, env, known)
        return known[id(expr)]

    def _expression(self, expr, env, known):
        if isinstance(expr, Const):
            return self.register(expr.value)
        if isinstance(expr, Var):
            return env[expr.name]
        args = [self.expression(a, env, known) for a in expr.args]
        if expr.op == "irem":
            whole = self.compute(MUL, self.compute(FLOORDIV, *args), args[1])
            return self.compute(SUB, args[0], whole)
        return self.compute(_OPERATIONS[expr.op], *args)

    # ------------------------------------------------------------------ memory and steps
    def buffer(self, dtype, shape):
        """New row-major memory."""
        self.buffers.append((CODES[dtype], self.register(numel(shape))))
        return Located(self.count + len(self.buffers) - 1, dtype, tuple(shape), tuple(contiguous_strides(shape)))

    def buffer_of(self, dtype, register):
        """New memory for as many elements as the register says."""
        self.buffers.append((CODES[dtype], register))
        return Located(self.count + len(self.buffers) - 1, dtype, (), ())

    def operand(self, located):
        offset = -1 if located.offset == 0 else self.register(located.offset)
        return (located.place, offset, located.dtype.itemsize)

    def nest(self, kernel, operands, params, extent, work):
        """Launch a kernel over `extent` steps of `work` elements each."""
        grain = self.register(1)
        if work is not None:
            grain = self.compute(MAX, self.compute(FLOORDIV, self.register(WORK), self.register(work)), grain)
        self.launch(kernel, operands, [self.register(p) for p in params], self.register(extent), grain)

    def launch(self, kernel, operands, params, extent, grain):
        """The same with everything in registers; a Kernel is built when the plan is finished."""
        self.steps.append((NEST, kernel, [self.operand(o) for o in operands], params, extent, grain))

    def pointwise(self, plan, operands, shape, strides):
        """Launch an elementwise plan: `strides` one tuple an operand (outputs first)."""
        params = [self.register(s) for s in shape]
        for steps in strides:
            params.extend(self.register(s) for s in steps)
        self.steps.append((POINTWISE, plan, [self.operand(o) for o in operands], params, len(shape), 0))

    def host(self, function, operands, params):
        """Call a Python function with addresses of the operands and the params."""
        self.steps.append((HOST, function, [self.operand(o) for o in operands],
                           [self.register(p) for p in params], 0, 0))

    def _part(self):
        """Take the kernels of the launches out: a function(numbers of steps) -> their addresses builds them."""
        kernels = {number: step[1] for number, step in enumerate(self.steps) if isinstance(step[1], Kernel)}
        for number in kernels:
            kind, _, *rest = self.steps[number]
            self.steps[number] = (kind, 0, *rest)
        self.kernels = kernels
        return lambda numbers: pipeline.build_kernels([kernels[number] for number in numbers])

    def finish(self, outputs, describe=None):
        """The native Plan, which has each kernel built when a call first needs it; `describe` is told of the
        recipe with its kernels."""
        self.described = None if describe is None else describe(self)
        pending = self._part()
        rows = []
        for o in outputs:
            fresh = o.place >= self.count and o.dense
            strides = None if fresh else [self.register(s) for s in o.strides]
            offset = -1 if o.offset == 0 else self.register(o.offset)
            rows.append((o.place, CODES[o.dtype], [self.register(s) for s in o.shape], strides, offset))
        plan = _core.Plan({
            "n_inputs": self.count, "registers": self.initial, "loads": self.loads, "checks": self.checks,
            "code": self.code, "buffers": self.buffers, "steps": self.steps, "outputs": rows,
            "in_codes": [CODES[o.dtype] for o in self.signature.operands], "random": self.random,
            "signature": self.signature, "attrs": self.signature.attrs})
        plan.pending = pending
        if pipeline.is_watched():
            plan.build_all()
        return plan
