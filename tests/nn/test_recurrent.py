"""Recurrent networks, packed sequences and transformers."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import rnn


def sample(*shape):
    return fl.tensor(np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32"))


@pytest.mark.parametrize("mode, cell", [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)])
def test_a_layer_is_its_cell_step_by_step(mode, cell):
    layer, step, x = mode(3, 4), cell(3, 4), sample(5, 2, 3)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(step, name, getattr(layer, name + "_l0"))
    output, last = layer(x)
    state = None
    for i in range(5):
        state = step(x[i], state)
        now = state[0] if mode is nn.LSTM else state
        np.testing.assert_allclose(output[i].detach().numpy(), now.detach().numpy(), rtol=1e-5, atol=1e-6)
    final = last[0] if mode is nn.LSTM else last
    np.testing.assert_allclose(final[0].detach().numpy(), now.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_names_and_shapes():
    layer = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2, batch_first=True)
    names = list(layer.state_dict())
    assert names[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]
    assert names[5] == "weight_ih_l0_reverse" and layer.weight_ih_l1.shape == (20, 4)
    output, (hidden, cell) = layer(sample(4, 6, 3))
    assert output.shape == (4, 6, 4) and hidden.shape == (4, 4, 2) and cell.shape == (4, 4, 5)
    assert repr(nn.GRU(3, 5, 2)) == "GRU(3, 5, num_layers=2)"
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        nn.GRU(3, 5)(sample(4, 2, 3), fl.zeros(1, 3, 5))


@pytest.mark.parametrize("mode", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences_are_run_each_on_its_own(mode):
    layer = mode(3, 4, bidirectional=True)
    sequences = [sample(n, 3) for n in (2, 5, 3)]
    packed, last = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert lengths.tolist() == [2, 5, 3]
    for i, sequence in enumerate(sequences):
        alone, own = layer(sequence)
        np.testing.assert_allclose(padded[:len(sequence), i].detach().numpy(), alone.detach().numpy(),
                                   rtol=1e-5,
                                   atol=1e-6)
        state, want = (last[0], own[0]) if mode is nn.LSTM else (last, own)
        np.testing.assert_allclose(state[:, i].detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_padding_and_packing():
    sequences = [fl.arange(3.0), fl.arange(1.0)]
    padded = rnn.pad_sequence(sequences, batch_first=True, padding_value=9.0)
    assert padded.tolist() == [[0.0, 1.0, 2.0], [0.0, 9.0, 9.0]]
    back = rnn.unpad_sequence(padded, [3, 1], batch_first=True)
    assert [x.tolist() for x in back] == [[0.0, 1.0, 2.0], [0.0]]
    packed = rnn.pack_padded_sequence(padded, [3, 1], batch_first=True)
    assert packed.data.tolist() == [0.0, 0.0, 1.0, 2.0] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert [x.tolist() for x in rnn.unpack_sequence(packed)] == [[0.0, 1.0, 2.0], [0.0]]
    with pytest.raises(RuntimeError, match="decreasing order"):
        rnn.pack_padded_sequence(padded, [1, 3], batch_first=True)


def test_gradients_reach_every_parameter():
    for layer in (nn.LSTM(3, 4, 2), nn.GRU(3, 4, 2), nn.RNN(3, 4, 2)):
        layer(sample(4, 2, 3).requires_grad_())[0].square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in layer.parameters())


def test_attention_with_one_head_is_plain_attention():
    layer, x = nn.MultiheadAttention(4, 1, bias=False, batch_first=True), sample(2, 5, 4)
    q, k, v = (x @ w.t() for w in layer.in_proj_weight.chunk(3))
    weights = fl.softmax(q @ k.mT / 2, -1)
    output, got = layer(x, x, x)
    np.testing.assert_allclose(got.detach().numpy(), weights.detach().numpy(), rtol=1e-4, atol=1e-6)
    want = weights @ v @ layer.out_proj.weight.t()
    np.testing.assert_allclose(output.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_padded_keys_change_nothing():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    layer = nn.TransformerEncoder(layer, 2).eval()
    x = sample(1, 4, 8)
    longer = fl.cat((x, fl.ones(1, 2, 8) * 50), 1)
    hidden = fl.tensor([[False] * 4 + [True] * 2])
    np.testing.assert_allclose(layer(longer, src_key_padding_mask=hidden)[:, :4].detach().numpy(),
                               layer(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_transformer():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    source, target = sample(2, 5, 8), sample(2, 3, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0.0, -np.inf, -np.inf], [0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]]
    whole = model(source, target, tgt_mask=mask, tgt_is_causal=True)
    first = model(source, target[:, :1])
    np.testing.assert_allclose(whole[:, :1].detach().numpy(), first.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "encoder.layers.0.self_attn.out_proj.weight" in model.state_dict()
