"""Random draws: the same numbers whatever the threads, moments, seeds and generator states."""

import math

import numpy
import pytest

import flambeau as fl

DRAWS = {
    "rand": lambda g: fl.rand(300, 401, generator=g), "randn": lambda g: fl.randn(300, 401, generator=g),
    "randn64": lambda g: fl.randn(120_300, dtype=fl.float64, generator=g),
    "half": lambda g: fl.rand(120_300, dtype=fl.float16, generator=g),
    "randint": lambda g: fl.randint(-5, 1000, (300, 401), generator=g),
    "randperm": lambda g: fl.randperm(50_000, generator=g),
    "bernoulli": lambda g: fl.bernoulli(fl.full((300, 401), 0.3), generator=g),
    "uniform_": lambda g: fl.empty(300, 401).uniform_(2, 3, generator=g),
    "normal_": lambda g: fl.empty(300, 401).normal_(1, 2, generator=g),
}


@pytest.fixture
def threads():
    before = fl.get_num_threads()
    yield fl.set_num_threads
    fl.set_num_threads(before)


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_numbers_for_any_number_of_threads(name, threads):
    drawn = []
    for count in (1, 2, 5):
        threads(count)
        drawn.append(DRAWS[name](fl.Generator().manual_seed(3)))
    assert (drawn[0] == drawn[1]).all() and (drawn[0] == drawn[2]).all()


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_decides_and_draws_differ(name):
    g = fl.Generator().manual_seed(3)
    first, second = DRAWS[name](g), DRAWS[name](g)
    assert (first != second).any()
    g.manual_seed(3)
    assert (DRAWS[name](g) == first).all()
    assert (DRAWS[name](fl.Generator().manual_seed(4)) != first).any()


def moments(x):
    values = x.double().numpy().reshape(-1)
    return values.mean(), values.var(), values


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_uniform_numbers(dtype):
    mean, variance, values = moments(fl.rand(400_000, dtype=dtype, generator=fl.Generator().manual_seed(0)))
    assert values.min() >= 0 and values.max() < 1
    assert abs(mean - 0.5) < 5 * math.sqrt(1 / 12 / 400_000) and abs(variance - 1 / 12) < 1e-3
    counts = numpy.histogram(values, 64, (0, 1))[0]
    assert ((counts - 6250) ** 2 / 6250).sum() < 130          # chi squared, 63 degrees of freedom
    pairs = numpy.corrcoef(values[:-1], values[1:])[0, 1]
    assert abs(pairs) < 0.01


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_normal_numbers(dtype):
    from scipy.stats import kstest
    mean, variance, values = moments(fl.randn(400_000, dtype=dtype, generator=fl.Generator().manual_seed(0)))
    assert abs(mean) < 0.01 and abs(variance - 1) < 0.01 and abs((values ** 3).mean()) < 0.03
    assert abs((values ** 4).mean() - 3) < 0.1 and 4 < values.max() < 7
    assert kstest(values[:50_000], "norm").pvalue > 1e-3


def test_halves_are_below_one():
    for dtype in (fl.float16, fl.bfloat16):
        drawn = fl.rand(100_000, dtype=dtype, generator=fl.Generator().manual_seed(1)).float()
        assert drawn.max().item() < 1 and abs(drawn.mean().item() - 0.5) < 0.01


def test_integers_and_permutations():
    g = fl.Generator().manual_seed(0)
    drawn = fl.randint(-3, 4, (70_000,), generator=g)
    counts = numpy.bincount(drawn.numpy() + 3)
    assert len(counts) == 7 and abs(counts - 10_000).max() < 500
    assert fl.randint(5, (3, 2), generator=g).shape == (3, 2)
    assert sorted(fl.randperm(100, generator=g).tolist()) == list(range(100)) and fl.randperm(0).shape == (0,)
    with pytest.raises(RuntimeError, match="less than"):
        fl.randint(5, 5, (2,))


def test_bernoulli():
    drawn = fl.bernoulli(fl.full((100_000,), 0.3), generator=fl.Generator().manual_seed(0))
    assert set(drawn.unique().tolist() if hasattr(drawn, "unique") else drawn.tolist()) == {0.0, 1.0}
    assert abs(drawn.mean().item() - 0.3) < 0.01
    assert fl.bernoulli(fl.zeros(10)).sum().item() == 0 and fl.bernoulli(fl.ones(10)).sum().item() == 10


def test_the_default_generator():
    fl.manual_seed(5)
    first = fl.rand(4)
    state = fl.get_rng_state()
    second = fl.rand(4)
    fl.set_rng_state(state)
    assert (fl.rand(4) == second).all() and (first != second).any()
    fl.manual_seed(5)
    assert (fl.rand(4) == first).all() and fl.initial_seed() == 5
    assert fl.seed() == fl.initial_seed()


def test_generator_states_are_tensors_of_bytes():
    g = fl.Generator().manual_seed(-1)
    fl.rand(3, generator=g)
    state = g.get_state()
    assert state.dtype is fl.uint8
    other = fl.Generator().set_state(state)
    assert (fl.rand(3, generator=g) == fl.rand(3, generator=other)).all()
    with pytest.raises(RuntimeError):
        other.set_state(fl.zeros(3, dtype=fl.uint8))
    with pytest.raises(RuntimeError):
        other.manual_seed(1 << 64)


def test_a_draw_does_not_depend_on_the_shape_before_it():
    """One call takes one step of the generator, so that a resumed run stays in step."""
    a, b = fl.Generator().manual_seed(0), fl.Generator().manual_seed(0)
    fl.rand(3, generator=a)
    fl.rand(1000, 7, generator=b)
    assert (fl.rand(5, generator=a) == fl.rand(5, generator=b)).all()


def test_dropout_scales_and_draws_anew():
    fl.manual_seed(0)
    x = fl.ones(100_000, requires_grad=True)
    dropout = fl.nn.functional.dropout
    y = dropout(x, 0.25)
    y.sum().backward()
    assert set(y.detach().double().numpy().round(4).tolist()) == {0.0, round(1 / 0.75, 4)}
    assert abs(y.mean().item() - 1) < 0.01 and (x.grad == y.detach()).all()
    assert (dropout(x, 0.25) != y).any() and (dropout(x, 0.25, training=False) == x).all()
