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


@pytest.mark.parametrize("mode", [nn.RNN, nn.LSTM, nn.GRU])
def test_both_directions_are_two_layers_one_reading_backwards(mode):
    both, x = mode(3, 5, bidirectional=True, batch_first=True), sample(2, 7, 3)
    output, last = both(x)
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        alone = mode(3, 5, batch_first=True)
        alone.load_state_dict({name[:-len(suffix)] + "_l0": p for name, p in both.state_dict().items()
                               if name.endswith(suffix)})
        want, own = alone(x.flip(1) if direction else x)
        want = want.flip(1) if direction else want
        np.testing.assert_array_equal(output[..., 5 * direction:5 * direction + 5].detach().numpy(),
                                      want.detach().numpy())
        state, own = (last[0], own[0]) if mode is nn.LSTM else (last, own)
        np.testing.assert_array_equal(state[direction].detach().numpy(), own[0].detach().numpy())


def test_projected_outputs():
    layer, x = nn.LSTM(3, 5, proj_size=2), sample(4, 2, 3)
    output, (hidden, cell) = layer(x)
    state = fl.zeros(2, 2), fl.zeros(2, 5)
    for t in range(4):
        gates = x[t] @ layer.weight_ih_l0.t() + layer.bias_ih_l0 + state[0] @ layer.weight_hh_l0.t() + \
            layer.bias_hh_l0
        take, keep, new, give = gates.chunk(4, 1)
        level = keep.sigmoid() * state[1] + take.sigmoid() * new.tanh()
        state = (give.sigmoid() * level.tanh()) @ layer.weight_hr_l0.t(), level
        np.testing.assert_allclose(output[t].detach().numpy(), state[0].detach().numpy(), rtol=1e-5,
                                   atol=1e-6)
    np.testing.assert_allclose(cell[0].detach().numpy(), state[1].detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_half_precision_is_computed_in_float32(dtype):
    layer, x = nn.LSTM(3, 5).to(dtype), sample(4, 2, 3).to(dtype)
    output, (hidden, cell) = layer(x)
    output.sum().backward()
    wide = nn.LSTM(3, 5)
    wide.load_state_dict({name: p.float() for name, p in layer.state_dict().items()})
    want = wide(x.float())[0]
    want.sum().backward()
    assert output.dtype is hidden.dtype is cell.dtype is layer.weight_hh_l0.grad.dtype is dtype
    np.testing.assert_array_equal(output.float().detach().numpy(), want.to(dtype).float().detach().numpy())
    np.testing.assert_allclose(layer.weight_hh_l0.grad.float().numpy(), wide.weight_hh_l0.grad.numpy(),
                               rtol=1e-2, atol=1e-2)


def test_dropout_stands_between_the_layers():
    layer, x = nn.GRU(3, 40, 2, dropout=1.0), sample(5, 2, 3)
    output = layer(x)[0]
    zeros = layer.eval()(x)[0]
    layer.weight_ih_l1.data.zero_()             # what the second layer sees when all is dropped
    np.testing.assert_array_equal(output.detach().numpy(), layer(x)[0].detach().numpy())
    assert (zeros != output).any()
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.GRU(3, 4, dropout=0.5)


@pytest.mark.parametrize("make, kind, text", [
    (lambda: nn.LSTM(3.0, 4), TypeError, "input_size should be of type int"),
    (lambda: nn.LSTM(3, 4, bias=1), TypeError, "bias should be of type bool"),
    (lambda: nn.GRU(0, 4), ValueError, "input_size must be greater than zero"),
    (lambda: nn.RNN(3, 4, nonlinearity="x"), ValueError, "Unknown nonlinearity"),
    (lambda: nn.RNN(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
    (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "smaller than hidden_size"),
    (lambda: nn.GRU(3, 4)(fl.zeros(2, 2, 2, 3)), ValueError, "GRU: Expected input to be 2D or 3D, got 4D"),
    (lambda: nn.GRU(3, 4)(fl.zeros(2, 2, 5)), RuntimeError, "must be equal to input_size. Expected 3, got 5"),
    (lambda: nn.GRU(3, 4)(fl.zeros(0, 2, 3)), RuntimeError, "sequence length to be larger than 0"),
    (lambda: nn.GRU(3, 4)(fl.zeros(2, 2, 3), fl.zeros(2, 4)), RuntimeError, "also be 3-D but got 2-D"),
    (lambda: nn.LSTM(3, 4)(fl.zeros(2, 2, 3), (fl.zeros(1, 2, 4), fl.zeros(1, 2, 5))), RuntimeError,
     r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 2, 5\]"),
    (lambda: nn.GRU(3, 4)(fl.zeros(2, 2, 3, dtype=fl.float64)), ValueError, "does not match weight dtype"),
])
def test_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_weights_may_be_replaced_or_changed_through_their_data():
    layer, x = nn.GRU(3, 4), sample(5, 2, 3)
    before = layer(x)[0]
    layer.weight_hh_l0.data.zero_()
    changed = layer(x)[0]
    layer.weight_hh_l0 = nn.Parameter(fl.zeros(12, 4))
    assert (before != changed).any() and (changed == layer(x)[0]).all()
    assert layer._flat_weights[1] is layer.weight_hh_l0 is layer.all_weights[0][1]


def test_packed_sizes_that_do_not_fit_are_refused():
    for sizes in ([1, 2], [2, 2], [3, -1]):
        with pytest.raises(RuntimeError, match="batch_sizes must not grow"):
            nn.GRU(3, 4)(rnn.PackedSequence(sample(3, 3), fl.tensor(sizes)))


def test_packed_sequence_casts():
    packed = rnn.pack_sequence([fl.arange(3.0), fl.arange(1.0)])
    assert packed.to(fl.float32) is packed and packed.double().data.dtype is fl.float64
    assert packed.long().data.tolist() == [0, 0, 1, 2] and packed.cpu() is packed and not packed.is_cuda
    assert rnn.PackedSequence((packed.data, packed.batch_sizes)).batch_sizes is packed.batch_sizes
    for make, text in ((lambda: rnn.pack_padded_sequence(fl.zeros(2, 2), [3, 1]), "exceeds dimension size"),
                       (lambda: rnn.pack_padded_sequence(fl.zeros(2, 2), [2, 0]), "greater than 0"),
                       (lambda: rnn.pack_padded_sequence(fl.zeros(2, 0), []), "Cannot pack empty"),
                       (lambda: rnn.pad_sequence(3), "Expected iterable"),
                       (lambda: rnn.pad_sequence([]), "empty list"),
                       (lambda: rnn.pad_sequence([fl.zeros(2)], padding_side="up"), "padding_side should")):
        with pytest.raises(RuntimeError, match=text):
            make()


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
