"""Masked tensors beside PyTorch's: what they print, what is refused, and gradients. Skipped where PyTorch is not installed."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from flambeau import torch as facade     # noqa: E402

# X has a row that is masked out, Y the same mask, N NaN where it is masked out, S and C the layouts of X.
VALUES = """
X
X[0]
X[:, 1:]
X[:, None]
X[..., 0]
X[[0, 1]]
X[X.get_mask()]
X.t()
X.view(3, 2)
X.flatten()
X.expand(2, 2, 3)
X.split(2, 1)
t.cat([X, Y])
t.stack([X, Y])
X + 1
1 + X
X / Y
X - t.ones(2, 3)
X * t.tensor([1., 2., 3.])
X % 2
X > 2
X == Y
X.pow(2)
X.clamp(2, 3)
X.logaddexp(Y)
t.maximum(X, Y)
-X
X.isnan()
X.double()
X.int()
X.sum()
X.sum(1)
X.sum(0, keepdim=True)
X.sum((0, 1))
X.mean(1)
X.prod(0)
X.amin(1)
X.amax()
X.argmin(1)
t.argmax(X)
X.all(1)
X.var(1)
X.std()
N.sum()
N.mean()
X[1].sum()
X.int().sum(1)
X.softmax(1)
t.where(X.get_mask(), X, t.zeros(2, 3))
t.where(t.tensor([True, False, False]), X, Y)
X.to_tensor(9)
X.detach().add_(1)
X.detach().sqrt_()
S
S.get_data()
S.get_mask()
S.sqrt()
S * S + 1
S.sum()
S.std()
S.argmax()
S.to_dense()
S.to_sparse_csr()
C
C.get_data()
C / C
C.mean()
(X.is_sparse, S.is_sparse, C.is_sparse, S.is_sparse_coo(), S.is_sparse_csr(), C.is_sparse_csr(), X.layout, S.layout)
(X.shape, X.dtype, X.requires_grad, X.is_leaf, X.stride(), X.is_contiguous(), X.sum().item())
t.masked.sum(X, 1)
t.masked.amax(X, 0)
t.masked.argmin(X, 1)
M(t.arange(3) * 100000, t.tensor([True, False, True]))
M(t.tensor([-123456.5, 2.]), t.tensor([True, False]))
M(t.tensor(True), t.tensor(False))
M(t.tensor([[0, 0, 3], [4, 0, 5]]).to_sparse(), t.tensor([[False, False, True], [False, False, True]]).to_sparse()).get_data()
M([1], t.tensor([True]))
M(t.ones(2), t.ones(2))
M(t.ones(2), t.ones(3).bool())
M(t.ones(2), t.ones(2, 1).bool())
M(t.ones(2).bfloat16(), t.ones(2).bool())
X + M(t.ones(2, 3), ~X.get_mask())
X[0].to_sparse_csr()
"""
GRADIENTS = """
X.sum()
X.mean()
(X * X).sum()
X.prod()
X.amax()
X.var()
X.exp().sum()
X[0].sum()
X.t().sum()
(X.softmax(1) * X).sum()
X.get_data().sum()
X.to_tensor(0).sum()
X.mean(0).sum()
X.log().sum()
X.pow(3).sum()
X.expand(2, 2, 3).sum()
t.cat([X, X]).sum()
X.double().sum()
X.to_sparse().to_dense().sum()
(P * N).sum()
t.masked.as_masked_tensor(P * 2, X.get_mask()[0]).sum()
t.masked.as_masked_tensor(P / t.tensor([1., 0., 2.]), X.get_mask()[0]).mean()
"""


def names(t):
    kept = t.tensor([[True, False, True], [False, False, False]])
    make = t.masked.masked_tensor
    x = make(t.arange(6.).reshape(2, 3) + 1, kept, requires_grad=True)
    return {"t": t, "M": make, "X": x, "Y": make(t.full((2, 3), 2.), kept), "S": x.detach().to_sparse(),
            "N": make(t.tensor([1., float("nan"), 3.]), kept[0]), "C": x.detach().to_sparse_csr(),
            "P": t.tensor([1., 2., 3.], requires_grad=True)}


def lines(text):
    return [line for line in text.splitlines() if line]


def shown(t, line, gradient):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = names(t)
        try:
            value = eval(line, given)                      # noqa: S307 - our own lines
            if gradient:
                value.backward()
                value = given["X"].grad, given["P"].grad
            return repr(value).split(", grad_fn")[0]
        except (TypeError, ValueError) as error:
            return type(error).__name__


@pytest.mark.parametrize("line", lines(VALUES))
def test_values(line):
    assert shown(facade, line, False) == shown(torch, line, False)


@pytest.mark.parametrize("line", lines(GRADIENTS))
def test_gradients(line):
    assert shown(facade, line, True) == shown(torch, line, True)
