"""Draws from distributions: their moments, what they refuse, and that a seed repeats them."""

import numpy as np
import pytest

import flambeau as fl

COUNT = 20000


@pytest.fixture(autouse=True)
def seeded():
    fl.manual_seed(1)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_follows_its_weights(replacement):
    weights = fl.tensor([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]]).repeat(COUNT // 2, 1)
    first = fl.multinomial(weights, 2, replacement)[:, 0].reshape(-1, 2).numpy()
    assert first.dtype == np.int64
    np.testing.assert_allclose([(first[:, 0] == k).mean() for k in range(3)], [0.25, 0, 0.75], atol=0.02)
    np.testing.assert_allclose([(first[:, 1] == k).mean() for k in range(3)], [0.5, 0.5, 0], atol=0.02)


def test_multinomial_without_replacement_draws_each_once():
    drawn = fl.multinomial(fl.rand(50, 6) + 0.1, 6)
    assert (drawn.sort(-1)[0] == fl.arange(6)).all()
    assert fl.multinomial(fl.tensor([0.0, 2.0]), 5, replacement=True).tolist() == [1] * 5


@pytest.mark.parametrize("weights, count, message", [
    ([1.0, 1.0], 3, "without replacement"), ([0.0, 0.0], 1, "sum of probabilities <= 0"),
    ([1.0, -1.0], 1, "element < 0"),
    ([float("nan"), 1.0], 1, "element < 0"), ([1.0, 1.0], 0, "n_sample <= 0"), ([[[1.0]]], 1, "1 or 2 dim"),
    ([1, 2], 1, "floating"),
])
def test_multinomial_refuses(weights, count, message):
    with pytest.raises(RuntimeError, match=message):
        fl.multinomial(fl.tensor(weights), count)


def test_normal():
    mean, std = fl.tensor([[0.0], [10.0]]), fl.tensor([1.0, 3.0])
    drawn = fl.stack([fl.normal(mean, std) for _ in range(2000)]).numpy()
    np.testing.assert_allclose(drawn.mean(0), [[0, 0], [10, 10]], atol=0.3)
    np.testing.assert_allclose(drawn.std(0), [[1, 3], [1, 3]], rtol=0.1)
    assert fl.normal(0.0, 1.0, (2, 3)).shape == (2, 3) and fl.normal(fl.zeros(4)).shape == (4,)
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        fl.normal(fl.zeros(2), -1.0)


@pytest.mark.parametrize("fill, mean, spread", [
    (lambda x: x.exponential_(2.0), 0.5, 0.5), (lambda x: x.geometric_(0.25), 4, 12 ** 0.5),
    (lambda x: x.log_normal_(0.0, 0.5), np.exp(0.125), np.exp(0.125) * np.sqrt(np.exp(0.25) - 1)),
    (lambda x: fl.poisson(x.fill_(3.5)), 3.5, 3.5 ** 0.5),
    (lambda x: fl.binomial(x.fill_(10), fl.full_like(x, 0.3)), 3, 2.1 ** 0.5),
], ids=["exponential", "geometric", "log_normal", "poisson", "binomial"])
def test_moments(fill, mean, spread):
    drawn = fill(fl.empty(COUNT)).numpy()
    assert drawn.mean() == pytest.approx(mean, abs=5 * spread / COUNT ** 0.5)
    assert drawn.std() == pytest.approx(spread, rel=0.1)


def test_cauchy_has_its_quartiles():
    drawn = fl.empty(COUNT).cauchy_(2.0, 3.0).numpy()
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75]), [-1, 2, 5], atol=0.3)


def test_a_seed_repeats_and_a_generator_has_draws_of_its_own():
    def draw(generator=None):
        return [fl.multinomial(fl.ones(5), 3, generator=generator).tolist(),
                fl.poisson(fl.ones(5), generator).tolist(),
                fl.empty(3).exponential_(generator=generator).tolist()]

    first = draw()
    fl.manual_seed(1)
    assert draw(fl.Generator().manual_seed(7)) == draw(fl.Generator().manual_seed(7))
    assert draw() == first


@pytest.mark.parametrize("method, arguments", [("exponential_", (0,)), ("geometric_", (1.5,)),
                                               ("log_normal_", (0, 0)),
                                               ("cauchy_", (0, 0))])
def test_parameters_are_checked(method, arguments):
    with pytest.raises(RuntimeError, match=f"{method} expects"):
        getattr(fl.ones(2), method)(*arguments)
    if method != "geometric_":
        with pytest.raises(RuntimeError, match="needs a floating point tensor"):
            getattr(fl.ones(2, dtype=fl.int64), method)()


def test_randint_like():
    drawn = fl.randint_like(fl.zeros(1000, dtype=fl.int8), 2, 5)
    assert drawn.dtype is fl.int8 and set(drawn.tolist()) == {2, 3, 4}
