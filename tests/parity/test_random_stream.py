"""Random numbers: after one seed the facade draws what PyTorch draws and leaves its generator in the same state.

What is only arithmetic agrees bit for bit; where a library's log or cos enters, to rounding.
"""

import numpy
import pytest
import torch

from flambeau import torch as fl

ROUNDING = 2e-6
STATE_OF_WORDS = 24 + 624 * 8           # bytes of a state without the cached normal number

EXACT = {
    "rand": lambda t: t.rand(100, 31), "rand64": lambda t: t.rand(50, dtype=t.float64),
    "rand16": lambda t: t.rand(50, dtype=t.float16), "rand_bf16": lambda t: t.rand(50, dtype=t.bfloat16),
    "rand_complex": lambda t: t.rand(50, dtype=t.complex64),
    "rand_like_transposed": lambda t: t.rand_like(t.zeros(3, 4).t()),
    "uniform_": lambda t: t.zeros(700).uniform_(-0.1234, 0.3127),
    "uniform_64": lambda t: t.zeros(700, dtype=t.float64).uniform_(-0.1234, 0.3127),
    "uniform_16": lambda t: t.zeros(50, dtype=t.float16).uniform_(-0.3, 0.7),
    "uniform_transposed": lambda t: t.zeros(4, 5).t().uniform_(-1, 2),
    "uniform_sliced": lambda t: t.zeros(4, 6)[:, ::2].uniform_(),
    "uniform_channels_last": lambda t: t.zeros(2, 3, 4, 5).to(memory_format=t.channels_last).uniform_(),
    "randint": lambda t: t.randint(-5, 10, (4, 9)), "randint_below_2**28": lambda t: t.randint(2**28 - 1, (9,)),
    "randint_wide": lambda t: t.randint(2**28, (9,)), "randint_63": lambda t: t.randint(-2**63, 2**63 - 1, (9,)),
    "randint_float": lambda t: t.randint(9, (9,), dtype=t.float32), "randint_like": lambda t: t.randint_like(t.zeros(3, 4), 9),
    "random_to": lambda t: t.zeros(40).random_(7), "random_from": lambda t: t.zeros(40, dtype=t.int64).random_(3, None),
    "random_from_32": lambda t: t.zeros(40, dtype=t.int32).random_(3, None),
    "random_between": lambda t: t.zeros(40, dtype=t.int64).random_(3, 9),
    "randperm": lambda t: t.randperm(1000), "randperm_32": lambda t: t.randperm(100, dtype=t.int32),
    "randperm_1": lambda t: t.randperm(1), "randperm_own": lambda t: t.randperm(7, generator=t.Generator().manual_seed(4)),
    "bernoulli": lambda t: t.bernoulli(t.full((40,), 0.3)), "bernoulli_transposed": lambda t: t.bernoulli(t.full((4, 5), 0.3).t()),
    "bernoulli_64": lambda t: t.bernoulli(t.full((40,), 0.3, dtype=t.float64)),
    "bernoulli_p": lambda t: t.bernoulli(t.zeros(40), 0.3), "bernoulli_": lambda t: t.zeros(40).bernoulli_(0.2),
    "bernoulli_int": lambda t: t.zeros(40, dtype=t.int64).bernoulli_(t.full((40,), 0.2)),
    "multinomial": lambda t: t.multinomial(t.arange(1.0, 31.0).view(3, 10), 4),
    "multinomial_one": lambda t: t.multinomial(t.arange(1.0, 31.0).view(3, 10), 1, True),
    "multinomial_again": lambda t: t.multinomial(t.arange(30.0).view(3, 10), 50, True),
    "multinomial_64": lambda t: t.multinomial(t.arange(1.0, 30.0, dtype=t.float64), 50, True),
    "poisson": lambda t: t.poisson(t.arange(40.0)), "geometric_": lambda t: t.zeros(40).geometric_(0.3),
    "binomial": lambda t: t.binomial(t.full((40,), 30.0), t.arange(40.0) / 40),
    "dropout": lambda t: t.nn.functional.dropout(t.ones(30, 10), 0.3),
    "dropout_transposed": lambda t: t.nn.functional.dropout(t.ones(30, 10).t(), 0.3),
    "dropout_all": lambda t: t.nn.functional.dropout(t.ones(30), 1.0),
    "dropout_bf16": lambda t: t.nn.functional.dropout(t.ones(30, 10, dtype=t.bfloat16), 0.1),
    "dropout2d": lambda t: t.nn.functional.dropout2d(t.ones(3, 10, 2, 2), 0.3),
    "negative_seed": lambda t: (t.manual_seed(-1), t.rand(5))[1],
    "state_again": lambda t: (lambda s: (t.rand(5), t.set_rng_state(s), t.rand(700))[2])(t.get_rng_state()),
    **{f"random_{name}": lambda t, name=name: t.zeros(40, dtype=getattr(t, name)).random_()
       for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()},
}
ROUNDED = {
    "randn_few": lambda t: t.randn(15), "randn": lambda t: t.randn(40, 11), "randn64": lambda t: t.randn(40, 11, dtype=t.float64),
    "randn16": lambda t: t.randn(43, dtype=t.float16), "randn_complex": lambda t: t.randn(43, dtype=t.complex64),
    "randn_like": lambda t: t.randn_like(t.zeros(30, 4), dtype=t.float64),
    "normal_transposed": lambda t: t.zeros(4, 5).t().normal_(), "normal_sliced": lambda t: t.zeros(6, 10)[:, ::2].normal_(1, 2),
    "normal_tensors": lambda t: t.normal(t.arange(20.0), t.arange(1.0, 21.0)), "normal_mean": lambda t: t.normal(t.arange(5.0), 2.0),
    "normal_std": lambda t: t.normal(1.0, t.arange(1.0, 21.0)), "normal_size": lambda t: t.normal(2, 3, (4, 5)),
    "cached_normal": lambda t: t.cat([t.randn(3), t.randn(4)]),
    "exponential_": lambda t: t.zeros(40).exponential_(2.5), "exponential_64": lambda t: t.zeros(40, dtype=t.float64).exponential_(),
    "cauchy_": lambda t: t.zeros(40).cauchy_(0.5, 2), "log_normal_": lambda t: t.zeros(40).log_normal_(0.3, 0.4),
    "alpha_dropout": lambda t: t.nn.functional.alpha_dropout(t.arange(300.0).view(30, 10), 0.3, True),
    "feature_alpha_dropout": lambda t: t.nn.functional.feature_alpha_dropout(t.arange(300.0).view(3, 10, 10), 0.3, True),
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(t.arange(30.0).view(3, 10) / 10),
    "rrelu": lambda t: t.nn.functional.rrelu(t.arange(-30.0, 30.0), 0.1, 0.3, True),
    "attention": lambda t: attention(t), "causal_attention": lambda t: attention(t, is_causal=True),
    "grouped_attention": lambda t: attention(t, heads=6, enable_gqa=True),
}
INITIALISERS = {
    "kaiming_uniform_": {}, "kaiming_normal_": {"mode": "fan_out", "nonlinearity": "relu"}, "xavier_uniform_": {},
    "xavier_normal_": {}, "trunc_normal_": {"std": 0.02}, "sparse_": {"sparsity": 0.3}, "uniform_": {},
    "normal_": {"mean": 1.0, "std": 2.0},
}
MODULES = [
    "Linear(5, 7)", "Bilinear(3, 4, 5)", "Conv1d(3, 4, 3)", "Conv2d(4, 4, 3, groups=2, bias=False)", "Conv3d(3, 4, 3)",
    "ConvTranspose2d(3, 4, 3)", "Embedding(10, 6, padding_idx=2)", "EmbeddingBag(10, 6)", "RNN(4, 5, 2)",
    "LSTM(4, 6, 2, bidirectional=True, proj_size=3)", "GRU(4, 5)", "LSTMCell(4, 5)", "MultiheadAttention(8, 2)",
    "MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True)", "TransformerEncoderLayer(8, 2, 16)",
    "Transformer(8, 2, 1, 1, 16)", "AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])",
]
DISTRIBUTIONS = [
    "Normal(t.zeros(20), 1.)", "Bernoulli(t.full((20,), .3))", "Categorical(t.arange(1., 31.).view(3, 10))",
    "Gamma(t.arange(1., 21.) / 5, 2.)", "Beta(t.arange(1., 21.) / 5, t.full((20,), 2.))", "Dirichlet(t.arange(1., 13.).view(3, 4))",
    "Exponential(t.arange(1., 21.))", "Uniform(t.zeros(20), 2.)", "Laplace(t.zeros(20), 2.)", "Gumbel(t.zeros(20), 2.)",
    "Cauchy(t.zeros(20), 2.)", "LogNormal(t.zeros(20), .5)", "Poisson(t.arange(20.))", "Geometric(t.full((20,), .3))",
    "Binomial(30, t.full((20,), .3))", "NegativeBinomial(5., t.full((20,), .3))", "StudentT(t.full((20,), 4.))",
    "FisherSnedecor(t.full((20,), 4.), t.full((20,), 5.))", "Weibull(t.ones(20), 3.)", "Multinomial(10, t.arange(1., 31.).view(3, 10))",
    "MultivariateNormal(t.zeros(3), t.eye(3))", "LowRankMultivariateNormal(t.zeros(3), t.ones(3, 2), t.ones(3))",
    "RelaxedBernoulli(t.tensor(.5), t.full((20,), .3))", "RelaxedOneHotCategorical(t.tensor(.5), t.arange(1., 31.).view(3, 10))",
    "VonMises(t.zeros(20), t.full((20,), 3.))",
]


def attention(t, heads=3, **options):
    query = t.arange(16.0 * heads).view(2, heads, 4, 2) / 50
    key = t.arange(48.0).view(2, 3, 4, 2) / 50
    return t.nn.functional.scaled_dot_product_attention(query, key, key + 1, dropout_p=0.3, **options)


def outcomes(call):
    """(values, state afterwards) of PyTorch and of the facade."""
    found = []
    for t in (torch, fl):
        t.manual_seed(1234)
        values = call(t).detach()
        if values.is_complex():
            values = t.view_as_real(values)
        found.append((numpy.array(values.to(t.float64).tolist()), t.get_rng_state().numpy().tobytes()[:STATE_OF_WORDS]))
    return found


def same(call, tolerance=0.0):
    (wanted, state), (got, our_state) = outcomes(call)
    assert state == our_state
    numpy.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_draws_agree_bit_for_bit(name):
    same(EXACT[name])


@pytest.mark.parametrize("name", ROUNDED)
def test_other_draws_agree_to_rounding(name):
    same(ROUNDED[name], ROUNDING)


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers(name):
    same(lambda t: getattr(t.nn.init, name)(t.empty(20, 30), **INITIALISERS[name]), ROUNDING)


@pytest.mark.parametrize("made", MODULES)
def test_modules_start_with_the_same_parameters(made):
    same(lambda t: t.cat([p.flatten() for p in eval(f"t.nn.{made}", {"t": t}).parameters()]), ROUNDING)


@pytest.mark.parametrize("made", DISTRIBUTIONS)
def test_distributions(made):
    same(lambda t: eval(f"t.distributions.{made}", {"t": t}).sample((2,)), 2e-5)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}])
def test_dropout_inside_layers(options):
    def encoded(t):
        layer = t.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, **options)
        return layer(t.randn(5, 3, 8))

    def recurrent(t):
        return t.nn.LSTM(4, 6, 3, dropout=0.3, **options)(t.randn(5, 3, 4))[0]

    same(encoded, 1e-5)
    same(recurrent, 1e-5)


def test_gradients_of_gamma_draws():
    def gradient(t):
        concentration = (t.arange(1.0, 21.0, dtype=t.float64) / 4).requires_grad_()
        t.distributions.Gamma(concentration, 2.0).rsample().sum().backward()
        return concentration.grad

    same(gradient, 1e-3)


def test_samplers_and_splits():
    def order(t):
        data = t.utils.data
        rows = list(range(50))
        loader = data.DataLoader(rows, batch_size=7, shuffle=True)
        weighted = data.WeightedRandomSampler([1.0, 2.0, 3.0], 40)
        again = data.RandomSampler(rows, replacement=True, num_samples=70)
        first, second = data.random_split(rows, [30, 20])
        subset = data.SubsetRandomSampler(rows)
        drawn = [*t.cat(list(loader)).tolist(), *weighted, *again, *first.indices, *second.indices, *subset]
        return t.tensor([float(i) for i in drawn])

    same(order)


def test_states_pass_from_one_to_the_other():
    torch.manual_seed(5)
    torch.randn(3)
    fl.set_rng_state(fl.from_numpy(torch.get_rng_state().numpy()))
    assert fl.randn(700).tolist()[:9] == pytest.approx(torch.randn(700).tolist()[:9], rel=1e-6)
    torch.set_rng_state(torch.from_numpy(fl.get_rng_state().numpy()))
    assert torch.rand(3).tolist() == fl.rand(3).tolist()
