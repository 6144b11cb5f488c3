"""Sums over all alignments of a label sequence with steps in time (connectionist temporal classification).

The states of an example are its labels with blanks between them and around. From one step to the next a state
stays, moves on by one, or by two where `skips` holds for the state that it arrives at. In logarithms:

    alpha[t + 1, s] = emitted[t, s] + log of the sum of exp of alpha[t, s], alpha[t, s - 1], maybe alpha[t, s - 2]

alpha[0] is 0 in front of the first state. Rows of alpha have two places more, in front of the states; rows of
labels, skips and beta have them behind. PARAMS: steps, batch, classes, states. One step of an extent is an example.
"""

import math

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, int64

PARAMS = ("steps", "batch", "classes", "states")


def alignment_sums(dtype, name="alignment_sums"):
    """Buffers: log_probs (steps, batch, classes), labels and skips (batch, states + 2), counts (batch, 2): how many
    steps, and how many states less one; loss (batch), alpha (steps + 1, batch, states + 2)."""
    walk = _Walk(dtype)
    b = walk.b
    with b.loop("n", L.BEGIN, L.END) as n:
        length, last = walk.counts(n)
        first = walk.row(0, n)
        walk.fill("alpha", first, walk.width, -math.inf)
        b.store("alpha", I.add(first, 1), walk.number(0.0))
        line = b.let(I.mul(n, walk.width))
        with b.loop("t", 0, length) as t:
            before, after, scores = (b.let(place) for place in (walk.row(t, n), walk.row(I.add(t, 1), n),
                                                                walk.scores(t, n)))
            walk.fill("alpha", after, 2, -math.inf)
            with b.loop("s", 0, walk.states, kind="vector") as s:
                two, one, stay = (b.load("alpha", b.let(I.add(before, s, i)), dtype) for i in range(3))
                at = b.let(I.add(line, s))
                total = walk.log_sum(stay, one, walk.allowed(at, two))
                b.store("alpha", b.let(I.add(after, s, 2)), b.add(total, walk.emitted(scores, at)))
        end = b.let(I.add(walk.row(length, n), last))
        blank, label = (b.load("alpha", I.add(end, i), dtype) for i in (2, 1))
        b.store("loss", n, b.neg(walk.log_sum(blank, label)))
    buffers = (*walk.operands, L.Buffer("loss", dtype, "w"), L.Buffer("alpha", dtype, "rw"))
    return L.Kernel(name, buffers, PARAMS, walk.batch, b.body())


def alignment_gradient(dtype, name="alignment_gradient"):
    """The gradient of the scores whose log_softmax the log_probs are: exp(log_probs) less the share of the alignments
    that pass through a class at a step. Buffers: those of `alignment_sums` after `grad` (batch), then beta (2, batch,
    states + 2) and chances (batch, states) to work with, and output (steps, batch, classes)."""
    walk = _Walk(dtype)
    b = walk.b
    with b.loop("n", L.BEGIN, L.END) as n:
        length, last = walk.counts(n)
        with b.loop("unused", length, walk.steps) as t:
            walk.fill("output", b.let(walk.scores(t, n)), walk.classes, 0.0)
        of_loss, loss = b.load("grad", n, dtype), b.load("loss", n, dtype)
        with b.loop("back", 0, length) as back:
            walk.step_back(n, b.let(I.sub(I.sub(length, 1), back)), back, last, of_loss, loss)
    buffers = (L.Buffer("grad", dtype, "r"), *walk.operands, L.Buffer("loss", dtype, "r"), L.Buffer("alpha", dtype, "r"),
               L.Buffer("beta", dtype, "rw"), L.Buffer("chances", dtype, "rw"), L.Buffer("output", dtype, "rw"))
    return L.Kernel(name, buffers, PARAMS, walk.batch, b.body())


class _Walk:

    def __init__(self, dtype):
        self.dtype, self.b = dtype, L.Builder("c")
        self.steps, self.batch, self.classes, self.states = map(I.index, PARAMS)
        self.width = self.b.let(I.add(self.states, 2))
        self.operands = (L.Buffer("log_probs", dtype, "r"), L.Buffer("labels", int64, "r"), L.Buffer("skips", bool_, "r"),
                         L.Buffer("counts", int64, "r"))

    def number(self, value):
        return self.b.const(value, self.dtype)

    def counts(self, n):
        return (self.b.load("counts", I.add(I.mul(n, 2), i), int64) for i in range(2))

    def row(self, t, n):
        """The place of a row of alpha or beta."""
        return I.mul(I.add(I.mul(t, self.batch), n), self.width)

    def scores(self, t, n):
        """The place of a row of log_probs."""
        return I.mul(I.add(I.mul(t, self.batch), n), self.classes)

    def fill(self, buffer, place, count, value):
        with self.b.loop(self.b.fresh("fill"), 0, count) as i:
            self.b.store(buffer, I.add(place, i), self.number(value))

    def emitted(self, scores, at):
        """The log-probability of the label at a place of `labels`."""
        b = self.b
        return b.load("log_probs", b.let(I.add(scores, b.load("labels", at, int64))), self.dtype)

    def allowed(self, at, value):
        """The value, or the logarithm of 0, as the place of `skips` says."""
        return self.b.select(self.b.load("skips", at, bool_), value, self.number(-math.inf))

    def log_sum(self, *values):
        b, top = self.b, values[0]
        for value in values[1:]:
            top = b.max(top, value)
        top = b.select(b.eq(top, self.number(-math.inf)), self.number(0.0), top)
        total = None
        for value in values:
            part = b.call("exp", b.sub(value, top))
            total = part if total is None else b.add(total, part)
        return b.add(b.call("log", total), top)

    def step_back(self, n, t, back, last, of_loss, loss):
        """Beta without what step t emits, from it the chance of each state, and the row of the gradient."""
        b, dtype = self.b, self.dtype
        line, scores, forward = (b.let(p) for p in (I.mul(n, self.width), self.scores(t, n), self.row(I.add(t, 1), n)))
        now, then = (b.let(self.row(I.rem(I.add(back, i), 2), n)) for i in (0, 1))
        chances = b.let(I.mul(n, self.states))
        at_end = b.let(L.apply("eq", back, L.as_index(0)))
        self.fill("beta", b.let(I.add(now, self.states)), 2, -math.inf)
        with b.loop("s", 0, self.states, kind="vector") as s:
            stay, one, two = (b.load("beta", b.let(I.add(then, s, i)), dtype) for i in range(3))
            total = self.log_sum(stay, one, self.allowed(b.let(I.add(line, s, 2)), two))
            final = b.or_(b.eq(s, last), b.eq(b.let(I.add(s, 1)), last))
            start = b.select(final, self.number(0.0), self.number(-math.inf))
            total = b.select(at_end, start, total)
            b.store("beta", b.let(I.add(now, s)), b.add(total, self.emitted(scores, b.let(I.add(line, s)))))
            along = b.add(b.load("alpha", b.let(I.add(forward, s, 2)), dtype), total)
            b.store("chances", b.let(I.add(chances, s)), b.mul(b.call("exp", b.add(along, loss)), of_loss))
        silent = b.eq(of_loss, self.number(0.0))
        nothing = b.mul(loss, self.number(0.0))                         # NaN where the loss is infinite
        with b.loop("c", 0, self.classes, kind="vector") as c:
            place = b.let(I.add(scores, c))
            value = b.mul(b.add(b.call("exp", b.load("log_probs", place, dtype)), nothing), of_loss)
            b.store("output", place, b.select(silent, self.number(0.0), value))
        with b.branch(b.not_(silent)), b.loop("passed", 0, I.add(last, 1)) as s:
            place = b.let(I.add(scores, b.load("labels", I.add(line, s), int64)))
            old = b.load("output", place, dtype)
            b.store("output", place, b.sub(old, b.load("chances", I.add(chances, s), dtype)))


# ---------------------------------------------------------------------------------------------- into a plan
def launch(planner, inputs, outputs):
    """inputs: log_probs, labels, skips, counts; outputs: loss and alpha, or, where `grad` comes first and loss and alpha
    last among the inputs, the gradient."""
    inputs = [planner.dense(x) for x in inputs]
    backward = len(inputs) > 4
    scores, labels = inputs[backward], inputs[1 + backward]
    steps, batch, classes = scores.shape
    params = dict(zip(PARAMS, (steps, batch, classes, labels.shape[1] - 2)))
    work = steps * batch * (params["states"] * 64 + classes * 16 + 32)
    dtype = scores.dtype
    if not backward:
        return planner.launch_template(alignment_sums(dtype), [*inputs, *outputs], params, work)
    rooms = [planner.recipe.buffer(dtype, (rows * batch, labels.shape[1])) for rows in (2, 1)]
    planner.launch_template(alignment_gradient(dtype), [*inputs, *rooms, *outputs], params, work)
