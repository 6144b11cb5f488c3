"""Random programs over ops, run in every way that there is, and made smaller when the ways disagree.

    program = random_program(seed=7)            # 5 to 30 steps; print(program) shows it
    check(program)                              # AssertionError if eager, compiled and reference differ
    raise_shrunk(program, check)                # the same, but for the smallest program that still fails

While a program is made, the interval in which each value lies and a bound of its rounding error are carried
along. Steps that would make either large are not taken: the tolerance against the reference is derived.
"""

import math
import zlib
from dataclasses import dataclass, replace


from flambeau.ir import graph_interpret
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle
from flambeau.testing.arrays import stored, to_array, to_tensor
from flambeau.types.dtype import float32, float64
from flambeau.base.lazy import LazyModule

numpy = LazyModule("numpy")

LARGEST = 60.0              # values stay in [-LARGEST, LARGEST]
MOST_ERROR = 1e5            # in units of the dtype's epsilon
MOST_ELEMENTS = 3000
SIZES = (1, 2, 3, 4, 5, 8, 17, 33)


@dataclass(frozen=True)
class Step:
    """name = op(operands; attributes); operands are names of values, or numbers."""

    name: str
    op: str
    operands: tuple
    attributes: tuple = ()

    def __str__(self):
        parts = [str(o) for o in self.operands] + [f"{k}={v}" for k, v in self.attributes]
        return f"{self.name} = {self.op}({', '.join(parts)})"


@dataclass(frozen=True)
class Program:
    """Inputs (name, shape), steps in order, names of the outputs.

    `error` bounds the rounding error of each value, in epsilons; `shapes` has the sizes of each.
    """

    seed: int
    dtype: object
    inputs: tuple
    steps: tuple
    outputs: tuple
    error: dict
    shapes: dict

    def __str__(self):
        lines = [f"program(seed={self.seed})"]
        lines += [f"    {name}: {self.dtype.short}{list(shape)}" for name, shape in self.inputs]
        lines += [f"    {step}" for step in self.steps]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)}"])

    def arrays(self):
        """The operands: uniform in [-1, 1), the same for the same name and seed."""
        made = [numpy.random.default_rng((self.seed, zlib.crc32(name.encode()))).uniform(-1, 1, shape)
                for name, shape in self.inputs]
        return [numpy.asarray(stored(a, self.dtype)) for a in made]

    def run(self, *tensors):
        """Op by op on tensors, real or traced: the outputs as a list."""
        values = dict(zip([name for name, _ in self.inputs], tensors))
        for step in self.steps:
            operands = [values.get(o, o) if isinstance(o, str) else o for o in step.operands]
            if step.op in SHORT:
                values[step.name] = SHORT[step.op](*operands, **dict(step.attributes))
            else:
                values[step.name] = oracle.call(REGISTRY[step.op], operands, dict(step.attributes))[0]
        return [values[name] for name in self.outputs]


# ------------------------------------------------------------------ steps that are functions over ops
def merge_axes(x, dim):
    """The axes `dim` and `dim + 1` as one, said through the sizes of x so that it can be traced."""
    shape = tuple(x.shape)
    return REGISTRY["reshape"].function(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2:]))


def gram(x):
    """x @ x.T of a matrix."""
    return REGISTRY["matmul"].function(x, REGISTRY["permute"].function(x, (1, 0)))


def part(x, dim, start, stop):
    """Elements start to stop of one axis."""
    whole = tuple(("slice", 0, size, 1) for size in tuple(x.shape)[:dim])
    return REGISTRY["slice_"].function(x, (*whole, ("slice", start, stop, 1)))


SHORT = {"merge_axes": merge_axes, "part": part, "gram": gram}


# ------------------------------------------------------------------------------ rules: interval and slope
def _rising(function):
    return lambda low, high: (function(low), function(high))


def _within(low, high):
    return lambda a, b: (low, high)


def _steep(slope):
    return lambda low, high: slope


def _largest(low, high):
    return max(abs(low), abs(high))


# op -> (interval of the result, largest slope, smallest operand allowed)
UNARY = {
    "sin": (_within(-1, 1), _steep(1), -math.inf), "cos": (_within(-1, 1), _steep(1), -math.inf),
    "tanh": (_rising(math.tanh), _steep(1), -math.inf), "sigmoid": (_within(0, 1), _steep(0.25), -math.inf),
    "atan": (_rising(math.atan), _steep(1), -math.inf), "erf": (_rising(math.erf), _steep(1.13), -math.inf),
    "asinh": (_rising(math.asinh), _steep(1), -math.inf),
    "exp": (_rising(math.exp), lambda a, b: math.exp(b), -math.inf),
    "neg": (lambda a, b: (-b, -a), _steep(1), -math.inf),
    "abs": (lambda a, b: (0, _largest(a, b)), _steep(1), -math.inf),
    "square": (lambda a, b: (0, _largest(a, b) ** 2), lambda a, b: 2 * _largest(a, b), -math.inf),
    "relu": (lambda a, b: (max(a, 0), max(b, 0)), _steep(1), -math.inf),
    "leaky_relu": (lambda a, b: (a, b), _steep(1), -math.inf),
    "elu": (lambda a, b: (a, b), _steep(1), -math.inf),
    "silu": (lambda a, b: (-0.3, max(b, 0)), _steep(1.1), -math.inf),
    "gelu": (lambda a, b: (-0.2, max(b, 0)), _steep(1.13), -math.inf),
    "softplus": (lambda a, b: (0, max(b, 0) + 0.7), _steep(1), -math.inf),
    "log1p": (_rising(math.log1p), _steep(1), 0.0), "log": (_rising(math.log), _steep(1), 1.0),
    "sqrt": (_rising(math.sqrt), _steep(0.5), 1.0), "rsqrt": (_within(0, 1), _steep(0.5), 1.0),
    "reciprocal": (_within(0, 1), _steep(1), 1.0),
}


def _add(a, b):
    return a[0] + b[0], a[1] + b[1]


def _sub(a, b):
    return a[0] - b[1], a[1] - b[0]


def _mul(a, b):
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _ones(a, b):
    return 1, 1


# op -> (interval of the result, slopes with respect to both operands)
BINARY = {
    "add": (_add, _ones), "sub": (_sub, _ones), "mul": (_mul, lambda a, b: (_largest(*b), _largest(*a))),
    "maximum": (lambda a, b: (max(a[0], b[0]), max(a[1], b[1])), _ones),
    "minimum": (lambda a, b: (min(a[0], b[0]), min(a[1], b[1])), _ones),
    "logaddexp": (lambda a, b: (max(a[0], b[0]), max(a[1], b[1]) + 0.7), _ones),
}


# op -> (interval from interval and count, slope from count)
REDUCING = {
    "sum": (lambda a, n: (n * a[0], n * a[1]), lambda n: n), "mean": (lambda a, n: a, lambda n: 1),
    "amax": (lambda a, n: a, lambda n: 1), "amin": (lambda a, n: a, lambda n: 1),
}


# ------------------------------------------------------------------------------ making programs
@dataclass
class _Known:
    """What is known of a value while a program is made."""

    shape: tuple
    interval: tuple
    error: float


class _Maker:
    def __init__(self, seed):
        self.rng = numpy.random.default_rng(seed)
        self.seed, self.known, self.steps, self.inputs, self.unused = seed, {}, [], [], []
        full = tuple(int(s) for s in self.rng.choice(SIZES, self.rng.integers(1, 4)))
        for i in range(self.rng.integers(1, 4)):
            shape = full if i == 0 else tuple(int(s) if self.rng.random() < 0.6 else 1 for s in full)
            self.inputs.append((f"x{i}", shape[int(self.rng.integers(0, len(shape) + 1)) if i == 2 else 0:]))
            self.known[f"x{i}"] = _Known(self.inputs[-1][1], (-1.0, 1.0), 0.0)

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def value(self):
        """A name, the recent ones more often."""
        names = list(self.known)
        return names[-1 - min(int(self.rng.exponential(3)), len(names) - 1)]

    def add(self, op, operands, attributes, shape, interval, error):
        """Append a step unless it makes values or errors too large; True if it did."""
        error += 4 * _largest(*interval)
        if math.prod(shape) > MOST_ELEMENTS or len(shape) > 4:
            return False
        if _largest(*interval) > LARGEST or error > MOST_ERROR:
            return False
        name = f"t{len(self.steps)}"
        self.steps.append(Step(name, op, tuple(operands), tuple(attributes.items())))
        self.known[name] = _Known(shape, interval, error)
        self.unused = [n for n in self.unused if n not in operands] + [name]
        return True

    # each maker tries to append a step
    def unary(self):
        op, x = self.pick(list(UNARY)), self.value()
        interval, slope, smallest = UNARY[op]
        known = self.known[x]
        if op == "exp" and known.interval[1] > 4 or known.interval[0] < smallest:
            return False
        error = slope(*known.interval) * known.error
        return self.add(op, (x,), {}, known.shape, interval(*known.interval), error)

    def binary(self):
        op, x = self.pick(list(BINARY)), self.value()
        interval, slopes = BINARY[op]
        a = self.known[x]
        if self.rng.random() < 0.25 and op != "logaddexp":
            number = float(self.pick((0.5, 1.0, 1.5, 2.0, -0.75)))
            y, b = number, _Known((), (number, number), 0.0)
        else:
            y = self.value()
            b = self.known[y]
        try:
            shape = numpy.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            return False
        p, q = slopes(a.interval, b.interval)
        return self.add(op, (x, y), {}, shape, interval(a.interval, b.interval), p * a.error + q * b.error)

    def choice(self):
        """where(input > number, x, y): inputs are exact, so that all ways take the same branch."""
        c, x, y = self.pick(self.inputs)[0], self.value(), self.value()
        a, b = self.known[x], self.known[y]
        try:
            shape = numpy.broadcast_shapes(self.known[c].shape, a.shape, b.shape)
        except ValueError:
            return False
        if math.prod(shape) > MOST_ELEMENTS:
            return False
        condition = f"c{len(self.steps)}"
        self.steps.append(Step(condition, "gt", (c, 0.25)))
        low, high = min(a.interval[0], b.interval[0]), max(a.interval[1], b.interval[1])
        return self.add("where", (condition, x, y), {}, shape, (low, high), max(a.error, b.error))

    def reduction(self):
        op, x = self.pick(list(REDUCING)), self.value()
        interval, slope = REDUCING[op]
        known = self.known[x]
        if not known.shape:
            return False
        axes = sorted({int(a) for a in self.rng.integers(0, len(known.shape), self.rng.integers(1, 3))})
        keep = bool(self.rng.random() < 0.6)
        count = math.prod(known.shape[a] for a in axes)
        shape = tuple(1 if i in axes else s for i, s in enumerate(known.shape) if keep or i not in axes)
        error = slope(count) * known.error + count * _largest(*known.interval)
        attributes = {"dim": tuple(axes), "keepdim": keep}
        return self.add(op, (x,), attributes, shape, interval(known.interval, count), error)

    def view(self):
        x = self.value()
        known = self.known[x]
        make = self.pick((self._permute, self._merge, self._unsqueeze, self._expand, self._part))
        op, attributes, shape = make(known.shape)
        return op is not None and self.add(op, (x,), attributes, shape, known.interval, known.error)

    def along_rows(self):
        """softmax, or a matrix times its transpose."""
        x = self.value()
        known = self.known[x]
        if not known.shape:
            return False
        if self.rng.random() < 0.5:
            dim = int(self.rng.integers(len(known.shape)))
            error = known.error + known.shape[dim]
            return self.add("softmax", (x,), {"dim": dim}, known.shape, (0.0, 1.0), error)
        if len(known.shape) != 2:
            return False
        rows, count = known.shape
        largest = _largest(*known.interval)
        return self.add("gram", (x,), {}, (rows, rows), (-count * largest ** 2, count * largest ** 2),
                        2 * count * largest * known.error + count * largest ** 2)

    def _part(self, shape):
        wide = [i for i, s in enumerate(shape) if s > 2]
        if not wide:
            return None, {}, shape
        dim = self.pick(wide)
        start, stop = (1, 3) if self.rng.random() < 0.5 else (0, 3)
        result = (*shape[:dim], stop - start, *shape[dim + 1:])
        return "part", {"dim": dim, "start": start, "stop": stop}, result

    def _permute(self, shape):
        dims = tuple(int(d) for d in self.rng.permutation(len(shape)))
        return ("permute" if shape else None), {"dims": dims}, tuple(shape[d] for d in dims)

    def _merge(self, shape):
        if len(shape) < 2:
            return None, {}, shape
        at = int(self.rng.integers(len(shape) - 1))
        merged = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2:])
        return "merge_axes", {"dim": at}, merged

    def _unsqueeze(self, shape):
        at = int(self.rng.integers(len(shape) + 1))
        return "unsqueeze", {"dim": at}, (*shape[:at], 1, *shape[at:])

    def _expand(self, shape):
        size = tuple(3 if s == 1 else s for s in shape)
        asked = tuple(3 if s == 1 else -1 for s in shape)
        return ("expand" if size != shape else None), {"size": asked}, size


def random_program(seed, dtype=None):
    """A program of 5 to 30 steps, the same for the same seed; float32 for even seeds, else float64."""
    maker = _Maker(seed)
    wanted, tries = int(maker.rng.integers(5, 31)), 0
    makers = (maker.unary, maker.unary, maker.binary, maker.binary, maker.binary, maker.reduction, maker.view,
              maker.choice, maker.along_rows)
    while len(maker.steps) < wanted and tries < 500:
        maker.pick(makers)()
        tries += 1
    outputs = tuple(maker.unused[-3:])
    error = {name: known.error for name, known in maker.known.items()}
    shapes = {name: known.shape for name, known in maker.known.items()}
    dtype = dtype or (float64 if seed % 2 else float32)
    made = Program(seed, dtype, tuple(maker.inputs), tuple(maker.steps), outputs, error, shapes)
    return _without_unused(made)


def _without_unused(program):
    """The program without steps and inputs that no output needs."""
    needed, steps = set(program.outputs), []
    for step in reversed(program.steps):
        if step.name in needed:
            steps.append(step)
            needed.update(o for o in step.operands if isinstance(o, str))
    inputs = tuple((name, shape) for name, shape in program.inputs if name in needed)
    return replace(program, inputs=inputs or program.inputs[:1], steps=tuple(reversed(steps)))


# ------------------------------------------------------------------------------ comparing
def check(program):
    """eager = compiled bit for bit, and both near the NumPy references of the traced graph."""
    arrays = program.arrays()
    tensors = [to_tensor(a) for a in arrays]
    graph, compiled = oracle.compile_function(program.run, tensors)
    eager = [to_array(t) for t in program.run(*tensors)]
    epsilon = oracle.EPSILON[program.dtype.name]
    reference = graph_interpret.run(graph, arrays, REGISTRY)
    for name, got, want, ideal in zip(program.outputs, compiled(*tensors), eager, reference, strict=True):
        oracle.check_bits(to_array(got), want, f"{name}: compiled and eager")
        worst = float(abs(want.astype(float) - ideal).max()) if want.size else 0.0
        allowed = epsilon * (program.error.get(name, 1e5) + 1)
        assert worst <= allowed, f"{name}: eager is off the reference by {worst}, allowed {allowed}"


def check_gradients(program):
    """The tape's gradients are those of the derivative that the compiler makes of the whole graph."""
    arrays = program.arrays()
    tensors = [to_tensor(a).detach().requires_grad_(True) for a in arrays]
    results = program.run(*tensors)
    drawn = [numpy.random.default_rng(i).uniform(0.5, 1, tuple(r.shape)) for i, r in enumerate(results)]
    weights = [to_tensor(numpy.asarray(stored(w, program.dtype))) for w in drawn]
    eager = oracle.gradients(results, weights, tensors)
    plain = [t.detach() for t in tensors]
    compiled = oracle.compiled_gradients(program.run, plain, weights)
    tolerance = 1e-3 if program.dtype is float32 else 1e-10
    for (name, _), got, want in zip(program.inputs, compiled, eager, strict=True):
        if want is None:
            assert got is None or not to_array(got).any(), f"gradient of {name}: the tape has none"
            continue
        want = to_array(want)
        worst = float(abs(to_array(got) - want).max())
        assert worst <= tolerance * max(1.0, float(abs(want).max())), f"gradient of {name}: off by {worst}"


# ------------------------------------------------------------------------------ shrinking
def raise_shrunk(program, predicate, attempts=200):
    """Call predicate(program); if it raises, raise AssertionError with the smallest program that does."""
    error = _failure(program, predicate)
    if error is None:
        return
    original, progress = len(program.steps), True
    while progress and attempts > 0:
        progress = False
        for smaller in _smaller(program):
            attempts -= 1
            found = _failure(smaller, predicate)
            if found is not None:
                program, error, progress = smaller, found, True
                break
            if attempts <= 0:
                break
    raise AssertionError(f"seed {program.seed}, {original} steps shrunk to {len(program.steps)}:\n{program}\n"
                         f"{type(error).__name__}: {error}") from error


def _failure(program, predicate):
    try:
        predicate(program)
    except Exception as error:
        return error
    return None


def _smaller(program):
    """Programs with less in them, the much smaller ones first."""
    for step in program.steps[:-1]:
        if not step.name.startswith("c"):
            yield _without_unused(replace(program, outputs=(step.name,)))
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield _without_unused(replace(program, outputs=(name,)))
    shapes = program.shapes
    for step in reversed(program.steps):
        if step.name.startswith("c"):
            continue
        if step.name not in program.outputs:        # what it computes becomes an input
            yield _without_unused(replace(program, inputs=(*program.inputs, (step.name, shapes[step.name])),
                                          steps=tuple(s for s in program.steps if s is not step)))
        for operand in step.operands:               # leave it out
            if isinstance(operand, str) and shapes.get(operand) == shapes[step.name]:
                yield _without_unused(_renamed(program, step, operand))


def _renamed(program, removed, by):
    """The program without a step, whose users take `by` in its place."""
    steps = tuple(replace(s, operands=tuple(by if o == removed.name else o for o in s.operands))
                  for s in program.steps if s is not removed)
    outputs = dict.fromkeys(by if o == removed.name else o for o in program.outputs)
    return replace(program, steps=steps, outputs=tuple(outputs))
