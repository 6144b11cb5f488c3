"""Parts of a layer that a subclass may put something else in the place of, by PyTorch's names."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("mode", ["zeros", "reflect", "circular"])
def test_a_convolution_with_weights_made_in_the_call(mode):
    class Doubled(nn.Conv2d):
        def forward(self, x):
            return self._conv_forward(x, self.weight * 2, None)

    layer = Doubled(2, 3, 3, padding=1, padding_mode=mode)
    x = fl.randn(1, 2, 5, 5)
    twice = layer(x)
    with fl.no_grad():
        layer.weight.mul_(2)
        layer.bias.zero_()
    assert fl.allclose(twice, nn.Conv2d.forward(layer, x), atol=1e-5)


def test_a_transposed_convolution_with_weights_made_in_the_call():
    class Doubled(nn.ConvTranspose1d):
        def forward(self, x, output_size=None):
            extra = self._output_padding(x, output_size, self.stride, self.padding, self.kernel_size, 1)
            return F.conv_transpose1d(x, self.weight * 2, None, self.stride, self.padding, extra)

    layer = Doubled(2, 3, 3, stride=2)
    assert layer(fl.randn(1, 2, 4)).shape == (1, 3, 9)
    assert layer(fl.randn(1, 2, 4), [10]).shape == layer(fl.randn(1, 2, 4), (1, 3, 10)).shape == (1, 3, 10)
    for size, text in (([11], "valid sizes of axis 0 range from 9 to 10"), ([2, 3], "must have 1 or 3 elements")):
        with pytest.raises(ValueError, match=text):
            layer(fl.randn(1, 2, 4), size)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_blocks_of_a_transformer(norm_first):
    calls = []

    class Encoder(nn.TransformerEncoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            calls.append("attention")
            return fl.zeros_like(x)

        def _ff_block(self, x):
            calls.append("network")
            return fl.zeros_like(x)

    class Decoder(nn.TransformerDecoderLayer):
        def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
            calls.append("memory")
            return super()._mha_block(x, mem, attn_mask, key_padding_mask, is_causal) * 0

    x = fl.randn(3, 2, 4)
    layer = Encoder(4, 2, 8, norm_first=norm_first)
    assert fl.allclose(layer(x), x if norm_first else F.layer_norm(x, (4,)), atol=1e-3)
    Decoder(4, 2, 8, norm_first=norm_first)(x, x)
    assert calls == ["attention", "network", "memory"]
    plain = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, norm_first=norm_first)
    want = plain.linear2(plain.linear1(x).relu())
    assert fl.allclose(plain._ff_block(x), want) and plain._sa_block(x, None, None).shape == x.shape


def test_questions_about_masks():
    from flambeau.torch.nn.modules.transformer import _detect_is_causal_mask, _get_seq_len

    x = fl.randn(3, 2, 4)
    assert (_get_seq_len(x, False), _get_seq_len(x, True), _get_seq_len(x[0], True)) == (3, 2, 2)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert _detect_is_causal_mask(mask) and _detect_is_causal_mask(mask, None, 3)
    assert not (_detect_is_causal_mask(mask, None, 4) or _detect_is_causal_mask(fl.zeros(3, 3)))
    assert _detect_is_causal_mask(None, True) and not _detect_is_causal_mask(None)
