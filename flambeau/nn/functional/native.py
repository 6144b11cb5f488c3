"""The forms that stand directly under `torch`: flags in place of `training`, numbers in place of names.

Reductions are 0 (none), 1 (mean) or 2 (sum); a recurrent network takes its parameters as a flat list. Most
programs call the functions of `nn.functional` instead, which these hand on to.
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.nn.functional import activations, ctc, dropouts, embeddings, images, losses
from flambeau.ops.out import with_out
from flambeau.ops.recurrent import recurrent, stacked
from flambeau.ops.write import assign, check_write
from flambeau.ops.spec import REGISTRY
from flambeau.tensor import arange, cat, empty, empty_like, full, tensor, zeros
from flambeau.types.dtype import bool_, int64

REDUCTIONS = ("none", "mean", "sum")
BAG_MODES = ("sum", "mean", "max")
SAMPLING = ("bilinear", "nearest", "bicubic")
OUTSIDE = ("zeros", "border", "reflection")


def _named(name, number, names, what="reduction"):
    """The name that a number stands for."""
    if not isinstance(number, int) or not 0 <= number < len(names):
        fail(
            name,
            f"{number!r} is not a {what}",
            got=number,
            want=", ".join(f"{i} ({n})" for i, n in enumerate(names)),
        )
    return names[number]


# ---------------------------------------------------------------------------------- dropout
def _check(name, p):
    if not 0 <= p <= 1:
        fail(name, f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p, train):
    """With `train` each element is 0 with probability `p`, else divided by 1 - p."""
    _check("dropout", p)
    return dropouts.dropout(input, p, train)


def feature_dropout(input, p, train):
    """`dropout` of whole channels: (batch, channels, ...)."""
    _check("feature_dropout", p)
    if not train or p == 0:
        return input
    if input.dim() < 2:
        fail(
            "feature_dropout",
            "Feature dropout requires at least 2 dimensions in the input",
            tuple(input.shape),
        )
    kept = empty((*input.shape[:2], *(1,) * (input.dim() - 2)), dtype=input.dtype).bernoulli_(1.0 - p)
    return input * (kept / (1 - p) if p < 1 else kept)


def alpha_dropout(input, p, train):
    """Dropout that keeps mean 0 and variance 1 of selu's outputs."""
    _check("alpha_dropout", p)
    return dropouts.alpha_dropout(input, p, train)


def feature_alpha_dropout(input, p, train):
    """`alpha_dropout` of whole channels (axis 1)."""
    _check("feature_alpha_dropout", p)
    return dropouts.feature_alpha_dropout(input, p, train)


def native_dropout(input, p, train):
    """(`dropout` of the input, the bool mask of what was kept)."""
    _check("native_dropout", p)
    if train is False or p == 0:
        return input * 1, full(tuple(input.shape), True, dtype=bool_)
    kept = empty_like(input).bernoulli_(1.0 - p)
    return input * (kept / (1 - p) if p < 1 else kept), kept != 0


def _inplace(function):
    """The form of a dropout that writes into its input."""

    def write(input, p, train):
        check_write(function.__name__ + "_", input)
        return assign(REGISTRY["copy"], input, function(input.clone(), p, train)) if train and p else input

    write.__name__ = write.__qualname__ = function.__name__ + "_"
    write.__doc__ = f"In-place form of {function.__name__}."
    return write


dropout_, feature_dropout_, alpha_dropout_, feature_alpha_dropout_ = map(
    _inplace, (dropout, feature_dropout, alpha_dropout, feature_alpha_dropout)
)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """Leaky relu with a slope drawn from [lower, upper] for each element in training, else their mean."""
    return activations.rrelu(input, lower, upper, training)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """In-place form of rrelu."""
    return activations.rrelu(input, lower, upper, training, inplace=True)


# ---------------------------------------------------------------------------------- losses
@with_out
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """Binary cross entropy of sigmoid(input)."""
    return losses.binary_cross_entropy_with_logits(
        input,
        target,
        weight,
        pos_weight=pos_weight,
        reduction=_named("binary_cross_entropy_with_logits", reduction, REDUCTIONS),
    )


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1."""
    return losses.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_named("cosine_embedding_loss", reduction, REDUCTIONS)
    )


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Minus the log-likelihood of label sequences without alignment."""
    return ctc.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _named("ctc_loss", reduction, REDUCTIONS),
        zero_infinity,
    )


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """The input where target is 1, max(0, margin - input) where it is -1."""
    return losses.hinge_embedding_loss(
        input, target, margin, reduction=_named("hinge_embedding_loss", reduction, REDUCTIONS)
    )


def kl_div(input, target, reduction=1, *, log_target=False):
    """target * (log target - input) of each element."""
    return losses.kl_div(
        input, target, reduction=_named("kl_div", reduction, REDUCTIONS), log_target=log_target
    )


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """max(0, -target * (input1 - input2) + margin)."""
    return losses.margin_ranking_loss(
        input1, input2, target, margin, reduction=_named("margin_ranking_loss", reduction, REDUCTIONS)
    )


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """Minus the log-likelihood of counts with rate exp(input), or input itself."""
    return losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_named("poisson_nll_loss", reduction, REDUCTIONS)
    )


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
    return losses.triplet_margin_loss(
        anchor,
        positive,
        negative,
        margin,
        p,
        eps,
        swap,
        reduction=_named("triplet_margin_loss", reduction, REDUCTIONS),
    )


# ---------------------------------------------------------------------------------- tables, images
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """(sums, means or maxima (mode 0, 1, 2) of bags of rows, the bag of each index, sizes of bags, rows of
    the maxima).

    The last is (bags, width) for mode 2, else empty.
    """
    name = _named("embedding_bag", mode, BAG_MODES, "mode")
    output = embeddings.embedding_bag(
        indices,
        weight,
        offsets,
        None,
        2,
        scale_grad_by_freq,
        name,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    bag, bags, index = embeddings._bags(indices, offsets, include_last_offset)
    sizes = ops.index_sum(bag * 0 + 1, 0, bag, bags)
    return (
        output,
        bag,
        sizes,
        _rows_of_maxima(weight.detach(), output, bag, index) if mode == 2 else zeros(0, dtype=int64),
    )


def _rows_of_maxima(weight, output, bag, index):
    """The first row of each bag that holds the bag's maximum, by column: (bags, width); 0 for empty bags."""
    bags, width = output.shape
    member = (bag.unsqueeze(0) == arange(bags).unsqueeze(1)).unsqueeze(2)  # (bags, indices, 1)
    holds = member & (weight[index].unsqueeze(0) == output.detach().unsqueeze(1))
    if index.shape[0] == 0:
        return zeros((bags, width), dtype=int64)
    return ops.where(holds.any(1), index[holds.to(int64).argmax(1)], 0)


def embedding_renorm_(input, indices, max_norm, norm_type=2.0):
    """Shrink the rows that `indices` name to norms of at most `max_norm`, in place."""
    embeddings._renormalize(input, indices, max_norm, norm_type)
    return input


@with_out
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample` with numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2
    reflection."""
    return images.grid_sample(
        input,
        grid,
        _named("grid_sampler", interpolation_mode, SAMPLING, "mode"),
        _named("grid_sampler", padding_mode, OUTSIDE, "padding mode"),
        align_corners,
    )


def _of_rank(rank):
    @with_out
    def function(input, grid, interpolation_mode, padding_mode, align_corners):
        if input.dim() != rank + 2:
            fail(f"grid_sampler_{rank}d", f"expected {rank + 2}D input", tuple(input.shape))
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    function.__name__ = function.__qualname__ = f"grid_sampler_{rank}d"
    function.__doc__ = f"`grid_sampler` of inputs with {rank} axes besides batch and channels."
    return function


grid_sampler_2d, grid_sampler_3d = _of_rank(2), _of_rank(3)


@with_out
def affine_grid_generator(theta, size, align_corners):
    """`nn.functional.affine_grid`."""
    return images.affine_grid(theta, size, align_corners)


# ---------------------------------------------------------------------------------- recurrent networks
def _layers(kernel, rows, starts, states, params, has_biases, num_layers, dropout, train, bidirectional):
    """(outputs of all steps (rows, directions * hidden), last states) of the layers with these parameters."""
    directions, finals = 2 if bidirectional else 1, []
    count = len(params) // (num_layers * directions)
    kinds = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if has_biases else ()), "weight_hr")[:count]
    if len(params) != num_layers * directions * count or count < (4 if has_biases else 2):
        fail(kernel, "the number of parameters does not fit the layers", len(params))
    for layer in range(num_layers):
        outputs = []
        for number in range(layer * directions, (layer + 1) * directions):
            named = dict(zip(kinds, params[number * count : (number + 1) * count], strict=True))
            output, *final = recurrent(
                kernel,
                rows,
                starts,
                *[state[number] for state in states],
                reverse=number % directions == 1,
                **named,
            )
            outputs.append(output)
            finals.append(final)
        rows = outputs[0] if directions == 1 else cat(outputs, 1)
        if dropout and train and layer + 1 < num_layers:
            rows = dropouts.dropout(rows, dropout)
    return rows, tuple(stacked(parts) for parts in zip(*finals))


def _network(name, kernel, several):
    """The function of one kind of network, for padded inputs and for packed rows with batch sizes."""

    def network(input, hx, params, *options, **named):
        states = tuple(hx) if several else (hx,)
        keys = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
        given = {**dict(zip(keys, options)), **named}
        batch_first = given.pop("batch_first", False)
        rows = input.transpose(0, 1) if batch_first else input
        time, batch = rows.shape[:2]
        starts = tensor([batch * step for step in range(time + 1)], dtype=int64)
        flat, last = _layers(
            kernel, rows.reshape(time * batch, rows.shape[2]), starts, states, list(params), **given
        )
        output = flat.reshape(time, batch, flat.shape[1])
        return (output.transpose(0, 1) if batch_first else output, *last)

    def packed(data, batch_sizes, hx, params, *options, **named):
        states = tuple(hx) if several else (hx,)
        keys = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
        counts = batch_sizes.tolist()
        starts = tensor([sum(counts[:i]) for i in range(len(counts) + 1)], dtype=int64)
        flat, last = _layers(
            kernel, data, starts, states, list(params), **{**dict(zip(keys, options)), **named}
        )
        return (flat, *last)

    def function(input, *arguments, **named):
        sizes = named.get("batch_sizes", arguments[0] if arguments else None)
        is_packed = "batch_sizes" in named or getattr(sizes, "dtype", None) is int64 and sizes.dim() == 1
        return (packed if is_packed else network)(input, *arguments, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A network of {name} layers: (input, hx, params, has_biases, num_layers, dropout, train, "
        "bidirectional, batch_first), or (data, batch_sizes, hx, params, ...) without batch_first for packed "
        "rows."
    )
    return function


lstm = _network("lstm", "lstm", True)
gru = _network("gru", "gru", False)
rnn_tanh, rnn_relu = _network("rnn_tanh", "tanh", False), _network("rnn_relu", "relu", False)


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step: (input (batch, width), (hidden, cell)) -> (hidden, cell)."""
    return ops.lstm_gates(ops.linear(input, w_ih, b_ih), ops.linear(hx[0], w_hh, b_hh), hx[1])


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: (batch, width), (batch, hidden) -> (batch, hidden)."""
    return ops.gru_gates(ops.linear(input, w_ih, b_ih), ops.linear(hx, w_hh, b_hh), hx)


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """tanh(w_ih @ x + b_ih + w_hh @ h + b_hh)."""
    return ops.tanh(ops.linear(input, w_ih, b_ih) + ops.linear(hx, w_hh, b_hh))


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """relu(w_ih @ x + b_ih + w_hh @ h + b_hh)."""
    return ops.relu(ops.linear(input, w_ih, b_ih) + ops.linear(hx, w_hh, b_hh))


NAMES = """affine_grid_generator alpha_dropout alpha_dropout_ binary_cross_entropy_with_logits
cosine_embedding_loss ctc_loss dropout dropout_ embedding_bag embedding_renorm_
feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ grid_sampler
grid_sampler_2d grid_sampler_3d gru gru_cell hinge_embedding_loss kl_div lstm lstm_cell
margin_ranking_loss native_dropout poisson_nll_loss rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
rrelu rrelu_ triplet_margin_loss""".split()
