"""Sparse and nested tensors beside PyTorch's: what they print, which shows places, values, sizes, layouts and dtypes.
Skipped where PyTorch is not installed."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from flambeau import torch as facade     # noqa: E402

# Names: D dense, S coordinates, C compressed rows, U with repeated places, H and K with dense axes, W a dense matrix.
SPARSE = """
t.sparse_coo_tensor([[0,1,1],[2,0,2]],[3.,4.,5.],(2,3))
t.sparse_coo_tensor([[0,1,1],[2,0,2]],[3.,4.,5.])
t.sparse_coo_tensor([[0,1,1],[2,0,0]],[3.,4.,5.]).coalesce()
t.sparse_coo_tensor([[0,1,1],[2,0,0]],[3,4,5]).coalesce()
t.sparse_coo_tensor([[0,1,1],[2,0,0]],[3.,4.,5.]).to_dense()
t.sparse_coo_tensor((2,3))
t.sparse_coo_tensor(t.zeros(2,0,dtype=t.int64), t.zeros(0), (2,3))
t.sparse_coo_tensor([[0,2]], [[1.,2.],[3.,4.]], (4,2))
t.sparse_coo_tensor([[0,2]], [[1.,2.],[3.,4.]], (4,2), requires_grad=True)
t.sparse_coo_tensor([[0,2]], [1.,2.], (4,), dtype=t.float64)
D.to_sparse()
D.to_sparse(1)
D.to_sparse_csr()
D.to_sparse_csc()
D.to_sparse_csr().to_dense()
D.to_sparse_csc().to_dense()
D.to_sparse_bsr((2,2))
D.to_sparse_bsc((2,3))
D.to_sparse_bsc((2,3)).to_dense()
D.to_sparse_bsr((2,3)).to_dense()
D.to_sparse_bsr((2,2)).t().to_dense()
D.to_sparse_csr().to_sparse()
D.to_sparse().to_sparse_csr()
D.to_sparse().to_sparse_csc()
D.to_sparse_csr().to_sparse_csc()
D.to_sparse().to_sparse_bsr((2,2))
t.sparse_csr_tensor([0,1,3],[1,0,2],[1.,2.,3.])
t.sparse_csc_tensor([0,1,3],[1,0,2],[1.,2.,3.])
t.sparse_bsr_tensor([0,1,2],[1,0],[[[1.,2.]],[[3.,4.]]])
t.sparse_compressed_tensor([0,1,3],[1,0,2],[1.,2.,3.], layout=t.sparse_csr)
(S.layout, S.is_sparse, S.is_sparse_csr, C.is_sparse, C.is_sparse_csr, C.layout, D.is_sparse, D.layout)
(S._nnz(), S.sparse_dim(), S.dense_dim(), S.shape, S.ndim, S.dtype, S.device, S.numel(), S.is_coalesced(), U.is_coalesced())
(C._nnz(), C.sparse_dim(), C.dense_dim(), C.shape)
(S.indices(), S.values(), S._indices(), S._values())
(C.crow_indices(), C.col_indices(), C.values())
U
U.coalesce()
-S
S*2
2*S
S/4
S*t.tensor(2.)
S.abs()
S.sqrt()
U.sqrt()
S.sin()
S.pow(2)
S**2
S.sign()
S.relu()
S.neg()
U.abs()
S.log1p()
C.sin()
C*2
-C
C.abs()
S+S
U+U
S-S
S.add(S, alpha=3)
S.sub(S, alpha=3)
(D+S)
D-S
D.add(S, alpha=2)
S*S
S*D
D*S
C+C
C*C
S@W
C@W
W.t()@S.t()
W.t()@C.t()
t.mm(S,W)
t.matmul(S,W)
S.mm(W)
t.sparse.mm(S,W)
t.sparse.mm(C,W)
t.sparse.mm(S,S.t()).to_dense()
t.sparse.mm(S,S.t()).coalesce()
t.mv(S, W[:,0])
S@W[:,0]
C@W[:,0]
t.addmm(t.ones(4,2), S, W, beta=2, alpha=3)
t.sparse.addmm(t.ones(4,2), S, W, beta=2, alpha=3)
t.sparse.sampled_addmm(C, t.ones(4,2), W.t())
t.sparse.sampled_addmm(C, t.ones(4,2), W.t(), beta=.5, alpha=2.)
t.sparse.mm(C, W, 'sum')
t.sparse.mm(C, W, 'mean')
t.sparse.mm(C, W, 'amax')
t.sparse.mm(C, W, 'amin')
S.sum()
t.sparse.sum(S)
t.sparse.sum(S,0)
t.sparse.sum(S,1)
t.sparse.sum(S,[0,1])
t.sum(S,1)
t.sparse.sum(H,0)
t.sparse.sum(H,1)
t.sparse.sum(H,(0,1))
t.sparse.softmax(S,1)
t.sparse.softmax(S,0)
t.sparse.log_softmax(S,1)
t.sparse.softmax(H,1)
t.sparse.softmax(H,0)
t.sparse.softmax(S,1,dtype=t.float64)
t.sparse.spdiags(t.arange(9.).reshape(3,3), t.tensor([0,-1,2]), (3,3))
t.sparse.spdiags(t.arange(9.).reshape(3,3), t.tensor([0,-1,2]), (3,3)).to_dense()
t.sparse.spdiags(t.arange(9.).reshape(3,3), t.tensor([0,-1,2]), (5,3),layout=t.sparse_csr).to_dense()
t.cat([S,S])
t.cat([S,S],1).coalesce()
t.cat([H,H],1)
t.stack([S,S])
t.stack([S,S],2).to_dense()
S.t()
S.t().coalesce()
S.transpose(0,1).to_dense()
S.permute(1,0).to_dense()
C.t()
C.transpose(0,1).to_dense()
S[1]
S[1].to_dense()
S[:,1].to_dense()
S[1,0]
S.unsqueeze(0)
S.unsqueeze(-1)
S.index_select(0,t.tensor([1,1,3])).to_dense()
S.index_select(1,t.tensor([1,0])).to_dense()
D.sparse_mask(S*1)
D.sparse_mask(K)
S.clone()
S.detach()
S.to(t.float64)
S.double()
S.to(t.int64)
S.bool()
C.to(t.float64)
S.clone().requires_grad_()
C.clone().requires_grad_()
S.clone().zero_()
S.clone().sparse_resize_and_clear_((2,5),2,0)
S.clone().sparse_resize_((6,7),2,0)
t.bmm(t.stack([S,S]), t.stack([W,W]))
S.T.to_dense()
t.nn.functional.linear(W.t(), S)
t.tensor([[1.+2j,0],[0,3j]]).to_sparse()
t.tensor([[1.+2j,0],[0,3j]]).to_sparse()*2
t.tensor([[1.+2j,0],[0,3j]]).to_sparse().to_dense()
t.tensor([[1.+2j,0],[0,3j]]).to_sparse()@t.tensor([[1.+2j,0],[0,3j]])
t.tensor([[True,False],[True,True]]).to_sparse()
t.tensor([[True,False],[True,True]]).to_sparse().to_dense()
t.randint(3,4,(50,60)).to_sparse()
S.norm()
S.is_floating_point()
t.stack([D,D]).to_sparse_csr()
t.stack([D,D]).to_sparse_csr().to_dense()
t.tensor(3.).to_sparse()
S.mul_(3)
S.add_(S)
S.div_(2)
D.clone().add_(S)
D.clone().sub_(S)
S.to_sparse(layout=t.sparse_csr)
S.isnan()
S.float()
S.size(), S.size(0), S.dim(), S.element_size()
S.coalesce().values().sum()
t.ones(3,4).to_sparse().resize_as_sparse_(t.ones(5,6).to_sparse())
S.trunc()
t.add(S,S)
t.mul(S,3)
S.asin()
t.nn.functional.relu(S)
S.copy_(S*4)
S.clone().values().mul_(2)
"""
NESTED = """
n
n.values()
n.unbind()
j.unbind()
j.values()
j.offsets()
j.lengths()
(n.dim(), j.dim(), n.numel(), j.numel(), n.is_nested, j.is_nested, n.layout, j.layout)
n.to_padded_tensor(0)
t.nested.to_padded_tensor(j, -1.)
t.nested.to_padded_tensor(n, 0., (2, 5, 4))
j.to_padded_tensor(0., (2, 5, 3))
n + 1
(j * 2).values()
(n + n).unbind()
(j * a[0]).values()
j.sum(-1).unbind()
j.sum(1)
j.sum()
j.mean(1)
j.amax(1)
t.nested.nested_tensor_from_jagged(t.arange(10.).reshape(5, 2), lengths=t.tensor([2, 3])).unbind()
t.nested.nested_tensor_from_jagged(t.arange(10.).reshape(5, 2), t.tensor([0, 2, 5]), t.tensor([1, 2])).unbind()
t.nested.narrow(t.arange(12.).reshape(3, 4), 1, t.tensor([0, 1, 2]), t.tensor([1, 2, 2]), layout=t.jagged).unbind()
t.nested.masked_select(t.arange(6.).reshape(2, 3), t.tensor([[True, False, True], [True, True, True]])).unbind()
n[0]
j[1]
n.transpose(-1, -2).unbind()
(j @ t.ones(3, 2)).unbind()
t.softmax(n, -1).unbind()
t.softmax(j, -1).unbind()
t.softmax(j, 1).unbind()
t.nn.functional.layer_norm(j, (3,)).unbind()
t.nested.nested_tensor([a, b], requires_grad=True)
t.nested.nested_tensor([t.ones(2, 3), t.ones(4, 5)])
t.nested.nested_tensor([t.ones(2, 3), t.ones(4, 5)]).to_padded_tensor(0)
t.nested.nested_tensor([[1, 2], [3]])
t.nested.nested_tensor([])
t.nested.nested_tensor([t.tensor(1.), t.tensor(2.)])
j.to(t.float64).values()
j.transpose(1, 2).values()
j.unflatten(-1, (1, 3)).transpose(1, 2).values()
t.cat([j, j], -1).values()
n.relu()
t.nn.functional.linear(j, t.ones(2, 3), t.ones(2)).unbind()
t.nn.functional.linear(n, t.ones(2, 3), t.ones(2)).unbind()
t.nn.functional.embedding(t.nested.nested_tensor([[1, 2], [0]], layout=t.jagged), t.ones(3, 2)).unbind()
"""


def names(t):
    """What the expressions are about, made by the module `t`."""
    d = t.tensor([[1, 0, 2.], [0, 0, 3], [4, 0, 0], [0, 5, 6]])
    a, b = t.arange(6.).reshape(2, 3), t.ones(3, 3) * 10
    return {"t": t, "D": d, "S": d.to_sparse(), "C": d.to_sparse_csr(), "W": t.tensor([[1., 2], [3, 4], [5, 6]]),
            "U": t.sparse_coo_tensor([[0, 1, 0, 3], [2, 0, 2, 1]], [3., 4., 5., 6.], (4, 3)),
            "H": t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [[1., 2.], [3, 4], [5, 6]], (2, 3, 2)),
            "K": t.sparse_coo_tensor([[0, 1, 3]], [[1., 2., 3], [3, 4, 5], [5, 6, 7]], (4, 3)).coalesce(),
            "a": a, "b": b, "n": t.nested.nested_tensor([a, b]), "j": t.nested.nested_tensor([a, b], layout=t.jagged)}


@pytest.mark.parametrize("text", [line for line in (SPARSE + NESTED).splitlines() if line])
def test_prints_the_same(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = []
        for module in (torch, facade):
            try:
                shown.append(repr(eval(text, names(module))))
            except RuntimeError:
                shown.append("refused")
    assert shown[1] == shown[0]
