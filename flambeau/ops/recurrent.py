"""One step of recurrent cells behind their matrix products: gates, state and output in one kernel each way.

`projected` is the product of the step's input, `own` that of the last state; gates stand side by side in
both.
"""

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.activation import sigmoid
from flambeau.ops.join import cat
from flambeau.ops.kinds import Composite
from flambeau.ops.mathematics import tanh
from flambeau.ops.loss import same_sizes
from flambeau.ops.matmul import same_dtype
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.view import slice_
from flambeau.runtime import _core
from flambeau.types.dtype import FLOATING

numpy = LazyModule("numpy")


def gates(x, state, count):
    """The `count` parts (batch, hidden) of (batch, count * hidden)."""
    batch, hidden = state.shape
    return [slice_(widen(x), (("slice", 0, batch, 1), ("slice", i * hidden, i * hidden + hidden, 1)))
            for i in range(count)]


def logistic(x):
    """NumPy's sigmoid."""
    return 1 / (1 + numpy.exp(-x))


class Step(Composite):
    """What the steps share."""

    dtypes = FLOATING
    tolerance = ulps(64)
    remembered = False          # the sizes are checked at every call
    count = 0

    def prepare(self, values):
        projected, own, state = values.values()
        same_dtype(self.name, projected, own, state)
        wanted = (state.shape[0], self.count * state.shape[1]) if state.ndim == 2 else ()
        if not (same_sizes(tuple(projected.shape), wanted) and same_sizes(tuple(own.shape), wanted)):
            fail(self.name, "gates and state do not fit", [tuple(x.shape) for x in values.values()],
                 f"(batch, {self.count} * hidden) twice and (batch, hidden)", kind=ShapeError)
        return values

    def eager(self, values):
        """Plans stand under keys that no call has: the native path would use them without `prepare`."""
        operands, attrs = self.split(values)
        key = _core.signature_of(tuple(values.values()), self.native.operand_mask, ("checked",))
        plan = None if key is None else self.native.plans.get(key)
        if plan is None:
            plan = plans.make_plan(self, values, operands, attrs)
            if key is not None:
                self.native.plans[key] = plan
        return _core.run_planned(self.native, plan, operands)


@op
class LstmGates(Step):
    """(hidden, cell) of long short-term memory from its gates (batch, 4 * hidden): in, forget, new, out."""

    count = 4
    signature = "projected, own, cell"
    operands = ("projected", "own", "cell")
    outputs = ("hidden", "cell")

    def samples(rng, shape):
        return [rng.uniform(-2, 2, (3, 20)), rng.uniform(-2, 2, (3, 20)), rng.uniform(-1, 1, (3, 5))]

    def compute(projected, own, cell):
        take, keep, new, give = gates(projected + own, cell, 4)
        after = sigmoid(keep) * widen(cell) + sigmoid(take) * tanh(new)
        return narrow(sigmoid(give) * tanh(after), cell.dtype), narrow(after, cell.dtype)

    def reference(projected, own, cell):
        take, keep, new, give = numpy.split(projected + own, 4, 1)
        after = logistic(keep) * cell + logistic(take) * numpy.tanh(new)
        return logistic(give) * numpy.tanh(after), after

    def derivative(grad, out, projected, own, cell):
        take, keep, new, give = gates(projected + own, cell, 4)
        take, keep, new, give = sigmoid(take), sigmoid(keep), tanh(new), sigmoid(give)
        level = tanh(widen(out[1]))
        of_hidden = widen(grad[0])
        of_cell = widen(grad[1]) + of_hidden * give * (1.0 - level * level)
        both = cat((of_cell * new * take * (1.0 - take), of_cell * widen(cell) * keep * (1.0 - keep),
                    of_cell * take * (1.0 - new * new), of_hidden * level * give * (1.0 - give)), 1)
        both = narrow(both, cell.dtype)
        return both, both, narrow(of_cell * keep, cell.dtype)


@op
class GruGates(Step):
    """The state of a gated recurrent unit from its gates (batch, 3 * hidden): reset, update, new."""

    count = 3
    signature = "projected, own, state"
    operands = ("projected", "own", "state")

    def samples(rng, shape):
        return [rng.uniform(-2, 2, (3, 15)), rng.uniform(-2, 2, (3, 15)), rng.uniform(-1, 1, (3, 5))]

    def compute(projected, own, state):
        (reset, update, new), (own_reset, own_update,
                               own_new) = (gates(x, state, 3) for x in (projected, own))
        reset, update = sigmoid(reset + own_reset), sigmoid(update + own_update)
        new = tanh(new + reset * own_new)
        return narrow(new + update * (widen(state) - new), state.dtype)

    def reference(projected, own, state):
        (reset, update, new), own = numpy.split(projected, 3, 1), numpy.split(own, 3, 1)
        reset, update = logistic(reset + own[0]), logistic(update + own[1])
        new = numpy.tanh(new + reset * own[2])
        return new + update * (state - new)

    def derivative(grad, projected, own, state):
        (reset, update, new), (own_reset, own_update,
                               own_new) = (gates(x, state, 3) for x in (projected, own))
        reset, update = sigmoid(reset + own_reset), sigmoid(update + own_update)
        new = tanh(new + reset * own_new)
        g = widen(grad)
        of_update = g * (widen(state) - new) * update * (1.0 - update)
        of_new = g * (1.0 - update) * (1.0 - new * new)
        of_reset = of_new * own_new * reset * (1.0 - reset)
        return (narrow(cat((of_reset, of_update, of_new), 1), state.dtype),
                narrow(cat((of_reset, of_update, of_new * reset), 1), state.dtype),
                narrow(g * update, state.dtype))
