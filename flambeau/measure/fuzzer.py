"""Random inputs for timings: sizes, strides and dtypes drawn within bounds."""

import math
import random

from flambeau.base.errors import ArgumentError, fail
from flambeau.tensor import rand, randint
from flambeau.types.dtype import float32

__all__ = ["BinaryOpFuzzer", "FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias", "UnaryOpFuzzer"]


class ParameterAlias:
    """A parameter that has the value of another one, `alias_to`."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number that is drawn.

    Args:
        name: what it is called.
        minval, maxval: the bounds; integers give integers, both of them possible.
        distribution: "uniform", "loguniform", or value -> probability.
        strict: the values of such a dict are taken as they are; else a name among them means a parameter.
    """

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        if isinstance(distribution, str) and distribution not in ("uniform", "loguniform"):
            fail(
                "FuzzedParameter",
                "unknown distribution",
                repr(distribution),
                "'uniform', 'loguniform' or a dict",
                kind=ValueError,
            )
        if isinstance(distribution, str) and (minval is None or maxval is None):
            fail("FuzzedParameter", "a distribution over a range needs minval and maxval", kind=ValueError)
        if not isinstance(distribution, (str, dict)):
            fail(
                "FuzzedParameter",
                "a distribution is missing",
                repr(distribution),
                "'uniform', 'loguniform' or a dict",
                kind=ArgumentError,
            )
        self.name, self.minval, self.maxval, self.distribution = name, minval, maxval, distribution
        self.strict = strict

    def sample(self, state):
        """One value, by the random generator `state`."""
        if isinstance(self.distribution, dict):
            return state.choices(list(self.distribution), list(self.distribution.values()))[0]
        whole = isinstance(self.minval, int) and isinstance(self.maxval, int)
        if self.distribution == "uniform":
            return (
                state.randint(self.minval, self.maxval) if whole else state.uniform(self.minval, self.maxval)
            )
        value = math.exp(state.uniform(math.log(self.minval), math.log(self.maxval)))
        return min(max(int(round(value)), self.minval), self.maxval) if whole else value


class FuzzedTensor:
    """A tensor whose size and layout are drawn.

    Args:
        name: what it is called.
        size: sizes, numbers or names of parameters.
        steps: the step between elements along each axis, numbers or names; None: 1.
        probability_contiguous: how often its axes lie in their order in memory.
        min_elements, max_elements: draw the parameters again if it has fewer or more.
        dim_parameter: the name of the parameter that says how many of the axes there are.
        dtype: its dtype; None: float32.
        tensor_constructor: function(size=..., dtype=..., **parameters) that makes it.
    """

    def __init__(
        self,
        name,
        size,
        steps=None,
        probability_contiguous=0.5,
        min_elements=None,
        max_elements=None,
        max_allocation_bytes=None,
        dim_parameter=None,
        roll_parameter=None,
        dtype=None,
        cuda=False,
        tensor_constructor=None,
    ):
        if cuda:
            fail("FuzzedTensor", "there is no CUDA device here", hint="leave out cuda=True")
        self.name, self.size, self.steps = name, size, steps
        self.probability_contiguous, self.dim_parameter, self.dtype = (
            probability_contiguous,
            dim_parameter,
            dtype,
        )
        self.min_elements, self.max_elements = min_elements, max_elements
        self.max_allocation_bytes, self.tensor_constructor = max_allocation_bytes, tensor_constructor

    def shape(self, params):
        """(size, steps) for values of the parameters."""
        rank = params[self.dim_parameter] if self.dim_parameter else len(self.size)
        size = tuple(params.get(each, each) for each in self.size)[:rank]
        steps = tuple(params.get(each, each) for each in self.steps or (1,) * rank)[:rank]
        return size, steps

    def satisfies_constraints(self, params):
        """True if the number of elements, and their bytes with the gaps, are within bounds."""
        size, steps = self.shape(params)
        count, allocated = math.prod(size), math.prod(map(lambda pair: pair[0] * pair[1], zip(size, steps)))
        return (
            (self.min_elements is None or count >= self.min_elements)
            and (self.max_elements is None or count <= self.max_elements)
            and (self.max_allocation_bytes is None or allocated * 8 <= self.max_allocation_bytes)
        )

    def make(self, params, state):
        """(the tensor, what is to be known of it)."""
        size, steps = self.shape(params)
        dtype = self.dtype or float32
        order = list(range(len(size)))
        if state.random() > self.probability_contiguous:
            state.shuffle(order)
        stored = [size[axis] * steps[axis] for axis in order]
        if self.tensor_constructor is not None:
            tensor = self.tensor_constructor(size=tuple(stored), dtype=dtype, **params)
        elif dtype.is_floating_point or dtype.is_complex:
            tensor = rand(stored, dtype=dtype)
        else:
            tensor = randint(0, 2 if dtype.kind == "b" else 127, stored).to(dtype)
        tensor = tensor.permute([order.index(axis) for axis in range(len(size))])
        tensor = tensor[tuple(slice(None, None, step) for step in steps)]
        return tensor, {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "dtype": str(dtype),
            "is_contiguous": tensor.is_contiguous(),
            "shape": tuple(tensor.shape),
            "sparse": False,
        }


class Fuzzer:
    """Draws tensors within bounds.

    Args:
        parameters: FuzzedParameters, also in nested lists.
        tensors: FuzzedTensors, also in nested lists.
        constraints: functions of the parameters as keywords; all of them must be true.
        seed: of the drawing.

    >>> fuzzer = Fuzzer([FuzzedParameter("n", 1, 9, "uniform")], [FuzzedTensor("x", ("n", 2))], seed=0)
    >>> for tensors, about, parameters in fuzzer.take(2):
    ...     print(tensors["x"].shape[0] == parameters["n"], about["x"]["steps"])
    True (1, 1)
    True (1, 1)
    """

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        self._parameters, self._tensors = _flat(parameters), _flat(tensors)
        self._constraints = tuple(constraints or ())
        names = [each.name for each in (*self._parameters, *self._tensors)]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"[Fuzzer] names given twice: {sorted(repeated)}")
        self._seed = random.randrange(2**32) if seed is None else seed
        self._drawn = self._refused = 0

    @property
    def rejection_rate(self):
        """The share of draws that were out of bounds."""
        return self._refused / self._drawn if self._drawn else 0.0

    def take(self, n):
        """`n` times: (tensors by name, what is to be known of each, the parameters)."""
        state = random.Random(self._seed)
        for _ in range(n):
            parameters = self._draw(state)
            made = {each.name: each.make(parameters, state) for each in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: about for name, (_, about) in made.items()},
                parameters,
            )

    def _draw(self, state):
        for _ in range(1000):
            values = {each.name: each.sample(state) for each in self._parameters}
            for each in self._parameters:
                value = values[each.name]
                if isinstance(value, ParameterAlias):
                    values[each.name] = values[value.alias_to]
            self._drawn += 1
            if all(check(**values) for check in self._constraints) and all(
                each.satisfies_constraints(values) for each in self._tensors
            ):
                return values
            self._refused += 1
        raise ValueError("[Fuzzer] a thousand draws were out of bounds: the constraints hardly ever hold")


def _flat(values):
    found = []
    for each in values:
        found.extend(_flat(each) if isinstance(each, (list, tuple)) else [each])
    return found


_LARGEST = 64 << 20


def _sizes(names):
    """Sizes: mostly any, sometimes a power of two."""
    drawn = [FuzzedParameter(f"{name}_any", 4, 16384, "loguniform") for name in names]
    powers = [
        FuzzedParameter(f"{name}_power", distribution=dict.fromkeys((2**p for p in range(4, 15)), 1 / 11))
        for name in names
    ]
    chosen = [
        FuzzedParameter(
            name, distribution={ParameterAlias(f"{name}_any"): 0.8, ParameterAlias(f"{name}_power"): 0.2}
        )
        for name in names
    ]
    return [drawn, powers, chosen]


class UnaryOpFuzzer(Fuzzer):
    """Tensors `x` of one to three axes `k0`, `k1`, `k2`, for ops of one operand."""

    def __init__(self, seed, dtype=None, cuda=False):
        names = ("k0", "k1", "k2")
        steps = [
            FuzzedParameter(f"x_step_{axis}", distribution={1: 0.8, 2: 0.1, 4: 0.1}) for axis in range(3)
        ]
        super().__init__(
            [FuzzedParameter("dim", distribution={1: 0.3, 2: 0.4, 3: 0.3}), _sizes(names), steps],
            [
                FuzzedTensor(
                    "x",
                    names,
                    [each.name for each in steps],
                    0.75,
                    4 << 10,
                    32 << 20,
                    _LARGEST * 8,
                    "dim",
                    dtype=dtype,
                    cuda=cuda,
                )
            ],
            seed=seed,
        )


class BinaryOpFuzzer(Fuzzer):
    """Tensors `x` and `y` of one to three axes that go together, for ops of two operands: `y` is sometimes
    broadcast."""

    def __init__(self, seed, dtype=None, cuda=False):
        names, others = ("k0", "k1", "k2"), ("y_k0", "y_k1", "y_k2")
        broadcast = [
            FuzzedParameter(other, distribution={ParameterAlias(name): 0.8, 1: 0.2})
            for name, other in zip(names, others)
        ]
        steps = [
            FuzzedParameter(f"{tensor}_step_{axis}", distribution={1: 0.8, 2: 0.1, 4: 0.1})
            for tensor in "xy"
            for axis in range(3)
        ]
        own = [[each.name for each in steps if each.name.startswith(tensor)] for tensor in "xy"]
        super().__init__(
            [FuzzedParameter("dim", distribution={1: 0.3, 2: 0.4, 3: 0.3}), _sizes(names), broadcast, steps],
            [
                FuzzedTensor(
                    "x", names, own[0], 0.75, 4 << 10, 32 << 20, _LARGEST * 8, "dim", dtype=dtype, cuda=cuda
                ),
                FuzzedTensor(
                    "y", others, own[1], 0.75, None, None, _LARGEST * 8, "dim", dtype=dtype, cuda=cuda
                ),
            ],
            seed=seed,
        )
