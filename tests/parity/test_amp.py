"""Mixed precision against PyTorch: the dtype of each op under autocast, gradients, and GradScaler over steps
with infinities.
"""

import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")

from flambeau import torch as facade     # noqa: E402

CASES = """
x @ y | x.mm(y) | x.matmul(y) | torch.mm(x, y) | torch.matmul(a, a) | torch.bmm(a, a) | a.bmm(a)
torch.mv(x, v) | torch.dot(v, v) | torch.vdot(v, v) | torch.outer(v, v) | torch.ger(v, v) | torch.inner(v, v)
torch.addmm(x, x, y) | torch.addbmm(x, a, a) | torch.baddbmm(a, a, a) | torch.addmv(v, x, v)
torch.addr(x, v, v) | torch.einsum('ij,jk->ik', x, y) | torch.tensordot(x, y, 1)
torch.linalg.multi_dot([x, y, x]) | torch.chain_matmul(x, y) | torch.linalg.vecdot(x, y)
torch.linalg.matmul(x, y) | F.linear(x, y) | F.linear(x, y, v) | F.bilinear(x, x, a, v) | F.conv1d(c1, w1)
F.conv2d(c2, w2) | F.conv3d(c3, w3) | F.conv_transpose1d(c1, w1) | F.conv_transpose2d(c2, w2)
F.conv_transpose3d(c3, w3) | torch.conv2d(c2, w2) | F.conv2d(c2, w2, w2[:, 0, 0, 0])
F.scaled_dot_product_attention(a, a, a) | F.prelu(x, v[:1]) | torch.prelu(x, v[:1]) | F.unfold(c2, 2)
F.fold(x.reshape(1, 4, 4), (3, 3), 2) | torch.linalg.matrix_power(x, 3) | x.matrix_power(2) | torch.kron(x, y)
torch.cdist(x, y) | torch.linalg.vander(v) | torch.trapezoid(x) | F.relu(x) | F.gelu(x) | F.softmax(x, 1)
F.log_softmax(x, 1) | torch.softmax(x, -1) | F.softplus(x) | F.silu(x) | F.elu(x) | F.leaky_relu(x)
torch.exp(x) | torch.log(x) | torch.tanh(x) | torch.sigmoid(x) | torch.sin(x) | torch.erf(x)
torch.erfinv(x * 0.1) | torch.rsqrt(x) | torch.sqrt(x) | torch.pow(x, 2) | x ** 2.5 | torch.pow(x, y)
torch.log1p(x) | torch.expm1(x) | torch.acos(x * 0.1) | torch.reciprocal(x) | x + y | x * y | x + b | x * b
b * b | b + 1 | torch.addcmul(x, x, x) | torch.addcdiv(x, x, x) | torch.atan2(x, b) | torch.where(x > 0, x, b)
torch.lerp(x, x, 0.5) | torch.maximum(x, b) | torch.clamp(x, 0, 1) | x.sum() | x.sum(0) | x.mean() | x.prod()
x.prod(0) | x.cumsum(0) | x.cumprod(0) | x.norm() | x.norm(dim=0) | torch.norm(x, 2, 0) | torch.linalg.norm(x)
torch.linalg.vector_norm(x) | torch.linalg.matrix_norm(x) | x.std() | x.var() | x.max() | x.max(1)
x.median() | x.quantile(0.5) | torch.nanquantile(x, 0.5) | x.logsumexp(0) | x.trace() | torch.trace(x)
x.argmax() | torch.cumsum(x, 0) | torch.renorm(x, 2, 0, 1.0) | torch.dist(x, y) | x.nansum()
F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y) | F.cross_entropy(x, t)
F.nll_loss(x, t) | F.kl_div(x, y, reduction='batchmean') | F.binary_cross_entropy(p, p)
F.binary_cross_entropy_with_logits(x, p) | F.cosine_embedding_loss(x, y, s) | F.hinge_embedding_loss(x, y)
F.margin_ranking_loss(v, v, v) | F.triplet_margin_loss(x, y, x) | F.soft_margin_loss(x, y)
F.multi_margin_loss(x, t) | F.multilabel_margin_loss(x, tt) | F.multilabel_soft_margin_loss(x, y)
F.poisson_nll_loss(x, y) | F.gaussian_nll_loss(x, y, p)
F.ctc_loss(lp, tt, torch.tensor([6, 6, 6, 6]), torch.tensor([2, 2, 2, 2])) | F.cosine_similarity(x, y)
F.pairwise_distance(x, y) | F.pdist(x) | F.normalize(x) | F.layer_norm(x, (4,)) | F.layer_norm(x, (4,), v, v)
F.batch_norm(x, v, v) | F.group_norm(c2, 1) | F.instance_norm(c2) | F.rms_norm(x, (4,))
F.local_response_norm(c2, 2) | F.max_pool1d(c1, 2) | F.max_pool2d(c2, 2) | F.max_pool3d(c3, 2)
F.avg_pool1d(c1, 2) | F.avg_pool2d(c2, 2) | F.avg_pool3d(c3, 2) | F.adaptive_avg_pool1d(c1, 2)
F.adaptive_avg_pool2d(c2, 2) | F.adaptive_avg_pool3d(c3, 2) | F.adaptive_max_pool1d(c1, 2)
F.adaptive_max_pool2d(c2, 2) | F.adaptive_max_pool3d(c3, 2) | F.lp_pool2d(c2, 2.0, 2)
F.fractional_max_pool2d(c2, 2, output_size=2) | F.max_unpool2d(*F.max_pool2d(c2, 2, return_indices=True), 2)
F.interpolate(c2, scale_factor=2) | F.interpolate(c2, scale_factor=2, mode='bilinear')
F.grid_sample(c2, g, align_corners=False) | F.affine_grid(th, (1, 1, 2, 2), align_corners=False)
F.pad(c1, (1, 1)) | F.pad(c1, (1, 1), mode='reflect') | F.pad(c2, (1, 1, 1, 1), mode='reflect')
F.pad(c3, (1, 1, 1, 1, 1, 1), mode='reflect') | F.pad(c1, (1, 1), mode='replicate')
F.pad(c2, (1, 1, 1, 1), mode='replicate') | F.pad(c3, (1, 1, 1, 1, 1, 1), mode='replicate')
F.pad(c1, (1, 1), mode='circular') | F.embedding(t, x) | F.embedding_bag(tt, x) | F.dropout(x, 0.5)
F.one_hot(t) | F.glu(x) | torch.cat([x, b]) | torch.stack([x, b]) | torch.cat([b, b]) | torch.stack([b, b])
torch.hstack([x, b]) | torch.vstack([x, b]) | torch.concat([x, b]) | x.index_copy(0, i2, b[:2])
x.index_add(0, i2, x[:2]) | x.scatter(0, t[None], x[:1]) | x.scatter_add(0, t[None], x[:1])
torch.gather(x, 0, t[None]) | x.index_select(0, i2) | x[0] | x.t() | x.clone() | x.reshape(2, 8)
x.masked_fill(x > 1, 0.0) | torch.zeros_like(x) | torch.tril(x) | torch.linalg.inv(q) | torch.inverse(q)
torch.linalg.pinv(q) | torch.pinverse(q) | torch.linalg.det(q) | torch.det(q) | torch.linalg.slogdet(q)[1]
torch.logdet(q) | torch.linalg.cholesky(q) | torch.cholesky_inverse(q) | torch.cholesky_solve(q, q)
torch.linalg.solve(q, q) | torch.linalg.lstsq(q, q)[0] | torch.linalg.qr(q)[0] | torch.linalg.svd(q)[1]
torch.linalg.svdvals(q) | torch.svd(q)[1] | torch.linalg.eigh(q)[0] | torch.linalg.eigvalsh(q)
torch.linalg.eig(q)[0] | torch.linalg.eigvals(q) | torch.linalg.cond(q) | torch.linalg.matrix_rank(q)
torch.linalg.lu(q)[1] | torch.linalg.lu_factor(q)[0] | torch.linalg.solve_triangular(q, q, upper=False)
torch.triangular_solve(q, q)[0] | torch.linalg.matrix_exp(q) | torch.linalg.householder_product(q, v)
torch.geqrf(q)[0] | torch.linalg.tensorinv(q.reshape(4, 2, 2), 1) | torch.linalg.tensorsolve(q, v)
torch.lu_solve(q, *torch.linalg.lu_factor(q)) | torch.fft.fft(v) | torch.fft.rfft(v) | torch.fft.ifft(v)
torch.fft.fft2(x) | torch.fft.rfft2(x) | torch.fft.irfft(torch.fft.rfft(v)) | torch.fft.fftn(x)
torch.stft(st, 4, return_complex=True, window=wn) | torch.polar(x, x) | torch.view_as_complex(x.reshape(8, 2))
torch.complex(x, x) | nn.Linear(4, 3)(x) | nn.Conv2d(2, 3, 2)(c2) | nn.LSTM(4, 3)(a)[0] | nn.GRU(4, 3)(a)[0]
nn.RNN(4, 3)(a)[0] | nn.LSTMCell(4, 3)(x)[0] | nn.GRUCell(4, 3)(x) | nn.MultiheadAttention(4, 2)(a, a, a)[0]
nn.TransformerEncoderLayer(4, 2, 8)(a) | nn.LayerNorm(4)(x) | nn.BatchNorm2d(2)(c2) | nn.Embedding(5, 3)(t)
nn.Bilinear(4, 4, 3)(x, x) | nn.Linear(4, 3)(b) | nn.LayerNorm(4)(b) | nn.CrossEntropyLoss()(b, t)
nn.MSELoss()(b, b) | nn.PReLU()(x) | F.conv2d(c2.bfloat16(), w2) | b @ x | b.softmax(1)
F.layer_norm(b, (4,)) | F.layer_norm(b, (4,), v, v) | b.prod() | b.exp() | F.mse_loss(b, x)
F.nll_loss(b.log_softmax(1), t) | x.double() @ y.double() | F.linear(x.double(), y.double())
F.mse_loss(x.double(), y.double()) | torch.cat([b, x.double()]) | i4 @ i4 | x.half() @ x
F.l1_loss(x.half(), x.half()) | torch.cat([x.half(), b]) | torch.bmm(a.double(), a.double()) | (x @ y) + x
(x @ y) * 2 | (x @ y).sum() | b.mm(b) | torch.mm(x, b) | x.mm(y).exp()
"""

# What Flambeau takes though PyTorch refuses it, and what it does differently, with the reason.
DIFFERENT = {
    "torch.linalg.pinv(q)": "one op here, in float32; a product of matrices there",
    "torch.cat([x.half(), b])": "refused there",
    "F.pad(c3, (1, 1, 1, 1, 1, 1), mode='reflect')": "float32 as with one and two axes; not so there",
    "nn.GRU(4, 3)(a)[0]": "the state is carried in the dtype of the weights",
    "torch.linalg.matrix_power(x, 3)": "of bfloat16 itself it is refused here",
    "x.matrix_power(2)": "of bfloat16 itself it is refused here",
    "F.local_response_norm(c2, 2)": "not made of avg_pool3d here",
}


def programs():
    return [case.strip() for line in CASES.strip().splitlines() for case in line.split(" | ")]


def inputs(t, low):
    rng = numpy.random.default_rng(0)

    def uniform(*sizes):
        return t.tensor((rng.random(sizes) + 0.1).astype("float32"))

    given = {"x": uniform(4, 4), "y": uniform(4, 4), "v": uniform(4), "a": uniform(4, 4, 4),
        "p": uniform(4, 4) * 0.5,
             "c1": uniform(1, 2, 6), "c2": uniform(1, 2, 4, 4), "c3": uniform(1, 2, 4, 4, 4),
        "w1": uniform(2, 2, 2),
             "w2": uniform(2, 2, 2, 2), "w3": uniform(2, 2, 2, 2, 2), "s": t.ones(4),
        "g": t.zeros(1, 2, 2, 2),
             "th": t.ones(1, 2, 3), "q": t.eye(4) * 2 + 0.1, "st": uniform(16), "wn": t.ones(4),
             "lp": t.log_softmax(uniform(6, 4, 4), -1)}
    if low:
        given = {name: value.bfloat16() for name, value in given.items()}
    return given | {"b": uniform(4, 4).bfloat16(), "t": t.tensor([0, 1, 2, 3]),
        "tt": t.tensor([[1, 2, 1, 0]] * 4),
                    "i2": t.tensor([0, 1]), "i4": t.ones(4, 4, dtype=t.int64), "torch": t,
        "F": t.nn.functional,
                    "nn": t.nn}


def shown(value):
    if isinstance(value, (tuple, list)):
        return ",".join(map(shown, value))
    return str(value.dtype).rpartition(".")[2]


def dtype_of(t, program, dtype, low):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with t.autocast("cpu", dtype=getattr(t, dtype)):
                return shown(eval(program, inputs(t, low)))      # noqa: S307 - our own text
        except Exception as error:      # noqa: BLE001 - which one is part of the answer
            return f"refused: {type(error).__name__}"


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_op_runs_in_the_dtype_that_pytorch_runs_it_in(dtype, low):
    wrong = []
    for program in programs():
        wanted = dtype_of(torch, program, dtype, low)
        if program in DIFFERENT or wanted.startswith("refused"):
            continue
        got = dtype_of(facade, program, dtype, low)
        if got != wanted:
            wrong.append(f"{program}: {got}, not {wanted}")
    assert not wrong, "\n".join(wrong)


# ---------------------------------------------------------------------------------- training
def trained(t, dtype, steps=4):
    """Losses of a small network under autocast, the dtypes of its gradients, and the gradients of the last
    step.
    """
    rng = numpy.random.default_rng(1)
    nn = t.nn
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 16),
        nn.LayerNorm(16),
                          nn.GELU(), nn.Linear(16, 5))
    with t.no_grad():
        for parameter in model.parameters():
            parameter.copy_(t.tensor(rng.normal(size=tuple(parameter.shape)).astype("float32") * 0.3))
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = t.tensor(rng.normal(size=(8, 1, 6, 6)).astype("float32"))
    target = t.tensor(rng.integers(0, 5, 8))
    losses = []
    for _ in range(steps):
        with t.autocast("cpu", dtype=getattr(t, dtype)):
            out = model(x)
            loss = t.nn.functional.cross_entropy(out, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    grads = [parameter.grad for parameter in model.parameters()]
    return losses, shown(out), [shown(grad) for grad in grads], [grad.float().numpy() for grad in grads]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_steps_agree(dtype):
    wanted, got = trained(torch, dtype), trained(facade, dtype)
    numpy.testing.assert_allclose(got[0], wanted[0], rtol=2e-2)
    assert got[1:3] == wanted[1:3]
    for mine, theirs in zip(got[3], wanted[3]):
        numpy.testing.assert_allclose(mine, theirs, atol=0.05 * max(1e-2, numpy.abs(theirs).max()))


# ---------------------------------------------------------------------------------- GradScaler
def scaled_steps(t, gradients, **options):
    """Weights, scales and trackers after each step whose gradient is given; the state at the end."""
    weight = t.nn.Parameter(t.zeros(3))
    other = t.nn.Parameter(t.zeros(2))
    optimizers = [t.optim.SGD([weight], lr=1.0), t.optim.Adam([other], lr=0.1)]
    scaler = t.amp.GradScaler("cpu", **options)
    seen = []
    for number, slope in enumerate(gradients):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = (weight * t.tensor(slope)).sum() + other.sum()
        scaler.scale(loss).backward()
        if number % 2:
            scaler.unscale_(optimizers[0])
            t.nn.utils.clip_grad_norm_([weight], 1.0)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update(512.0 if number == 6 else None)
        seen.append((weight.tolist(), [round(value, 6) for value in other.tolist()], scaler.get_scale(),
            scaler._get_growth_tracker()))
    return seen, scaler.state_dict()


INF, NAN = float("inf"), float("nan")
SLOPES = [[1.0, 2.0, 3.0], [1.0, INF, 0.0], [4.0, 3.0, 0.0], [0.5, 0.25, 1.0], [NAN, 0.0, 0.0],
    [-INF, INF, 1.0],
          [1.0, 1.0, 1.0], [2.0, 0.0, 0.0], [1e30, 0.0, 0.0], [1.0, 0.0, 1.0], [1e38, 1.0, 1.0],
    [1.0, 2.0, 2.0]]


@pytest.mark.parametrize("options", [
    {}, {"init_scale": 4.0, "growth_interval": 2}, {"init_scale": 1e4, "growth_factor": 3.0,
        "backoff_factor": 0.25,
                                                    "growth_interval": 1}, {"enabled": False},
    {"init_scale": 3e38, "growth_interval": 1}])
def test_gradscaler_over_infinities(options):
    slopes = SLOPES if options.get("enabled", True) else SLOPES[:1]
    wanted, got = scaled_steps(torch, slopes, **options), scaled_steps(facade, slopes, **options)
    assert got[1] == wanted[1]
    for mine, theirs in zip(got[0], wanted[0]):
        assert mine[2:] == theirs[2:]
        numpy.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6)
        numpy.testing.assert_allclose(mine[1], theirs[1], rtol=1e-4, atol=1e-6)


MISUSES = [
    "s.unscale_(o)", "s.step(o)", "s.update()", "s.scale(l); s.update()",
    "s.scale(l).backward(); s.unscale_(o); s.unscale_(o)", "s.scale(l).backward(); s.step(o); s.step(o)",
    "s.scale(l).backward(); s.step(o); s.unscale_(o)",
    "s.scale(l).backward(); s.step(o, closure=lambda: 1.0)",
    "s.scale(3)", "s.scale(l); s.step(o)", "s.scale(l); s.unscale_(o); s.update()", "s.load_state_dict({})", "s.scale(l); s.update(t.zeros(2))",
    "t.amp.GradScaler('cpu', growth_factor=1.0)", "t.amp.GradScaler('cpu', backoff_factor=1.0)",
    "t.amp.autocast(3)", "t.autocast()", "t.autocast('nonsense')", "t.amp.custom_fwd(lambda c, x: x)",
    "s.scale(l).backward(); w.grad = w.grad; s.unscale_(o); __import__('pickle').dumps(s)",
]


@pytest.mark.parametrize("program", MISUSES)
def test_misuse_raises_the_same_type(program):
    found = []
    for t in (torch, facade):
        weight = t.nn.Parameter(t.ones(2))
        names = {"t": t, "w": weight, "o": t.optim.SGD([weight], lr=0.1), "s": t.amp.GradScaler("cpu"),
            "l": weight.sum()}
        with pytest.raises(Exception) as caught:        # noqa: PT011 - the type is compared
            exec(program, names)        # noqa: S102 - our own text
        found.append(caught.value)
    wanted, got = found
    assert isinstance(got, type(wanted)), (got, wanted)
