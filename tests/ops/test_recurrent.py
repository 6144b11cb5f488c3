"""Recurrent cells and layers (values and gradients of one step: test_every_op)."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import ops
from flambeau.compiler import jit, llvm, recurrent, recurrent_pack, target
from flambeau.compiler.expand import expand_math
from flambeau.compiler.vectorize import vectorize
from flambeau.ir import loops_interpret, loops_text
from flambeau.ir.loops_verify import verify
from flambeau.ops.recurrent import GATES, GROUP, KEPT, recurrent_layer
from flambeau.runtime._core import get_num_threads, set_num_threads
from flambeau.tensor import grad as gradient
from flambeau.testing import oracle
from flambeau.types.dtype import float32, float64

MODES = ("lstm", "gru", "tanh", "relu")


def test_sizes():
    with pytest.raises(RuntimeError, match="gates and state do not fit"):
        ops.lstm_gates(fl.zeros(2, 12), fl.zeros(2, 12), fl.zeros(2, 4))
    with pytest.raises(RuntimeError, match="gates and state do not fit"):
        ops.gru_gates(fl.zeros(2, 12), fl.zeros(3, 12), fl.zeros(2, 4))
    assert ops.gru_gates(fl.zeros(2, 12), fl.zeros(2, 12), fl.ones(2, 4)).tolist() == [[0.5] * 4] * 2


# ------------------------------------------------------------------------------ whole sequences
def logistic(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5


def plain(mode, x, weight_ih, weight_hh, starts, hidden, cell, bias_ih, bias_hh, reverse):
    """(output, last hidden, last cell), step by step in NumPy."""
    output, hidden = np.zeros((len(x), hidden.shape[1])), hidden.copy()
    cell = None if cell is None else cell.copy()
    order = range(len(starts) - 1)
    for t in reversed(order) if reverse else order:
        rows, count = slice(starts[t], starts[t + 1]), starts[t + 1] - starts[t]
        given = x[rows] @ weight_ih.T + (0 if bias_ih is None else bias_ih)
        own = hidden[:count] @ weight_hh.T + (0 if bias_hh is None else bias_hh)
        if mode == "lstm":
            take, keep, new, give = np.split(given + own, 4, 1)
            cell[:count] = logistic(keep) * cell[:count] + logistic(take) * np.tanh(new)
            hidden[:count] = logistic(give) * np.tanh(cell[:count])
        elif mode == "gru":
            (reset, update, new), own = np.split(given, 3, 1), np.split(own, 3, 1)
            update = logistic(update + own[1])
            new = np.tanh(new + logistic(reset + own[0]) * own[2])
            hidden[:count] = (1 - update) * new + update * hidden[:count]
        else:
            hidden[:count] = np.tanh(given + own) if mode == "tanh" else np.maximum(given + own, 0)
        output[rows] = hidden[:count]
    return output, hidden, cell


def operands(mode, width, hidden, sizes, bias=True, seed=0):
    """Arrays for `plain` after the mode, with steps of `sizes` rows."""
    rng, starts, rows = np.random.default_rng(seed), np.cumsum([0, *sizes]), GATES[mode] * hidden
    scale = (width + hidden) ** -0.5

    def draw(*shape):
        return rng.uniform(-1, 1, shape)

    biases = (draw(rows), draw(rows)) if bias else (None, None)
    return (draw(starts[-1], width), 2 * scale * draw(rows, width), 2 * scale * draw(rows, hidden), starts,
            draw(sizes[0], hidden), draw(sizes[0], hidden) if mode == "lstm" else None, *biases)


def tensors(arrays, dtype=float64):
    return [None if a is None else fl.tensor(a) if a.dtype.kind == "i" else fl.tensor(a, dtype=dtype)
            for a in arrays]


def layer(mode, given, reverse=False, keep=True):
    return recurrent_layer(*given, mode, reverse, keep)


SIZES = [(3, 5, (3, 3, 2, 1)), (17, 17, (7, 7)), (1, 1, (1,)), (65, 33, (25,) * 9 + (13,)), (2, 130, (5, 1)),
         (4, 20, (2,) * 19), (9, 18, (24, 24, 3)), (9, 18, (26, 1))]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_layer(mode, reverse):
    for (width, hidden, sizes), (dtype, tolerance) in zip(
            SIZES * 2, [(float64, 1e-11)] * len(SIZES) + [(float32, 2e-5)] * len(SIZES)):
        arrays = operands(mode, width, hidden, sizes, bias=width != 17)
        for keep in (False, True):
            got = layer(mode, tensors(arrays, dtype), reverse, keep)
            for value, want in zip(got, plain(mode, *arrays, reverse)):
                if want is not None:
                    np.testing.assert_allclose(value.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_a_fresh_layer_is_one_with_zeros(mode):
    for batch, reverse in ((1, False), (5, True), (27, False)):
        arrays = list(operands(mode, 6, 19, (batch, batch, 1)))
        arrays[4:6] = [None if a is None else np.zeros_like(a) for a in arrays[4:6]]
        given = tensors(arrays, float32)
        for keep in (False, True):
            got, want = (recurrent_layer(*given, mode, reverse, keep, fresh) for fresh in (True, False))
            assert [t.numpy().tobytes() for t in got[:3]] == [t.numpy().tobytes() for t in want[:3]]
            assert got[4].numpy().tobytes() == want[4].numpy().tobytes()


def test_cells_are_exact_to_a_few_units():
    """One step of an LSTM whose sums are the inputs: the error of gates, cell and output in float32."""
    rng = np.random.default_rng(3)
    sums, cell = rng.uniform(-12, 12, (400, 64)).astype("float32"), rng.uniform(-2, 2, (400, 16)).astype("float32")
    arrays = [sums, np.eye(64), np.zeros((64, 16)), np.array([0, 400]), np.zeros((400, 16)), cell, None, None]
    output, _, after, *_ = layer("lstm", tensors(arrays, float32))
    exact = [a if a is None or a.dtype.kind == "i" else a.astype("float64") for a in arrays]
    want = plain("lstm", *exact, False)
    assert np.abs(after.numpy() - want[2]).max() < 6e-7 and np.abs(output.numpy() - want[0]).max() < 5e-7
    small = [sums * 1e-4, *arrays[1:]]
    small[5] = cell * 0
    exact = [a if a is None or a.dtype.kind == "i" else a.astype("float64") for a in small]
    np.testing.assert_allclose(layer("lstm", tensors(small, float32))[0].numpy(), plain("lstm", *exact, False)[0],
                               rtol=1e-6, atol=0)


def test_layers_of_no_rows():
    arrays = [np.zeros((0, 3)), np.ones((16, 3)), np.ones((16, 4)), np.array([0, 0, 0]), np.zeros((0, 4)),
              np.zeros((0, 4)), None, None]
    output, last, cell, *_ = layer("lstm", tensors(arrays))
    assert output.shape == last.shape == cell.shape == (0, 4)


def test_large_arguments_saturate_and_nan_stays_in_its_row():
    arrays = list(operands("lstm", 3, 4, (3, 3)))
    arrays[0] = arrays[0] * 1e4
    got, want = layer("lstm", tensors(arrays, float32))[0].numpy(), plain("lstm", *arrays, False)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    arrays[0][1] = np.nan
    got = layer("lstm", tensors(arrays, float32))[0].numpy()
    assert np.isnan(got[[1, 4]]).all() and not np.isnan(got[[0, 2, 3, 5]]).any()


def test_sizes_that_do_not_fit_are_refused_also_later():
    arrays = operands("gru", 3, 4, (3, 2))
    given = tensors(arrays)
    layer("gru", given)
    for position, shape in ((1, (12, 4)), (2, (9, 4)), (4, (3, 5)), (6, (11,))):
        wrong = list(given)
        wrong[position] = fl.zeros(shape, dtype=float64)
        with pytest.raises(RuntimeError, match="sizes do not fit"):
            layer("gru", wrong)


# ------------------------------------------------------------------------------ derivatives
def directional(mode, arrays, reverse, weights, places):
    """(function of the arrays at `places` giving one number, its gradient there)."""
    def total(given):
        results = layer(mode, given, reverse)[:len(weights)]
        return sum((r * w).sum() for r, w in zip(results, weights))

    def of(values, **how):
        given = tensors(arrays)
        for place, value in zip(places, values):
            given[place] = fl.tensor(value).requires_grad_()
        return gradient(total(given), [given[p] for p in places], **how), [given[p] for p in places]

    def number(values):
        given = tensors(arrays)
        for place, value in zip(places, values):
            given[place] = fl.tensor(value)
        return total(given).item()

    return number, of


def dot(values, directions):
    return sum(float((np.asarray(v) * d).sum()) for v, d in zip(values, directions))


@pytest.mark.parametrize("mode", MODES)
def test_first_and_second_derivative(mode):
    """Against central differences in a random direction; the kernel and the steps in ops agree."""
    for reverse, (width, hidden, sizes) in zip((False, True, False), SIZES[:3]):
        arrays, rng = operands(mode, width, hidden, sizes), np.random.default_rng(1)
        places = [i for i, a in enumerate(arrays) if a is not None and a.dtype.kind == "f"]
        rows, batch = sum(sizes), sizes[0]
        shapes = [(rows, hidden), (batch, hidden), (batch, hidden)][:3 if mode == "lstm" else 2]
        weights = [fl.tensor(rng.uniform(-1, 1, s)) for s in shapes]
        number, of = directional(mode, arrays, reverse, weights, places)
        values = [arrays[p] for p in places]
        first, second = ([rng.uniform(-1, 1, v.shape) for v in values] for _ in range(2))
        shifted = [[v + sign * 1e-6 * d for v, d in zip(values, first)] for sign in (1, -1)]
        got = [g.numpy() for g in of(values)[0]]
        slope = (number(shifted[0]) - number(shifted[1])) / 2e-6
        assert dot(got, first) == pytest.approx(slope, rel=1e-5, abs=1e-6)
        steps, leaves = of(values, create_graph=True)
        for a, b in zip(got, steps):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-9, atol=1e-11)
        slope = sum((g * fl.tensor(d)).sum() for g, d in zip(steps, second))
        again = gradient(slope, leaves, allow_unused=True)
        again = [np.zeros(v.shape) if g is None else g.numpy() for g, v in zip(again, values)]
        up, down = (dot([g.numpy() for g in of(s)[0]], second) for s in shifted)
        assert dot(again, first) == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-5)


def test_gradients_add_up_in_both_biases():
    arrays = operands("tanh", 3, 4, (2, 2))
    given = tensors(arrays)
    biases = [b.requires_grad_() for b in given[-2:]]
    for _ in range(2):
        layer("tanh", given)[0].sum().backward()
    once = gradient(layer("tanh", given)[0].sum(), biases)
    for bias, want in zip(biases, once):
        np.testing.assert_allclose(bias.grad.numpy(), 2 * want.numpy(), rtol=1e-12)


# ------------------------------------------------------------------------------ the same bits in every way
@pytest.mark.parametrize("mode", MODES)
def test_threads_keep_and_compiled_change_no_bit(mode):
    given = tensors(operands(mode, 9, 21, (29, 29, 11)), float32)
    present = [t for t in given if t is not None]
    before, results = get_num_threads(), []

    def run(*some):
        some = iter(some)
        return list(layer(mode, [None if t is None else next(some) for t in given])[:2])

    for threads in (1, 2, 3):
        set_num_threads(threads)
        weight = given[2].detach().requires_grad_()
        output = layer(mode, [*given[:2], weight, *given[3:]])
        slope, = gradient(output[0].square().sum(), [weight])
        results.append([t.detach().numpy().tobytes() for t in (output[0], output[1], slope)])
    set_num_threads(before)
    assert results[0] == results[1] == results[2]
    alone = layer(mode, given, keep=False)
    assert [t.numpy().tobytes() for t in alone[:2]] == results[0][:2]
    _, compiled = oracle.compile_function(run, present)
    assert [t.numpy().tobytes() for t in compiled(*present)] == results[0][:2]


def packed(weight, plan, gates, hidden):
    """What `pack_kernel` writes."""
    depth, panels = weight.shape[1] if gates else weight.shape[0], -(-hidden // (plan.units * plan.lanes))
    out = np.zeros((panels, depth, plan.units, max(gates, 1), plan.lanes), weight.dtype)
    for unit in range(hidden):
        panel, rest = divmod(unit, plan.units * plan.lanes)
        for gate in range(max(gates, 1)):
            column = weight[gate * hidden + unit] if gates else weight[:, unit]
            out[panel, :, rest // plan.lanes, gate, rest % plan.lanes] = column
    return out.reshape(-1)


@pytest.mark.parametrize("mode, hidden", [("lstm", 5), ("gru", 18), ("tanh", 3), ("relu", 70)])
def test_interpreted(mode, hidden):
    """The interpreter, on rows in other pieces, gives the bits of the native kernels, packing included."""
    arrays = operands(mode, 3, hidden, (3, 3, 1))
    given = tensors(arrays, float32)
    x, weight_ih, weight_hh, starts, state, cell, bias_ih, bias_hh = (
        None if t is None else t.numpy() for t in given)
    plan, rows = recurrent.blocking(float32, GATES[mode]), len(x)

    def room(*shape):
        return np.zeros(shape, "float32")

    panels = [np.concatenate([packed(w, plan, GATES[mode], hidden)] * 2) for w in (weight_ih, weight_hh)]
    memory = {"weight_ih": weight_ih, "weight_hh": weight_hh, "input": x, "starts": starts, "state": state,
              "cell": cell, "packed_input": np.zeros_like(panels[0]), "packed": np.zeros_like(panels[1]),
              "bias_ih": bias_ih, "bias_hh": bias_hh, "output": room(rows, hidden), "last": room(3, hidden),
              "last_cell": room(3, hidden), "before": room(rows, hidden),
              "gates": room(-(-hidden // GROUP), rows, KEPT[mode], GROUP),
              "projected": room(recurrent.scratch_size(3, hidden, plan))}
    kernel = recurrent.layer_kernel(mode, float32, keep=True)
    kernel = expand_math(vectorize(verify(kernel)))
    flat = {b.name: memory[b.name].reshape(-1) for b in kernel.buffers}
    for begin, end in ((2, 3), (0, 2)):
        loops_interpret.run(kernel, flat, {"batch": 3, "steps": 3, "hidden": hidden, "width": 3}, begin, end)
    for name, want in zip(("packed_input", "packed"), panels):
        np.testing.assert_array_equal(memory[name], want)
    for name, got in zip(("output", "last", "last_cell", "gates", "before"), layer(mode, given)):
        if got.numel():
            got, want = got.numpy().reshape(memory[name].shape), memory[name]
            if name == "gates" and hidden % GROUP:      # nothing is written behind the last unit
                np.testing.assert_array_equal(got[-1, ..., :hidden % GROUP], want[-1, ..., :hidden % GROUP])
                got, want = got[:-1], want[:-1]
            np.testing.assert_array_equal(want, got, err_msg=name)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_every_target_has_its_text(name):
    chosen = target.by_name(name)
    kernels = [recurrent.layer_kernel("lstm", float32, keep=True, target=chosen),
               recurrent.gradient_kernel("gru", float64, reverse=True, target=chosen),
               recurrent_pack.pack_kernel(float32, recurrent.blocking(float32, 3, chosen), 3)]
    for kernel in kernels:
        text = loops_text.show(kernel)
        assert loops_text.show(loops_text.parse(text)) == text
        assert "fma" in text or kernel is kernels[2]
        lowered = expand_math(vectorize(verify(kernel)))
        if name in ("avx2", "aarch64") and kernel is kernels[0]:
            assert "fm" in jit.assembly(llvm.emit(lowered, chosen), chosen)
        else:
            llvm.emit(lowered, chosen)
