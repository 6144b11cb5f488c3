"""Layers made of one matrix or table: Linear, Bilinear, Embedding, EmbeddingBag; and Identity, which has
none."""

import math

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty, no_grad


class Identity(Module):
    """Returns its input; arguments are accepted and ignored."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """`y = x @ weight.T + bias`, from (..., in_features) to (..., out_features).

    `weight` is (out_features, in_features); both members start uniform on +-1/sqrt(in_features).

    Example::

        >>> nn.Linear(20, 30)(fl.randn(128, 20)).shape
        flambeau.Size([128, 30])
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new starting values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        reset_bias(self.bias, self.weight)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


def reset_bias(bias, weight):
    """Draw a bias uniform on +-1/sqrt(inputs of one output of `weight`)."""
    inputs, _ = init.fans(weight)
    if bias is not None:
        bound = 1 / math.sqrt(inputs) if inputs > 0 else 0
        init.uniform_(bias, -bound, bound)


class Embedding(Module):
    """A table of `num_embeddings` rows looked up by index: (...) -> (..., embedding_dim).

    Args:
        padding_idx: a row that starts as zeros and gets no gradient.
        _weight: the table itself, (num_embeddings, embedding_dim), instead of a random one.
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False,
                 device=None, dtype=None):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row_index(padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            self.weight = Parameter(empty(shape, device=device, dtype=dtype), requires_grad=not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self):
        """Draw new starting values from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self):
        return _table_repr(self)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, **options):
        """A layer around the given table (rows, width), which is not trained if `freeze`."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        return cls(rows, width, padding_idx, _weight=embeddings, _freeze=freeze, **options)


def _table_repr(module):
    """The sizes of a table and the options that differ from their defaults."""
    parts = [f"{module.num_embeddings}, {module.embedding_dim}"]
    if module.padding_idx is not None:
        parts.append(f"padding_idx={module.padding_idx}")
    if module.max_norm is not None:
        parts.append(f"max_norm={module.max_norm}")
    if module.norm_type != 2:
        parts.append(f"norm_type={module.norm_type}")
    if module.scale_grad_by_freq:
        parts.append("scale_grad_by_freq=True")
    return ", ".join(parts)


class EmbeddingBag(Module):
    """Sums, means or maxima (`mode`) of bags of rows of a table; see `functional.embedding_bag`."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None,
                 device=None, dtype=None):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.padding_idx = _row_index(padding_idx, num_embeddings)
        self.mode = mode
        self.include_last_offset = include_last_offset
        shape = (num_embeddings, embedding_dim)
        if _weight is not None and tuple(_weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(empty(shape, device=device, dtype=dtype) if _weight is None else _weight)
        if _weight is None:
            self.reset_parameters()

    reset_parameters = Embedding.reset_parameters

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type,
                               self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights, self.include_last_offset,
                               self.padding_idx)

    def extra_repr(self):
        return f"{_table_repr(self)}, mode={self.mode!r}"

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, **options):
        """A layer around the given table (rows, width), which is not trained if `freeze`."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        made = cls(rows, width, _weight=embeddings, **options)
        made.weight.requires_grad = not freeze
        return made


class Bilinear(Module):
    """`y[k] = x1 @ weight[k] @ x2 + bias[k]`; both members start uniform on +-1/sqrt(in1_features)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias
                                else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new starting values."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


def _row_index(index, count):
    if index is None:
        return None
    if not -count <= index < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return index % count
