"""What an op is: a class that states its mathematics once, a registry, and the one door `bind`.

A class decorated with `@op` becomes one object in `REGISTRY` and one fast function, put under the op's name into the
module that declares it. Functions in the class body take no self: they are the statements of the op.
"""

import functools
import inspect
import re
import sys

from flambeau.base.errors import ArgumentError, DTypeError, fail
from flambeau.ops import interpose, overrides
from flambeau.ops.results import result_tuple
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import category, on_default_change

REGISTRY = {}
_NUMPY_NAMES = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}
_REQUIRED = inspect.Parameter.empty
_SIZES = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension", "k", "size", "sizes", "shape", "offset", "diagonal",
                    "step", "source", "destination", "kernel_size", "stride", "padding", "dilation", "pad"))


def snake_case(name):
    """LogSoftmax -> log_softmax."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Op:
    """The base of all kinds.

    Class attributes that an op may state: `signature` (its Python parameters), `operands` (names of the parameters that are
    tensors; numbers too where `numbers` is true), `variadic` (a last parameter that takes sizes as separate arguments),
    `outputs` (field names of a tuple result), `samples`, `tolerance`, `dtypes` (for the tests), `differentiable`.
    """

    kind = "abstract"
    name = None
    signature = "input"
    operands = ("input",)
    numbers = False
    variadic = None
    outputs = None
    differentiable = True
    internal = False            # not a name of `flambeau`, nor a method
    inplace = True              # an elementwise or composite op has a method with an underscore, too
    remembered = True           # a call may be found by its signature next time, without `prepare`
    looks_at_sizes = False      # `prepare` refuses or changes sizes: only calls with sizes it has seen are found again
    alias_names = ()
    derivative = None
    recorded = None             # recorded(values): the call in other ops, for derivatives of an op that has none itself
    large_derivative = False    # run op by op: more sizes than one plan holds
    reference = None
    samples = None
    tolerance = None
    dtypes = ()

    def __init__(self):
        parsed = inspect.signature(eval(f"lambda {self.signature}: None"))    # noqa: S307 - our own text
        self.parameters = {n: p.default for n, p in parsed.parameters.items()}
        self.positional = [n for n, p in parsed.parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        self.order = {n: i for i, n in enumerate(self.parameters)}
        mask = 0
        if self.numbers:
            for i, n in enumerate(self.parameters):
                mask |= (n in self.operands) << i
        self.sizes = () if self.internal else tuple((self.order[n], n) for n in self.parameters
                                                    if n in _SIZES and n not in self.operands)
        self.native = _core.NativeOp(self, self.name, self.native_arity(), self.differentiable, mask,
                                     inspect.cleandoc(type(self).__doc__ or ""))
        self.native.number_names = frozenset(self.operands if self.numbers else ())
        self.function = self.native.function()
        self.derivative_roles = None if self.derivative is None else _roles(self.derivative)

    def native_arity(self):
        """How many operands the native elementwise table takes; 0 where calls are looked up by signature."""
        return 0

    # ------------------------------------------------------------------ calling
    def bind_arguments(self, args, kwargs):
        """The call's arguments, checked and normalised."""
        return self.prepare(self.gather_arguments(args, kwargs))

    def gather_arguments(self, args, kwargs):
        """The call's arguments by parameter name, in the order of the signature, defaults filled in."""
        names = self.positional
        if self.variadic is not None and self.variadic not in kwargs:
            args = self.gather_variadic(args)
        if len(args) > len(names):
            fail(self.name, "too many positional arguments", len(args), f"at most {len(names)}: {self.signature}",
                 kind=ArgumentError)
        values = dict(self.parameters)
        values.update(zip(names, args))
        for name, value in kwargs.items():
            if name not in values:
                name = _NUMPY_NAMES.get(name, name)
                if name not in values:
                    fail(self.name, "unknown keyword argument", repr(name), f"one of: {self.signature}",
                         kind=ArgumentError)
            if name in names[:len(args)]:
                fail(self.name, f"argument {name!r} is given twice", kind=ArgumentError)
            values[name] = value
        for name, value in values.items():
            if value is _REQUIRED:
                fail(self.name, f"argument {name!r} is missing", want=self.signature, kind=ArgumentError)
            if isinstance(value, list):
                values[name] = tuple(value)
        return values

    def gather_variadic(self, args):
        """(x, 2, 3) -> (x, (2, 3)) for ops that take sizes either way."""
        at = self.positional.index(self.variadic)
        rest = args[at:]
        if len(rest) == 1 and (rest[0] is None or isinstance(rest[0], (tuple, list))):
            return (*args[:at], rest[0] if rest[0] is None else tuple(rest[0]))
        return (*args[:at], tuple(rest)) if rest else args

    def prepare(self, values):
        """Check and normalise the arguments; kinds override."""
        return values

    def bounds(self, values):
        """What a plan's calls check of the values of indices: rows (position of the index among the operands, position
        of the operand that it indexes, axis), or (position, -1, size)."""
        return ()

    def split(self, values):
        """(operands in order, attributes): a tensor-valued parameter is an operand, also inside a tuple."""
        operands, attrs = [], {}
        for name, value in values.items():
            if isinstance(value, Tensor):
                operands.append(value)
            elif name in self.operands and self.numbers and value is not None:
                operands.append(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
                operands.extend(value)
                attrs[name] = len(value)
            else:
                attrs[name] = value
        return operands, attrs

    def eager(self, values):
        """Run on real tensors."""
        raise NotImplementedError

    def trace(self, tracer, values):
        """Run on traced tensors: by default one node."""
        operands, attrs = self.split(values)
        return tracer.add_node(self, operands, attrs)

    # ------------------------------------------------------------------ what graphs ask
    def apply(self, operands, attrs):
        """Call with operands in order and attributes by name: how a graph's nodes are replayed."""
        from flambeau.ops import plans
        return plans.apply(self, operands, attrs)

    def pack(self, results):
        """Several results as a tuple with the op's field names."""
        made = self.__dict__.get("result_type")
        if made is None:
            made = self.__dict__["result_type"] = result_tuple(self.name, self.outputs)
        return made(*results)

    def infer(self, inputs, attrs):
        """[(dtype, shape)] of the outputs; `inputs` have .dtype, and .shape where they are values."""
        raise NotImplementedError

    def __repr__(self):
        return f"<{self.kind} op {self.name}>"


def _roles(function):
    """What a derivative asks for: (wants output, operand names in order, attribute names)."""
    names = list(inspect.signature(function).parameters.items())
    plain = [n for n, p in names if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    attributes = [n for n, p in names if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return ("out" in plain, [n for n in plain if n not in ("grad", "out")], attributes)


_STATEMENTS = ("scalar", "derivative", "reference", "infer_dtype", "infer_shape", "view", "compute", "combine", "identity",
               "finish", "weight", "lower", "host", "samples", "value", "check", "eager_function")


def op(cls):
    """Class decorator: register the op and put its function under its name into the declaring module."""
    for name in _STATEMENTS:
        stated = inspect.getattr_static(cls, name, None)        # of the class, or of a base without @op
        if inspect.isfunction(stated):
            setattr(cls, name, staticmethod(stated))
    if "name" not in cls.__dict__:
        cls.name = snake_case(cls.__name__)
    declared = cls()
    if declared.name in REGISTRY:
        raise ValueError(f"an op named {declared.name} is declared twice")
    REGISTRY[declared.name] = declared
    module = sys.modules[cls.__module__]
    for name in (declared.name, *declared.alias_names):
        setattr(module, name, declared.function)
    return cls


FUNCTIONS = {}      # name -> function: public operations that are plain Python over ops
METHODS = {}        # the ones of them that are Tensor methods too
INPLACE = {}        # name with underscore -> function(tensor, ...) whose result the method writes into the tensor
QUICK = {}          # the ones of them that a function(tensor, ...) may do at once; it answers False where it has not
WRITERS = {}        # name with underscore -> function(tensor, ...) that writes into the tensor itself


def public(method=True, aliases=(), inplace=False):
    """Decorator for a plain function over ops: it becomes `flambeau.<name>` and, with `method`, `Tensor.<name>`.

    With `inplace` the form `Tensor.<name>_` writes the result into the tensor.
    """
    def declare(plain):
        function = with_numpy_names(plain)
        for name in (plain.__name__.rstrip("_"), *aliases):
            if name in FUNCTIONS:
                raise ValueError(f"a public function named {name} is declared twice")
            FUNCTIONS[name] = function
            if method:
                METHODS[name] = function
            if inplace:
                INPLACE[name + "_"] = function
        return function
    return declare


def renamed(kwargs):
    """Keyword arguments with `axis` and `keepdims` under the names `dim` and `keepdim`."""
    if "axis" in kwargs or "keepdims" in kwargs:
        return {{"axis": "dim", "keepdims": "keepdim"}.get(name, name): value for name, value in kwargs.items()}
    return kwargs


def renames(function):
    """True for a function that has a parameter `dim`, and none called `axis`."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    return "dim" in names and "axis" not in names


def with_numpy_names(function):
    """The function itself, or one that takes `axis` for its `dim` too."""
    if not renames(function) or getattr(function, "takes_numpy_names", False):
        return function

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **renamed(kwargs)) if kwargs else function(*args)

    return call


def get(name):
    """The op object of that name."""
    return REGISTRY[name]


# ------------------------------------------------------------------------------ the one door
_COMPLEX = {}       # is_complex(value), call(operation, args, kwargs): the complex form of a call


def set_complex(is_complex, call):
    """Name who takes the calls with complex operands (complex_kinds.py)."""
    _COMPLEX.update(is_complex=is_complex, call=call)


def bind(operation, args, kwargs):
    """Hand a call to the interpreter on top: the level of a function transform or a tracer if one of its values takes
    part, else eager execution."""
    claimed = overrides.claim(args, kwargs)
    if claimed is not None:
        return overrides.hand_over(operation.function, claimed, args, kwargs)
    if _core.get_mode() and interpose.stack():
        return interpose.intercept(operation, args, kwargs)
    out = kwargs.pop("out", None) if kwargs else None
    if operation.sizes:
        args, kwargs = _with_int_sizes(operation, args, kwargs)
    if any(map(_COMPLEX["is_complex"], args)) or any(map(_COMPLEX["is_complex"], kwargs.values())):
        result = _COMPLEX["call"](operation, args, kwargs)
        if result is not NotImplemented:
            return result if out is None else write_out(operation, out, result)
    values = operation.bind_arguments(args, kwargs)
    wrapped = wrapped_among(values.values())
    if wrapped is not None:
        result = wrapped.level.process(operation, values)
        return result if out is None else write_out(operation, out, result)
    tracer = _find_tracer(values)
    if tracer is not None:
        return operation.trace(tracer, values)
    if isinstance(out, Tensor) and operation.kind == "elementwise" and _core.writes_directly((out, *values.values())):
        found = operation.into(values, out)
        if found is not None:
            return _core.run_into(found[0], found[2], out)
    if not operation.remembered:
        result = operation.eager(values)
        return result if out is None else write_out(operation, out, result)
    from flambeau.ops import plans
    plans.forget(operation)                 # of a call that failed, or that wrote to out=
    result = operation.eager(values)
    if out is not None:
        return write_out(operation, out, result)
    if operation.native.arity != len(args) or kwargs:       # else the native path looks such calls up in a table
        (plans.remember_view if operation.kind == "view" else plans.remember)(operation, args, kwargs, values, result)
    return result


def as_int(value):
    """The int of an integer tensor of one element, also in a sequence; anything else as it is."""
    if isinstance(value, Tensor) and value.dtype.kind in "iu" and value.numel() == 1:
        return int(value)
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return tuple(map(as_int, value))
    return value


def _with_int_sizes(operation, args, kwargs):
    """The arguments, where tensors that stand for sizes, axes or counts are ints: they are no operands."""
    last = None if operation.variadic is None else operation.order[operation.variadic]
    for place, name in operation.sizes:
        if place < len(args):
            rest = args[place:] if place == last else args[place:place + 1]
            if any(isinstance(v, (Tensor, tuple, list)) for v in rest):
                args = (*args[:place], *map(as_int, rest), *args[place + len(rest):])
        elif isinstance(kwargs.get(name), (Tensor, tuple, list)):
            kwargs = {**kwargs, name: as_int(kwargs[name])}
    return args, kwargs


def _find_tracer(values):
    for value in values.values():
        tracer = getattr(type(value), "is_traced", False)
        if tracer:
            return value.tracer
        if isinstance(value, tuple) and value and getattr(type(value[0]), "is_traced", False):
            return value[0].tracer
    from flambeau.ops import trace
    tracer = trace.current()
    if tracer is not None and not any(isinstance(v, Tensor) for v in values.values()):
        return tracer
    return None


def write_out(operation, out, result):
    """Put a result into the caller's `out=` tensor(s), resizing like PyTorch where the shape differs."""
    if isinstance(out, (tuple, list)):
        written = [write_out(operation, o, r) for o, r in zip(out, result)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    if out.requires_grad or (result.requires_grad and _core.grad_mode()):
        fail(operation.name, "functions with out=... arguments don't support automatic differentiation, but one of the "
             "arguments requires grad")
    if category(result.dtype) > category(out.dtype):
        fail(operation.name, "the result cannot be cast to the dtype of out=", out.dtype, result.dtype, kind=DTypeError)
    if tuple(out.shape) != tuple(result.shape):
        if out.numel():
            fail(operation.name, "out= has the wrong shape", tuple(out.shape), tuple(result.shape))
        out._assign(result)
        return out
    from flambeau.ops.write import write
    return write(out, result)


def _operator(operation, a, b):
    """A Python operator whose operands the native path did not take."""
    claimed = overrides.claim((a, b), {})
    if claimed is not None:
        return overrides.hand_over(*_method_call(operation, a, b, claimed))
    for value in (a, b):
        if not isinstance(value, (Tensor, int, float, complex)) and not _is_size(value):
            if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
                continue
            return NotImplemented
    a, b = (v.item() if type(v).__module__ == "numpy" else v for v in (a, b))
    return bind(operation, (a, b), {})


_REFLECTED = {"sub": "__rsub__", "div": "__rtruediv__", "pow": "__rpow__", "floor_divide": "__rfloordiv__",
              "remainder": "__rmod__", "matmul": "__rmatmul__"}


def _method_call(operation, a, b, claimed):
    """The method, and its arguments, that an operator stands for."""
    if isinstance(a, Tensor):
        return getattr(Tensor, operation.name), claimed, (a, b), {}
    return getattr(Tensor, _REFLECTED.get(operation.name, operation.name)), claimed, (b, a), {}


def _is_size(value):
    from flambeau.types.dim import Dim
    return isinstance(value, Dim)


_core.set_hook("bind", bind)
_core.set_hook("operator", _operator)


def _forget_plans():
    """Plans were made for the old default dtype."""
    for operation in REGISTRY.values():
        operation.native.clear()


on_default_change(_forget_plans)
