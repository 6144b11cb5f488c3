"""Rows of a table whose gradient is sparse: the rows that were read, and what they get."""

from flambeau import ops
from flambeau.tensor.function import Function
from flambeau.tensor.sparse import CooTensor


class RowsOfTable(Function):
    """Rows (..., width) of `weight` (count, width) by index (...); the gradient of weight is a sparse tensor, one entry
    for each index but those of the row `padding_idx`."""

    @staticmethod
    def forward(ctx, weight, index, padding_idx):
        ctx.save_for_backward(index)
        ctx.sizes, ctx.padding_idx = tuple(weight.shape), padding_idx
        return ops.embedding(index, weight, padding_idx)

    @staticmethod
    def backward(ctx, grad):
        index, = ctx.saved_tensors
        flat = ops.reshape(index, (-1,)).long()
        rows = ops.reshape(grad, (flat.shape[0], *ctx.sizes[1:]))
        if ctx.padding_idx is not None:
            kept = (flat != ctx.padding_idx).nonzero()[:, 0]
            flat, rows = ops.index_select(flat, 0, kept), ops.index_select(rows, 0, kept)
        return CooTensor.of(ops.reshape(flat, (1, -1)), rows, ctx.sizes), None, None
