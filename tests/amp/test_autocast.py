"""autocast: which op runs in which dtype (a table observed from PyTorch 2.13 on the CPU), nesting, gradients,
its cache.
"""

import threading

import pytest

import flambeau as fl
from flambeau.amp import casting, lists
from flambeau.nn import functional as F
from flambeau.ops import interpose
from flambeau.ops.spec import REGISTRY

FLOATS = {"x": (4, 4), "y": (4, 4), "v": (4,), "a": (2, 4, 4), "c": (1, 2, 6), "d": (1, 2, 4, 4),
          "e": (1, 2, 4, 4, 4),
          "w": (2, 2, 2), "k": (2, 2, 2, 2)}

# On float32 operands: what runs in the dtype of the block; all other ops stay in float32.
LOWERED = """
    x @ y | fl.mm(x, y) | fl.matmul(a, a) | fl.bmm(a, a) | x.matmul(v) | fl.addmm(x, x, y)
    fl.addbmm(x, a, a)
    fl.baddbmm(a, a, a) | fl.einsum('ij,jk->ik', x, y) | fl.linalg.multi_dot([x, y, x])
    fl.linalg.vecdot(x, y)
    F.linear(x, y, v) | F.conv1d(c, w) | F.conv2d(d, k, k[:, 0, 0, 0]) | F.conv_transpose1d(c, w, w[:, 0, 0])
    F.conv_transpose2d(d, k) | F.scaled_dot_product_attention(a, a, a) | F.prelu(x, v[:1]) | x.mm(y).exp()
    fl.nn.Linear(4, 3)(x) | fl.nn.LSTM(4, 3)(a)[0] | fl.nn.RNN(4, 3)(a)[0]
    fl.nn.MultiheadAttention(4, 2)(a, a, a)[0]
"""
KEPT = """
    x + y | x * 2 | x.exp() | x.sum() | x.mean(0) | fl.mv(x, v) | fl.dot(v, v) | fl.outer(v, v)
    fl.inner(v, v)
    fl.addmv(v, x, v) | F.bilinear(x, x, a, v[:2]) | F.softmax(x, 1) | F.layer_norm(x, (4,), v, v) | F.gelu(x)
    F.max_pool2d(d, 2) | F.interpolate(d, scale_factor=2) | (x @ y) + x | fl.nn.GRU(4, 3)(a)[0]
    fl.nn.GRUCell(4, 3)(x)
    fl.nn.LSTMCell(4, 3)(x)[0] | fl.nn.TransformerEncoderLayer(4, 2, 8)(a) | fl.kron(x, y) | x.cumsum(0)
    fl.cat([x, y])
"""
# On bfloat16 operands: what runs in float32 all the same.
RAISED = """
    F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y) | F.cross_entropy(x, t)
    F.nll_loss(x, t) | F.kl_div(x, y, reduction='sum') | F.binary_cross_entropy_with_logits(x, y)
    x.prod() | x.trace()
    F.hinge_embedding_loss(x, y) | F.margin_ranking_loss(v, v, v) | F.triplet_margin_loss(x, y, x)
    fl.cdist(x, y)
    F.soft_margin_loss(x, y) | F.multi_margin_loss(x, t) | F.poisson_nll_loss(x, y)
    F.cosine_embedding_loss(x, y, v)
    x.quantile(0.5) | F.avg_pool3d(e, 2) | F.max_pool3d(e, 2) | F.adaptive_avg_pool3d(e, 2) | fl.linalg.inv(q)
    F.pad(c, (1, 1), mode='reflect') | F.pad(d, (1, 1, 1, 1), mode='replicate') | fl.linalg.svdvals(q)
    fl.linalg.solve(q, q)
    fl.linalg.cholesky(q) | fl.linalg.qr(q)[0] | fl.linalg.eigvalsh(q) | fl.linalg.lstsq(q, q)[0]
    fl.pinverse(q)
"""
LOW_KEPT = """
    x + y | x.exp() | x.sum() | F.softmax(x, 1) | F.layer_norm(x, (4,), v, v) | F.max_pool2d(d, 2)
    fl.stack([x, y])
"""


def tensors(dtype=fl.float32):
    fl.manual_seed(0)
    made = {name: (fl.rand(*sizes) * 0.8 + 0.1).to(dtype) for name, sizes in FLOATS.items()}
    return made | {"q": (fl.eye(4) * 2 + 0.1).to(dtype), "t": fl.tensor([0, 1, 2, 3]), "fl": fl, "F": F}


def each(*texts):
    return [program.strip() for text in texts for line in text.strip().splitlines()
            for program in line.split(" | ")]


@pytest.mark.parametrize("short", [fl.bfloat16, fl.float16], ids=str)
def test_products_run_in_the_short_dtype_and_the_rest_does_not(short):
    for wanted, programs in ((short, each(LOWERED)), (fl.float32, each(KEPT))):
        for program in programs:
            with fl.amp.autocast("cpu", dtype=short):
                assert eval(program, tensors()).dtype is wanted, program       # noqa: S307 - our own text


def test_what_needs_its_digits_runs_in_float32():
    for wanted, programs in ((fl.float32, each(RAISED)), (fl.bfloat16,
                                                          each(LOW_KEPT, LOWERED.partition("fl.nn.")[0]))):
        for program in programs:
            with fl.amp.autocast("cpu"):
                assert eval(program,
                            tensors(fl.bfloat16)).dtype is wanted, program     # noqa: S307 - our own text


def test_float64_integers_and_mixed_operands():
    x, low = fl.rand(3, 3), fl.rand(3, 3).bfloat16()
    with fl.amp.autocast("cpu"):
        assert (x.double() @ x.double()).dtype is fl.float64 and F.mse_loss(x.double(),
                                                                            x.double()).dtype is fl.float64
        assert (fl.ones(2, 2, dtype=fl.int64) @ fl.ones(2, 2, dtype=fl.int64)).dtype is fl.int64
        assert (x.half() @ low).dtype is fl.bfloat16 and fl.cat([x, low]).dtype is fl.float32
        assert x.index_copy(0, fl.tensor([0]), low[:1]).dtype is fl.float32
        assert fl.mm(x, x, out=fl.empty(3, 3)).dtype is fl.float32


def test_values_are_those_of_the_casts_written_out():
    x, layer, target = fl.randn(5, 4), fl.nn.Linear(4, 3), fl.randn(5, 3)
    with fl.amp.autocast("cpu"):
        out = layer(x)
        loss = F.mse_loss(out, target)
    low = F.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16())
    assert fl.equal(out, low) and fl.equal(loss, F.mse_loss(low.float(), target))
    loss.backward()
    assert layer.weight.grad.dtype is fl.float32 and layer.bias.grad.dtype is fl.float32
    wanted = fl.autograd.grad(F.mse_loss(low.float(), target), layer.weight)[0]
    assert fl.equal(layer.weight.grad, wanted)


def test_blocks_nest_and_can_be_switched_off_inside():
    x = fl.ones(2, 2)

    def product():
        return (x @ x).dtype

    assert product() is fl.float32 and not fl.amp.casting.is_autocast_enabled("cpu")
    with fl.amp.autocast("cpu"):
        assert product() is fl.bfloat16 and casting.is_autocast_enabled("cpu")
        with fl.amp.autocast("cpu", enabled=False):
            assert product() is fl.float32 and not casting.is_autocast_enabled("cpu")
            with fl.amp.autocast("cpu", dtype=fl.float16):
                assert product() is fl.float16 and casting.get_autocast_dtype("cpu") is fl.float16
            assert product() is fl.float32
        assert product() is fl.bfloat16
        with pytest.raises(ZeroDivisionError), fl.amp.autocast("cpu", dtype=fl.float16):
            1 / 0
        assert product() is fl.bfloat16
    assert product() is fl.float32 and interpose.stack() == []


def test_as_a_decorator_and_used_again():
    once = fl.amp.autocast("cpu")

    @once
    def product(x, deeper=True):
        return (product(x, False).float() @ x if deeper else x @ x).dtype if deeper else x @ x

    assert product(fl.ones(2, 2)) is fl.bfloat16 and product(fl.ones(2, 2)) is fl.bfloat16
    assert product.__name__ == "product" and (fl.ones(2, 2) @ fl.ones(2, 2)).dtype is fl.float32


def test_it_belongs_to_one_thread():
    seen = []
    with fl.amp.autocast("cpu"):
        other = threading.Thread(target=lambda: seen.append((fl.ones(2, 2) @ fl.ones(2, 2)).dtype))
        other.start()
        other.join()
    assert seen == [fl.float32]


def test_the_state_of_the_thread():
    assert casting.get_autocast_dtype("cpu") is fl.bfloat16
    assert casting.get_autocast_dtype("cuda") is fl.float16
    try:
        casting.set_autocast_dtype("cpu", fl.float16)
        casting.set_autocast_enabled("cpu", True)
        assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype is fl.float16 and casting.is_autocast_cpu_enabled()
    finally:
        casting.set_autocast_enabled("cpu", False)
        casting.set_autocast_dtype("cpu", fl.bfloat16)
    assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype is fl.float32 and not casting.is_autocast_enabled()


def test_what_is_refused_and_what_is_switched_off():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        off = fl.amp.autocast("cuda")
    with off:
        assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype is fl.float32
    with pytest.warns(UserWarning, match="not supported. Disabling"):
        fl.amp.autocast("cpu", dtype=fl.float64)
    with pytest.raises(RuntimeError, match="unknown device type"):
        fl.amp.autocast("gpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        fl.amp.autocast(fl.device("cpu"))
    assert fl.amp.is_autocast_available("cpu")


# ---------------------------------------------------------------------------------- gradients
def test_a_weight_is_cast_once_a_block():
    weight = fl.nn.Parameter(fl.randn(3, 3))
    with fl.amp.autocast("cpu"):
        kept = casting._place()[1].kept
        first, second = weight @ weight, F.linear(fl.ones(1, 3), weight)
        assert len(kept) == 1
        before = kept[id(weight)][3]
        with fl.no_grad():
            weight.add_(1.0)
        assert fl.equal((fl.eye(3) @ weight).float(),
                        weight.bfloat16().float()) and kept[id(weight)][3] is not before
        casting.clear_autocast_cache()
        assert not kept
    (first.sum() + second.sum()).backward()
    with fl.amp.autocast("cpu", cache_enabled=False):
        weight @ weight
        assert not casting._place()[1].kept


def test_a_weight_first_seen_without_gradients_still_gets_one():
    weight = fl.nn.Parameter(fl.ones(2, 2))
    with fl.amp.autocast("cpu"):
        with fl.no_grad():
            weight @ weight
        (weight @ fl.ones(2, 2)).sum().backward()
    assert weight.grad.tolist() == [[2, 2], [2, 2]]


def test_several_backward_passes_in_one_block():
    weight = fl.nn.Parameter(fl.ones(2, 2))
    with fl.amp.autocast("cpu"):
        for _ in range(3):
            (weight @ fl.ones(2, 2)).sum().backward()
    assert weight.grad.tolist() == [[6, 6], [6, 6]]


def test_a_backward_pass_inside_the_block_is_not_cast():
    weight, x = fl.nn.Parameter(fl.randn(3, 3)), fl.randn(2, 3)
    wanted = fl.autograd.grad((x @ weight).square().sum(), weight)[0]
    outside = (x @ weight).square().sum()
    with fl.amp.autocast("cpu"):
        outside.backward()
        again = fl.autograd.grad(F.linear(x, weight).float().sum(), weight, create_graph=True)[0]
    assert fl.equal(weight.grad, wanted) and again.dtype is fl.float32


def test_a_checkpoint_computes_again_under_autocast():
    from flambeau.torch.utils.checkpoint import checkpoint
    layer, x = fl.nn.Linear(4, 4), fl.randn(2, 4)
    for reentrant in (False, True):
        seen = []

        def part(x):
            out = layer(x)
            seen.append(out.dtype)
            return out.float().relu()
        with fl.amp.autocast("cpu"):
            loss = checkpoint(part, x.clone().requires_grad_(), use_reentrant=reentrant).sum()
        loss.backward()
        assert seen == [fl.bfloat16, fl.bfloat16], reentrant


def test_custom_functions():
    class Product(fl.autograd.Function):
        @staticmethod
        @fl.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append((x @ y).dtype)
            return x @ y

        @staticmethod
        @fl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            seen.append((fl.ones(2, 2) @ fl.ones(2, 2)).dtype)
            return (grad @ y.t()).float(), (x.t() @ grad).float()

    class Exact(Product):
        @staticmethod
        @fl.amp.custom_fwd(device_type="cpu", cast_inputs=fl.float32)
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append((x @ y).dtype)
            return x @ y

    for kind, wanted in ((Product, [fl.bfloat16] * 2), (Exact, [fl.float32] * 2)):
        seen = []
        x = fl.ones(2, 2, requires_grad=True)
        with fl.amp.autocast("cpu"):
            out = kind.apply(x, fl.ones(2, 2, dtype=fl.bfloat16))
        out.sum().backward()
        assert seen == wanted and x.grad.tolist() == [[2, 2], [2, 2]]


def test_transforms_of_functions_see_the_casts():
    x = fl.randn(3, 3)
    with fl.amp.autocast("cpu"):
        gradient = fl.func.grad(lambda w: (x @ w).float().sum())(x)
        batch = fl.vmap(lambda row: fl.matmul(x, row))(x)
    assert gradient.dtype is fl.float32 and batch.dtype is fl.bfloat16


def test_the_lists_name_what_there_is_and_nothing_is_visible_for_nothing():
    from flambeau.ops import fourier        # noqa: F401 - declares a visible function
    assert set(lists.RULES) <= {*REGISTRY, *interpose.VISIBLE}
    assert interpose.VISIBLE <= set(lists.RULES)
