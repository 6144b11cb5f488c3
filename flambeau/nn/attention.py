"""Attention with many heads as a layer."""

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.linear import Linear
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that quantisation leaves alone: the output projection of attention."""


class MultiheadAttention(Module):
    """Attention of `num_heads` heads between projections: (length, batch, width) -> the same, and the
    weights.

    Args:
        embed_dim: width of queries and outputs. kdim, vdim: widths of keys and values where they differ.
        dropout: probability that a weight is dropped in training.
        add_bias_kv: a learned further key and value. add_zero_attn: a further pair of zeros.
        batch_first: operands are (batch, length, width).
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False,
                 kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._make_parameters(bias, add_bias_kv, {"device": device, "dtype": dtype})
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _make_parameters(self, bias, add_bias_kv, place):
        def parameter(name, *shape):
            self.register_parameter(name, Parameter(empty(shape, **place)) if shape else None)
        width = self.embed_dim
        if self._qkv_same_embed_dim:
            parameter("in_proj_weight", 3 * width, width)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                parameter(name)
        else:
            parameter("q_proj_weight", width, width)
            parameter("k_proj_weight", width, self.kdim)
            parameter("v_proj_weight", width, self.vdim)
            parameter("in_proj_weight")
        parameter("in_proj_bias", *((3 * width,) if bias else ()))
        self.out_proj = NonDynamicallyQuantizableLinear(width, width, bias=bias, **place)
        for name in ("bias_k", "bias_v"):
            parameter(name, *((1, 1, width) if add_bias_kv else ()))

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        """(output, weights or None); masks as in `functional.multi_head_attention_forward`."""
        swapped = self.batch_first and query.dim() == 3
        if swapped:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights,
            attn_mask=attn_mask, use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (output.transpose(0, 1) if swapped else output), weights
