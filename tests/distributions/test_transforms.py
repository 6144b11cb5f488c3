"""Transforms: inverses, Jacobians against finite differences, shapes, caches; constraints and transforms onto
them.
"""

import copy
import math
import pickle

import numpy
import pytest

import flambeau as fl

D = fl.distributions
constraints = D.constraints


def draw(*shape, low=-1.5, high=1.5):
    return fl.tensor(numpy.random.default_rng(1).uniform(low, high, shape))


# name: (transform, x of one event)
BIJECTIONS = {
    "Affine": (D.AffineTransform(1.0, -2.0), draw()),
    "Affine events": (D.AffineTransform(1.0, draw(3), event_dim=1), draw(3)),
    "Exp": (D.ExpTransform(), draw()), "Power": (D.PowerTransform(1.7), draw(low=0.5)),
    "Power negative": (D.PowerTransform(fl.tensor(-1.5).double()), draw(low=0.5)),
    "Sigmoid": (D.SigmoidTransform(), draw()),
    "Softplus": (D.SoftplusTransform(), draw()), "Tanh": (D.TanhTransform(), draw()),
    "Cumulative": (D.CumulativeDistributionTransform(D.Normal(0.5, fl.tensor(2.0).double())), draw()),
    "StickBreaking": (D.StickBreakingTransform(), draw(4)),
    "CorrCholesky": (D.CorrCholeskyTransform(), draw(6)),
    "Reshape": (D.ReshapeTransform((2, 3), (3, 2)), draw(2, 3)),
    "Independent": (D.IndependentTransform(D.TanhTransform(), 1), draw(3)),
    "Compose": (D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.StickBreakingTransform()]), draw(3)),
    "Compose shapes": (D.ComposeTransform([D.ReshapeTransform((4,), (2, 2)), D.ExpTransform(),
                                           D.ReshapeTransform((2, 2), (4,)),
                                           D.AffineTransform(0.0, 3.0)]), draw(4)),
    "inverse": (D.SoftplusTransform().inv, draw(low=0.5)),
}


def free_coordinates(y, transform):
    """The coordinates of y that are not given by the others."""
    if isinstance(transform, D.ComposeTransform):
        transform = transform.parts[-1]
    if isinstance(transform, D.StickBreakingTransform):
        return y[..., :-1]
    if isinstance(transform, D.CorrCholeskyTransform):
        return D.utils.tril_matrix_to_vec(y, -1)
    return y.reshape(-1)


@pytest.mark.parametrize("name", BIJECTIONS)
def test_inverse(name):
    transform, x = BIJECTIONS[name]
    y = transform(x)
    numpy.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-9)
    assert transform.bijective and transform.inv.inv is transform and transform.inv is transform.inv
    assert bool(transform.domain.check(x).all()) and bool(transform.codomain.check(y).all())


@pytest.mark.parametrize("name", BIJECTIONS)
def test_jacobian(name):
    """log |det| of central differences of the free coordinates."""
    transform, x = BIJECTIONS[name]
    flat, columns = x.reshape(-1), []
    for i in range(flat.shape[0]):
        step = fl.zeros_like(flat)
        step[i] = 1e-6
        up, down = (free_coordinates(transform((flat + sign * step).reshape(x.shape)), transform)
                    for sign in (1, -1))
        columns.append(((up - down) / 2e-6).reshape(-1).numpy())
    want = numpy.linalg.slogdet(numpy.stack(columns, 1))[1]
    got = transform.log_abs_det_jacobian(x, transform(x))
    assert got.ndim == 0 and got.item() == pytest.approx(want, abs=1e-6)
    back = transform.inv.log_abs_det_jacobian(transform(x), x)
    assert back.item() == pytest.approx(-want, abs=1e-6)


@pytest.mark.parametrize("name", BIJECTIONS)
def test_shapes(name):
    transform, x = BIJECTIONS[name]
    batch = x.expand(2, 5, *x.shape)
    y = transform(batch)
    assert tuple(transform.forward_shape(batch.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(batch.shape)
    assert tuple(transform.log_abs_det_jacobian(batch, y).shape) == (2, 5)


@pytest.mark.parametrize("transform, x", [(D.AbsTransform(), draw(3)), (D.SoftmaxTransform(), draw(3)),
                                          (D.LowerCholeskyTransform(), draw(3, 3)),
                                          (D.PositiveDefiniteTransform(), draw(3, 3))])
def test_inverses_on_one_side(transform, x):
    """Of what is not bijective the inverse is still a right inverse."""
    y = transform(x)
    numpy.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-9, atol=1e-12)
    assert not transform.bijective and bool(transform.codomain.check(y).all())


def test_far_out():
    """Values stay in the codomain, inverses and Jacobians finite, where the plain formulas overflow."""
    x = fl.tensor([-200.0, 200.0])
    y = D.SigmoidTransform()(x)
    assert 0 < y[0].item() and y[1].item() < 1
    assert D.TanhTransform().log_abs_det_jacobian(x,
                                                  None).tolist() == pytest.approx([2 * math.log(2) - 400] * 2)
    assert D.SoftplusTransform()(x).tolist() == pytest.approx([0.0, 200.0], abs=1e-30)
    broken = D.StickBreakingTransform()(fl.tensor([100.0, 0.0, -100.0]))
    assert bool(constraints.simplex.check(broken))


def test_cat_and_stack():
    parts = [D.ExpTransform(), D.TanhTransform()]
    cat, x = D.CatTransform(parts, -1, [1, 2]), draw(5, 3)
    y = cat(x)
    numpy.testing.assert_allclose(y.numpy(),
                                  numpy.concatenate([numpy.exp(x.numpy()[:, :1]),
                                                     numpy.tanh(x.numpy()[:, 1:])], 1))
    numpy.testing.assert_allclose(cat.inv(y).numpy(), x.numpy(), rtol=1e-9)
    assert tuple(cat.log_abs_det_jacobian(x, y).shape) == (5, 3) and cat.length == 3
    assert bool(cat.codomain.check(y).all()) and not bool(cat.codomain.check(-y).all())
    stack = D.StackTransform(parts, 1)
    z = stack(x[:, :2])
    numpy.testing.assert_allclose(z.numpy()[:, 1], numpy.tanh(x.numpy()[:, 1]))
    numpy.testing.assert_allclose(stack.inv(z).numpy(), x.numpy()[:, :2], rtol=1e-9)
    with pytest.raises(AssertionError):
        stack(x)
    with pytest.raises(AssertionError):
        D.CatTransform(parts, lengths=[1])


def test_cache():
    """With a cache the inverse of a fresh value is the very argument; a copy or pickle has none."""
    transform = D.TanhTransform(cache_size=1)
    x = fl.tensor([30.0])
    y = transform(x)
    assert transform.inv(y) is x and transform(x) is y
    assert D.TanhTransform().inv(D.TanhTransform()(x)).item() == math.inf
    assert copy.deepcopy(transform).inv(y) is not x
    assert pickle.loads(pickle.dumps(transform))(x).item() == y.item()
    for plain in (D.ExpTransform(), D.AffineTransform(0.0, 1.0)):
        assert plain.with_cache()._cache_size == 1


def test_equality():
    assert D.ExpTransform() == D.ExpTransform() != D.TanhTransform()
    assert D.AffineTransform(1.0, 2.0) == D.AffineTransform(1.0, 2.0) != D.AffineTransform(1.0, 3.0)
    assert D.AffineTransform(fl.ones(2), 2.0) == D.AffineTransform(fl.ones(2), 2.0)
    assert D.ExpTransform().inv == D.ExpTransform().inv != D.ExpTransform()
    assert D.ComposeTransform([D.ExpTransform()]) == D.ComposeTransform([D.ExpTransform()])
    assert D.PowerTransform(2.0) != D.PowerTransform(3.0)


def test_signs():
    assert D.ComposeTransform([D.AffineTransform(0.0, -1.0), D.ExpTransform(),
                               D.PowerTransform(-1.0)]).sign == 1
    assert D.AffineTransform(0.0, fl.tensor([-1.0, 2.0])).sign.tolist() == [-1, 1]
    with pytest.raises(NotImplementedError):
        D.AbsTransform().sign       # noqa: B018


# ------------------------------------------------------------------------------ constraints
INSIDE = [
    (constraints.positive, 1.0, 0.0), (constraints.nonnegative, 0.0, -1e-9),
    (constraints.unit_interval, 1.0, 1.01),
    (constraints.half_open_interval(0, 1), 0.0, 1.0), (constraints.interval(-1, 2), 2.0, 2.1),
    (constraints.less_than(3), 2.0, 3.0),
    (constraints.greater_than(3), 3.1, 3.0), (constraints.greater_than_eq(3), 3.0, 2.9),
    (constraints.real, -1e30, math.nan),
    (constraints.boolean, 1.0, 0.5), (constraints.nonnegative_integer, 0.0, 0.5),
    (constraints.positive_integer, 1.0, 0.0),
    (constraints.integer_interval(1, 3), 3.0, 4.0), (constraints.simplex, [0.5, 0.5], [0.5, 0.6]),
    (constraints.one_hot, [0.0, 1.0], [1.0, 1.0]), (constraints.multinomial(3), [1.0, 2.0], [2.0, 2.0]),
    (constraints.real_vector, [1.0, 2.0], [1.0, math.nan]),
    (constraints.lower_triangular, [[1.0, 0], [2, -3]], [[1.0, 1], [0, 1]]),
    (constraints.lower_cholesky, [[1.0, 0], [2, 3]], [[1.0, 0], [2, -3]]),
    (constraints.symmetric, [[1.0, 2], [2, 1]], [[1.0, 2], [0, 1]]),
    (constraints.corr_cholesky, [[1.0, 0], [0.6, 0.8]], [[1.0, 0], [0.6, 0.9]]),
    (constraints.positive_definite, [[2.0, 1], [1, 2]], [[1.0, 2], [2, 1]]),
    (constraints.square, [[1.0, 2], [3, 4]], [[1.0, 2]]),
    (constraints.positive_semidefinite, [[1.0, 1], [1, 1]], [[1.0, 2], [2, 1]]),
    (constraints.independent(constraints.positive, 1), [1.0, 2.0], [1.0, 0.0]),
    (constraints.cat([constraints.positive, constraints.real], -1), [1.0, -1.0], [-1.0, 1.0]),
    (constraints.stack([constraints.positive, constraints.real], -1), [1.0, -1.0], [-1.0, 1.0]),
]


@pytest.mark.parametrize("constraint, inside, outside", INSIDE, ids=lambda c: type(c).__name__)
def test_checks(constraint, inside, outside):
    assert constraint.check(fl.tensor(inside)).all().item() is True
    assert constraint.check(fl.tensor(outside)).all().item() is False


def test_checks_of_batches():
    matrices = fl.tensor([[[2.0, 1], [1, 2]], [[1.0, 2], [2, 1]]])
    assert constraints.positive_definite.check(matrices).tolist() == [True, False]
    assert constraints.independent(constraints.real, 1).check(fl.ones(0, 3)).tolist() == []
    assert constraints.simplex.check(fl.ones(2, 3, 4) / 4).shape == (2, 3)


def test_dependent_constraints():
    assert constraints.is_dependent(constraints.dependent) and not constraints.is_dependent(constraints.real)
    assert constraints.is_dependent(D.Uniform.support)
    assert not constraints.is_dependent(D.Uniform(0.0, 1.0).support)
    assert D.Uniform.support.event_dim == 0 and D.Multinomial.support.is_discrete
    with pytest.raises(NotImplementedError):
        constraints.dependent.event_dim     # noqa: B018
    with pytest.raises(ValueError):
        constraints.dependent.check(fl.ones(2))


@pytest.mark.parametrize("constraint", [c for c, _, _ in INSIDE if not c.is_discrete],
                         ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
def test_transforms_onto_constraints(registry, constraint):
    unknown = {"Square", "Symmetric",
               "LowerTriangular"} | ({"LowerCholesky", "PositiveDefinite", "PositiveSemidefinite"}
                                                            if registry is D.biject_to else set())
    if type(constraint).__name__ in unknown:
        with pytest.raises(NotImplementedError):
            registry(constraint)
        return
    transform = registry(constraint)
    shape = {0: (7,), 1: (7, 2), 2: (7, 3, 3)}[max(transform.domain.event_dim, constraint.event_dim > 0)]
    shape = (7, 3) if type(constraint).__name__ == "CorrCholesky" else shape
    shape = (7, 2) if type(constraint).__name__ in ("Cat", "Stack") else shape
    y = transform(draw(*shape, low=-3, high=3))
    assert constraint.check(y).all().item()
    assert transform.bijective or registry is D.transform_to
    numpy.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-6)


def test_registering():
    class Even(constraints.Constraint):
        pass

    @D.biject_to.register(Even)
    def doubled(constraint):
        return D.AffineTransform(0.0, 2.0)
    assert D.biject_to(Even())(fl.tensor(3.0)).item() == 6
    with pytest.raises(TypeError):
        D.biject_to.register(int, doubled)
    with pytest.raises(NotImplementedError):
        D.transform_to(Even())


def test_triangles_and_vectors():
    for diagonal, entries in ((0, 6), (-1, 3), (1, 8)):
        vector = fl.arange(float(entries)) + 1
        matrix = D.utils.vec_to_tril_matrix(vector, diagonal)
        assert tuple(matrix.shape) == (3, 3)
        assert D.utils.tril_matrix_to_vec(matrix, diagonal).tolist() == vector.tolist()
        assert bool((matrix.triu(diagonal + 1) == 0).all())
    with pytest.raises(ValueError):
        D.utils.vec_to_tril_matrix(fl.ones(4))
    with pytest.raises(ValueError):
        D.utils.tril_matrix_to_vec(fl.ones(3, 3), 3)
