"""The transformer of Vaswani et al. 2017, "Attention is all you need": layers, encoder, decoder and both."""

import copy

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.attention import MultiheadAttention
from flambeau.nn.container import ModuleList
from flambeau.nn.dropout import Dropout
from flambeau.nn.linear import Linear
from flambeau.nn.module import Module
from flambeau.nn.normalization import LayerNorm
from flambeau.tensor import full
from flambeau.types.dtype import bool_


def activation_of(name):
    """The function of that name, or the function itself."""
    if callable(name):
        return name
    if name not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {name}")
    return getattr(F, name)


def causal_mask(size, device=None, dtype=None):
    """(size, size): 0 where a query may see a key, minus infinity after its own place."""
    return full((size, size), float("-inf"), device=device, dtype=dtype).triu(1)


def is_causal_mask(mask, is_causal, size):
    """Whether a mask is the causal one; `is_causal` says so where it is known."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    if mask.dim() != 2 or tuple(mask.shape) != (size, size):
        return False
    causal = causal_mask(size, dtype=None if mask.dtype is bool_ else mask.dtype)
    return bool((mask == (causal != 0 if mask.dtype is bool_ else causal)).all().item())


class _Layer(Module):
    """What encoder and decoder layers share: self-attention and a feed-forward network, around them
    residuals."""

    _last_dropout = None            # its name

    def __init__(self, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                 norm_first, bias, device, dtype, attentions, norms):
        super().__init__()
        place = {"device": device, "dtype": dtype}
        for name in attentions:
            setattr(self, name,
                    MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first,
                                                   **place))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        for number in range(1, norms + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place))
        for number in range(1, norms + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = activation_of(activation)

    def _residual(self, x, part, norm):
        """x plus the part, normalised before or after."""
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        """Self-attention and its dropout; what a subclass may put in their place."""
        return self.dropout1(self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                            need_weights=False, is_causal=is_causal)[0])

    def _ff_block(self, x):
        """The feed-forward network and its dropout, the layer's last."""
        last = getattr(self, self._last_dropout)
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network: (length, batch, d_model) -> the same.

    Args:
        nhead: heads. dim_feedforward: width of the network's hidden layer. activation: 'relu', 'gelu' or a
            function.
        batch_first: operands are (batch, length, d_model). norm_first: normalise before each part, not after.
    """

    _last_dropout = "dropout2"

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu,
                 layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                         norm_first, bias, device, dtype, ("self_attn",), 2)
        self.activation_relu_or_gelu = {F.relu: 1, F.gelu: 2}.get(self.activation, 0)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """The layer's output; masks as in `MultiheadAttention`."""
        def attention(x):
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)
        return self._residual(self._residual(src, attention, self.norm1), self._ff_block, self.norm2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory` and a feed-forward network; see `TransformerEncoderLayer`."""

    _last_dropout = "dropout3"

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu,
                 layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                         norm_first, bias, device, dtype, ("self_attn", "multihead_attn"), 3)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        """The layer's output; masks as in `MultiheadAttention`."""
        def attention(x):
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def to_memory(x):
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self._residual(tgt, attention, self.norm1)
        x = self._residual(x, to_memory, self.norm2)
        return self._residual(x, self._ff_block, self.norm3)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        """Attention to `mem` and its dropout; what a subclass may put in their place."""
        return self.dropout2(self.multihead_attn(x, mem, mem, attn_mask=attn_mask,
                                                 key_padding_mask=key_padding_mask,
                                                 need_weights=False, is_causal=is_causal)[0])


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, then `norm`."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """The last layer's output."""
        first = self.layers[0].self_attn
        causal = is_causal_mask(mask, is_causal, src.shape[1 if first.batch_first and src.dim() == 3 else 0])
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, then `norm`."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        """The last layer's output."""
        first = self.layers[0].self_attn
        causal = is_causal_mask(tgt_mask, tgt_is_causal,
                                tgt.shape[1 if first.batch_first and tgt.dim() == 3 else 0])
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                        tgt_key_padding_mask=tgt_key_padding_mask,
                        memory_key_padding_mask=memory_key_padding_mask,
                        tgt_is_causal=causal, memory_is_causal=memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder: source (length, batch, d_model) and target -> the target's shape.

    Args:
        custom_encoder, custom_decoder: modules that stand for the usual ones.
        Others as in `TransformerEncoderLayer`.
    """

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation=F.relu, custom_encoder=None, custom_decoder=None,
                 layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        place = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                   norm_first, bias)

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*options, **place), num_encoder_layers, norm())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*options, **place), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None,
                tgt_is_causal=None, memory_is_causal=False):
        """The decoder's output for the target, which attends to the encoded source."""
        if src.dim() == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first
                                                                                   else 1]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask,
                              is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask,
                            memory_key_padding_mask=memory_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): 0 where a query may see a key, minus infinity after its own place."""
        return causal_mask(sz, device, dtype)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
