"""Tables looked up by index, and classes as rows of ones and zeros."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.index import bounds_of
from flambeau.ops.spec import REGISTRY
from flambeau.tensor import arange, no_grad
from flambeau.types.dtype import int32, int64


def one_hot(tensor, num_classes=-1):
    """Class numbers (...) as (..., num_classes) of 0 and 1; -1: one more than the largest."""
    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if tensor.numel():
        low, largest = bounds_of(tensor)
        if low < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = largest + 1
        elif num_classes < 1:
            raise RuntimeError("num_classes should be positive")
        elif largest >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    return REGISTRY["_class_rows"].function(tensor, arange(num_classes))


def _padding_row(padding_idx, count):
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % count


def _renormalize(weight, index, max_norm, norm_type):
    """Shrink the rows that are looked up to at most `max_norm`, in place."""
    with no_grad():
        used = ops.index_sum(index.reshape(-1) * 0 + 1, 0, index.reshape(-1), weight.shape[0]) > 0
        norms = ops.norm(weight.detach(), float(norm_type), 1, True)
        shrunk = weight.detach() * (max_norm / (norms + 1e-7))
        weight.detach().copy_(ops.where(used.unsqueeze(1) & (norms > max_norm), shrunk, weight.detach()))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
              sparse=False):
    """Rows of `weight` by index: (...), (count, width) -> (..., width).

    The row `padding_idx` gets no gradient. Rows longer than `max_norm` are shrunk first, in place. With `sparse` the
    gradient of `weight` is a sparse tensor of the rows that were read.
    """
    if input.is_nested:
        return input._like(embedding(input.values(), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse))
    padding_idx = _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if sparse and weight.requires_grad:
        if scale_grad_by_freq:
            fail("embedding", "scale_grad_by_freq is not supported with sparse gradients")
        from flambeau.nn.functional.table_gradient import RowsOfTable
        return RowsOfTable.apply(weight, input, padding_idx)
    rows = ops.embedding(input, weight, padding_idx)
    if scale_grad_by_freq and weight.requires_grad:
        flat = input.reshape(-1)
        counts = ops.index_sum(flat * 0 + 1, 0, flat, weight.shape[0])
        share = 1.0 / counts.to(weight.dtype)[input].unsqueeze(-1)
        rows = rows * share + rows.detach() * (1.0 - share)
    return rows


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False,
                  mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of bags of rows: (bags, size) -> (bags, width), or (total) with `offsets` (bags).

    Args:
        offsets: where each bag starts in a 1-d input; the last one ends it if `include_last_offset`.
        mode: 'sum', 'mean' or 'max'. per_sample_weights: factors of the rows, for 'sum'.
        padding_idx: a row that counts nothing.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is "
                                  f"only "
                                  f"supported for mode='sum' (got mode='{mode}'). Please open a feature "
                                  f"request "
                                  "on GitHub.")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        raise ValueError("embedding_bag: If per_sample_weights is not None, then it must have the same shape "
                         "as the "
                         "input")
    if sparse and mode == "max":
        fail("embedding_bag", "mode 'max' does not support sparse gradients", hint="use sparse=False")
    bag, bags, index = _bags(input, offsets, include_last_offset)
    padding_idx = _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renormalize(weight, index, max_norm, norm_type)
    rows = embedding(index, weight, padding_idx, None, 2.0, scale_grad_by_freq, sparse)
    kept = None if padding_idx is None else index != padding_idx
    if mode == "max":
        return _largest_of_bags(rows, bag, bags, kept)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if kept is not None:
        rows = ops.where(kept.unsqueeze(1), rows, 0.0)
    total = ops.index_sum(rows, 0, bag, bags)
    if mode == "sum":
        return total
    counts = ops.index_sum(bag * 0 + 1 if kept is None else kept.to(int64), 0, bag, bags)
    return total / ops.maximum(counts, 1).to(weight.dtype).unsqueeze(1)


def _bags(input, offsets, include_last_offset):
    """(the bag of each index, how many bags, the indices)."""
    if input.dtype not in (int32, int64):
        fail("embedding_bag", "indices must be integers", input.dtype, "int64 or int32", kind=RuntimeError)
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a "
                             "mini-batch of "
                             "fixed length sequences.")
        bags, size = input.shape
        return (arange(bags * size) // max(size, 1)), bags, input.reshape(-1)
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.tolist()
    if include_last_offset:
        starts = starts[:-1]
    if starts and starts[0] != 0:
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                           "from "
                           f"position 0. However, got {starts[0]}")
    if starts and starts[-1] > input.shape[0]:
        raise RuntimeError("offsets[-1] can not be greater than input's length")
    place = arange(input.shape[0]).unsqueeze(1)
    own = offsets[:len(starts)].to(int64).unsqueeze(0)
    return (place >= own).to(int64).sum(1) - 1, len(starts), input


def _largest_of_bags(rows, bag, bags, kept):
    """The maxima of the rows of each bag; zeros for empty bags."""
    member = bag.unsqueeze(0) == arange(bags).unsqueeze(1)                  # (bags, total)
    if kept is not None:
        member = member & kept.unsqueeze(0)
    if rows.shape[0] == 0:
        return rows.new_zeros(bags, rows.shape[1])
    spread = ops.where(member.unsqueeze(2), rows.unsqueeze(0), -float("inf"))
    best = spread.max(1).values
    return ops.where(member.any(1).unsqueeze(1), best, 0.0)
