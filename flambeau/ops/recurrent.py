"""Recurrent cells: one step behind its matrix products, or a layer's whole sequence, in one kernel each way.

`projected` is the product of the inputs, `own` that of the last state; gates stand side by side in both.
"""

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.activation import sigmoid
from flambeau.ops.interpose import visible
from flambeau.ops.join import cat, stack
from flambeau.ops.kinds import Composite, Template
from flambeau.ops.mathematics import tanh
from flambeau.ops.loss import same_sizes
from flambeau.ops.elementwise import where
from flambeau.ops.matmul import linear, mm, same_dtype
from flambeau.ops.meta import sizes_only
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.trace import current, unify
from flambeau.ops.view import reshape, slice_, transpose, unsqueeze
from flambeau.runtime import _core
from flambeau.types.dtype import FLOATING, float32, float64, int64

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

    internal = True
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
        if any(x.is_shape_only for x in operands):
            return sizes_only(self, values)
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


# ------------------------------------------------------------------------------ whole sequences
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
KEPT = {"tanh": 0, "relu": 0, "lstm": 5, "gru": 4}      # values of each unit and step that backward needs
GROUP = 16                  # units whose kept values stand together


def check_layer(name, values):
    """The sizes and dtypes of a layer's operands."""
    x, weight_ih, weight_hh, starts, hidden, cell, bias_ih, bias_hh = (
        values[n] for n in RecurrentLayer.operands)
    same_dtype(name, x, weight_ih, weight_hh, hidden, cell, bias_ih, bias_hh)
    if starts.dtype is not int64 or starts.ndim != 1 or hidden.ndim != 2 or x.ndim != 2:
        fail(name, "the operands are not what they should be",
             [starts.dtype, *(tuple(t.shape) for t in (starts, x, hidden))],
             "starts: int64 (steps + 1), input (rows, width) and hidden (batch, hidden)", kind=ShapeError)
    batch, width = hidden.shape
    rows = GATES[values["mode"]] * width
    wanted = [(weight_ih, (rows, x.shape[1])), (weight_hh, (rows, width)), (cell, (batch, width)),
              (bias_ih, (rows,)), (bias_hh, (rows,))]
    for given, shape in wanted:
        if given is not None and not same_sizes(tuple(given.shape), shape):
            fail(name, "sizes do not fit", tuple(given.shape), shape, kind=ShapeError)
    if (cell is None) == (values["mode"] == "lstm") or (bias_ih is None) != (bias_hh is None):
        fail(name, "a cell goes with an LSTM, and one bias with the other", kind=ArgumentError)


@op
class RecurrentLayer(Template):
    """All steps of one layer in one direction, in one kernel.

    input (rows, width): one step after the other; step t has rows starts[t] to starts[t + 1], no more than
    the step before (packed sequences) nor than the batch. weight_ih (gates * hidden, width), weight_hh
    (gates * hidden, hidden), hidden and cell (batch, hidden), biases (gates * hidden). mode: 'tanh', 'relu',
    'lstm' or 'gru'; `reverse` runs from the last step to the first; `fresh` says that the first states are zero.

    Gives output (rows, hidden), the last state of each sequence and, with `keep`, what backward needs; what
    there is none of is empty.
    """

    internal = True
    kind = "scan"
    signature = ("input, weight_ih, weight_hh, starts, hidden, cell=None, bias_ih=None, bias_hh=None, "
                 "mode='lstm', reverse=False, keep=True, fresh=False")
    operands = ("input", "weight_ih", "weight_hh", "starts", "hidden", "cell", "bias_ih", "bias_hh")
    outputs = ("output", "last", "last_cell", "gates", "before")
    dtypes = (float32, float64)
    tolerance = ulps(256)

    def prepare(self, values):
        check_layer(self.name, values)
        return values

    def infer_shape(x, weight_ih, weight_hh, starts, hidden, *others, mode, keep, **attributes):
        count, width, none = x[0], hidden[1], (0,)
        if current() is not None:           # what the plan checks when it runs
            rows = GATES[mode] * width
            pairs = [(weight_ih[1], x[1]), (weight_ih[0], rows), (weight_hh[1], width), (weight_hh[0], rows)]
            for shape in others:
                pairs += zip(shape, hidden if len(shape) == 2 else (rows,))
            for pair in pairs:
                unify(*pair)
        each, lstm = (count, width), mode == "lstm"
        groups = (width + (GROUP - 1)) // GROUP
        kept = (groups * count, KEPT[mode] * GROUP) if keep and KEPT[mode] else none
        return each, hidden, hidden if lstm else none, kept, each if keep else none

    def infer_dtype(x, *others, **attributes):
        return x

    def lower(planner, inputs, outputs, *, mode, reverse, keep, fresh, **attributes):
        named = slots_of(RecurrentLayer, inputs, attributes)
        planner.templates.recurrent.launch_layer(planner, mode, named, outputs, reverse, keep, fresh)

    def derivative(grad, out, x, weight_ih, weight_hh, starts, hidden, cell=None, bias_ih=None, bias_hh=None,
                   *, mode, reverse):
        lstm = mode == "lstm"
        of_given, of_own, of_hidden, of_cell = recurrent_gradient(      # noqa: F821
            grad[0], grad[1], grad[2] if lstm else None, x, weight_ih, weight_hh, starts, hidden, cell,
            bias_ih, bias_hh, out[0], out[3] if KEPT[mode] else None, out[4], mode, reverse)
        if mode != "gru":
            of_own = of_given
        of_weight_hh = recurrent_weight_gradient(of_own, out[4], out[0], hidden, starts,   # noqa: F821
                                                 reverse)
        biases = (None, None) if bias_ih is None else (total(of_given, 0), total(of_own, 0))
        return (mm(of_given, weight_ih), mm(transpose(of_given, 0, 1), x), of_weight_hh, None, of_hidden,
                of_cell if lstm else None, *biases)


@op
class RecurrentGradient(Template):
    """(of projected, of the state's product where that differs, of hidden, of cell) of a RecurrentLayer.

    The kernel reads what the layer kept; the layer's operands are there for derivatives of higher order,
    which run step by step.
    """

    internal = True
    differentiable = False
    kind = "scan"
    operands = ("of_output", "of_last", "of_last_cell", *RecurrentLayer.operands, "output", "gates", "before")
    signature = ", ".join((*operands, "mode", "reverse"))
    outputs = ("of_projected", "of_own", "of_hidden", "of_cell")
    dtypes = (float32, float64)
    tolerance = ulps(256)

    def infer(self, inputs, attrs):
        named = slots_of(self, inputs, attrs)
        dtype, state, mode, none = inputs[0].dtype, tuple(named["hidden"].shape), attrs["mode"], (0,)
        rows = (named["input"].shape[0], GATES[mode] * state[1])
        return [(dtype, s) for s in (rows, rows if mode == "gru" else none, state,
                                     state if mode == "lstm" else none)]

    def recorded(self, values):
        unused = ("output", "gates", "before")
        return self.pack(step_by_step(**{n: v for n, v in values.items() if n not in unused}))

    def eager(self, values):
        return self.recorded(values) if is_recorded(values) else super().eager(values)

    def lower(planner, inputs, outputs, **attrs):
        named = slots_of(RecurrentGradient, inputs, attrs)
        planner.templates.recurrent.launch_gradient(planner, attrs["mode"], named, outputs, attrs["reverse"])


@op
class RecurrentWeightGradient(Template):
    """of_own.T @ before: (gates * hidden, hidden). For derivatives of higher order, `before` is read from the
    layer's output and first state."""

    internal = True
    differentiable = False
    kind = "contraction"
    signature = "of_own, before, output, hidden, starts, reverse"
    operands = ("of_own", "before", "output", "hidden", "starts")
    dtypes = (float32, float64)
    tolerance = ulps(256)

    def infer_shape(of_own, before, *others, **attributes):
        return of_own[1], before[1]

    def recorded(self, values):
        before = before_each_step(values["output"], values["hidden"], values["starts"], values["reverse"])
        return mm(transpose(values["of_own"], 0, 1), before)

    def eager(self, values):
        return self.recorded(values) if is_recorded(values) else super().eager(values)

    def lower(planner, inputs, outputs, **attributes):
        planner.templates.recurrent.launch_weight_gradient(planner, inputs[0], inputs[1], outputs[0])


def is_recorded(values):
    return _core.grad_mode() and any(v.requires_grad for v in values.values() if isinstance(v, _core.Tensor))


def slots_of(operation, inputs, attrs):
    """name -> operand, None where the call gave none."""
    inputs = iter(inputs)
    return {name: None if name in attrs else next(inputs) for name in operation.operands}


@op
class StackedStates(Template):
    """(count, batch, hidden) of two to eight states (batch, hidden): the last ones of a network's layers."""

    internal = True
    kind = "scan"
    operands = ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")
    signature = "s0, s1" + "".join(f", {name}=None" for name in operands[2:])
    dtypes = FLOATING

    def infer_shape(*shapes, **attributes):
        if current() is not None:
            for shape in shapes[1:]:
                unify(shape[0], shapes[0][0])
                unify(shape[1], shapes[0][1])
        return (len(shapes), *shapes[0])

    def infer_dtype(first, *others, **attributes):
        return first

    def lower(planner, inputs, outputs, **attributes):
        out = outputs[0]
        for number, source in enumerate(inputs):
            offset = number * out.strides[0]
            planner.copy(source, planner.window(out, source.shape, out.strides[1:], offset))

    def derivative(grad):
        count, rows, width = grad.shape
        states = reshape(grad, (count * rows, width))
        return tuple(rows_of(states, i * rows, (i + 1) * rows) for i in range(count))


def stacked(states):
    """The states of the layers, one below the other: (layers, batch, hidden)."""
    if len(states) == 1:
        return unsqueeze(states[0], 0)
    return stacked_states(*states) if len(states) <= 8 else stack(states)       # noqa: F821


def recurrent(mode, rows, starts, hidden, cell=None, *, weight_ih, weight_hh, bias_ih=None, bias_hh=None,
              weight_hr=None, reverse=False, fresh=False):
    """A whole layer in one direction: (output, last hidden) or, of an LSTM, (output, last hidden, last cell).

    rows (rows, width) are the inputs, one step after the other as `recurrent_layer` says; half precision is
    computed in float32. weight_hr projects the output of an LSTM, which then goes step by step. `fresh` says that
    hidden and cell are zero: the first step has no product of the state.
    """
    dtype = rows.dtype
    if dtype.itemsize == 2:
        rows, hidden, cell, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr = (
            None if x is None else widen(x)
            for x in (rows, hidden, cell, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr))
    if weight_hr is not None:
        results = _projected_steps(linear(rows, weight_ih, bias_ih), starts.tolist(), hidden, cell, weight_hh,
                                   bias_hh, weight_hr, reverse)
    else:
        operands = (rows, weight_ih, weight_hh, starts, hidden, cell, bias_ih, bias_hh)
        keep = _core.grad_mode() and any(x is not None and x.requires_grad for x in operands)
        results = recurrent_layer(*operands, mode, reverse, keep, fresh)       # noqa: F821
    results = results[:3 if mode == "lstm" else 2]
    return tuple(narrow(x, dtype) for x in results) if dtype.itemsize == 2 else results


@visible
def recurrent_gated(*args, **kwargs):
    """`recurrent` of a GRU, which carries its state on as it is."""
    return recurrent(*args, **kwargs)


@visible
def recurrent_plain(*args, **kwargs):
    """`recurrent` of an RNN or LSTM."""
    return recurrent(*args, **kwargs)


def _projected_steps(projected, bounds, hidden, cell, weight_hh, bias_hh, weight_hr, reverse):
    """The steps of an LSTM with projected outputs."""
    found, order = {}, range(len(bounds) - 1)
    for t in reversed(order) if reverse else order:
        given = rows_of(projected, bounds[t], bounds[t + 1])
        (now, others), (level, other_levels) = (_head(x, given.shape[0]) for x in (hidden, cell))
        raw, level = lstm_gates(given, linear(now, weight_hh, bias_hh), level)           # noqa: F821
        found[t] = linear(raw, weight_hr)
        hidden, cell = _joined(found[t], others), _joined(level, other_levels)
    return cat(tuple(found[t] for t in order), 0), hidden, cell


# ------------------------------------------------------------------------------ derivatives of higher order
def rows_of(x, start, stop):
    return slice_(x, (("slice", start, stop, 1), ("slice", 0, x.shape[1], 1)))


def before_each_step(output, hidden, starts, reverse):
    """The state before each row of `output`."""
    bounds, state, found = starts.tolist(), hidden, {}
    order = range(len(bounds) - 1)
    for t in reversed(order) if reverse else order:
        now = rows_of(output, bounds[t], bounds[t + 1])
        found[t], others = _head(state, now.shape[0])
        state = _joined(now, others)
    return cat(tuple(found[t] for t in order), 0) if found else output


def step_by_step(of_output, of_last, of_last_cell, input, weight_ih, weight_hh, starts, hidden, cell, bias_ih,
                 bias_hh, mode, reverse):
    """The gradients of a layer in ops on the tape: every step forward again, then every step backward."""
    projected, bounds = linear(input, weight_ih, bias_ih), starts.tolist()
    order = list(range(len(bounds) - 1))
    order = order[::-1] if reverse else order
    steps, state = {}, (hidden, cell)
    for t in order:
        given = rows_of(projected, bounds[t], bounds[t + 1])
        state, steps[t] = _forward_step(given, state, weight_hh, bias_hh, mode)
    found, state = {}, (of_last, of_last_cell)
    for t in reversed(order):
        grad = rows_of(of_output, bounds[t], bounds[t + 1])
        state, found[t] = _backward_step(grad, state, steps[t], weight_hh, mode)
    pieces = [cat(tuple(found[t][part] for t in range(len(order))), 0) if order else projected * 0
              for part in range(2 if mode == "gru" else 1)]
    empty = slice_(of_last, (("slice", 0, 0, 1), ("slice", 0, 0, 1)))
    return (pieces[0], pieces[1] if mode == "gru" else empty, state[0], state[1] if mode == "lstm" else empty)


def _head(x, count):
    """The first rows, and the others (None where there are none)."""
    if x is None or count == x.shape[0]:
        return x, None
    return rows_of(x, 0, count), rows_of(x, count, x.shape[0])


def _joined(head, tail):
    return head if tail is None else cat((head, tail), 0)


def _columns(x, count):
    """`count` parts side by side."""
    width = x.shape[1] // count
    return [slice_(x, (("slice", 0, x.shape[0], 1), ("slice", i * width, i * width + width, 1)))
            for i in range(count)]


def _forward_step(given, state, weight, bias, mode):
    """(the next state, what the step's derivative needs)."""
    (hidden, others), (cell, other_cells) = (_head(x, given.shape[0]) for x in state)
    own = linear(hidden, weight, bias)
    if mode == "lstm":
        take, keep, new, give = _columns(given + own, 4)
        values = sigmoid(take), sigmoid(keep), tanh(new), sigmoid(give)
        after = values[1] * cell + values[0] * values[2]
        level = tanh(after)
        return (_joined(values[3] * level, others), _joined(after, other_cells)), (*values, level, cell)
    if mode == "gru":
        given, own = _columns(given, 3), _columns(own, 3)
        reset, update = sigmoid(given[0] + own[0]), sigmoid(given[1] + own[1])
        new = tanh(given[2] + reset * own[2])
        return (_joined(new + update * (hidden - new), others), None), (reset, update, new, own[2], hidden)
    x = given + own
    out = tanh(x) if mode == "tanh" else where(x > 0, x, 0.0)
    return (_joined(out, others), None), (out,)


def _backward_step(grad, state, kept, weight, mode):
    """(gradients of the last state, (of the gates, of the state's product))."""
    (of_hidden, others), (of_cell, other_cells) = (_head(x, grad.shape[0]) for x in state)
    grad = grad + of_hidden
    if mode == "lstm":
        take, keep, new, give, level, cell = kept
        of_cell = of_cell + grad * give * (1.0 - level * level)
        both = cat((of_cell * new * take * (1.0 - take), of_cell * cell * keep * (1.0 - keep),
                    of_cell * take * (1.0 - new * new), grad * level * give * (1.0 - give)), 1)
        return (_joined(mm(both, weight), others), _joined(of_cell * keep, other_cells)), (both, both)
    if mode == "gru":
        reset, update, new, own, hidden = kept
        of_new = grad * (1.0 - update) * (1.0 - new * new)
        of_update = grad * (hidden - new) * update * (1.0 - update)
        of_reset = of_new * own * reset * (1.0 - reset)
        of_given = cat((of_reset, of_update, of_new), 1)
        of_own = cat((of_reset, of_update, of_new * reset), 1)
        return (_joined(grad * update + mm(of_own, weight), others), None), (of_given, of_own)
    out, = kept
    slope = grad * (1.0 - out * out) if mode == "tanh" else where(out > 0, grad, 0.0)
    return (_joined(mm(slope, weight), others), None), (slope, slope)
