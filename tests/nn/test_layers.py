"""Layers against plain NumPy formulas."""

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def sample(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def as_tensor(array):
    return fl.tensor(array.tolist()) if isinstance(array, np.ndarray) else fl.tensor(array)


def value(tensor):
    return np.array(tensor.detach().tolist(), np.float32)


def close(tensor, want, tolerance=2e-5):
    assert tuple(tensor.shape) == np.shape(want)
    np.testing.assert_allclose(value(tensor), want, rtol=tolerance, atol=tolerance)


def test_linear():
    layer, x = nn.Linear(3, 4), sample(2, 5, 3)
    close(layer(as_tensor(x)), x @ value(layer.weight).T + value(layer.bias))
    bare = nn.Linear(3, 4, bias=False)
    assert bare.bias is None and "bias=False" in repr(bare)
    close(bare(as_tensor(x)), x @ value(bare.weight).T)


def convolve(x, weight, bias, stride, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    outputs, inputs, kh, kw = weight.shape
    height = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    width = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((x.shape[0], outputs, height, width), np.float32)
    for o in range(outputs):
        group = o // (outputs // groups)
        part = x[:, group * inputs:(group + 1) * inputs]
        for i in range(height):
            for j in range(width):
                rows = i * stride[0] + dilation[0] * np.arange(kh)
                columns = j * stride[1] + dilation[1] * np.arange(kw)
                window = part[:, :, rows[:, None], columns]
                out[:, o, i, j] = (window * weight[o]).sum((1, 2, 3)) + bias[o]
    return out


@pytest.mark.parametrize("options", [
    {"kernel_size": 3}, {"kernel_size": (3, 2), "padding": (1, 0), "stride": (2, 1)},
    {"kernel_size": 2, "dilation": 2, "groups": 2, "padding": 1}, {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 3, "padding": "valid"},
])
def test_conv2d(options):
    layer, x = nn.Conv2d(4, 6, **options), sample(2, 4, 6, 5)
    padding = {"same": (1, 1), "valid": (0, 0)}.get(layer.padding, layer.padding)
    weight, bias = value(layer.weight), value(layer.bias)
    want = convolve(x, weight, bias, layer.stride, padding, layer.dilation, layer.groups)
    close(layer(as_tensor(x)), want)
    close(layer(as_tensor(x[0])), want[0])


def test_conv_arguments():
    assert repr(nn.Conv2d(3, 4, 3, padding=1, groups=1, bias=False)) == (
        "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)")
    for options, text in (({"groups": 2}, "in_channels must be divisible by groups"),
                          ({"padding": "some"}, "Invalid padding string 'some'"),
                          ({"padding": "same", "stride": 2}, "not supported for strided convolutions"),
                          ({"padding_mode": "odd"}, "padding_mode must be one of")):
        with pytest.raises(ValueError, match=text):
            nn.Conv2d(3, 4, 3, **options)
    with pytest.raises(RuntimeError, match="Expected 3D"):
        nn.Conv2d(3, 4, 3)(fl.ones(2, 3))


@pytest.mark.parametrize("layer, shape", [(nn.BatchNorm2d, (4, 3, 2, 5)), (nn.BatchNorm1d, (6, 3)),
                                          (nn.BatchNorm1d, (4, 3, 5))])
def test_batch_norm(layer, shape):
    norm, x = layer(3, momentum=0.2), sample(*shape) * 2 + 1
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    per_channel = [1, 3] + [1] * (len(shape) - 2)
    mean, variance = x.mean(axes), x.var(axes)
    want = (x - mean.reshape(per_channel)) / np.sqrt(variance.reshape(per_channel) + 1e-5)
    close(norm(as_tensor(x)), want, 1e-4)
    count = x.size // 3
    running_mean, running_var = 0.2 * mean, 0.8 + 0.2 * variance * count / (count - 1)
    close(norm.running_mean, running_mean)
    close(norm.running_var, running_var)
    assert norm.num_batches_tracked.item() == 1
    norm.eval()
    want = (x - running_mean.reshape(per_channel)) / np.sqrt(running_var.reshape(per_channel) + 1e-5)
    close(norm(as_tensor(x)), want, 1e-4)
    close(norm.running_mean, running_mean)


def test_batch_norm_options():
    x = sample(8, 3)
    average = nn.BatchNorm1d(3, momentum=None, affine=False)
    for _ in range(3):
        average(as_tensor(x))
    close(average.running_mean, x.mean(0))
    untracked = nn.BatchNorm1d(3, track_running_stats=False).eval()
    close(untracked(as_tensor(x)), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), 1e-4)
    assert list(untracked.state_dict()) == ["weight", "bias"]
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(fl.ones(2, 3))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        nn.BatchNorm1d(3)(fl.ones(1, 3))


def test_layer_norm():
    x = sample(2, 3, 4)
    norm = nn.LayerNorm((3, 4))
    with fl.no_grad():
        norm.weight.fill_(2)
        norm.bias.fill_(1)
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    close(norm(as_tensor(x)), (x - mean) / np.sqrt(variance + 1e-5) * 2 + 1, 1e-4)
    plain = nn.LayerNorm(4, elementwise_affine=False)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    close(plain(as_tensor(x)), (x - mean) / np.sqrt(variance + 1e-5), 1e-4)
    assert repr(plain) == "LayerNorm((4,), eps=1e-05, elementwise_affine=False, bias=False)"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("layer, formula", [
    (nn.ReLU(), lambda x: np.maximum(x, 0)), (nn.Tanh(), np.tanh), (nn.Sigmoid(), sigmoid),
    (nn.SiLU(), lambda x: x * sigmoid(x)),
    (nn.GELU(), lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    (nn.GELU("tanh"), lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
    (nn.Softmax(1), lambda x: softmax(x, 1)), (nn.LogSoftmax(-1), lambda x: np.log(softmax(x, -1))),
    (nn.Identity(), lambda x: x), (nn.Flatten(), lambda x: x.reshape(2, -1)),
    (nn.Flatten(0, 1), lambda x: x.reshape(6, 4)),
])
def test_activations(layer, formula):
    x = sample(2, 3, 4) * 3
    close(layer(as_tensor(x)), formula(x))


def test_relu_in_place():
    x = fl.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 2]


def test_softmax_without_an_axis_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        close(nn.Softmax()(as_tensor(sample(2, 3))), softmax(sample(2, 3), 1))


def test_max_pool2d():
    x = sample(2, 3, 5, 4)
    close(nn.MaxPool2d(2)(as_tensor(x)), x[:, :, :4].reshape(2, 3, 2, 2, 2, 2).max((3, 5)))
    close(nn.MaxPool2d(2)(as_tensor(x[0])), x[0, :, :4].reshape(3, 2, 2, 2, 2).max((2, 4)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    rows = [[padded[:, :, i:i + 3, j:j + 3].max((2, 3)) for j in (0, 2)] for i in (0, 2, 4)]
    want = np.stack([np.stack(row, -1) for row in rows], -2)
    close(nn.MaxPool2d(3, stride=2, padding=1)(as_tensor(x)), want)


def test_dropout():
    x = fl.ones(2000)
    layer = nn.Dropout(0.25)
    kept = value(layer(x))
    assert set(np.unique(kept)) <= {np.float32(0), np.float32(1 / 0.75)}
    assert 0.68 < (kept > 0).mean() < 0.82
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_embedding():
    table = nn.Embedding(5, 3, padding_idx=-1)
    assert value(table.weight)[4].tolist() == [0, 0, 0]
    index = [[1, 4], [0, 1]]
    close(table(fl.tensor(index)), value(table.weight)[np.array(index)])
    table(fl.tensor([4, 1, 1])).sum().backward()
    assert value(table.weight.grad).tolist() == [[0] * 3, [2] * 3, [0] * 3, [0] * 3, [0] * 3]
    fixed = nn.Embedding.from_pretrained(fl.ones(2, 3))
    assert not fixed.weight.requires_grad


# ---------------------------------------------------------------------------------- losses

def cross_entropy(x, target, weight, ignore, reduction, smoothing):
    logs = np.log(softmax(x, 1))
    weight = np.ones(x.shape[1]) if weight is None else weight
    losses, weights = [], []
    for row, label in zip(logs, target):
        if label == ignore:
            losses.append(0.0)
            continue
        spread = -(row * weight).sum() * smoothing / len(row)
        losses.append(-row[label] * weight[label] * (1 - smoothing) + spread)
        weights.append(weight[label])
    return {"none": np.array(losses), "sum": sum(losses), "mean": sum(losses) / sum(weights)}[reduction]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy(reduction, weighted, smoothing, ignore):
    x, target = sample(6, 4) * 3, [0, 3, 2, 1, 2, 0]
    weight = np.array([1.0, 2.0, 0.5, 0.25], np.float32) if weighted else None
    loss = nn.CrossEntropyLoss(weight=None if weight is None else as_tensor(weight), ignore_index=ignore,
                               reduction=reduction, label_smoothing=smoothing)
    want = cross_entropy(x, target, weight, ignore, reduction, smoothing)
    close(loss(as_tensor(x), fl.tensor(target)), want)


def test_cross_entropy_shapes():
    x = sample(2, 4, 3)
    target = np.array([[0, 1, 2], [3, 3, 0]])
    rows = x.transpose(0, 2, 1).reshape(6, 4)
    want = cross_entropy(rows, target.reshape(-1), None, -100, "none", 0).reshape(2, 3)
    close(F.cross_entropy(as_tensor(x), fl.tensor(target.tolist()), reduction="none"), want)
    close(F.cross_entropy(as_tensor(rows[0]), fl.tensor(0)), want[0, 0])
    probabilities = softmax(sample(6, 4, seed=1), 1)
    close(F.cross_entropy(as_tensor(rows), as_tensor(probabilities)),
          -(probabilities * np.log(softmax(rows, 1))).sum() / 6)
    with pytest.raises(ValueError, match="the target does not fit the input"):
        F.cross_entropy(fl.ones(2, 3), fl.tensor([1, 2, 0]))
    with pytest.raises(RuntimeError, match="for all 3 classes or no classes"):
        F.cross_entropy(fl.ones(2, 3), fl.tensor([1, 2]), weight=fl.ones(2))


def test_cross_entropy_gradient():
    x = as_tensor(sample(3, 4)).requires_grad_()
    F.cross_entropy(x, fl.tensor([0, 2, 1])).backward()
    want = softmax(sample(3, 4), 1)
    want[[0, 1, 2], [0, 2, 1]] -= 1
    close(x.grad, want / 3)


def test_other_losses():
    x, y = sample(3, 4), np.abs(sample(3, 4, seed=1)) % 1
    a, b = as_tensor(x), as_tensor(y)
    close(nn.MSELoss()(a, b), ((x - y) ** 2).mean())
    close(nn.MSELoss(reduction="sum")(a, b), ((x - y) ** 2).sum(), 1e-4)
    close(nn.L1Loss(reduction="none")(a, b), np.abs(x - y))
    close(nn.NLLLoss()(a, fl.tensor([1, 0, 3])), -(x[0, 1] + x[1, 0] + x[2, 3]) / 3)
    positive = np.array([1.0, 2.0, 3.0, 0.5], np.float32)
    losses = -(positive * y * np.log(sigmoid(x)) + (1 - y) * np.log(1 - sigmoid(x)))
    close(nn.BCEWithLogitsLoss(pos_weight=as_tensor(positive))(a, b), losses.mean())
    close(nn.BCEWithLogitsLoss()(fl.tensor([1000.0, -1000.0]), fl.tensor([0.0, 1.0])), 1000)
    with pytest.warns(UserWarning, match="Using a target size"):
        nn.MSELoss()(a, b[0])
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        nn.MSELoss(reduction="median")(a, b)
    assert nn.MSELoss(size_average=False).reduction == "sum" and nn.MSELoss(reduce=False).reduction == "none"
