"""What a call on small tensors costs: some 170 everyday calls, forward and with their backward pass.

usage: python benchmarks/calls.py [--library NAME] [--json FILE] [--against FILE]

    python benchmarks/calls.py --json ours.json
    PYTHON_WITH_TORCH benchmarks/calls.py --library torch --json theirs.json --against ours.json

`--library` names the module to import (flambeau by default; anything with PyTorch's names). `--against` prints the
other file's times beside this run's, the slowest of ours first, and their geometric mean.
"""

import argparse
import importlib
import json
import math
import time
import warnings

PAUSE = 0.006           # seconds of one measurement; the least of REPEATS counts
REPEATS = 3


def plain_calls(fl):
    """name -> function without arguments, on tensors of 8 x 8."""
    functional = fl.nn.functional
    x, y, batch = fl.randn(8, 8), fl.randn(8, 8), fl.randn(4, 8, 8)
    row, index, mask, labels = fl.randn(8), fl.arange(8), fl.randn(8, 8) > 0, fl.randint(0, 8, (8,))
    rows, square = [fl.randn(8) for _ in range(8)], fl.tensor([[1, 2], [3, 4]])
    array = x.numpy()
    return {
        "x + y": lambda: x + y, "x * 2": lambda: x * 2, "x ** 2": lambda: x**2, "x @ y": lambda: x @ y, "bmm": lambda: batch @ batch,
        "sum": lambda: x.sum(), "sum(1)": lambda: x.sum(1), "sum(dtype)": lambda: x.sum(dtype=fl.float64),
        "mean": lambda: x.mean(), "std": lambda: x.std(), "norm": lambda: x.norm(), "max(1)": lambda: x.max(1),
        "argmax": lambda: x.argmax(-1), "softmax": lambda: functional.softmax(x, -1), "cumsum": lambda: x.cumsum(1),
        "sort": lambda: x.sort(), "topk": lambda: x.topk(2), "dot": lambda: row.dot(row), "outer": lambda: fl.outer(row, row),
        "einsum": lambda: fl.einsum("ij,jk->ik", x, y), "where": lambda: fl.where(mask, x, y), "clamp": lambda: x.clamp(0, 1),
        "masked_fill": lambda: x.masked_fill(mask, 0.0), "tril": lambda: x.tril(), "any": lambda: mask.any(),
        "allclose": lambda: fl.allclose(x, x), "nonzero": lambda: mask.nonzero(), "one_hot": lambda: functional.one_hot(labels, 8),
        "t": lambda: x.t(), "transpose": lambda: x.transpose(0, 1), "view": lambda: x.view(-1), "reshape": lambda: x.reshape(4, 16),
        "permute": lambda: batch.permute(1, 0, 2), "permute list": lambda: batch.permute([1, 0, 2]), "unsqueeze": lambda: x.unsqueeze(0),
        "expand": lambda: x.expand(3, 8, 8), "contiguous": lambda: x.t().contiguous(), "clone": lambda: x.clone(),
        "detach": lambda: x.detach(), "to(float64)": lambda: x.to(fl.float64), "float()": lambda: index.float(),
        "x[0]": lambda: x[0], "x[:, 0]": lambda: x[:, 0], "x[0, 0]": lambda: x[0, 0], "x[index]": lambda: x[index],
        "x[index, index]": lambda: x[index, index], "x[:, index]": lambda: x[:, index], "x[square]": lambda: x[square],
        "x[list]": lambda: x[[0, 1, 2]], "x[mask]": lambda: x[mask], "x[0] = 1": lambda: x.__setitem__(0, 1.0),
        "x[0] = row": lambda: x.__setitem__(0, row), "x[index] = row": lambda: x.__setitem__(index, row),
        "y[mask] = 0": lambda: y.__setitem__(mask, 0.0), "gather": lambda: x.gather(1, labels[:, None]),
        "index_select": lambda: x.index_select(0, index), "scatter_": lambda: fl.zeros(8, 8).scatter_(1, labels[:, None], 1.0),
        "cat": lambda: fl.cat([x, y], 1), "cat of 8": lambda: fl.cat(rows), "stack of 8": lambda: fl.stack(rows),
        "split": lambda: x.split(4), "chunk": lambda: x.chunk(2, 1), "unbind": lambda: x.unbind(0), "iteration": lambda: list(x),
        "repeat": lambda: x.repeat(2, 1), "pad": lambda: functional.pad(x, (1, 1)), "flip": lambda: x.flip(0), "roll": lambda: x.roll(1, 0),
        "zeros": lambda: fl.zeros(8, 8), "ones": lambda: fl.ones(8, 8), "full": lambda: fl.full((8, 8), 2.0),
        "arange": lambda: fl.arange(8), "linspace": lambda: fl.linspace(0, 1, 8), "eye": lambda: fl.eye(8),
        "zeros_like": lambda: fl.zeros_like(x), "rand": lambda: fl.rand(8, 8), "randn": lambda: fl.randn(8, 8),
        "randint": lambda: fl.randint(0, 8, (8,)), "multinomial": lambda: fl.multinomial(x.abs(), 1),
        "tensor(list)": lambda: fl.tensor([1.0, 2.0, 3.0]), "tensor(number)": lambda: fl.tensor(1.0), "item": lambda: x[0, 0].item(),
        "tolist": lambda: row.tolist(), "format": lambda: f"{row[0]:.4f}", "numpy": lambda: x.numpy(),
        "from_numpy": lambda: fl.from_numpy(array), "size(0)": lambda: x.size(0), "shape[1]": lambda: x.shape[1],
        "accuracy": lambda: (labels == index).sum().item(),
    }


def recorded_calls(fl):
    """name -> function of a call on the tape."""
    nn, functional = fl.nn, fl.nn.functional
    g, x, mask, labels = fl.randn(8, 8, requires_grad=True), fl.randn(8, 8), fl.randn(8, 8) > 0, fl.randint(0, 8, (8,))
    index, image, batch = fl.arange(8), fl.randn(2, 4, 8, 8), fl.randn(1, 8, 8)
    linear, table, convolution = nn.Linear(8, 8), nn.Embedding(8, 8), nn.Conv2d(4, 4, 3)
    network = nn.Sequential(linear, nn.ReLU(), nn.Linear(8, 8))
    layer, norm, rnn, lstm, cell, attention = (nn.LayerNorm(8), nn.BatchNorm1d(8), nn.RNN(8, 8), nn.LSTM(8, 8), nn.GRUCell(8, 8),
                                              nn.MultiheadAttention(8, 2))
    return {
        "g[0]": lambda: g[0], "g[:, 1]": lambda: g[:, 1], "g[index]": lambda: g[index], "g[index, index]": lambda: g[index, index],
        "cat": lambda: fl.cat([g, g], 1), "stack": lambda: fl.stack([g, g]), "view": lambda: g.view(-1), "t": lambda: g.t(),
        "chunk": lambda: g.chunk(2, 1)[0], "split": lambda: g.split(4)[0], "unbind": lambda: g.unbind(0)[0],
        "expand": lambda: g.expand(2, 8, 8), "repeat": lambda: g.repeat(2, 1), "pad": lambda: functional.pad(g, (1, 1)),
        "softmax": lambda: functional.softmax(g, -1), "log_softmax": lambda: functional.log_softmax(g, 1),
        "cross_entropy": lambda: functional.cross_entropy(g, labels), "nll_loss": lambda: functional.nll_loss(g, labels),
        "mse_loss": lambda: functional.mse_loss(g, x), "l1_loss": lambda: functional.l1_loss(g, x),
        "smooth_l1_loss": lambda: functional.smooth_l1_loss(g, x),
        "bce with logits": lambda: functional.binary_cross_entropy_with_logits(g, mask.float()),
        "dropout": lambda: functional.dropout(g, 0.5), "relu": lambda: functional.relu(g), "gelu": lambda: functional.gelu(g),
        "leaky_relu(0.2)": lambda: functional.leaky_relu(g, 0.2), "tanh": lambda: g.tanh(), "norm": lambda: g.norm(),
        "max(1)": lambda: g.max(1)[0], "var(0)": lambda: g.var(0), "where": lambda: fl.where(mask, g, x),
        "masked_fill": lambda: g.masked_fill(mask, -1e9), "gather": lambda: g.gather(1, labels[:, None]),
        "cumsum": lambda: g.cumsum(0), "clamp": lambda: g.clamp(0, 1), "bmm": lambda: g.view(1, 8, 8) @ batch,
        "einsum": lambda: fl.einsum("ij,jk->ik", g, x), "normalize": lambda: functional.normalize(g),
        "interpolate": lambda: functional.interpolate(g[None, None], scale_factor=2),
        "sdpa": lambda: functional.scaled_dot_product_attention(g[None], g[None], g[None]),
        "Linear": lambda: linear(g), "MLP": lambda: network(g), "LayerNorm": lambda: layer(g), "BatchNorm1d": lambda: norm(g),
        "Embedding": lambda: table(labels), "RNN": lambda: rnn(g)[0], "LSTM": lambda: lstm(g)[0], "GRUCell": lambda: cell(g),
        "Conv2d": lambda: convolution(image), "max_pool2d": lambda: functional.max_pool2d(convolution(image), 2),
        "avg_pool2d": lambda: functional.avg_pool2d(convolution(image), 2), "MultiheadAttention": lambda: attention(g, g, g)[0],
    }


def training_calls(fl):
    """name -> function of what a training step does besides."""
    nn = fl.nn
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    for parameter in network.parameters():
        parameter.grad = fl.randn(*parameter.shape)
    adam, momentum = fl.optim.Adam(network.parameters()), fl.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    return {"Adam.step": adam.step, "SGD.step": momentum.step, "zero_grad": lambda: adam.zero_grad(set_to_none=False),
            "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_(network.parameters(), 1.0), "state_dict": lambda: network.state_dict()}


def every_call(fl):
    calls = plain_calls(fl) | training_calls(fl)
    for name, call in recorded_calls(fl).items():
        calls[f"{name} (grad)"] = call
        calls[f"{name} (grad, backward)"] = lambda call=call: call().sum().backward()
    return calls


def microseconds(call):
    """The least time of a call, in microseconds."""
    for _ in range(10):
        call()
    began = time.perf_counter()
    call()
    count = max(20, min(1000, int(PAUSE / max(time.perf_counter() - began, 1e-7))))
    best = math.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, time.perf_counter() - began)
    return best / count * 1e6


def compare(ours, theirs):
    """A table, the worst of ours first."""
    rows = sorted((theirs[name] / ours[name], name) for name in ours if name in theirs)
    lines = [f"{name:36} {theirs[name]:9.2f} {ours[name]:9.2f} us  {ratio:6.2f}" for ratio, name in rows]
    mean = math.exp(sum(math.log(ratio) for ratio, _ in rows) / len(rows))
    below = sum(ratio < 1 for ratio, _ in rows)
    return "\n".join([*lines, f"{len(rows)} calls, {below} below 1.0, geometric mean {mean:.2f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="flambeau")
    parser.add_argument("--json")
    parser.add_argument("--against", help="times of ours, to compare this run with")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    library = importlib.import_module(options.library)
    importlib.import_module(f"{options.library}.nn")
    times = {name: microseconds(call) for name, call in every_call(library).items()}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(times, file, indent=1)
    if options.against:
        with open(options.against) as file:
            print(compare(json.load(file), times))
    else:
        print("\n".join(f"{name:36} {value:9.2f} us" for name, value in sorted(times.items(), key=lambda row: -row[1])))


if __name__ == "__main__":
    main()
