"""PyTorch's stream of random numbers, against numbers that PyTorch 2.13 gave on the CPU; states, copies, the choice.

tests/parity/test_random_stream.py compares many more calls with PyTorch itself.
"""

import copy
import pickle
import zlib

import numpy
import pytest

import flambeau as fl
from flambeau.runtime._core import MersenneTwister
from flambeau.tensor.rng import chosen, default_generator, using_stream

# After manual_seed(42): the call, its first three values, its last, their sum; the place of the next word in the state,
# and the state's 624 words as a checksum.
DRAWN = {
    "rand": ("t.rand(3)",
        (0.882269263, 0.915003955, 0.38286376), 0.38286376, 2.18013698, 3, 2115474153),
    "rand64": ("t.rand(5, dtype=t.float64)",
        (0.058154486, 0.0629101674, 0.123586073), 0.526171897, 0.823402787, 10, 2115474153),
    "rand_many": ("t.rand(1000)",
        (0.882269263, 0.915003955, 0.38286376), 0.0296570063, 486.311796, 376, 2613646834),
    "rand16": ("t.rand(5, dtype=t.float16)",
        (0.882324219, 0.915039062, 0.3828125), 0.390380859, 3.5300293, 5, 2115474153),
    "uniform_": ("t.empty(700).uniform_(-0.1234, 0.3127)",
        (0.261357635, 0.275633216, 0.0435668863), 0.295122981, 60.3633901, 76, 2613646834),
    "randn_few": ("t.randn(5)",
        (0.336690366, 0.128809407, 0.234462366), -1.12285638, -0.192561209, 12, 2115474153),
    "randn": ("t.randn(40)",
        (1.92691529, 1.48728406, 0.900717199), -1.28621554, 3.54475088, 56, 2115474153),
    "randn64": ("t.randn(40, dtype=t.float64)",
        (0.299556288, 0.242377791, 0.283207394), -0.00449538617, -2.29316215, 112, 2115474153),
    "randn16": ("t.randn(40, dtype=t.float16)",
        (1.92675781, 1.48730469, 0.900878906), -0.487792969, -2.21383667, 48, 2115474153),
    "normal_": ("t.empty(1000).normal_(1.0, 0.02)",
        (1.03853834, 1.0297457, 1.01801431), 0.982930899, 1000.08463, 392, 2613646834),
    "normal_transposed": ("t.empty(5, 8).t().normal_()",
        (0.336690366, 0.461657226, 1.32213509), 0.99123776, 7.23986842, 80, 2115474153),
    "randint": ("t.randint(0, 1000, (50,))",
        (542.0, 67.0, 876.0), 677.0, 23697.0, 50, 2115474153),
    "randint_wide": ("t.randint(0, 2**40, (50,))",
        (441507790000.0, 395924838000.0, 458615281000.0), 227767756000.0, 25741546900000.0, 100,
        2115474153),
    "random_": ("t.empty(9, dtype=t.int64).random_()",
        (6.90904564e+18, 8.31421156e+18, 4.27953281e+18), 1.86524274e+18, 3.67697988e+19, 18, 2115474153),
    "randperm": ("t.randperm(1000)",
        (542.0, 618.0, 816.0), 455.0, 499500.0, 375, 2613646834),
    "bernoulli": ("t.bernoulli(t.full((50,), 0.3))",
        (0.0, 0.0, 0.0), 1.0, 12.0, 50, 2115474153),
    "bernoulli_": ("t.empty(50).bernoulli_(0.3)",
        (1.0, 1.0, 1.0), 0.0, 21.0, 100, 2115474153),
    "multinomial": ("t.multinomial(t.arange(1.0, 30.0), 9)",
        (24.0, 25.0, 20.0), 9.0, 160.0, 58, 2115474153),
    "multinomial_again": ("t.multinomial(t.arange(1.0, 30.0), 50, True)",
        (6.0, 6.0, 9.0), 22.0, 820.0, 100, 2115474153),
    "exponential_": ("t.empty(50).exponential_(2.0)",
        (0.0299570076, 0.032488063, 0.0659583881), 0.436058551, 19.9524209, 100, 2115474153),
    "cauchy_": ("t.empty(50).cauchy_()",
        (-5.41248751, -4.99370098, -2.44487429), 0.26324451, -31.776261, 100, 2115474153),
    "geometric_": ("t.empty(50).geometric_(0.3)",
        (8.0, 8.0, 6.0), 2.0, 204.0, 100, 2115474153),
    "log_normal_": ("t.empty(50).log_normal_(0.0, 0.5)",
        (1.18334496, 1.06652391, 1.12437928), 0.569293499, 58.0679368, 100, 2115474153),
    "poisson": ("t.poisson(t.arange(50.0))",
        (0.0, 0.0, 0.0), 42.0, 1247.0, 282, 2115474153),
    "binomial": ("t.binomial(t.full((40,), 30.0), t.arange(40.0) / 40)",
        (0.0, 0.0, 0.0), 29.0, 563.0, 374, 2115474153),
    "dropout": ("t.nn.functional.dropout(t.ones(50), 0.3)",
        (1.42857146, 1.42857146, 1.42857146), 1.42857146, 57.1428585, 100, 2115474153),
    "dropout_transposed": ("t.nn.functional.dropout(t.ones(5, 8).t(), 0.3)",
        (1.42857146, 1.42857146, 1.42857146), 1.42857146, 47.1428583, 80, 2115474153),
    "alpha_dropout": ("t.nn.functional.alpha_dropout(t.arange(50.0), 0.3, True)",
        (0.454092056, 1.31504464, 2.17599726), 42.6407738, 850.440828, 100, 2115474153),
    "trunc_normal_": ("t.nn.init.trunc_normal_(t.empty(20, 30), std=0.02)",
        (0.0385383032, 0.0297456812, 0.0180143435), -0.00173590891, 0.262338426, 616, 2115474153),
    "kaiming": ("t.nn.Linear(30, 20).weight.detach()",
        (0.139585003, 0.151538014, -0.0427721068), 0.0211447943, -4.55323867, 620, 2115474153),
    "lstm": ("t.nn.LSTM(4, 5).bias_hh_l0.detach()",
        (-0.406184763, -0.16503869, 0.376611739), -0.170335397, -0.828247486, 220, 2115474153),
    "attention": ("t.nn.functional.scaled_dot_product_attention(t.ones(1, 2, 4, 2), t.ones(1, 2, 4, 2), "
        "t.arange(16.0).view(1, 2, 4, 2), dropout_p=0.3)",
        (4.28571415, 5.71428585, 0.714285731), 17.1428585, 145.000003, 64, 2115474153),
    "gamma": ("t.distributions.Gamma(t.full((20,), 0.7), 1.0).sample()",
        (1.83513093, 0.554298103, 0.0219430253), 0.128304392, 15.9434059, 126, 2115474153),
}
WORDS = slice(24, 24 + 624 * 8)


@pytest.fixture
def pytorch():
    with using_stream("pytorch"):
        yield


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_of_pytorch(name, pytorch):
    call, first, last, total, place, checksum = DRAWN[name]
    fl.manual_seed(42)
    values = numpy.array(eval(call, {"t": fl}).detach().double().tolist()).reshape(-1)
    state = bytes(fl.get_rng_state().tolist())
    assert int.from_bytes(state[16:24], "little") == place and zlib.crc32(state[WORDS]) == checksum
    numpy.testing.assert_allclose(values[:3], first, rtol=3e-6)
    numpy.testing.assert_allclose([values[-1], values.sum()], [last, total], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("instructions", [0, 1, 2])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_every_instruction_set_gives_the_same_bits(instructions, dtype):
    ours, best = MersenneTwister(3, instructions), MersenneTwister(3)
    for draw, shape in ((lambda m, t: m.uniform(t, -0.3, 0.7), (1999,)), (lambda m, t: m.normal(t, 1.0, 0.3), (1999,)),
                        (lambda m, t: m.normal(t), (5,))):
        one, other = fl.empty(shape, dtype=dtype), fl.empty(shape, dtype=dtype)
        assert draw(ours, one) and draw(best, other)
        assert one.tolist() == other.tolist() and ours.to_bytes() == best.to_bytes()
    one, other = fl.empty(1999, dtype=fl.bool), fl.empty(1999, dtype=fl.bool)
    assert ours.below(one, 0.3) and best.below(other, 0.3) and one.tolist() == other.tolist()


@pytest.mark.parametrize("instructions", [0, 1, 2])
def test_remainders_are_exact(instructions):
    words = fl.empty(20_000, dtype=fl.int64)
    assert MersenneTwister(7, instructions).integers(words, 0)
    for size in (1, 2, 3, 10, 1000, 2**20 - 3, 2**28 - 1, 2**31 - 1, 2**31, 2**31 + 1):
        drawn = fl.empty(20_000, dtype=fl.int64)
        assert MersenneTwister(7, instructions).integers(drawn, size, -5)
        assert (drawn.numpy() == words.numpy() % size - 5).all()


def test_what_cannot_be_filled_is_refused():
    twister = MersenneTwister(0)
    before = twister.to_bytes()
    assert not twister.uniform(fl.empty(3, dtype=fl.int64)) and not twister.uniform(fl.empty(3, 4).t())
    assert not twister.permutation(fl.empty(3)) and not twister.below(fl.empty(3), 0.5)
    assert twister.to_bytes() == before
    with pytest.raises(TypeError, match="row-major float32 or float64 weights"):
        twister.categories(fl.empty(3, dtype=fl.int64), fl.arange(3))
    with pytest.raises(TypeError, match="row-major float64"):
        twister.counts("poisson", fl.empty(3), fl.ones(3))
    for data in (b"", bytes(5056)):
        with pytest.raises(RuntimeError, match="RNG state is wrong size|Invalid mt19937 state"):
            twister.from_bytes(data)
    assert twister.to_bytes() == before


def test_a_state_comes_back(pytorch):
    generator = fl.Generator().manual_seed(9)
    fl.randn(3, generator=generator)                # leaves half of a pair
    state = generator.get_state()
    assert state.dtype is fl.uint8 and state.numel() == 5056

    def again():
        return fl.Generator().set_state(state)

    made = fl.randn(4, generator=generator).tolist(), fl.rand(800, generator=generator).tolist()
    for other in (again(), pickle.loads(pickle.dumps(again())), copy.deepcopy(again()), again().clone_state(),
                  fl.Generator().graphsafe_set_state(again())):
        assert other.initial_seed() == 9
        assert (fl.randn(4, generator=other).tolist(), fl.rand(800, generator=other).tolist()) == made
    with pytest.raises(TypeError, match="ByteTensor"):
        generator.set_state(fl.zeros(5056))


def test_the_streams_are_kept_apart():
    fl.manual_seed(0)
    counted = fl.rand(3).tolist()
    with using_stream("pytorch"):
        fl.manual_seed(0)
        twisted = fl.rand(3).tolist()
        assert chosen.pytorch
    assert not chosen.pytorch and counted != twisted
    fl.manual_seed(0)
    assert fl.rand(3).tolist() == counted
    assert default_generator.get_state().numel() == 16
    with pytest.raises(ValueError, match="'counter' and 'pytorch'"), using_stream("philox"):
        pass


def test_gradients_of_dropout_and_attention(pytorch):
    fl.manual_seed(1)
    x = fl.randn(4, 6, dtype=fl.float64, requires_grad=True)
    fl.manual_seed(2)
    out = fl.nn.functional.dropout(x, 0.25)
    kept = out.detach() != 0
    out.sum().backward()
    assert x.grad.tolist() == (kept.double() / 0.75).tolist() and 0 < int(kept.sum()) < 24

    query, key, value = (fl.randn(1, 2, 3, 4, dtype=fl.float64, requires_grad=True) for _ in range(3))

    def attended(query, key, value):
        fl.manual_seed(3)
        return fl.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.4, is_causal=True)

    assert fl.autograd.gradcheck(attended, (query, key, value))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_dropout_and_draws_under_vmap(pytorch, randomness):
    def example(x):
        return fl.nn.functional.dropout(x, 0.5) + 0 * fl.rand(8)

    rows = fl.func.vmap(example, randomness=randomness)(fl.ones(20, 8)).tolist()
    assert (len({tuple(row) for row in rows}) == 1) == (randomness == "same")


def test_a_draw_is_a_write(pytorch):
    x = fl.ones(4, requires_grad=True)
    z = (x * 2).exp()
    version = z._version
    with fl.no_grad():
        z.uniform_()
    assert z._version == version + 1
    with pytest.raises(RuntimeError):
        z.sum().backward()
    assert fl.rand(3)._version == fl.randperm(3)._version == fl.randn_like(x)._version == 0


def test_the_gradient_of_gamma_draws(pytorch):
    fl.manual_seed(0)
    concentration = fl.full((4000,), 2.5, dtype=fl.float64, requires_grad=True)
    fl.distributions.Gamma(concentration, 1.0).rsample().sum().backward()
    assert abs(concentration.grad.mean().item() - 1.0) < 0.05           # the mean of a draw is the concentration


@pytest.mark.parametrize("stream", ["counter", "pytorch"])
def test_parameters_are_checked(stream):
    with using_stream(stream):
        with pytest.raises(RuntimeError, match="std >= 0.0, but found std -1"):
            fl.empty(3).normal_(0.0, -1.0)
        with pytest.raises(RuntimeError, match=r"p to be in \[0, 1\], but got p=1.5"):
            fl.empty(3).bernoulli_(1.5)
        with pytest.raises(RuntimeError, match="got from=5 >= to=3"):
            fl.empty(3).random_(5, 3)
        with pytest.raises(RuntimeError, match="got from=0 >= to=0"):
            fl.empty(3).random_(0)
        with pytest.raises(RuntimeError, match="`inf`, `nan` or element < 0"):
            fl.multinomial(fl.tensor([1.0, -1.0]), 3, True)
        with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
            fl.multinomial(fl.zeros(2), 1)
