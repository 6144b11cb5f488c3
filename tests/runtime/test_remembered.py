"""Calls found again answer as the way through Python does, whatever calls with the same signature came before."""

import itertools
import random

import pytest

import flambeau as fl
from flambeau.runtime import _core

SIZES = [(3, 4, 1), (2, 4, 1), (8, 4, 1), (3, 4), (4, 3), (0, 3), (3, 0), (5,), (1,), ()]
CALLS = {
    "gather": lambda x, i: fl.gather(x, 0, i),
    "gather along 1": lambda x, i: fl.gather(x, 1, i),
    "scatter": lambda x, i: fl.scatter(x, 0, i, 2.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, fl.ones(i.shape)),
    "index_select": lambda x, i: fl.index_select(x, 0, i.reshape(-1)),
    "rows": lambda x, i: x[i],
    "places": lambda x, i: x[i, i],
    "amax": lambda x, i: fl.amax(x, 1),
    "max": lambda x, i: x.max(0),
    "sum": lambda x, i: x.sum(-1, keepdim=True),
    "any": lambda x, i: x.any(1),
    "topk": lambda x, i: x.topk(3, 0),
    "sort": lambda x, i: x.sort(0),
    "cumsum": lambda x, i: x.cumsum(1),
    "softmax": lambda x, i: x.softmax(-1),
    "matmul": lambda x, i: x @ i.float(),
    "add": lambda x, i: x + i,
    "where": lambda x, i: fl.where(i > 0, x, 1.5),
    "clamp": lambda x, i: i.clamp(0, 300),
    "cat": lambda x, i: fl.cat([x, i.float()]),
    "stack": lambda x, i: fl.stack((x, i.float()), -1),
    "view": lambda x, i: x.view(4, -1),
    "narrow": lambda x, i: x.narrow(0, 1, 2),
    "unfold": lambda x, i: x.unfold(0, 3, 1),
    "split": lambda x, i: x.split(2),
    "layer_norm": lambda x, i: fl.nn.functional.layer_norm(x, (4,)),
    "linear": lambda x, i: fl.nn.functional.linear(x, fl.ones(2, 4)),
    "mse_loss": lambda x, i: fl.nn.functional.mse_loss(x, i.float()),
}


def outcome(call, x, i):
    """What a call gives: dtypes, shapes and numbers, or its error."""
    try:
        results = call(x, i)
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    results = results if isinstance(results, (tuple, list)) else (results,)
    return [(r.dtype, tuple(r.shape), r.stride(), repr(r.tolist())) for r in results]


def through_python(call, x, i):
    before = _core.set_mode(1)
    try:
        return outcome(call, x, i)
    finally:
        _core.set_mode(before)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_all_sizes_in_any_order(name):
    rng = random.Random(name)
    pairs = [(a, b) for a, b in itertools.product(SIZES, SIZES) if a == b or rng.random() < 0.3]
    rng.shuffle(pairs)
    operands = []
    for at, (shape, other) in enumerate(pairs):
        index = fl.zeros(other, dtype=fl.int64)
        if at % 5 == 0 and index.numel():
            index.view(-1)[-1] = rng.choice((-1, 1, 2, 7))
        operands.append((fl.arange(fl.Size(shape).numel()).reshape(shape) * 0.5, index))
    wanted = [through_python(CALLS[name], *o) for o in operands]
    for _ in range(2):
        rng.shuffle(order := list(range(len(operands))))
        for k in order:
            assert outcome(CALLS[name], *operands[k]) == wanted[k], (pairs[k], operands[k][1])
