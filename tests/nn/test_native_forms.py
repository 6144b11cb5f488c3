"""The forms directly under the package: flags for `training`, numbers for names, flat lists of parameters."""

import numpy
import pytest

import flambeau as fl
from flambeau.nn import functional as F

RNG = numpy.random.default_rng(5)


def draw(*shape):
    return fl.from_numpy(RNG.normal(size=shape).astype("float32"))


def close(got, want, tolerance=1e-5):
    assert got.shape == want.shape and (got - want).abs().max().item() < tolerance


# ---------------------------------------------------------------------------------- dropout
@pytest.mark.parametrize("name", ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"])
def test_dropouts(name):
    function, x = getattr(fl, name), draw(40, 30, 8)
    assert function(x, 0.5, False) is x and function(x, 0.0, True) is x
    assert (function(x, 1.0, True) == 0).all()
    if name.startswith("feature"):
        whole = function(fl.ones(40, 30, 8), 0.4, True)
        assert (whole.amax(2) == whole.amin(2)).all() and len(
            whole.unique()
        ) == 2  # channels dropped as a whole
    if name == "dropout":
        out = function(x, 0.4, True)
        kept = out != 0
        assert 0.5 < kept.float().mean() < 0.7
        close(out[kept], (x / 0.6)[kept])
    for p in (-0.1, 1.5):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            function(x, p, True)
    y = x.clone()
    assert getattr(fl, name + "_")(y, 0.9, True) is y and (y != x).any()
    assert getattr(fl, name + "_")(y, 0.9, False) is y


def test_native_dropout_gives_its_mask():
    x = fl.ones(1000)
    out, mask = fl.native_dropout(x, 0.25, True)
    assert mask.dtype is fl.bool and out[mask].sub(4 / 3).abs().max() < 1e-6 and (out[~mask] == 0).all()
    assert 650 < mask.sum() < 850
    out, mask = fl.native_dropout(x, 0.25, False)
    assert (out == x).all() and mask.all()


def test_rrelu():
    x = draw(50)
    close(fl.rrelu(x, 0.1, 0.3, False), F.leaky_relu(x, 0.2))
    y = x.clone()
    assert fl.rrelu_(y, 0.1, 0.3, True) is y
    share = (y / x)[x < 0]
    assert share.min() >= 0.1 and share.max() <= 0.3


# ---------------------------------------------------------------------------------- losses
LOSSES = {
    "kl_div": lambda: ((draw(4, 5), draw(4, 5).abs()), {}),
    "binary_cross_entropy_with_logits": lambda: ((draw(4, 5), draw(4, 5).sigmoid()), {}),
    "cosine_embedding_loss": lambda: (
        (draw(4, 5), draw(4, 5), fl.tensor([1.0, -1.0, 1.0, -1.0])),
        {"margin": 0.2},
    ),
    "hinge_embedding_loss": lambda: ((draw(4), fl.tensor([1.0, -1.0, 1.0, -1.0])), {"margin": 0.7}),
    "margin_ranking_loss": lambda: ((draw(4), draw(4), fl.tensor([1.0, -1.0, 1.0, -1.0])), {"margin": 0.1}),
    "triplet_margin_loss": lambda: ((draw(4, 5), draw(4, 5), draw(4, 5)), {"margin": 0.5, "swap": True}),
    "poisson_nll_loss": lambda: (
        (draw(4, 5), draw(4, 5).abs()),
        {"log_input": True, "full": True, "eps": 1e-8},
    ),
    "ctc_loss": lambda: ((draw(6, 2, 4).log_softmax(2), fl.tensor([[1, 2], [3, 1]]), [6, 5], [2, 1]), {}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_take_their_reduction_by_number(name):
    operands, options = LOSSES[name]()
    for number, reduction in enumerate(("none", "mean", "sum")):
        close(
            getattr(fl, name)(*operands, **options, reduction=number),
            getattr(F, name)(*operands, **options, reduction=reduction),
        )
    with pytest.raises(RuntimeError, match="not a reduction"):
        getattr(fl, name)(*operands, **options, reduction=3)


# ---------------------------------------------------------------------------------- tables, images
@pytest.mark.parametrize("mode, name", [(0, "sum"), (1, "mean"), (2, "max")])
def test_embedding_bag(mode, name):
    table, index, offsets = draw(10, 3), fl.tensor([1, 2, 4, 5, 4, 3, 2, 9]), fl.tensor([0, 4, 4])
    out, bag, sizes, rows = fl.embedding_bag(table, index, offsets, mode=mode)
    close(out, F.embedding_bag(index, table, offsets, mode=name))
    assert bag.tolist() == [0] * 4 + [2] * 4 and sizes.tolist() == [4, 0, 4]
    if name == "max":
        want = numpy.zeros((3, 3), int)
        for i, chosen in ((0, [1, 2, 4, 5]), (2, [4, 3, 2, 9])):
            want[i] = numpy.array(chosen)[table.numpy()[chosen].argmax(0)]
        assert rows.tolist() == want.tolist()


def test_embedding_renorm():
    table = draw(5, 3) * 4
    before = table.clone()
    assert fl.embedding_renorm_(table, fl.tensor([1, 3]), 1.0, 2.0) is table
    assert (table[[0, 2, 4]] == before[[0, 2, 4]]).all() and table[[1, 3]].norm(dim=1).max() <= 1.0001


@pytest.mark.parametrize("rank", [2, 3])
def test_grid_samplers(rank):
    image, grid = draw(2, 3, *(5, 6, 4)[:rank]), draw(2, *(4, 3, 3)[:rank], rank) * 0.7
    for i, mode in enumerate(("bilinear", "nearest", "bicubic")[: 4 - rank]):
        for j, outside in enumerate(("zeros", "border", "reflection")):
            want = F.grid_sample(image, grid, mode, outside, True)
            close(fl.grid_sampler(image, grid, i, j, True), want)
            close(getattr(fl, f"grid_sampler_{rank}d")(image, grid, i, j, True), want)
    with pytest.raises(RuntimeError):
        getattr(fl, f"grid_sampler_{5 - rank}d")(image, grid, 0, 0, True)
    theta = draw(2, rank, rank + 1)
    close(
        fl.affine_grid_generator(theta, (2, 3, *(5, 6, 4)[:rank]), False),
        F.affine_grid(theta, (2, 3, *(5, 6, 4)[:rank]), align_corners=False),
    )


# ---------------------------------------------------------------------------------- recurrent networks
NETWORKS = {
    "lstm": fl.nn.LSTM,
    "gru": fl.nn.GRU,
    "rnn_tanh": fl.nn.RNN,
    "rnn_relu": lambda *a, **k: fl.nn.RNN(*a, nonlinearity="relu", **k),
}


@pytest.mark.parametrize(
    "layers, both, bias, batch_first",
    [(1, False, True, False), (2, True, True, True), (1, True, False, False)],
)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_those_of_the_modules(name, layers, both, bias, batch_first):
    module = NETWORKS[name](3, 4, layers, bias=bias, batch_first=batch_first, bidirectional=both)
    params, x = module._flat_weights, draw(6, 5, 3)
    start = [draw(layers * (2 if both else 1), 6 if batch_first else 5, 4) for _ in range(2)]
    state = tuple(start) if name == "lstm" else start[0]
    want, last = module(x, state)
    got = getattr(fl, name)(x, state, params, bias, layers, 0.0, False, both, batch_first)
    close(got[0], want)
    for mine, theirs in zip(got[1:], last if name == "lstm" else (last,), strict=True):
        close(mine, theirs)
    got[0].sum().backward()
    assert all(p.grad is not None for p in params)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_packed_rows(name):
    module = NETWORKS[name](3, 4, 2, bidirectional=True)
    packed = fl.nn.utils.rnn.pack_sequence([draw(3, 3), draw(2, 3), draw(1, 3)])
    zeros = fl.zeros(4, 3, 4)
    want, last = module(packed)
    got = getattr(fl, name)(
        packed.data,
        packed.batch_sizes,
        (zeros, zeros) if name == "lstm" else zeros,
        module._flat_weights,
        True,
        2,
        0.0,
        False,
        True,
    )
    close(got[0], want.data)
    close(got[1], last[0] if name == "lstm" else last)


@pytest.mark.parametrize("name", NETWORKS)
def test_cells_are_those_of_the_modules(name):
    kinds = {
        "lstm": fl.nn.LSTMCell,
        "gru": fl.nn.GRUCell,
        "rnn_tanh": fl.nn.RNNCell,
        "rnn_relu": lambda *a: fl.nn.RNNCell(*a, nonlinearity="relu"),
    }
    cell, x, hidden = kinds[name](3, 4), draw(5, 3), draw(5, 4)
    state = (hidden, draw(5, 4)) if name == "lstm" else hidden
    got = getattr(fl, name + "_cell")(x, state, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    for mine, theirs in zip(
        got if name == "lstm" else (got,), cell(x, state) if name == "lstm" else (cell(x, state),)
    ):
        close(mine, theirs)


def test_a_wrong_number_of_parameters_is_refused():
    with pytest.raises(RuntimeError, match="number of parameters"):
        fl.gru(
            draw(6, 5, 3), draw(1, 5, 4), fl.nn.GRU(3, 4)._flat_weights[:3], True, 1, 0.0, False, False, False
        )


# ---------------------------------------------------------------------------------- out=
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("gelu", ()),
        ("hardshrink", (0.3,)),
        ("softshrink", (0.3,)),
        ("softplus", ()),
        ("logsigmoid", ()),
        ("avg_pool2d", (2,)),
        ("avg_pool3d", (2,)),
        ("linear", (fl.ones(3, 8),)),
    ],
)
def test_functions_write_into_out(name, arguments):
    function, x = getattr(F, name), draw(2, 3, 8, 8) if name != "avg_pool3d" else draw(2, 3, 8, 8, 8)
    want = function(x, *arguments)
    out = fl.empty(want.shape)
    assert function(x, *arguments, out=out) is out and (out == want).all()


def test_native_batch_norm_writes_into_out():
    x = draw(6, 3, 4)
    arguments = (fl.ones(3), fl.zeros(3), fl.zeros(3), fl.ones(3), True, 0.1, 1e-5)
    want = fl.native_batch_norm(x, *[a.clone() if isinstance(a, fl.Tensor) else a for a in arguments])
    out = tuple(fl.empty(w.shape) for w in want)
    fl.native_batch_norm(x, *arguments, out=out)
    for mine, theirs in zip(out, want, strict=True):
        assert (mine == theirs).all()
